package simulate

import (
	"crypto/sha256"
	"fmt"
	"net"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

const (
	modelDeploymentVersion = "worker.gpustack.ai/v1alpha1"
	modelDeploymentKind    = "ModelDeployment"
)

// modelDeployment is the part of the custom resource that says what is expected.
type modelDeployment struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        objectMeta          `json:"metadata"`
	Spec            modelDeploymentSpec `json:"spec"`
}

type objectMeta struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

type modelDeploymentSpec struct {
	Engine  named        `json:"engine"`
	Roles   []roleSpec   `json:"roles"`
	Router  *routerSpec  `json:"router,omitempty"`
	KVCache *kvCacheSpec `json:"kvCache,omitempty"`
}

type named struct {
	Name string `json:"name"`
}

type roleSpec struct {
	Name     string   `json:"name"`
	Kind     RoleKind `json:"kind"`
	Replicas int      `json:"replicas"`
	Command  []string `json:"command,omitempty"`
}

type routerSpec struct {
	Name     string `json:"name"`
	Replicas int    `json:"replicas"`
}

type kvCacheSpec struct {
	Pool string `json:"pool"`
}

// list is a v1 List.
type list struct {
	metav1.TypeMeta `json:",inline"`
	Items           []any `json:"items"`
}

// Manifests are the fleet's objects as one YAML List, as a cluster would hold them at this moment:
// ModelDeployments, engine Pods that they control, and router Pods behind a ReplicaSet and a
// Deployment. A Pod has its address, and is Running, once its server has been started.
func (f *Fleet) Manifests() []byte {
	return manifests(f.simulations)
}

// Manifests are the objects of this deployment alone.
func (s *Simulation) Manifests() []byte { return manifests([]*Simulation{s}) }

func manifests(simulations []*Simulation) []byte {
	all := list{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	for _, s := range simulations {
		all.Items = append(all.Items, s.objects()...)
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		panic(err) // plain structs of strings and numbers always marshal
	}
	return text
}

func (s *Simulation) objects() []any {
	d := s.description
	owner := modelDeployment{
		TypeMeta: metav1.TypeMeta{APIVersion: modelDeploymentVersion, Kind: modelDeploymentKind},
		Metadata: objectMeta{Namespace: d.Namespace, Name: d.Name, UID: d.uid(modelDeploymentKind, d.Name)},
		Spec:     modelDeploymentSpec{Engine: named{d.Engine}},
	}
	for _, r := range d.Roles {
		owner.Spec.Roles = append(owner.Spec.Roles, roleSpec{Name: r.Name, Kind: r.Kind, Replicas: r.Replicas, Command: r.Command})
	}
	if d.KVCache {
		owner.Spec.KVCache = &kvCacheSpec{Pool: d.Name + "-kv"}
	}
	if d.Router != "" {
		owner.Spec.Router = &routerSpec{Name: d.Router, Replicas: len(s.routers)}
	}
	objects := []any{owner}
	for _, server := range s.servers {
		if server.kind == Router {
			continue
		}
		meta := d.meta("Pod", server.pod, modelDeploymentVersion, modelDeploymentKind, d.Name)
		meta.Labels["app.kubernetes.io/component"] = server.role
		objects = append(objects, server.object(meta, "engine", server.arguments))
	}
	if d.Router != "" {
		objects = append(objects, s.routerObjects()...)
	}
	return objects
}

// routerObjects are the Deployment, its ReplicaSet and the Pods of the router.
func (s *Simulation) routerObjects() []any {
	d := s.description
	deployment := d.Name + "-router"
	replicaSet := deployment + "-" + suffix(d, "rs", 9)
	replicas := int32(len(s.routers))
	label := func(meta metav1.ObjectMeta) metav1.ObjectMeta {
		meta.Labels["modeldeployment.gpustack.ai/router"] = d.Router
		return meta
	}
	top := label(d.meta("Deployment", deployment, modelDeploymentVersion, modelDeploymentKind, d.Name))
	selector := &metav1.LabelSelector{MatchLabels: top.Labels}
	objects := []any{
		&appsv1.Deployment{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
			ObjectMeta: top,
			Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector},
		},
		&appsv1.ReplicaSet{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
			ObjectMeta: label(d.meta("ReplicaSet", replicaSet, "apps/v1", "Deployment", deployment)),
			Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector},
		},
	}
	for _, r := range s.routers {
		meta := label(d.meta("Pod", r.pod, "apps/v1", "ReplicaSet", replicaSet))
		objects = append(objects, r.object(meta, "router", []string{"--service-discovery", "--namespace=" + d.Namespace}))
	}
	return objects
}

// meta is the metadata of an object of the deployment that another one controls.
func (d Deployment) meta(kind, name, ownerVersion, ownerKind, owner string) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{
		Namespace: d.Namespace, Name: name, UID: d.uid(kind, name),
		Labels: map[string]string{"app.kubernetes.io/name": "model-deployment", "app.kubernetes.io/instance": d.Name},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: ownerVersion, Kind: ownerKind, Name: owner, UID: d.uid(ownerKind, owner),
			Controller: &yes, BlockOwnerDeletion: &yes,
		}},
	}
}

// object is the server's Pod.
func (s *Server) object(meta metav1.ObjectMeta, container string, arguments []string) *corev1.Pod {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: meta,
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: container, Image: "registry.example/" + s.software + ":simulated", Args: arguments,
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	host, port, err := net.SplitHostPort(s.Address())
	if err != nil {
		return pod // not started
	}
	pod.Annotations = map[string]string{
		"prometheus.io/scrape": "true", "prometheus.io/path": "/metrics",
		"prometheus.io/port": port, "prometheus.io/scheme": "http",
	}
	number, _ := strconv.Atoi(port) // a listener's own port
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: int32(number)}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: host, PodIPs: []corev1.PodIP{{IP: host}}}
	return pod
}

// uid is an object's identity, always the same for the same name.
func (d Deployment) uid(kind, name string) types.UID {
	h := digest(kind, d.Namespace, name)
	h[6], h[8] = h[6]&0x0f|0x40, h[8]&0x3f|0x80 // the version and variant of a random UUID
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16]))
}

func digest(parts ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}
