package apiserver

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	v1 "github.com/md-exporter/md-exporter/apiserver/v1"
	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
)

// The first read is partial for want of a window, the second has it. Whoever decodes the document finds
// the group and version that it asked for.
func TestGet(t *testing.T) {
	specified := schema.GroupVersion{Group: v1.GroupName, Version: v1.Version}
	for _, served := range []schema.GroupVersion{own, specified} {
		t.Run(served.String(), func(t *testing.T) {
			handler := start(t, served, &fleet{deployments: []*discovery.Deployment{deployment("qwen", engine(t).URL, engine(t).URL)}}, 20)
			var documents []*v1.ModelDeploymentMetrics
			for range 2 {
				w := get(handler, path(served, "qwen"), "")
				if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
					t.Fatalf("status %d, %s: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
				}
				documents = append(documents, decode[v1.ModelDeploymentMetrics](t, w))
			}
			first, second := documents[0], documents[1]
			if got := first.GroupVersionKind(); got != served.WithKind("ModelDeploymentMetrics") {
				t.Errorf("the document is a %s", got)
			}
			if first.Namespace != "chat" || first.Name != "qwen" || first.UID != "uid-qwen" || first.Timestamp.IsZero() {
				t.Errorf("the document is of %+v at %s", first.ObjectMeta, first.Timestamp)
			}
			if len(first.Processing) != 1 || first.Processing[0].Value != 6 || first.Processing[0].PodCount != 2 ||
				len(first.Queueing) != 1 || first.Queueing[0].Value != 0 {
				t.Errorf("gauges %+v, %+v", first.Processing, first.Queueing)
			}
			if !first.Partial || len(first.Latency)+len(first.CacheHits) != 0 ||
				!slices.ContainsFunc(first.Missing, func(m v1.Missing) bool { return m.Code == normalize.FirstSample && m.Partial }) {
				t.Errorf("the first read: %+v", first)
			}
			if second.Partial || len(second.CacheHits) != 2 || second.CacheHits[0].Rate != 0.25 || second.CacheHits[0].WindowSeconds <= 0 {
				t.Errorf("the second read: %+v", second)
			}
			var order []string
			for _, s := range second.Latency {
				order = append(order, s.Pod+" "+string(s.Name))
				if s.Value != 0.5 || s.Samples != 2 || s.Unit != "seconds" {
					t.Errorf("latency %+v", s)
				}
			}
			if want := []string{
				"qwen-server-0 itl", "qwen-server-0 tpot", "qwen-server-0 ttft",
				"qwen-server-1 itl", "qwen-server-1 tpot", "qwen-server-1 ttft",
			}; !slices.Equal(order, want) {
				t.Errorf("latency of %q, want %q", order, want)
			}
		})
	}
}

// A deployment that expects no Pod is an empty document, complete.
func TestEmpty(t *testing.T) {
	handler := start(t, own, &fleet{deployments: []*discovery.Deployment{deployment("idle")}}, 20)
	w := get(handler, path(own, "idle"), "")
	if m := document(t, handler, "idle"); m.Partial || len(m.Missing) != 0 || m.Name != "idle" {
		t.Errorf("got %+v", m)
	}
	for _, list := range []string{"processing", "queueing", "cacheHits", "latency", "traffic", "transfer", "missing"} {
		if !strings.Contains(w.Body.String(), `"`+list+`":[]`) {
			t.Errorf("%s is no empty list: %s", list, w.Body)
		}
	}
}

// Whoever asks for YAML is answered in it, and whoever would take protobuf or JSON in JSON.
func TestMediaTypes(t *testing.T) {
	handler := start(t, own, &fleet{deployments: []*discovery.Deployment{deployment("qwen", engine(t).URL)}}, 20)
	for accept, want := range map[string]string{
		"":                 "application/json",
		"*/*":              "application/json",
		"application/yaml": "application/yaml",
		"application/vnd.kubernetes.protobuf,application/json": "application/json",
	} {
		w := get(handler, path(own, "qwen"), accept)
		var m v1.ModelDeploymentMetrics
		if err := yaml.Unmarshal(w.Body.Bytes(), &m); err != nil || m.Name != "qwen" {
			t.Errorf("%s: %v: %s", accept, err, w.Body)
		}
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != want {
			t.Errorf("%q is answered with %d in %s, want %s", accept, w.Code, got, want)
		}
	}
	if w := get(handler, path(own, "qwen"), "application/vnd.kubernetes.protobuf"); w.Code != http.StatusNotAcceptable {
		t.Errorf("protobuf alone is answered with %d", w.Code)
	}
}

// kubectl shows a table: what is not known is no zero.
func TestTable(t *testing.T) {
	refusing := pod(t, nil)
	refusing.Close()
	silent := pod(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("# nothing yet\n")) })
	handler := start(t, own, &fleet{deployments: []*discovery.Deployment{
		deployment("empty"),
		deployment("half", engine(t).URL, refusing.URL, ""),
		deployment("qwen", engine(t).URL, engine(t).URL),
		deployment("silent", silent.URL),
	}}, 20)
	for name, want := range map[string][]any{
		"empty":  {"empty", 0.0, false, "<unknown>", "<unknown>", 0.0},
		"half":   {"half", 1.0, true, "3", "0", 7.0},
		"qwen":   {"qwen", 2.0, true, "6", "0", 10.0},
		"silent": {"silent", 1.0, true, "<unknown>", "<unknown>", 7.0},
	} {
		w := get(handler, path(own, name), "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
		table := decode[metav1.Table](t, w)
		var headers []string
		for _, c := range table.ColumnDefinitions {
			headers = append(headers, c.Name)
		}
		if table.Kind != "Table" || !slices.Equal(headers, []string{"Name", "Pods", "Partial", "Running", "Waiting", "Missing"}) || len(table.Rows) != 1 {
			t.Fatalf("%s: %s", name, w.Body)
		}
		if got := table.Rows[0].Cells; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the row is %v, want %v", name, got, want)
		}
		if !strings.Contains(string(table.Rows[0].Object.Raw), `"name":"`+name+`"`) {
			t.Errorf("%s: the row is of %s", name, table.Rows[0].Object.Raw)
		}
	}
}

// Each refusal is a Status that says why.
func TestErrors(t *testing.T) {
	refusing := pod(t, nil)
	refusing.Close()
	failing := pod(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	down := deployment("down", refusing.URL, failing.URL, refusing.URL, "")
	down.Roles[0].Expected = 5
	source := &fleet{deployments: []*discovery.Deployment{down}}
	handler := start(t, own, source, 20)

	if s := status(t, handler, "absent", http.StatusNotFound); s.Reason != metav1.StatusReasonNotFound ||
		s.Message != `modeldeployments.subresources.worker.gpustack.ai "absent" not found` || s.Details.Name != "absent" {
		t.Errorf("got %+v", s)
	}
	s := status(t, handler, "down", http.StatusServiceUnavailable)
	if s.Reason != metav1.StatusReasonServiceUnavailable || s.Details == nil || s.Details.Name != "down" || s.Details.UID != "uid-down" || s.Details.RetryAfterSeconds != 0 ||
		s.Message != "no Pod of model deployment chat/down could be read: 1 × replicas_missing, 2 × connection_failed, 1 × http_status, 1 × not_advertised" {
		t.Fatalf("got %+v", s)
	}
	want := []metav1.StatusCause{
		{Type: "replicas_missing", Message: normalize.ReplicasMissing.Sentence(), Field: "engine/server"},
		{Type: "connection_failed", Message: normalize.ConnectionFailed.Sentence(), Field: "scrape/down-server-0"},
		{Type: "http_status", Message: normalize.HTTPStatus.Sentence(), Field: "scrape/down-server-1"},
		{Type: "connection_failed", Message: normalize.ConnectionFailed.Sentence(), Field: "scrape/down-server-2"},
		{Type: "not_advertised", Message: normalize.NotAdvertised.Sentence(), Field: "scrape/down-server-3"},
	}
	if !reflect.DeepEqual(s.Details.Causes, want) {
		t.Errorf("causes %+v, want %+v", s.Details.Causes, want)
	}

	unsynced := start(t, own, &fleet{deployments: source.deployments, unsynced: true}, 20)
	for _, name := range []string{"down", "absent"} {
		if s := status(t, unsynced, name, http.StatusServiceUnavailable); !strings.Contains(s.Message, "not known yet") {
			t.Errorf("got %+v", s)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
		r, err := http.NewRequestWithContext(t.Context(), method, path(own, "down"), nil)
		if err != nil {
			t.Fatal(err)
		}
		w := &recorder{header: http.Header{}}
		handler.ServeHTTP(w, r)
		if w.code != http.StatusMethodNotAllowed {
			t.Errorf("%s is answered with %d", method, w.code)
		}
	}
	for _, path := range []string{"/modeldeployments", "/modeldeployments/down", "/namespaces/chat/modeldeployments/down/status"} {
		if w := get(handler, "/apis/"+own.String()+path, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s is answered with %d", path, w.Code)
		}
	}
}

// recorder keeps the status alone.
type recorder struct {
	header http.Header
	code   int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(code int)        { r.code = code }
func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }

// What reads beyond the limit is refused, with a word on when to come back; probes are not.
func TestLimit(t *testing.T) {
	const limit = 3
	came, answer := make(chan struct{}, limit), make(chan struct{})
	var hanging []*discovery.Deployment
	for _, name := range []string{"a", "b", "c"} {
		server := pod(t, func(w http.ResponseWriter, _ *http.Request) {
			came <- struct{}{}
			<-answer
			w.Write([]byte("vllm:num_requests_running 3\n"))
		})
		hanging = append(hanging, deployment(name, server.URL))
	}
	handler := start(t, own, &fleet{deployments: append(hanging, deployment("d"))}, limit)
	var requests sync.WaitGroup
	codes := make([]int, limit)
	for i, d := range hanging {
		requests.Go(func() { codes[i] = get(handler, path(own, d.Name), "").Code })
	}
	for range limit {
		<-came
	}
	w := get(handler, path(own, "d"), "")
	if s := decode[metav1.Status](t, w); w.Code != http.StatusTooManyRequests || s.Reason != metav1.StatusReasonTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("beyond the limit: %d, Retry-After %q: %s", w.Code, w.Header().Get("Retry-After"), w.Body)
	}
	if w := get(handler, "/readyz", ""); w.Code != http.StatusOK {
		t.Errorf("/readyz at the limit: %d %s", w.Code, w.Body)
	}
	close(answer)
	requests.Wait()
	if !slices.Equal(codes, []int{200, 200, 200}) {
		t.Errorf("within the limit: %d", codes)
	}
	if w := get(handler, path(own, "d"), ""); w.Code != http.StatusOK {
		t.Errorf("after the limit: %d %s", w.Code, w.Body)
	}
}

// It is ready once the fleet is known, and healthy before.
func TestProbes(t *testing.T) {
	for unsynced, want := range map[bool]int{false: http.StatusOK, true: http.StatusInternalServerError} {
		handler := start(t, own, &fleet{unsynced: unsynced}, 20)
		if w := get(handler, "/readyz", ""); w.Code != want || unsynced && !strings.Contains(w.Body.String(), "[-]synced failed") {
			t.Errorf("unsynced %t: /readyz is %d %s", unsynced, w.Code, w.Body)
		}
		for _, path := range []string{"/livez", "/healthz"} {
			if w := get(handler, path, ""); w.Code != http.StatusOK {
				t.Errorf("unsynced %t: %s is %d %s", unsynced, path, w.Code, w.Body)
			}
		}
	}
}

// Discovery lists a parent without verbs, so that clients leave it alone, and the subresource to get.
func TestDiscovery(t *testing.T) {
	handler := start(t, own, &fleet{}, 20)
	list := decode[metav1.APIResourceList](t, get(handler, "/apis/"+own.String(), ""))
	want := []metav1.APIResource{
		{Name: "modeldeployments", SingularName: "modeldeployment", Namespaced: true, Group: own.Group, Version: "v1", Kind: "ModelDeploymentMetrics", Verbs: metav1.Verbs{}},
		{Name: "modeldeployments/metrics", Namespaced: true, Group: own.Group, Version: "v1", Kind: "ModelDeploymentMetrics", Verbs: metav1.Verbs{"get"}},
	}
	if !reflect.DeepEqual(list.APIResources, want) {
		t.Errorf("got %+v, want %+v", list.APIResources, want)
	}
	groups := decode[apidiscoveryv2.APIGroupDiscoveryList](t, get(handler, "/apis", "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io"))
	if len(groups.Items) != 1 || groups.Items[0].Name != own.Group || len(groups.Items[0].Versions) != 1 {
		t.Fatalf("got %+v", groups)
	}
	resources := groups.Items[0].Versions[0].Resources
	if len(resources) != 1 || len(resources[0].Verbs) != 0 || len(resources[0].Subresources) != 1 ||
		resources[0].Subresources[0].Subresource != "metrics" || !slices.Equal(resources[0].Subresources[0].Verbs, []string{"get"}) {
		t.Errorf("got %+v", resources)
	}
}

// The published schema is that of the document: what is generated is not behind the types.
func TestOpenAPI(t *testing.T) {
	handler := start(t, own, &fleet{}, 20)
	if w := get(handler, "/openapi/v2", "application/json"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "ModelDeploymentMetrics") {
		t.Errorf("/openapi/v2 is %d %.200s", w.Code, w.Body)
	}
	w := get(handler, "/openapi/v3/apis/"+own.String(), "application/json")
	published := decode[struct {
		Components struct{ Schemas map[string]spec.Schema }
	}](t, w).Components.Schemas
	for _, of := range []any{v1.ModelDeploymentMetrics{}, v1.Gauge{}, v1.CacheHit{}, v1.Sample{}, v1.Missing{}} {
		goType := reflect.TypeOf(of)
		var found bool
		for name, s := range published {
			if !strings.HasSuffix(name, "ai.gpustack.worker.v1."+goType.Name()) {
				continue
			}
			found = true
			var fields int
			for _, f := range reflect.VisibleFields(goType) {
				if len(f.Index) > 1 {
					continue
				}
				key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if f.Anonymous && key == "" { // apiVersion and kind
					fields += 2
					continue
				}
				fields++
				property, known := s.Properties[key]
				if !known {
					t.Errorf("%s has no %s", name, key)
				}
				if list := f.Type.Kind() == reflect.Slice; list != property.Type.Contains("array") || list && property.Nullable {
					t.Errorf("%s is %+v", key, property)
				}
				if key != "metadata" && property.Description == "" && len(property.AllOf) == 0 {
					t.Errorf("%s of %s has no description", key, name)
				}
			}
			if fields != len(s.Properties) {
				t.Errorf("%s has %d properties, the type %d fields", name, len(s.Properties), fields)
			}
		}
		if !found {
			t.Errorf("no schema of %s", goType.Name())
		}
	}
}

// What the process says of its reads is beside the generic server's series.
func TestMetrics(t *testing.T) {
	handler := start(t, own, &fleet{deployments: []*discovery.Deployment{deployment("qwen", engine(t).URL)}}, 20)
	document(t, handler, "qwen")
	body := get(handler, "/metrics", "").Body.String()
	for _, series := range []string{"md_exporter_", "apiserver_request_total", "go_goroutines "} {
		if !strings.Contains(body, "\n"+series) {
			t.Errorf("no %s in /metrics", series)
		}
	}
}

// A request without a namespace cannot come by a path, and is an error all the same.
func TestWithoutNamespace(t *testing.T) {
	m := newMetrics(own.Group, &Config{Source: &fleet{}, MaxRequests: 1})
	if _, err := m.Get(context.Background(), "qwen", nil); err == nil {
		t.Error("no error")
	}
}
