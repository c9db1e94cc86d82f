package e2e

import (
	"context"
	"fmt"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/md-exporter/md-exporter/simulate"
	"github.com/md-exporter/md-exporter/test/e2e/cluster"
)

// everyRouter is ordinary serving and a pair with each router.
func everyRouter(namespace string) []simulate.Deployment {
	serving := []simulate.Role{{Name: "server", Replicas: 2}}
	pair := []simulate.Role{{Name: "prefill", Kind: simulate.Prefill, Replicas: 2}, {Name: "decode", Kind: simulate.Decode, Replicas: 1}}
	load := simulate.Load{RequestsPerSecond: 12, PromptTokens: 600, OutputTokens: 40, PrefixShare: 0.3, StoreShare: 0.3, ErrorRate: 0.1, StreamingShare: 0.8}
	var all []simulate.Deployment
	for i, d := range []simulate.Deployment{
		{Name: "vllm", Engine: simulate.VLLM, Roles: serving, Router: simulate.VLLMRouter},
		{Name: "vllm-pair", Engine: simulate.VLLM, Roles: pair, Router: simulate.VLLMRouter, KVCache: true},
		{Name: "llm-d", Engine: simulate.VLLM, Roles: serving, Router: simulate.LLMDRouter},
		{Name: "llm-d-pair", Engine: simulate.VLLM, Roles: pair, Router: simulate.LLMDRouter},
		{Name: "sglang", Engine: simulate.SGLang, Roles: serving, Router: simulate.SGLangGateway, KVCache: true},
		{Name: "sglang-pair", Engine: simulate.SGLang, Roles: pair, Router: simulate.SGLangGateway, KVCache: true, RouterReplicas: 2},
	} {
		d.Namespace, d.Model, d.Load = namespace, "Qwen/Qwen3-8B", load
		d.Load.Seed = uint64(i + 1)
		all = append(all, d)
	}
	return all
}

// byHand makes deployments and Pods one by one; the Pods' endpoints are simulated ones.
type byHand struct {
	t              *testing.T
	c              *cluster.Cluster
	namespace      string
	engine, router net.Addr
	// engine6 is the engine on [::1]; nil where the machine has no IPv6.
	engine6 net.Addr
}

// model makes a ModelDeployment of vLLM with one role, and with the changes.
func (h byHand) model(name string, replicas int64, changes map[string]any) *unstructured.Unstructured {
	h.t.Helper()
	spec := map[string]any{
		"engine": map[string]any{"name": "vllm"},
		"roles":  []any{map[string]any{"name": "server", "replicas": replicas}},
	}
	for key, value := range changes {
		spec[key] = value
	}
	return h.c.CreateModelDeployment(h.t, h.namespace, name, spec)
}

// pod makes an engine Pod of the deployment, named deployment-role-suffix, after the change to it.
func (h byHand) pod(md metav1.Object, role, suffix string, change func(*cluster.Pod)) {
	h.t.Helper()
	ip, port := cluster.HostPort(h.t, h.engine)
	p := cluster.Pod{
		Namespace: h.namespace, Name: fmt.Sprintf("%s-%s-%s", md.GetName(), role, suffix), Node: "node",
		Labels: cluster.EngineLabels(md.GetName(), role), Annotations: cluster.Advertise(port, "http"), Ports: []int{port},
		Owners: []metav1.OwnerReference{cluster.ControlledByModelDeployment(md)}, IP: ip, Phase: corev1.PodRunning,
	}
	if change != nil {
		change(&p)
	}
	h.c.CreatePod(h.t, p)
}

// routerPod makes a router Pod of the chain.
func (h byHand) routerPod(chain *cluster.RouterChain, suffix string, change func(*cluster.Pod)) {
	h.t.Helper()
	ip, port := cluster.HostPort(h.t, h.router)
	p := cluster.Pod{
		Namespace: h.namespace, Name: chain.Deployment.Name + "-" + suffix, Node: "node",
		Labels: chain.Labels, Annotations: cluster.Advertise(port, "http"), Ports: []int{port},
		Owners: []metav1.OwnerReference{chain.Owner()}, IP: ip, Phase: corev1.PodRunning,
	}
	if change != nil {
		change(&p)
	}
	h.c.CreatePod(h.t, p)
}

// recreateReplicaSet makes the chain's ReplicaSet anew under the same name.
func (h byHand) recreateReplicaSet(chain *cluster.RouterChain) {
	h.t.Helper()
	sets := h.c.Kube.AppsV1().ReplicaSets(h.namespace)
	if err := sets.Delete(h.t.Context(), chain.ReplicaSet.Name, *metav1.NewDeleteOptions(0)); err != nil {
		h.t.Fatal(err)
	}
	set := chain.ReplicaSet.DeepCopy()
	set.UID, set.ResourceVersion = "", ""
	set, err := sets.Create(h.t.Context(), set, metav1.CreateOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	chain.ReplicaSet = set
}

// TestFleet asks Prometheus what the exporter, whose only rights are those of deploy/exporter, makes of
// what a cluster may hold: who owns which Pod, which are read, and what is missing.
func TestFleet(t *testing.T) {
	c := cluster.Start(t)
	c.InstallCRD(t)
	fleet := cluster.StartFleet(t, everyRouter("fleet")...)
	c.Load(t, cluster.Manifests(t, fleet.Manifests()))
	var vllmRouter *simulate.Server
	for _, s := range fleet.Simulation("fleet", "vllm").Servers() {
		if s.Software() == simulate.VLLMRouter {
			vllmRouter = s
		}
	}
	h := byHand{t: t, c: c, namespace: "fleet",
		engine: serve(t, "127.0.0.41", fleet.Server("fleet", "vllm-server-0").ServeHTTP),
		router: serve(t, "127.0.0.42", vllmRouter.ServeHTTP),
	}
	ipv6 := canListen("::1")
	if ipv6 {
		h.engine6 = serve(t, "::1", fleet.Server("fleet", "vllm-server-0").ServeHTTP)
	}
	makeByHand(t, h)

	exporter := c.InstallExporter(t)
	exporter.WaitReady(t, ready)
	p := cluster.StartPrometheus(t, nil, cluster.StaticJob("md-exporter", true, exporter.Address))

	expect := func(t *testing.T, want float64, query string) {
		t.Helper()
		expectValue(t, p, query, want)
	}
	of := func(name, series, more string) string {
		return fmt.Sprintf(`modeldeployment_%s{namespace="fleet",modeldeployment=%q%s}`, series, name, more)
	}
	none := func(t *testing.T, selector string) {
		t.Helper()
		expect(t, 1, "absent("+selector+")")
	}

	for _, s := range fleet.Simulations() {
		d := s.Deployment()
		t.Run(d.Name, func(t *testing.T) {
			mode := "serving"
			if len(d.Roles) == 2 {
				mode = "prefill-decode"
			}
			expect(t, 1, of(d.Name, "info", fmt.Sprintf(`,engine=%q,router=%q,mode=%q,kv_cache="%t"`, d.Engine, d.Router, mode, d.KVCache)))
			expect(t, 1, of(d.Name, "up", ""))
			for _, r := range d.Roles {
				for _, series := range []string{"expected_pods", "owned_pods", "read_pods"} {
					expect(t, float64(r.Replicas), of(d.Name, series, fmt.Sprintf(`,scope="engine",role=%q`, r.Name)))
				}
			}
			expect(t, float64(max(d.RouterReplicas, 1)), of(d.Name, "read_pods", `,scope="router",role=""`))
			expect(t, float64(len(s.Servers())), `count(`+of(d.Name, "pod_read_timestamp_seconds", `,pod!=""`)+`)`)
			none(t, of(d.Name, "missing_info", `,source=~"engine/.*|router|scrape|pod-discovery"`))
			none(t, of(d.Name, "missing_info", `,reason=~"metric_absent|malformed_response",source!="llm_d_epp_request_streaming_tpot_seconds"`))
		})
	}

	t.Run("a role with a command is neither expected nor read", func(t *testing.T) {
		expect(t, 1, of("command", "owned_pods", `,role="server"`))
		none(t, of("command", "expected_pods", `,role="custom"`))
		none(t, of("command", "owned_pods", `,role="custom"`))
		none(t, of("command", "missing_info", `,role="custom"`))
		none(t, of("command", "pod_read_timestamp_seconds", `,pod="command-custom-0"`))
	})
	t.Run("no replicas", func(t *testing.T) {
		expect(t, 1, of("zero", "info", ""))
		none(t, of("zero", "up", ""))
		none(t, of("zero", "missing_info", ""))
		expect(t, 0, of("half-zero", "expected_pods", `,role="prefill"`))
		expect(t, 0, of("half-zero", "owned_pods", `,role="prefill"`))
		expect(t, 1, of("half-zero", "owned_pods", `,role="decode"`))
		none(t, of("half-zero", "missing_info", `,source="engine/prefill"`))
	})
	t.Run("an unknown engine and an unknown router", func(t *testing.T) {
		expect(t, 1, of("unknown-engine", "missing_info", `,reason="unknown_engine",source="engine/server",partial="true"`))
		expect(t, 0, of("unknown-engine", "up", ""))
		expect(t, 1, of("unknown-router", "missing_info", `,reason="unknown_router",source="router",partial="true"`))
		expect(t, 1, of("unknown-router", "up", ""))
		none(t, of("unknown-router", "pod_read_timestamp_seconds", `,scope="router"`))
	})
	t.Run("a router Pod belongs by its whole chain", func(t *testing.T) {
		expect(t, 1, of("chains", "owned_pods", `,scope="router"`))
		expect(t, 1, `count(`+of("chains", "pod_read_timestamp_seconds", `,pod="chains-router-good"`)+`)`)
		expect(t, 1, `count(`+of("chains", "pod_read_timestamp_seconds", `,scope="router"`)+`)`)
	})
	t.Run("a chain of re-created objects", func(t *testing.T) {
		expect(t, 1, of("new-set", "owned_pods", `,scope="router"`))
		expect(t, 1, `count(`+of("new-set", "pod_read_timestamp_seconds", `,pod="new-set-router-new"`)+`)`)
		expect(t, 0, of("new-model", "up", ""))
		expect(t, 1, of("new-model", "missing_info", `,source="engine/server",reason="no_pods"`))
		expect(t, 1, of("new-model", "missing_info", `,source="router",reason="no_pods"`))
	})
	t.Run("a Pod of another deployment with the same labels", func(t *testing.T) {
		expect(t, 1, of("labels", "owned_pods", `,role="server"`))
		none(t, of("labels", "pod_read_timestamp_seconds", `,pod!="labels-server-0"`))
	})
	t.Run("phases", func(t *testing.T) {
		expect(t, 5, of("phases", "expected_pods", `,role="server"`))
		expect(t, 3, of("phases", "owned_pods", `,role="server"`))
		expect(t, 2, of("phases", "read_pods", `,role="server"`))
		expect(t, 1, `count(`+of("phases", "pod_read_timestamp_seconds", `,pod="phases-server-running"`)+`)`)
		expect(t, 1, `count(`+of("phases", "pod_read_timestamp_seconds", `,pod="phases-server-terminating"`)+`)`)
		expect(t, 1, of("phases", "missing_info", `,source="engine/server",reason="replicas_missing"`))
		expect(t, 1, of("phases", "missing_info", `,source="scrape",reason="not_advertised",pod="phases-server-no-ip"`))
		none(t, of("phases", "missing_info", `,pod=~".*-(succeeded|failed)"`))
	})
	t.Run("IPv6", func(t *testing.T) {
		if !ipv6 {
			t.Skip("this machine has no [::1]")
		}
		expect(t, 1, of("ipv6", "read_pods", `,role="server"`))
		expect(t, 1, of("ipv6", "up", ""))
	})
	if err := exporter.Stop(); err != nil {
		t.Errorf("the exporter ended with %v", err)
	}
}

// makeByHand makes the deployments that TestFleet asks for by name.
func makeByHand(t *testing.T, h byHand) {
	t.Helper()
	router := func(name string) map[string]any { return map[string]any{"router": map[string]any{"name": name}} }
	h.pod(h.model("command", 1, map[string]any{"roles": []any{
		map[string]any{"name": "server"},
		map[string]any{"name": "custom", "replicas": int64(2), "command": []any{"/bin/own"}},
	}}), "server", "0", nil)
	command, err := h.c.Dynamic.Resource(cluster.ModelDeployments).Namespace(h.namespace).Get(t.Context(), "command", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h.pod(command, "custom", "0", nil)

	h.model("zero", 0, nil)
	h.pod(h.model("half-zero", 1, map[string]any{"roles": []any{
		map[string]any{"name": "prefill", "kind": "prefill", "replicas": int64(0)},
		map[string]any{"name": "decode", "kind": "decode"},
	}}), "decode", "0", nil)

	h.pod(h.model("unknown-engine", 1, map[string]any{"engine": map[string]any{"name": "triton"}}), "server", "0", nil)
	unknownRouter := h.model("unknown-router", 1, router("envoy"))
	h.pod(unknownRouter, "server", "0", nil)
	h.routerPod(h.c.CreateRouterChain(t, unknownRouter, "envoy", 1), "0", nil)

	chains := h.c.CreateRouterChain(t, h.model("chains", 0, router("vllm-router")), "vllm-router", 1)
	h.routerPod(chains, "good", nil)
	h.routerPod(chains, "orphan", func(p *cluster.Pod) { p.Owners[0] = cluster.Orphaned(p.Owners[0]) })
	h.routerPod(chains, "ownerless", func(p *cluster.Pod) { p.Owners = nil })
	h.routerPod(chains, "uncontrolled", func(p *cluster.Pod) { p.Owners[0].Controller = nil })
	h.routerPod(chains, "direct", func(p *cluster.Pod) {
		p.Owners[0] = *metav1.GetControllerOf(chains.Deployment)
	})
	h.routerPod(chains, "other", func(p *cluster.Pod) { p.Labels = cluster.RouterLabels("chains", "llm-d-router") })

	newSet := h.c.CreateRouterChain(t, h.model("new-set", 0, router("vllm-router")), "vllm-router", 1)
	h.routerPod(newSet, "old", nil)
	h.recreateReplicaSet(newSet)
	h.routerPod(newSet, "new", nil)

	old := h.model("new-model", 1, router("vllm-router"))
	h.pod(old, "server", "0", nil)
	h.routerPod(h.c.CreateRouterChain(t, old, "vllm-router", 1), "0", nil)
	h.c.DeleteModelDeployment(t, h.namespace, "new-model")
	h.model("new-model", 1, router("vllm-router"))

	labels := h.model("labels", 1, nil)
	h.pod(labels, "server", "0", nil)
	h.pod(labels, "server", "foreign", func(p *cluster.Pod) {
		p.Owners = []metav1.OwnerReference{cluster.ControlledByModelDeployment(command)}
	})
	h.pod(labels, "server", "stateful", func(p *cluster.Pod) { p.Owners[0].Kind = "StatefulSet" })
	h.pod(labels, "nobody", "0", nil)

	phases := h.model("phases", 5, nil)
	h.pod(phases, "server", "running", nil)
	h.pod(phases, "server", "succeeded", func(p *cluster.Pod) { p.Phase = corev1.PodSucceeded })
	h.pod(phases, "server", "failed", func(p *cluster.Pod) { p.Phase = corev1.PodFailed })
	h.pod(phases, "server", "no-ip", func(p *cluster.Pod) { p.IP, p.Phase = "", corev1.PodPending })
	h.pod(phases, "server", "terminating", nil)
	h.c.TerminatePod(t, h.namespace, "phases-server-terminating")

	if h.engine6 != nil {
		h.engine = h.engine6
		h.pod(h.model("ipv6", 1, nil), "server", "0", nil)
	}
}

// canListen reports whether the machine has the address.
func canListen(ip string) bool {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
