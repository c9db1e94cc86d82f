package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	v1 "github.com/md-exporter/md-exporter/apiserver/v1"
	"github.com/md-exporter/md-exporter/simulate"
	"github.com/md-exporter/md-exporter/test/e2e/cluster"
)

// apiMaxAge is how old a baseline may be in the test of the aggregated API.
const apiMaxAge = 6 * time.Second

// aggregated is an aggregated API and who asks it.
type aggregated struct {
	t       *testing.T
	c       *cluster.Cluster
	group   string
	allowed string
}

// raw asks the API server with a kubeconfig, as kubectl get --raw does.
func (a aggregated) raw(kubeconfig, name string) (string, error) {
	return cluster.Kubectl(a.t, kubeconfig, "get", "--raw", fmt.Sprintf("/apis/%s/v1/namespaces/api/modeldeployments/%s/metrics", a.group, name))
}

// document is a deployment's, for the allowed user.
func (a aggregated) document(t *testing.T, name string) v1.ModelDeploymentMetrics {
	t.Helper()
	body, err := a.raw(a.allowed, name)
	if err != nil {
		t.Fatal(err)
	}
	var m v1.ModelDeploymentMetrics
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != a.group+"/v1" || m.Kind != "ModelDeploymentMetrics" || m.Namespace != "api" || m.Name != name {
		t.Fatalf("the document is of %s, %s, %s/%s", m.APIVersion, m.Kind, m.Namespace, m.Name)
	}
	return m
}

func isFirst(m v1.Missing) bool { return m.Code == "first_sample" }

// TestAPIService asks a real API server that passes on to the aggregated API, once for each way to
// deploy it.
func TestAPIService(t *testing.T) {
	for folder, group := range map[string]string{
		cluster.APIService:             v1.OwnGroupName,
		cluster.APIServiceOperatorPath: v1.GroupName,
		cluster.APIServiceTrial:        v1.OwnGroupName,
	} {
		t.Run(folder, func(t *testing.T) {
			c := cluster.Start(t, cluster.Aggregation)
			c.InstallCRD(t)
			fleet := heldFleet(t, everyRouter("api")...)
			c.Load(t, cluster.Manifests(t, fleet.Manifests()))
			refusing := refusingAddress(t)
			h := byHand{t: t, c: c, namespace: "api", engine: refusing, router: refusing}
			h.pod(h.model("down", 1, nil), "server", "0", nil)
			h.model("zero", 0, nil)

			api := c.InstallAPI(t, folder, "--window.min=0s", "--window.max-age="+apiMaxAge.String())
			a := aggregated{t: t, c: c, group: group}
			objects := cluster.Render(t, folder)
			if out := c.Apply(t, objects, "--dry-run=server"); strings.Count(out, "(server dry run)") != len(objects) || strings.Contains(out, "Warning") {
				t.Errorf("of %d objects the API server takes:\n%s", len(objects), out)
			}
			for _, account := range []string{"viewer", "nobody"} {
				c.CreateServiceAccount(t, "api", account)
			}
			view, err := c.Kube.RbacV1().ClusterRoles().Get(t.Context(), "md-exporter-apiservice-view", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if view.Labels["rbac.authorization.k8s.io/aggregate-to-view"] != "true" {
				t.Errorf("the role does not aggregate to view: %v", view.Labels)
			}
			_, err = c.Kube.RbacV1().RoleBindings("api").Create(t.Context(), &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "viewer"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: view.Name},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "api", Name: "viewer"}},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			a.allowed = c.KubeconfigFor(t, "api", "viewer")
			cluster.Eventually(t, settled, "the API is available", func(context.Context) error {
				_, err := a.raw(a.allowed, "zero")
				return err
			})
			if folder == cluster.APIServiceTrial {
				return // The same but for its certificate.
			}

			t.Run("answers", func(t *testing.T) { a.testAnswers(t) })
			t.Run("windows", func(t *testing.T) { a.testWindows(t, fleet) })
			t.Run("values", func(t *testing.T) { a.testValues(t, fleet) })
			t.Run("beside the CRD", func(t *testing.T) { a.testCRD(t, "here") })
			if err := api.Stop(); err != nil {
				t.Errorf("the API ended with %v", err)
			}
			if log := api.Output(t); strings.Contains(log, "level=ERROR") {
				t.Errorf("errors in the log:\n%s", log)
			}
			t.Run("beside the CRD while the API is down", func(t *testing.T) { a.testCRD(t, "away") })
			if _, err := a.raw(a.allowed, "zero"); err == nil || !strings.Contains(err.Error(), "ServiceUnavailable") {
				t.Errorf("while the API is down: %v", err)
			}
			api.Start(t)
			cluster.Eventually(t, settled, "the API is back", func(context.Context) error {
				_, err := a.raw(a.allowed, "zero")
				return err
			})
		})
	}
}

// heldFleet starts a simulated fleet that holds still between its advances.
func heldFleet(t *testing.T, deployments ...simulate.Deployment) *simulate.Fleet {
	t.Helper()
	fleet, err := simulate.NewFleet(simulate.Options{Start: time.Now()}, deployments...)
	if err != nil {
		t.Fatal(err)
	}
	fleet.Advance(time.Minute)
	if err := fleet.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		grace, end := context.WithTimeout(context.Background(), 5*time.Second)
		defer end()
		if err := fleet.Close(grace); err != nil {
			t.Errorf("end the simulated fleet: %v", err)
		}
	})
	return fleet
}

// testAnswers asks for what there is and is not, and as whom.
func (a aggregated) testAnswers(t *testing.T) {
	nobody := a.c.KubeconfigFor(t, "api", "nobody")
	for _, row := range []struct{ kubeconfig, name, want string }{
		{nobody, "vllm", "Forbidden"},
		{nobody, "absent", "Forbidden"},
		{a.allowed, "absent", "NotFound"},
		{a.allowed, "down", "ServiceUnavailable): no Pod of model deployment api/down could be read: 1 × connection_failed"},
	} {
		if out, err := a.raw(row.kubeconfig, row.name); err == nil || !strings.Contains(err.Error(), "Error from server ("+row.want) {
			t.Errorf("%s: %s, %v, want %s", row.name, out, err, row.want)
		}
	}
	if m := a.document(t, "zero"); m.Partial || len(m.Missing) > 0 {
		t.Errorf("a deployment without Pods: %+v", m)
	}
	out := a.c.Kubectl(t, "api-resources", "--api-group="+a.group)
	if strings.Contains(out, "ModelDeploymentMetrics") || strings.Contains(out, "ModelDeployment") != (a.group == v1.GroupName) {
		t.Errorf("kubectl api-resources lists what cannot be listed, or not what can:\n%s", out)
	}
	list, err := a.discovery(t).ServerResourcesForGroupVersion(a.group + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool {
		return r.Name == "modeldeployments/metrics" && r.Kind == "ModelDeploymentMetrics" && slices.Equal(r.Verbs, metav1.Verbs{"get"})
	}) {
		t.Errorf("discovery has %+v", list.APIResources)
	}
}

// testWindows looks at the first read, at the next and at one for which both are too old.
func (a aggregated) testWindows(t *testing.T, fleet *simulate.Fleet) {
	const name = "llm-d"
	first := a.document(t, name)
	if !first.Partial || !slices.ContainsFunc(first.Missing, isFirst) || len(first.Latency)+len(first.CacheHits)+len(first.Traffic) > 0 {
		t.Errorf("the first read: %+v", first)
	}
	fleet.Advance(20 * time.Second)
	second := a.document(t, name)
	if slices.ContainsFunc(second.Missing, isFirst) || len(second.Latency) == 0 || len(second.CacheHits) == 0 || len(second.Traffic) == 0 {
		t.Errorf("the second read: %+v", second)
	}
	asked := time.Now()
	cluster.Eventually(t, 2*apiMaxAge, "the reads are too old", func(context.Context) error {
		if age := time.Since(asked); age <= apiMaxAge {
			return fmt.Errorf("they are %s old", age)
		}
		return nil
	})
	fleet.Advance(20 * time.Second)
	if late := a.document(t, name); !slices.ContainsFunc(late.Missing, isFirst) || len(late.Latency)+len(late.CacheHits)+len(late.Traffic) > 0 {
		t.Errorf("a read after the baselines' age: %+v", late)
	}
}

// testValues reads a fleet that holds still by both, and finds the same values in both, and the
// exporter's baselines where the exporter left them.
func (a aggregated) testValues(t *testing.T, fleet *simulate.Fleet) {
	e := a.c.InstallExporter(t, "--window.min=0s")
	e.WaitReady(t, ready)
	names := make([]string, 0, len(fleet.Simulations()))
	for _, s := range fleet.Simulations() {
		names = append(names, s.Deployment().Name)
	}
	before := e.Scrape(t, "/metrics")
	for _, name := range names {
		a.document(t, name)
	}
	fleet.Advance(30 * time.Second)
	documents := map[string]v1.ModelDeploymentMetrics{}
	for _, name := range names {
		documents[name] = a.document(t, name)
	}
	series := e.Scrape(t, "/metrics")
	for _, name := range names {
		t.Run(name, func(t *testing.T) { compare(t, documents[name], series) })
		for _, window := range of(series["modeldeployment_window_seconds"], name) {
			l := labels(window)
			was := read(t, before, name, l["pod"])
			if now := read(t, series, name, l["pod"]); math.Abs(now-was-window.GetGauge().GetValue()) > 2e-3 {
				t.Errorf("%s %s: a window of %vs between reads %vs apart", l["pod"], l["source"], window.GetGauge().GetValue(), now-was)
			}
		}
	}
	if err := e.Stop(); err != nil {
		t.Errorf("the exporter ended with %v", err)
	}
}

// row is one value, named as its series is.
type row struct{ series, scope, role, source, pod, cache string }

// renderings are the series of the document's fields, with what a unit of the document is in theirs.
var renderings = map[string]struct {
	series string
	unit   float64
}{
	"engine/running":                 {"running_requests", 1},
	"engine/waiting":                 {"waiting_requests", 1},
	"engine/decode-transfer-waiting": {"decode_transfer_waiting_requests", 1},
	"router/router-running":          {"router_running_requests", 1},
	"router/router-backends":         {"router_backends", 1},
	"router/router-reported-workers": {"router_reported_workers", 1},

	"engine/ttft": {"time_to_first_token_mean_seconds", 1},
	"engine/tpot": {"time_per_output_token_mean_seconds", 1},
	"engine/itl":  {"inter_token_latency_mean_seconds", 1},
	"router/ttft": {"router_time_to_first_token_mean_seconds", 1},
	"router/tpot": {"router_time_per_output_token_mean_seconds", 1},

	"router/requests":            {"router_requests_per_second", 1},
	"router/successful-requests": {"router_successful_requests_per_second", 1},
	"router/pd-requests":         {"router_pd_requests_per_second", 1},
	"router/request-errors":      {"router_request_errors_per_second", 1},
	"router/errors":              {"router_errors_per_second", 1},
	"router/pd-errors":           {"router_pd_errors_per_second", 1},
	"router/retries-exhausted":   {"router_retries_exhausted_per_second", 1},
	"router/http-5xx-responses":  {"router_http_5xx_responses_per_second", 1},
	"router/error-ratio":         {"router_error_ratio", 1},

	"engine/transfer-latency":  {"kv_transfer_latency_mean_seconds", 1e-3},
	"engine/transfer-speed":    {"kv_transfer_speed_mean_bytes_per_second", 1e9},
	"engine/transfer-size":     {"kv_transfer_size_mean_bytes", 1e6},
	"engine/transfer-failures": {"kv_transfer_failures_per_second", 1},
}

// compare looks for every value of the document in the series, and for every series in the document. A
// rate is per second of a window that each measured itself: what it counted is compared.
func compare(t *testing.T, m v1.ModelDeploymentMetrics, families map[string]*dto.MetricFamily) {
	t.Helper()
	got, want := map[row]float64{}, map[row]float64{}
	value := func(scope, name string) (string, float64) {
		r, known := renderings[scope+"/"+name]
		if !known {
			t.Errorf("no series of %s %s", scope, name)
		}
		return r.series, r.unit
	}
	for _, g := range slices.Concat(m.Processing, m.Queueing) {
		series, unit := value(string(g.Scope), string(g.Name))
		got[row{series, string(g.Scope), g.Role, g.Source, "", ""}] = g.Value * unit
		got[row{"source_pods", string(g.Scope), g.Role, g.Source, "", ""}] = float64(g.PodCount)
	}
	for _, c := range m.CacheHits {
		r := row{"cache_hit_ratio", "engine", c.Role, c.Source, c.Pod, string(c.Scope)}
		got[r] = c.Rate
		r.series = "cache_window_hit_tokens"
		got[r] = c.Hits
		r.series = "cache_window_query_tokens"
		got[r] = c.Queries
		got[row{"window_samples", "engine", c.Role, c.Source, c.Pod, ""}] = c.Queries
	}
	for _, s := range slices.Concat(m.Latency, m.Traffic, m.Transfer) {
		series, unit := value(string(s.Scope), string(s.Name))
		r := row{series, string(s.Scope), s.Role, s.Source, s.Pod, ""}
		got[r] = s.Value * unit
		if strings.HasSuffix(series, "_per_second") && !strings.Contains(series, "_bytes_") {
			got[r] = math.Round(s.Value * s.WindowSeconds)
		}
		r.series = "window_samples"
		got[r] = s.Samples
	}
	known := []string{"cache_hit_ratio", "cache_window_hit_tokens", "cache_window_query_tokens", "window_samples", "source_pods"}
	for _, r := range renderings {
		known = append(known, r.series)
	}
	windows := map[row]float64{}
	for _, w := range of(families["modeldeployment_window_seconds"], m.Name) {
		l := labels(w)
		windows[row{"", l["scope"], l["role"], l["source"], l["pod"], ""}] = w.GetGauge().GetValue()
	}
	for _, series := range known {
		for _, metric := range of(families["modeldeployment_"+series], m.Name) {
			l := labels(metric)
			r := row{series, l["scope"], l["role"], l["source"], l["pod"], l["cache"]}
			want[r] = metric.GetGauge().GetValue()
			if strings.HasSuffix(series, "_per_second") && !strings.Contains(series, "_bytes_") {
				want[r] = math.Round(want[r] * windows[row{"", r.scope, r.role, r.source, r.pod, ""}])
			}
		}
	}
	for r, v := range got {
		if w, found := want[r]; !found || math.Abs(v-w) > 1e-9*math.Abs(w) {
			t.Errorf("%+v is %v in the document, %v (%t) in the series", r, v, w, found)
		}
	}
	for r, w := range want {
		if _, found := got[r]; !found {
			t.Errorf("%+v is %v in the series, and not in the document", r, w)
		}
	}
	if len(m.Latency) == 0 || len(got) < 10 {
		t.Errorf("%d values, %d of latency: too few to compare", len(got), len(m.Latency))
	}
	var missing, listed []string
	for _, e := range m.Missing {
		missing = append(missing, e.Pod+string(e.Scope)+e.Role+e.Source+string(e.Code)+fmt.Sprint(e.Partial))
	}
	for _, metric := range of(families["modeldeployment_missing_info"], m.Name) {
		l := labels(metric)
		listed = append(listed, l["pod"]+l["scope"]+l["role"]+l["source"]+l["reason"]+l["partial"])
	}
	slices.Sort(missing)
	slices.Sort(listed)
	if !slices.Equal(missing, listed) {
		t.Errorf("missing in the document %q, in the series %q", missing, listed)
	}
}

// of are a family's metrics of one deployment.
func of(family *dto.MetricFamily, name string) []*dto.Metric {
	return slices.DeleteFunc(slices.Clone(family.GetMetric()), func(m *dto.Metric) bool { return labels(m)["modeldeployment"] != name })
}

func labels(m *dto.Metric) map[string]string {
	all := map[string]string{}
	for _, l := range m.GetLabel() {
		all[l.GetName()] = l.GetValue()
	}
	return all
}

// read is when the exporter had read a Pod.
func read(t *testing.T, families map[string]*dto.MetricFamily, name, pod string) float64 {
	t.Helper()
	for _, m := range of(families["modeldeployment_pod_read_timestamp_seconds"], name) {
		if labels(m)["pod"] == pod {
			return m.GetGauge().GetValue()
		}
	}
	t.Fatalf("%s of %s was not read", pod, name)
	return 0
}

// discovery asks as the administrator, anew each time.
func (a aggregated) discovery(t *testing.T) discovery.DiscoveryInterface {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(rest.CopyConfig(a.c.API.AdminConfig()))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// testCRD looks that everybody else's ModelDeployments are still the CRD's: kubectl's, the garbage
// collector's, which asks for the preferred version that can be deleted, listed and watched, and those that
// a finalizer holds.
func (a aggregated) testCRD(t *testing.T, suffix string) {
	name := "victim-" + suffix
	created := a.c.CreateModelDeployment(t, "api", name, map[string]any{
		"engine": map[string]any{"name": "vllm"}, "roles": []any{map[string]any{"name": "server"}},
	})
	if out := a.c.Kubectl(t, "get", "md", "--namespace=api"); !strings.Contains(out, name) {
		t.Errorf("kubectl get md:\n%s", out)
	}
	a.c.Kubectl(t, "patch", "md", name, "--namespace=api", "--type=merge", `--patch={"metadata":{"finalizers":["example.com/hold"]}}`)
	a.c.Kubectl(t, "delete", "md", name, "--namespace=api", "--wait=false")
	held, err := a.c.Dynamic.Resource(cluster.ModelDeployments).Namespace("api").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || held.GetDeletionTimestamp() == nil || held.GetUID() != created.GetUID() {
		t.Errorf("with a finalizer, deleted: %v, %v", held, err)
	}
	a.c.Kubectl(t, "patch", "md", name, "--namespace=api", "--type=merge", `--patch={"metadata":{"finalizers":null}}`)
	cluster.Eventually(t, settled, "it is gone", func(ctx context.Context) error {
		_, err := a.c.Dynamic.Resource(cluster.ModelDeployments).Namespace("api").Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("%s is there", name)
		}
		return nil
	})

	lists, err := discovery.ServerPreferredResources(a.discovery(t))
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		t.Fatal(err)
	}
	collected := discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"delete", "list", "watch"}}, lists)
	if !slices.ContainsFunc(collected, func(l *metav1.APIResourceList) bool {
		return l.GroupVersion == cluster.ModelDeployments.GroupVersion().String() &&
			slices.ContainsFunc(l.APIResources, func(r metav1.APIResource) bool { return r.Name == "modeldeployments" && r.Kind == "ModelDeployment" })
	}) {
		t.Errorf("the garbage collector would not find ModelDeployments: %v", collected)
	}
	group, err := a.c.Dynamic.Resource(apiServices).Get(t.Context(), "v1."+a.group, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if priority, _, _ := unstructured.NestedInt64(group.Object, "spec", "versionPriority"); priority < 1 || priority > 99 {
		t.Errorf("versionPriority is %d", priority)
	}
}

// apiServices are the aggregation layer's own objects.
var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// refusingAddress is one where nobody listens.
func refusingAddress(t *testing.T) net.Addr {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.43:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr()
}
