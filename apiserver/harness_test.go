package apiserver

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	v1 "github.com/md-exporter/md-exporter/apiserver/v1"
	"github.com/md-exporter/md-exporter/collector"
	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
	"github.com/md-exporter/md-exporter/scrape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// own is where the document is served by default.
var own = schema.GroupVersion{Group: v1.OwnGroupName, Version: v1.Version}

// fleet is a source that holds still.
type fleet struct {
	deployments []*discovery.Deployment
	unsynced    bool
}

func (f *fleet) Fleet() *discovery.Fleet { return &discovery.Fleet{Deployments: f.deployments} }
func (f *fleet) Synced() bool            { return !f.unsynced }

// engine is a vLLM Pod whose counters move at every read.
func engine(t *testing.T) *httptest.Server {
	var reads atomic.Int64
	return pod(t, func(w http.ResponseWriter, _ *http.Request) {
		n := reads.Add(1)
		fmt.Fprintf(w, "vllm:num_requests_running 3\nvllm:num_requests_waiting 0\n")
		fmt.Fprintf(w, "vllm:prefix_cache_queries_total %d\nvllm:prefix_cache_hits_total %d\n", n*100, n*25)
		for _, name := range []string{"time_to_first_token_seconds", "request_time_per_output_token_seconds", "inter_token_latency_seconds"} {
			fmt.Fprintf(w, "vllm:%s_sum %d\nvllm:%s_count %d\n", name, n, name, n*2)
		}
	})
}

func pod(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s
}

// deployment is one of vLLM with a role of as many Pods as there are addresses; an empty one advertises
// nothing.
func deployment(name string, urls ...string) *discovery.Deployment {
	d := &discovery.Deployment{Deployment: normalize.Deployment{
		Namespace: "chat", Name: name, UID: "uid-" + name, Engine: "vllm",
		Roles: []normalize.Role{{Name: "server", Kind: normalize.RoleServer, Managed: true, Expected: len(urls)}},
	}}
	for i, url := range urls {
		pod := fmt.Sprintf("%s-server-%d", name, i)
		d.Pods = append(d.Pods, discovery.Pod{URL: url, Pod: normalize.Pod{Name: pod, UID: "uid-" + pod, Scope: normalize.ScopeEngine, Role: "server"}})
	}
	return d
}

// start runs a server without TLS that trusts everybody, as far as its handler.
func start(t *testing.T, served schema.GroupVersion, source *fleet, limit int) http.Handler {
	t.Helper()
	client, err := scrape.NewClient(scrape.Config{Timeout: 2 * time.Second, MaxBodyBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	registry := prometheus.NewRegistry()
	reader := collector.NewReader(client, collector.ReaderConfig{
		MaxPods: 64, Concurrency: 32, MaxInflight: 64, SnapshotTimeout: 8 * time.Second,
		Window: normalize.WindowConfig{MaxAge: 5 * time.Minute},
	}, collector.NewMetrics(registry), slog.New(slog.DiscardHandler))
	t.Cleanup(reader.Close)
	config := Config{
		Served: served, Source: source, Reader: reader, ReadTimeout: 8 * time.Second, MaxRequests: limit, Gatherer: registry,
	}
	c, scheme := newConfig(&config)
	c.ExternalAddress, c.LoopbackClientConfig = "localhost:443", &rest.Config{}
	// It runs with the listener, and there is none.
	c.DisabledPostStartHooks.Insert("max-in-flight-filter")
	s, err := install(&config, c, scheme)
	if err != nil {
		t.Fatal(err)
	}
	return s.generic.PrepareRun().Handler
}

// path is the document's of a deployment in chat.
func path(served schema.GroupVersion, name string) string {
	return "/apis/" + served.String() + "/namespaces/chat/modeldeployments/" + name + "/metrics"
}

// get asks for a path, as a client that accepts the media types, or any.
func get(handler http.Handler, path, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// document asks for a deployment's.
func document(t *testing.T, handler http.Handler, name string) *v1.ModelDeploymentMetrics {
	t.Helper()
	w := get(handler, path(own, name), "")
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return decode[v1.ModelDeploymentMetrics](t, w)
}

// status asks for what is refused.
func status(t *testing.T, handler http.Handler, name string, code int) *metav1.Status {
	t.Helper()
	w := get(handler, path(own, name), "")
	s := decode[metav1.Status](t, w)
	if w.Code != code || s.Code != int32(code) || s.Status != metav1.StatusFailure {
		t.Fatalf("status %d, want %d: %s", w.Code, code, w.Body)
	}
	return s
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) *T {
	t.Helper()
	var into T
	if err := json.Unmarshal(w.Body.Bytes(), &into); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return &into
}
