package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/md-exporter/md-exporter/simulate"
	"github.com/md-exporter/md-exporter/test/e2e/cluster"
)

const (
	// scaleDeployments of ten Pods each are loaded, over scaleNamespaces.
	scaleDeployments = 1000
	scaleNamespaces  = 20
	// scaleSimulated of them are simulated; the others have Pods at the same addresses.
	scaleSimulated = 32

	scaleReady  = 10 * time.Second
	scaleMemory = 200 << 20
	// discoveryMemory bounds what finding the Pods alone may take.
	discoveryMemory = 80 << 20
)

// TestScale loads a big cluster, of Pods as big as real ones, and looks at what the exporter needs for
// it: to be ready, and while it is scraped.
func TestScale(t *testing.T) {
	if testing.Short() {
		t.Skip("loads 10,000 Pods")
	}
	c := cluster.Start(t)
	c.InstallCRD(t)
	fleet := cluster.StartStillFleet(t, scaleFleet()...)
	fleet.Advance(10 * time.Minute)

	started := time.Now()
	c.Load(t, scaleObjects(t, fleet))
	t.Logf("%d deployments loaded in %s", scaleDeployments, time.Since(started).Round(time.Second))
	sizes := jsonSizes(t, c)
	t.Logf("the objects' JSON: %s", sizes)

	// The simulated engines answer from the same cores: with the default limits some of them are late on
	// a busy machine.
	exporter := c.InstallExporter(t, "--scrape.timeout=25s", "--snapshot.timeout=25s")
	started = time.Now()
	exporter.WaitReady(t, scaleReady)
	t.Logf("ready %s after its start", time.Since(started).Round(time.Millisecond))
	atStart := exporter.Memory(t)
	t.Logf("memory before the first scrape: %s; the objects' JSON is %.1f times the peak", mib(atStart), float64(sizes.total())/float64(atStart.Peak))
	if atStart.Peak > discoveryMemory {
		t.Errorf("peak before the first scrape is %s, want at most %d MiB", mib(atStart), discoveryMemory>>20)
	}

	const pods = 10 * scaleDeployments
	scrape := func(what string) (read int) {
		t.Helper()
		started := time.Now()
		status, body := exporter.Get(t, "/metrics")
		took := time.Since(started).Round(time.Millisecond)
		read = strings.Count(body, "\nmodeldeployment_pod_read_timestamp_seconds{")
		t.Logf("%s: status %d, %d bytes, %d series, %d Pods read, in %s; memory %s",
			what, status, len(body), strings.Count(body, "\nmodeldeployment_"), read, took, mib(exporter.Memory(t)))
		if n := strings.Count(body, "\nmodeldeployment_info{"); n != scaleDeployments {
			t.Errorf("%s: %d deployments, want %d", what, n, scaleDeployments)
		}
		if unread := len(lines(body, "modeldeployment_missing_info", `source="scrape"`)); read+unread != pods {
			t.Errorf("%s: %d Pods read and %d with a reason why not, want %d in all", what, read, unread, pods)
		}
		return read
	}
	for i := range 4 {
		fleet.Advance(30 * time.Second)
		if read := scrape(fmt.Sprintf("scrape %d", i+1)); read != pods {
			t.Errorf("scrape %d read %d Pods, want %d", i+1, read, pods)
		}
	}
	for _, s := range fleet.Servers() {
		s.Refuse()
	}
	if read := scrape("all Pods refuse"); read != 0 {
		t.Errorf("%d Pods read while all refuse", read)
	}
	for _, s := range fleet.Servers() {
		if err := s.Heal(); err != nil {
			t.Fatal(err)
		}
	}
	if read := scrape("all Pods answer again"); read != pods {
		t.Errorf("%d Pods read once all answer again, want %d", read, pods)
	}
	if peak := exporter.Memory(t); peak.Peak > scaleMemory {
		t.Errorf("peak is %s, want at most %d MiB", mib(peak), scaleMemory>>20)
	}
	if err := exporter.Stop(); err != nil {
		t.Errorf("the exporter ended with %v", err)
	}
}

// scaleFleet is what the big cluster is made of: engines and routers in turn, ten Pods each.
func scaleFleet() []simulate.Deployment {
	load := simulate.Load{RequestsPerSecond: 4, PromptTokens: 800, OutputTokens: 60, PrefixShare: 0.3, StoreShare: 0.3, ErrorRate: 0.02, StreamingShare: 0.8}
	pair := []simulate.Role{{Name: "prefill", Kind: simulate.Prefill, Replicas: 5}, {Name: "decode", Kind: simulate.Decode, Replicas: 4}}
	serving := []simulate.Role{{Name: "server", Replicas: 9}}
	kinds := []simulate.Deployment{
		{Engine: simulate.VLLM, Roles: serving, Router: simulate.VLLMRouter},
		{Engine: simulate.SGLang, Roles: pair, Router: simulate.SGLangGateway, KVCache: true},
		{Engine: simulate.VLLM, Roles: pair, Router: simulate.LLMDRouter, KVCache: true},
		{Engine: simulate.SGLang, Roles: serving, Router: simulate.SGLangGateway},
	}
	all := make([]simulate.Deployment, scaleSimulated)
	for i := range all {
		all[i] = kinds[i%len(kinds)]
		all[i].Namespace, all[i].Name, all[i].Model = "simulated", fmt.Sprintf("llm-%02d", i), "Qwen/Qwen3-8B"
		all[i].Load = load
		all[i].Load.Seed = uint64(i)
	}
	return all
}

// scaleObjects are the objects of all deployments, each a simulated one's under names of its own.
func scaleObjects(t *testing.T, fleet *simulate.Fleet) []*unstructured.Unstructured {
	t.Helper()
	var templates [][]*unstructured.Unstructured
	for _, s := range fleet.Simulations() {
		objects := cluster.Manifests(t, s.Manifests())
		for _, o := range objects {
			if o.GetKind() == "Pod" {
				grow(t, o)
			}
		}
		templates = append(templates, objects)
	}
	var all []*unstructured.Unstructured
	for i := range scaleDeployments {
		namespace := fmt.Sprintf("team-%02d", i%scaleNamespaces)
		suffix := types.UID(fmt.Sprintf("-%04d", i))
		from := fleet.Simulations()[i%scaleSimulated].Deployment().Name
		to := fmt.Sprintf("qwen3-8b-%04d", i)
		rename := func(name string) string { return strings.Replace(name, from, to, 1) }
		for _, template := range templates[i%scaleSimulated] {
			o := template.DeepCopy()
			o.SetNamespace(namespace)
			o.SetName(rename(o.GetName()))
			o.SetUID(o.GetUID() + suffix)
			if labels := o.GetLabels(); labels[cluster.LabelInstance] != "" {
				labels[cluster.LabelInstance] = to
				o.SetLabels(labels)
			}
			if selector, ok, _ := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels"); ok {
				selector[cluster.LabelInstance] = to
				if err := unstructured.SetNestedStringMap(o.Object, selector, "spec", "selector", "matchLabels"); err != nil {
					t.Fatal(err)
				}
			}
			owners := o.GetOwnerReferences()
			for j := range owners {
				owners[j].Name = rename(owners[j].Name)
				owners[j].UID += suffix
			}
			o.SetOwnerReferences(owners)
			all = append(all, o)
		}
	}
	return all
}

// grow gives a Pod what an operator, a scheduler and a kubelet write on a real one.
func grow(t *testing.T, pod *unstructured.Unstructured) {
	t.Helper()
	set := func(value any, path ...string) {
		t.Helper()
		if err := unstructured.SetNestedField(pod.Object, value, path...); err != nil {
			t.Fatal(err)
		}
	}
	containers, _, err := unstructured.NestedSlice(pod.Object, "spec", "containers")
	if err != nil || len(containers) == 0 {
		t.Fatalf("a Pod without containers: %v", err)
	}
	container := containers[0].(map[string]any)
	var env, mounts, volumes []any
	for i := range 24 {
		env = append(env, map[string]any{"name": fmt.Sprintf("ENGINE_SETTING_%02d", i), "value": strings.Repeat(string(rune('a'+i)), 40)})
	}
	for _, field := range []string{"metadata.name", "metadata.namespace", "status.podIP", "spec.nodeName"} {
		env = append(env, map[string]any{"name": "POD_" + strings.ToUpper(strings.ReplaceAll(field, ".", "_")),
			"valueFrom": map[string]any{"fieldRef": map[string]any{"apiVersion": "v1", "fieldPath": field}}})
	}
	for i := range 6 {
		name := fmt.Sprintf("volume-%d", i)
		mounts = append(mounts, map[string]any{"name": name, "mountPath": "/var/lib/engine/" + name})
		volumes = append(volumes, map[string]any{"name": name, "hostPath": map[string]any{"path": "/data/models/" + name, "type": "DirectoryOrCreate"}})
	}
	arguments, _ := container["args"].([]any)
	for i := range 20 {
		arguments = append(arguments, fmt.Sprintf("--engine-option-%02d=%s", i, strings.Repeat("v", 24)))
	}
	container["args"], container["env"], container["volumeMounts"] = arguments, env, mounts
	probe := map[string]any{"httpGet": map[string]any{"path": "/health", "port": "metrics", "scheme": "HTTP"}, "periodSeconds": int64(10), "failureThreshold": int64(60)}
	if ports, _ := container["ports"].([]any); len(ports) > 0 {
		probe["httpGet"].(map[string]any)["port"] = ports[0].(map[string]any)["containerPort"]
	}
	container["readinessProbe"], container["livenessProbe"], container["startupProbe"] = probe, probe, probe
	container["resources"] = map[string]any{
		"limits":   map[string]any{"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "1"},
		"requests": map[string]any{"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"},
	}
	set(containers, "spec", "containers")
	set(volumes, "spec", "volumes")
	set("gpu-node-17", "spec", "nodeName")
	set([]any{map[string]any{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}}, "spec", "tolerations")
	var conditions []any
	for _, kind := range []string{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		conditions = append(conditions, map[string]any{"type": kind, "status": "True", "lastTransitionTime": "2026-03-02T08:00:00Z"})
	}
	set(conditions, "status", "conditions")
	set([]any{map[string]any{
		"name": container["name"], "ready": true, "started": true, "restartCount": int64(0), "image": "registry.invalid/engine:v1",
		"imageID":     "registry.invalid/engine@sha256:" + strings.Repeat("0a", 32),
		"containerID": "containerd://" + strings.Repeat("1b", 32),
		"state":       map[string]any{"running": map[string]any{"startedAt": "2026-03-02T08:00:00Z"}},
	}}, "status", "containerStatuses")
}

// objectSizes is the bytes of the objects' JSON by resource.
type objectSizes map[string]int64

func (s objectSizes) total() (sum int64) {
	for _, n := range s {
		sum += n
	}
	return sum
}

func (s objectSizes) String() string {
	return fmt.Sprintf("%d MiB (Pods %d MiB)", s.total()>>20, s["pods"]>>20)
}

// jsonSizes is the size of all that the exporter has to look through, as the API server writes it.
func jsonSizes(t *testing.T, c *cluster.Cluster) objectSizes {
	t.Helper()
	sizes := objectSizes{}
	for _, resource := range []schema.GroupVersionResource{
		cluster.ModelDeployments,
		{Version: "v1", Resource: "pods"},
		{Group: "apps", Version: "v1", Resource: "replicasets"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
	} {
		options := metav1.ListOptions{Limit: 500}
		for {
			page, err := c.Dynamic.Resource(resource).List(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			content, err := page.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			sizes[resource.Resource] += int64(len(content))
			if options.Continue = page.GetContinue(); options.Continue == "" {
				break
			}
		}
	}
	return sizes
}

func mib(m cluster.Memory) string {
	return fmt.Sprintf("%d MiB (peak %d MiB)", m.Now>>20, m.Peak>>20)
}
