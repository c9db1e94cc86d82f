package discovery

import (
	"cmp"
	"maps"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/md-exporter/md-exporter/normalize"
)

// What the operator writes on the objects that it makes.
const (
	nameLabel      = "app.kubernetes.io/name"
	instanceLabel  = "app.kubernetes.io/instance"
	componentLabel = "app.kubernetes.io/component"
	routerLabel    = "modeldeployment.gpustack.ai/router"

	nameLabelValue   = "model-deployment"
	routerNameSuffix = "-router"

	modelDeploymentKind = "ModelDeployment"
	deploymentKind      = "Deployment"
	replicaSetKind      = "ReplicaSet"
	podKind             = "Pod"
)

// objects is every object that a fleet is made of, cut to what is used.
type objects struct {
	modelDeployments map[key]*normalize.Deployment
	deployments      map[key]*object
	replicaSets      map[key]*object
	pods             map[key]*pod
	// documents is how many manifests the objects were read from, of whatever kind.
	documents int
}

type key struct{ namespace, name string }

// object is an apps/v1 Deployment or ReplicaSet, and what a Pod has in common with them.
type object struct {
	key
	uid        string
	labels     labels
	controller controller
}

type labels struct{ name, instance, component, router string }

// chain is the labels that the objects of a router's chain share, the others left out.
func (l labels) chain() labels {
	l.component = ""
	return l
}

// controller is the owner reference that controls an object; empty where there is none.
type controller struct{ kind, uid string }

// pod is a Pod.
type pod struct {
	object
	phase corev1.PodPhase
	// url is the advertised endpoint, or empty.
	url       string
	arguments []string
}

func newObjects() *objects {
	return &objects{
		modelDeployments: make(map[key]*normalize.Deployment),
		deployments:      make(map[key]*object),
		replicaSets:      make(map[key]*object),
		pods:             make(map[key]*pod),
	}
}

// merge adds the objects of another set, which stand where both have one.
func (o *objects) merge(other *objects) {
	maps.Copy(o.modelDeployments, other.modelDeployments)
	maps.Copy(o.deployments, other.deployments)
	maps.Copy(o.replicaSets, other.replicaSets)
	maps.Copy(o.pods, other.pods)
}

func newObject(meta *metav1.ObjectMeta) object {
	o := object{
		key: key{meta.Namespace, meta.Name},
		uid: string(meta.UID),
		labels: labels{
			name:      meta.Labels[nameLabel],
			instance:  meta.Labels[instanceLabel],
			component: meta.Labels[componentLabel],
			router:    meta.Labels[routerLabel],
		},
	}
	if owner := metav1.GetControllerOfNoCopy(meta); owner != nil {
		o.controller = controller{owner.Kind, string(owner.UID)}
	}
	return o
}

func newPod(p *corev1.Pod) *pod {
	out := &pod{object: newObject(&p.ObjectMeta), phase: p.Status.Phase, url: endpoint(p)}
	n := 0
	for _, c := range p.Spec.Containers {
		n += len(c.Command) + len(c.Args)
	}
	out.arguments = make([]string, 0, n)
	for _, c := range p.Spec.Containers {
		for _, argument := range slices.Concat(c.Command, c.Args) {
			// The Pods of a role have the same ones: they are kept once.
			out.arguments = append(out.arguments, unique.Make(argument).Value())
		}
	}
	return out
}

// fleet decides who owns what.
func (o *objects) fleet() *Fleet {
	f := &Fleet{Deployments: make([]*Deployment, 0, len(o.modelDeployments))}
	byName := make(map[key]*Deployment, len(o.modelDeployments))
	for k, shape := range o.modelDeployments {
		d := &Deployment{Deployment: *shape}
		byName[k] = d
		f.Deployments = append(f.Deployments, d)
	}
	slices.SortFunc(f.Deployments, func(a, b *Deployment) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})

	replicaSets := make(map[[2]string]*object, len(o.replicaSets))
	for _, rs := range o.replicaSets {
		at := [2]string{rs.namespace, rs.uid}
		// Only a file can give two objects one UID; the choice must not change from read to read.
		if other, ok := replicaSets[at]; !ok || rs.name < other.name {
			replicaSets[at] = rs
		}
	}

	for _, p := range o.pods {
		d := byName[key{p.namespace, p.labels.instance}]
		if d == nil || p.labels.name != nameLabelValue || p.phase == corev1.PodSucceeded || p.phase == corev1.PodFailed {
			continue
		}
		owned := normalize.Pod{Name: p.name, UID: p.uid, Arguments: p.arguments}
		switch {
		case ownsEngine(d, p):
			owned.Scope, owned.Role = normalize.ScopeEngine, p.labels.component
		case ownsRouter(d, p, replicaSets[[2]string{p.namespace, p.controller.uid}], o.deployments[key{d.Namespace, d.Name + routerNameSuffix}]):
			owned.Scope = normalize.ScopeRouter
		default:
			continue
		}
		d.Pods = append(d.Pods, Pod{owned, p.url})
	}
	for _, d := range f.Deployments {
		slices.SortFunc(d.Pods, func(a, b Pod) int {
			if a.Scope != b.Scope {
				if a.Scope == normalize.ScopeRouter {
					return -1
				}
				return 1
			}
			return cmp.Compare(a.Name, b.Name)
		})
	}
	return f
}

// controls reports whether the owner reference is to the object of that kind and UID. An empty UID
// is nobody's.
func (c controller) controls(kind, uid string) bool {
	return uid != "" && c == controller{kind, uid}
}

// ownsEngine reports whether the Pod, whose name and instance labels are the deployment's, is a Pod
// of one of its managed roles.
func ownsEngine(d *Deployment, p *pod) bool {
	return p.labels.component != "" && p.controller.controls(modelDeploymentKind, d.UID) &&
		slices.ContainsFunc(d.Roles, func(r normalize.Role) bool { return r.Managed && r.Name == p.labels.component })
}

// ownsRouter reports whether the Pod, whose name and instance labels are the deployment's, is a Pod
// of its router: every link of the chain from Pod to ReplicaSet to Deployment to ModelDeployment
// holds, and the labels are the same all along. The ReplicaSet and the Deployment may be nil.
func ownsRouter(d *Deployment, p *pod, rs, dep *object) bool {
	return d.Router != nil && p.labels.router != "" && p.labels.router == d.Router.Name &&
		rs != nil && p.controller.controls(replicaSetKind, rs.uid) && rs.labels.chain() == p.labels.chain() &&
		dep != nil && rs.controller.controls(deploymentKind, dep.uid) && dep.labels.chain() == p.labels.chain() &&
		dep.controller.controls(modelDeploymentKind, d.UID)
}
