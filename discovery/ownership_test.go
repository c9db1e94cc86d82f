package discovery

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/md-exporter/md-exporter/normalize"
)

// world is one deployment with a Pod of its role and a Pod of its router, every link whole.
type world struct {
	md          modelDeployment
	dep, rs     metav1.ObjectMeta
	engine      corev1.Pod
	router      corev1.Pod
	mdAbsent    bool
	depAbsent   bool
	rsAbsent    bool
	extraRouter []metav1.ObjectMeta // further ReplicaSets
}

func meta(namespace, name, uid, ownerKind, ownerUID string, kv ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid), Labels: map[string]string{}}
	if ownerKind != "" {
		yes := true
		m.OwnerReferences = []metav1.OwnerReference{{Kind: ownerKind, UID: types.UID(ownerUID), Controller: &yes}}
	}
	for i := 0; i < len(kv); i += 2 {
		m.Labels[kv[i]] = kv[i+1]
	}
	return m
}

func newWorld() *world {
	w := &world{
		dep: meta("ai", "chat-router", "dep-1", "ModelDeployment", "md-1",
			nameLabel, "model-deployment", instanceLabel, "chat", routerLabel, "vllm-router"),
		rs: meta("ai", "chat-router-7c9", "rs-1", "Deployment", "dep-1",
			nameLabel, "model-deployment", instanceLabel, "chat", routerLabel, "vllm-router", "pod-template-hash", "7c9"),
		engine: corev1.Pod{ObjectMeta: meta("ai", "chat-server-0", "pod-1", "ModelDeployment", "md-1",
			nameLabel, "model-deployment", instanceLabel, "chat", componentLabel, "server")},
		router: corev1.Pod{ObjectMeta: meta("ai", "chat-router-7c9-x", "pod-2", "ReplicaSet", "rs-1",
			nameLabel, "model-deployment", instanceLabel, "chat", routerLabel, "vllm-router", "pod-template-hash", "7c9")},
	}
	w.md.Metadata = meta("ai", "chat", "md-1", "", "")
	w.md.Spec.Engine.Name = "vllm"
	w.md.Spec.Roles = []roleSpec{{Name: "server"}, {Name: "custom", Command: []string{"serve"}}}
	w.md.Spec.Router = &routerSpec{Name: "vllm-router"}
	return w
}

func (w *world) objects() *objects {
	o := newObjects()
	put := func(set map[key]*object, m metav1.ObjectMeta) {
		v := newObject(&m)
		set[v.key] = &v
	}
	if !w.mdAbsent {
		o.modelDeployments[key{w.md.Metadata.Namespace, w.md.Metadata.Name}] = w.md.shape()
	}
	if !w.depAbsent {
		put(o.deployments, w.dep)
	}
	if !w.rsAbsent {
		put(o.replicaSets, w.rs)
	}
	for _, rs := range w.extraRouter {
		put(o.replicaSets, rs)
	}
	for _, p := range []*corev1.Pod{&w.engine, &w.router} {
		v := newPod(p)
		o.pods[v.key] = v
	}
	return o
}

// TestOwnership breaks one link at a time.
func TestOwnership(t *testing.T) {
	type owns struct{ engine, router bool }
	for _, tt := range []struct {
		name   string
		change func(*world)
		want   owns
	}{
		{"every link whole", func(*world) {}, owns{true, true}},
		{"no deployment", func(w *world) { w.mdAbsent = true }, owns{}},
		{"deployment in another namespace", func(w *world) { w.md.Metadata.Namespace = "other" }, owns{}},
		{"deployment has another UID", func(w *world) { w.md.Metadata.UID = "md-2" }, owns{}},
		{"deployment has another name", func(w *world) { w.md.Metadata.Name = "talk" }, owns{}},
		{"empty UIDs match nothing", func(w *world) {
			w.md.Metadata.UID = ""
			w.engine.OwnerReferences[0].UID = ""
			w.dep.OwnerReferences[0].UID = ""
		}, owns{}},

		{"Pod without the name label", func(w *world) { delete(w.engine.Labels, nameLabel) }, owns{false, true}},
		{"Pod with another name label", func(w *world) { w.engine.Labels[nameLabel] = "vllm" }, owns{false, true}},
		{"Pod without the instance label", func(w *world) { delete(w.engine.Labels, instanceLabel) }, owns{false, true}},
		{"Pod of another instance", func(w *world) { w.engine.Labels[instanceLabel] = "talk" }, owns{false, true}},
		{"Pod without the component label", func(w *world) { delete(w.engine.Labels, componentLabel) }, owns{false, true}},
		{"Pod of a role that is not there", func(w *world) { w.engine.Labels[componentLabel] = "prefill" }, owns{false, true}},
		{"Pod of a role with its own command", func(w *world) { w.engine.Labels[componentLabel] = "custom" }, owns{false, true}},
		{"role without a name", func(w *world) {
			w.md.Spec.Roles[0].Name = ""
			w.engine.Labels[componentLabel] = ""
		}, owns{false, true}},
		{"Pod without an owner", func(w *world) { w.engine.OwnerReferences = nil }, owns{false, true}},
		{"Pod whose owner does not control it", func(w *world) { w.engine.OwnerReferences[0].Controller = nil }, owns{false, true}},
		{"Pod whose owner controls it not", func(w *world) { *w.engine.OwnerReferences[0].Controller = false }, owns{false, true}},
		{"Pod whose owner has another kind", func(w *world) { w.engine.OwnerReferences[0].Kind = "LeaderWorkerSet" }, owns{false, true}},
		{"Pod whose owner has another UID", func(w *world) { w.engine.OwnerReferences[0].UID = "md-2" }, owns{false, true}},
		{"the controller is the second owner", func(w *world) {
			w.engine.OwnerReferences = append([]metav1.OwnerReference{{Kind: "ModelDeployment", UID: "md-2"}}, w.engine.OwnerReferences...)
		}, owns{true, true}},
		{"Pod in another namespace", func(w *world) { w.engine.Namespace = "other" }, owns{false, true}},
		{"an engine Pod with a router label", func(w *world) { w.engine.Labels[routerLabel] = "vllm-router" }, owns{true, true}},
		{"a router Pod with a component label", func(w *world) { w.router.Labels[componentLabel] = "server" }, owns{true, true}},

		{"Pod pending", func(w *world) { w.engine.Status.Phase = corev1.PodPending }, owns{true, true}},
		{"Pod running", func(w *world) { w.engine.Status.Phase = corev1.PodRunning }, owns{true, true}},
		{"Pod in an unknown phase", func(w *world) { w.engine.Status.Phase = corev1.PodUnknown }, owns{true, true}},
		{"Pod terminating", func(w *world) { now := metav1.Now(); w.engine.DeletionTimestamp = &now }, owns{true, true}},
		{"Pod succeeded", func(w *world) { w.engine.Status.Phase = corev1.PodSucceeded }, owns{false, true}},
		{"Pod failed", func(w *world) { w.engine.Status.Phase = corev1.PodFailed }, owns{false, true}},
		{"router Pod succeeded", func(w *world) { w.router.Status.Phase = corev1.PodSucceeded }, owns{true, false}},
		{"router Pod failed", func(w *world) { w.router.Status.Phase = corev1.PodFailed }, owns{true, false}},

		{"no router in the spec", func(w *world) { w.md.Spec.Router = nil }, owns{true, false}},
		{"another router in the spec", func(w *world) { w.md.Spec.Router.Name = "sglang-gateway" }, owns{true, false}},
		{"a router that no table knows", func(w *world) {
			w.md.Spec.Router.Name = "envoy"
			for _, m := range []metav1.ObjectMeta{w.dep, w.rs, w.router.ObjectMeta} {
				m.Labels[routerLabel] = "envoy"
			}
		}, owns{true, true}},
		{"a router without a name", func(w *world) {
			w.md.Spec.Router.Name = ""
			for _, m := range []metav1.ObjectMeta{w.dep, w.rs, w.router.ObjectMeta} {
				delete(m.Labels, routerLabel)
			}
		}, owns{true, false}},
		{"router Pod without the name label", func(w *world) { delete(w.router.Labels, nameLabel) }, owns{true, false}},
		{"router Pod of another instance", func(w *world) { w.router.Labels[instanceLabel] = "talk" }, owns{true, false}},
		{"router Pod without the router label", func(w *world) { delete(w.router.Labels, routerLabel) }, owns{true, false}},
		{"router Pod with another router label", func(w *world) { w.router.Labels[routerLabel] = "llm-d-router" }, owns{true, false}},
		{"router Pod without an owner", func(w *world) { w.router.OwnerReferences = nil }, owns{true, false}},
		{"router Pod whose owner has another kind", func(w *world) { w.router.OwnerReferences[0].Kind = "StatefulSet" }, owns{true, false}},
		{"router Pod whose owner has another UID", func(w *world) { w.router.OwnerReferences[0].UID = "rs-2" }, owns{true, false}},
		{"router Pod whose owner does not control it", func(w *world) { w.router.OwnerReferences[0].Controller = nil }, owns{true, false}},
		{"router Pod owned by the ModelDeployment itself", func(w *world) {
			w.router.OwnerReferences[0].Kind, w.router.OwnerReferences[0].UID = "ModelDeployment", "md-1"
		}, owns{true, false}},
		{"router Pod in another namespace", func(w *world) { w.router.Namespace = "other" }, owns{true, false}},

		{"no ReplicaSet", func(w *world) { w.rsAbsent = true }, owns{true, false}},
		{"ReplicaSet in another namespace", func(w *world) { w.rs.Namespace = "other" }, owns{true, false}},
		{"ReplicaSet has another UID", func(w *world) { w.rs.UID = "rs-2" }, owns{true, false}},
		{"ReplicaSet and its reference have an empty UID", func(w *world) {
			w.rs.UID, w.router.OwnerReferences[0].UID = "", ""
		}, owns{true, false}},
		{"ReplicaSet without the name label", func(w *world) { delete(w.rs.Labels, nameLabel) }, owns{true, false}},
		{"ReplicaSet of another instance", func(w *world) { w.rs.Labels[instanceLabel] = "talk" }, owns{true, false}},
		{"ReplicaSet with another router label", func(w *world) { w.rs.Labels[routerLabel] = "llm-d-router" }, owns{true, false}},
		{"ReplicaSet without an owner", func(w *world) { w.rs.OwnerReferences = nil }, owns{true, false}},
		{"ReplicaSet whose owner has another kind", func(w *world) { w.rs.OwnerReferences[0].Kind = "Rollout" }, owns{true, false}},
		{"ReplicaSet whose owner has another UID", func(w *world) { w.rs.OwnerReferences[0].UID = "dep-2" }, owns{true, false}},
		{"ReplicaSet whose owner does not control it", func(w *world) { w.rs.OwnerReferences[0].Controller = nil }, owns{true, false}},
		{"an older ReplicaSet beside it", func(w *world) {
			older := *w.rs.DeepCopy()
			older.Name, older.UID = "chat-router-1a2", "rs-0"
			w.extraRouter = append(w.extraRouter, older)
		}, owns{true, true}},

		{"no Deployment", func(w *world) { w.depAbsent = true }, owns{true, false}},
		{"Deployment in another namespace", func(w *world) { w.dep.Namespace = "other" }, owns{true, false}},
		{"Deployment has another name", func(w *world) { w.dep.Name = "chat-gateway" }, owns{true, false}},
		{"Deployment has another UID", func(w *world) { w.dep.UID = "dep-2" }, owns{true, false}},
		{"Deployment and its reference have an empty UID", func(w *world) {
			w.dep.UID, w.rs.OwnerReferences[0].UID = "", ""
		}, owns{true, false}},
		{"Deployment without the name label", func(w *world) { delete(w.dep.Labels, nameLabel) }, owns{true, false}},
		{"Deployment of another instance", func(w *world) { w.dep.Labels[instanceLabel] = "talk" }, owns{true, false}},
		{"Deployment with another router label", func(w *world) { w.dep.Labels[routerLabel] = "llm-d-router" }, owns{true, false}},
		{"Deployment without an owner", func(w *world) { w.dep.OwnerReferences = nil }, owns{true, false}},
		{"Deployment whose owner has another kind", func(w *world) { w.dep.OwnerReferences[0].Kind = "HelmRelease" }, owns{true, false}},
		{"Deployment whose owner has another UID", func(w *world) { w.dep.OwnerReferences[0].UID = "md-2" }, owns{true, false}},
		{"Deployment whose owner does not control it", func(w *world) { w.dep.OwnerReferences[0].Controller = nil }, owns{true, false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			var got owns
			for _, d := range w.objects().fleet().Deployments {
				for _, p := range d.Pods {
					switch {
					case p.Name == w.engine.Name && p.Scope == normalize.ScopeEngine && p.Role == "server" && p.UID == "pod-1":
						got.engine = true
					case p.Name == w.router.Name && p.Scope == normalize.ScopeRouter && p.Role == "" && p.UID == "pod-2":
						got.router = true
					default:
						t.Errorf("unexpected Pod %+v", p)
					}
				}
			}
			if got != tt.want {
				t.Errorf("owned %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestRecreatedDeployment holds that a new UID under the old name owns none of the old Pods.
func TestRecreatedDeployment(t *testing.T) {
	w := newWorld()
	before := w.objects().fleet().Get("ai", "chat")
	w.md.Metadata.UID = "md-2"
	after := w.objects().fleet().Get("ai", "chat")
	if len(before.Pods) != 2 || len(after.Pods) != 0 || after.UID != "md-2" {
		t.Errorf("before: %d Pods, after: %d Pods with UID %s", len(before.Pods), len(after.Pods), after.UID)
	}
}

// TestOneUIDTwice holds that the choice between two ReplicaSets of one UID is the same on every read.
func TestOneUIDTwice(t *testing.T) {
	for range 50 {
		w := newWorld()
		other := meta("ai", "a", "rs-1", "", "")
		w.extraRouter = []metav1.ObjectMeta{other}
		if d := w.objects().fleet().Get("ai", "chat"); len(d.Pods) != 1 {
			t.Fatalf("%d Pods owned, want the engine's alone", len(d.Pods))
		}
	}
}

func TestOrder(t *testing.T) {
	o := newObjects()
	for _, name := range []string{"b/two", "a/two", "b/one", "a/one"} {
		o.modelDeployments[key{name[:1], name[2:]}] = &normalize.Deployment{Namespace: name[:1], Name: name[2:]}
	}
	var names []string
	for _, d := range o.fleet().Deployments {
		names = append(names, d.Namespace+"/"+d.Name)
	}
	if want := []string{"a/one", "a/two", "b/one", "b/two"}; !slices.Equal(names, want) {
		t.Errorf("deployments %v, want %v", names, want)
	}

	w := newWorld()
	set := w.objects()
	for _, name := range []string{"chat-server-10", "aaa", "chat-server-2"} {
		p := w.engine
		p.Name = name
		v := newPod(&p)
		set.pods[v.key] = v
	}
	second := w.router
	second.Name = "zzz-router"
	v := newPod(&second)
	set.pods[v.key] = v
	names = nil
	for _, p := range set.fleet().Get("ai", "chat").Pods {
		names = append(names, p.Name)
	}
	if want := []string{"chat-router-7c9-x", "zzz-router", "aaa", "chat-server-0", "chat-server-10", "chat-server-2"}; !slices.Equal(names, want) {
		t.Errorf("Pods %v, want %v", names, want)
	}
	if f := (&Fleet{}); f.Get("ai", "chat") != nil || set.fleet().Get("ai", "cha") != nil {
		t.Error("Get returns a deployment that is not there")
	}
}

func TestArguments(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Command: []string{"init"}, Args: []string{"--never"}}},
		Containers: []corev1.Container{
			{Name: "b", Command: []string{"vllm", "serve"}, Args: []string{"--port", "8000"}},
			{Name: "a", Args: []string{"--second"}},
			{Name: "none"},
		},
	}}
	want := []string{"vllm", "serve", "--port", "8000", "--second"}
	if got := newPod(p).arguments; !slices.Equal(got, want) {
		t.Errorf("arguments %q, want %q", got, want)
	}
}

// large is a set of n deployments with nine engine Pods and a router Pod each.
func large(n int) *objects {
	o := newObjects()
	for i := range n {
		ns, name := fmt.Sprintf("ns-%d", i%20), fmt.Sprintf("model-%d", i)
		md, dep, rs := fmt.Sprintf("md-%d", i), fmt.Sprintf("dep-%d", i), fmt.Sprintf("rs-%d", i)
		o.modelDeployments[key{ns, name}] = &normalize.Deployment{
			Namespace: ns, Name: name, UID: md, Engine: "vllm",
			Roles:  []normalize.Role{{Name: "server", Kind: normalize.RoleServer, Managed: true, Expected: 9}},
			Router: &normalize.Router{Name: "vllm-router", Expected: 1},
		}
		shared := labels{name: nameLabelValue, instance: name, router: "vllm-router"}
		o.deployments[key{ns, name + "-router"}] = &object{key{ns, name + "-router"}, dep, shared, controller{"ModelDeployment", md}}
		o.replicaSets[key{ns, name + "-router-1"}] = &object{key{ns, name + "-router-1"}, rs, shared, controller{"Deployment", dep}}
		for j := range 9 {
			k := key{ns, fmt.Sprintf("%s-server-%d", name, j)}
			o.pods[k] = &pod{object: object{k, k.name, labels{name: nameLabelValue, instance: name, component: "server"}, controller{"ModelDeployment", md}}}
		}
		k := key{ns, name + "-router-1-x"}
		o.pods[k] = &pod{object: object{k, k.name, shared, controller{"ReplicaSet", rs}}}
	}
	return o
}

func TestLargeFleet(t *testing.T) {
	f := large(1000).fleet()
	pods := 0
	for _, d := range f.Deployments {
		pods += len(d.Pods)
		if d.Pods[0].Scope != normalize.ScopeRouter {
			t.Fatalf("%s starts with %+v", d.Name, d.Pods[0])
		}
	}
	if len(f.Deployments) != 1000 || pods != 10000 {
		t.Errorf("%d deployments with %d Pods", len(f.Deployments), pods)
	}
}

// BenchmarkFleet assembles 1,000 deployments and 10,000 Pods.
func BenchmarkFleet(b *testing.B) {
	o := large(1000)
	b.ReportAllocs()
	for b.Loop() {
		o.fleet()
	}
}
