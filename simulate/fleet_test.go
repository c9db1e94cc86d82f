package simulate

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func fleetOf(t *testing.T, o Options, deployments ...Deployment) *Fleet {
	t.Helper()
	f, err := NewFleet(o, deployments...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// object is any object of a manifest, with what the owner chain needs.
type object struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	raw             []byte
}

// objects reads a manifest by UID.
func objects(t *testing.T, manifest []byte) map[string]object {
	t.Helper()
	var l struct {
		metav1.TypeMeta `json:",inline"`
		Items           []map[string]any `json:"items"`
	}
	if err := yaml.UnmarshalStrict(manifest, &l); err != nil {
		t.Fatal(err)
	}
	if l.APIVersion != "v1" || l.Kind != "List" {
		t.Errorf("the manifest is a %s %s", l.APIVersion, l.Kind)
	}
	all := map[string]object{}
	for _, item := range l.Items {
		raw, err := yaml.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		o := object{raw: raw}
		if err := yaml.Unmarshal(raw, &o); err != nil {
			t.Fatal(err)
		}
		if _, twice := all[string(o.Metadata.UID)]; twice || len(o.Metadata.UID) != 36 {
			t.Errorf("%s %s has the UID %q", o.Kind, o.Metadata.Name, o.Metadata.UID)
		}
		all[string(o.Metadata.UID)] = o
	}
	return all
}

// The objects have the owners, labels, annotations and arguments by which Pods are found and understood.
func TestManifests(t *testing.T) {
	defer goleak.VerifyNone(t)
	f := fleetOf(t, Options{}, Demo(1)...)
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	all := objects(t, f.Manifests())
	kinds := map[string]int{}
	for _, o := range all {
		kinds[o.Kind]++
	}
	if want := (map[string]int{"ModelDeployment": 4, "Pod": len(f.Servers()), "ReplicaSet": 4, "Deployment": 4}); !maps.Equal(kinds, want) {
		t.Errorf("the objects are %v, want %v", kinds, want)
	}
	var addresses []string
	for _, o := range all {
		if o.Kind == "ModelDeployment" {
			continue
		}
		if len(o.Metadata.OwnerReferences) != 1 || o.Metadata.Labels["app.kubernetes.io/name"] != "model-deployment" {
			t.Fatalf("%s %s: owners %v, labels %v", o.Kind, o.Metadata.Name, o.Metadata.OwnerReferences, o.Metadata.Labels)
		}
		owner := o.Metadata.OwnerReferences[0]
		parent := all[string(owner.UID)]
		if owner.Controller == nil || !*owner.Controller || parent.Kind != owner.Kind || parent.Metadata.Name != owner.Name ||
			parent.APIVersion != owner.APIVersion || parent.Metadata.Namespace != o.Metadata.Namespace {
			t.Errorf("%s %s: its owner %+v is not there", o.Kind, o.Metadata.Name, owner)
		}
		if o.Kind != "Pod" {
			continue
		}
		var pod corev1.Pod
		if err := yaml.UnmarshalStrict(o.raw, &pod); err != nil {
			t.Fatal(err)
		}
		server := f.Server(pod.Namespace, pod.Name)
		if server == nil {
			t.Fatalf("Pod %s has no server", pod.Name)
		}
		port := pod.Annotations["prometheus.io/port"]
		declared := strconv.Itoa(int(pod.Spec.Containers[0].Ports[0].ContainerPort))
		if got := net.JoinHostPort(pod.Status.PodIP, port); got != server.Address() || port != declared || pod.Status.Phase != corev1.PodRunning {
			t.Errorf("Pod %s is %s at %s, declares %s; its server is at %s", pod.Name, pod.Status.Phase, got, declared, server.Address())
		}
		if pod.Annotations["prometheus.io/scrape"] != "true" || pod.Annotations["prometheus.io/path"] != "/metrics" {
			t.Errorf("Pod %s advertises %v", pod.Name, pod.Annotations)
		}
		addresses = append(addresses, server.Address())
		if pod.Labels["app.kubernetes.io/instance"] != server.simulation.description.Name {
			t.Errorf("Pod %s has the labels %v", pod.Name, pod.Labels)
		}
		if server.Role() != "" {
			if owner.Kind != "ModelDeployment" || pod.Labels["app.kubernetes.io/component"] != server.Role() {
				t.Errorf("Pod %s of role %s: owner %s, labels %v", pod.Name, server.Role(), owner.Kind, pod.Labels)
			}
			continue
		}
		middle := all[string(parent.Metadata.OwnerReferences[0].UID)]
		if owner.Kind != "ReplicaSet" || middle.Kind != "Deployment" || middle.Metadata.Name != server.simulation.description.Name+"-router" {
			t.Errorf("Pod %s hangs on a %s and a %s %s", pod.Name, owner.Kind, middle.Kind, middle.Metadata.Name)
		}
		for _, o := range []object{o, parent, middle} {
			if o.Metadata.Labels["modeldeployment.gpustack.ai/router"] != server.Software() {
				t.Errorf("%s %s has the labels %v", o.Kind, o.Metadata.Name, o.Metadata.Labels)
			}
		}
	}
	slices.Sort(addresses)
	if len(slices.Compact(addresses)) != len(f.Servers()) {
		t.Error("two servers share an address")
	}
	for _, o := range all {
		switch o.Kind {
		case "Deployment":
			if err := yaml.UnmarshalStrict(o.raw, new(appsv1.Deployment)); err != nil {
				t.Error(err)
			}
		case "ReplicaSet":
			if err := yaml.UnmarshalStrict(o.raw, new(appsv1.ReplicaSet)); err != nil {
				t.Error(err)
			}
		}
	}
}

// The arguments build what the demo is to show.
func TestArguments(t *testing.T) {
	f := fleetOf(t, Options{}, Demo(1)...)
	for pod, want := range map[[2]string][3]bool{
		{"chat", "qwen3-8b-server-0"}:         {false, false, false},
		{"research", "deepseek-r1-prefill-0"}: {false, true, true},
		{"research", "deepseek-r1-decode-0"}:  {false, false, false},
		{"agents", "qwen3-coder-prefill-0"}:   {true, false, false},
		{"agents", "qwen3-coder-decode-0"}:    {true, false, false},
	} {
		s := f.Server(pod[0], pod[1])
		if s == nil {
			t.Errorf("no Pod %v", pod)
			continue
		}
		got := [3]bool{hasFlag(s.arguments, "--kv-transfer-config"), hasFlag(s.arguments, "--enable-hierarchical-cache"), hasFlag(s.arguments, "--hicache-storage-backend")}
		if got != want {
			t.Errorf("%s is started with %q", s.Pod(), s.arguments)
		}
	}
}

// Before its server listens a Pod has no address; a role with its own command has no Pod at all.
func TestManifestsBeforeStart(t *testing.T) {
	d := shapes()["vLLM pair behind its router"]
	d.Roles[1].Command = []string{"my-server"}
	pods := 0
	for _, o := range objects(t, fleetOf(t, Options{}, d).Manifests()) {
		if o.Kind != "Pod" {
			continue
		}
		pods++
		var pod corev1.Pod
		if err := yaml.Unmarshal(o.raw, &pod); err != nil {
			t.Fatal(err)
		}
		if pod.Status.PodIP != "" || pod.Status.Phase != corev1.PodPending || pod.Annotations != nil {
			t.Errorf("Pod %s is %s at %q", pod.Name, pod.Status.Phase, pod.Status.PodIP)
		}
	}
	if pods != 2 {
		t.Errorf("%d Pods, want the prefill half's and the router's", pods)
	}
}

func TestFleetAddresses(t *testing.T) {
	defer goleak.VerifyNone(t)
	d := shapes()["vLLM without a router"]
	f := fleetOf(t, Options{Address: func(_, pod string) string { return "127.0.0.7:0" }}, d)
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	taken := f.Servers()[0].Address()
	if host, _, _ := net.SplitHostPort(taken); host != "127.0.0.7" {
		t.Errorf("a server listens on %s", taken)
	}
	d.Name = "other"
	late := fleetOf(t, Options{Address: func(_, pod string) string {
		if pod == "other-server-1" {
			return taken
		}
		return "127.0.0.1:0"
	}}, d)
	if err := late.Start(); err == nil {
		t.Error("started at an address that is taken")
	}
	for _, s := range late.Servers() {
		if s.listener != nil {
			t.Errorf("%s listens after a start that failed", s.Pod())
		}
	}
	if err := f.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := NewFleet(Options{}, d, d); err == nil {
		t.Error("one deployment twice")
	}
}

// Run moves the fleet on with real time, and ends with its context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(t, Options{Now: time.Now}, Demo(1)...)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Run(ctx)
		}()
		time.Sleep(time.Minute + tick/2) // on synctest's clock
		synctest.Wait()
		cancel()
		<-done
		ahead := fleetOf(t, Options{}, Demo(1)...)
		ahead.Advance(time.Minute)
		for i, s := range f.Servers() {
			_, got := s.Exposition()
			_, want := ahead.Servers()[i].Exposition()
			if !maps.Equal(got.Histograms, want.Histograms) || !maps.Equal(got.Values, want.Values) {
				t.Errorf("after a minute %s states %+v, want %+v", s.Pod(), got, want)
			}
		}
	})
}
