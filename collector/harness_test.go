package collector

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
	"github.com/md-exporter/md-exporter/scrape"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what happens at once on an idle machine.
const patience = 30 * time.Second

// settings are what a test's exporter is made of. The zero value has the defaults, but a window of two
// reads whatever lies between them.
type settings struct {
	ReaderConfig
	client      scrape.Config
	maxRequests int
	// unsynced makes the source one that does not know its fleet yet.
	unsynced bool
}

// exporter is a Handler over a fleet that the test gives.
type exporter struct {
	*Handler
	reader   *Reader
	source   *givenSource
	registry *prometheus.Registry
	logs     *lockedBuffer
}

// givenSource is a source whose fleet is set.
type givenSource struct {
	fleet    atomic.Pointer[discovery.Fleet]
	unsynced bool
}

func (s *givenSource) Fleet() *discovery.Fleet { return s.fleet.Load() }
func (s *givenSource) Synced() bool            { return !s.unsynced }

// lockedBuffer takes the log.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newExporter makes an exporter over the deployments, and closes it when the test ends.
func newExporter(t testing.TB, s settings, deployments ...*discovery.Deployment) *exporter {
	t.Helper()
	orDefault := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	orDefault(&s.MaxPods, DefaultMaxPods)
	orDefault(&s.Concurrency, DefaultConcurrency)
	orDefault(&s.MaxInflight, DefaultMaxInflight)
	orDefault(&s.maxRequests, 40)
	if s.SnapshotTimeout == 0 {
		s.SnapshotTimeout = DefaultSnapshotTimeout
	}
	if s.Window.MaxAge == 0 {
		s.Window.MaxAge = normalize.DefaultWindowMaxAge
	}
	client, err := scrape.NewClient(s.client)
	if err != nil {
		t.Fatal(err)
	}
	e := &exporter{
		source:   &givenSource{unsynced: s.unsynced},
		registry: prometheus.NewRegistry(),
		logs:     new(lockedBuffer),
	}
	e.serve(deployments...)
	logger := slog.New(slog.NewTextHandler(e.logs, nil))
	e.reader = NewReader(client, s.ReaderConfig, NewMetrics(e.registry), logger)
	e.Handler = NewHandler(e.source, e.reader, HandlerConfig{
		Registry:      e.registry,
		TimeoutOffset: 500 * time.Millisecond,
		MaxRequests:   s.maxRequests,
		Logger:        logger,
	})
	t.Cleanup(func() {
		e.reader.Close()
		client.Close()
	})
	return e
}

// serve makes the deployments, sorted as they are, the fleet.
func (e *exporter) serve(deployments ...*discovery.Deployment) {
	e.source.fleet.Store(&discovery.Fleet{Deployments: deployments})
}

// ask answers one request; header is of name and value pairs.
func (e *exporter) ask(t testing.TB, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w
}

// scrape is one scrape, and what it says.
func (e *exporter) scrape(t testing.TB, target string, header ...string) scraped {
	t.Helper()
	w := e.ask(t, target, header...)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: status %d: %s", target, w.Code, w.Body)
	}
	return parse(t, w.Body.Bytes())
}

// scraped is an exposition, parsed as Prometheus's own library parses it.
type scraped map[string]*dto.MetricFamily

func parse(t testing.TB, body []byte) scraped {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		t.Fatalf("not an exposition: %v\n%s", err, body)
	}
	return families
}

// labelsOf are a series' labels by name.
func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// find returns the series of the name with these labels, pairs of name and value, among its own.
func (a scraped) find(name string, labels ...string) []*dto.Metric {
	var found []*dto.Metric
next:
	for _, m := range a[name].GetMetric() {
		have := labelsOf(m)
		for i := 0; i < len(labels); i += 2 {
			if have[labels[i]] != labels[i+1] {
				continue next
			}
		}
		found = append(found, m)
	}
	return found
}

// value is the one series of the name with these labels.
func (a scraped) value(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	found := a.find(name, labels...)
	if len(found) != 1 {
		t.Fatalf("%d series %s with %q, want one", len(found), name, labels)
	}
	return valueOf(found[0])
}

func valueOf(m *dto.Metric) float64 {
	if c := m.GetCounter(); c != nil {
		return c.GetValue()
	}
	return m.GetGauge().GetValue()
}

// missing are the deployment's missing entries, each as "pod source reason", or "source reason" without
// a Pod.
func (a scraped) missing(deployment string) []string {
	entries := []string{}
	for _, m := range a.find("modeldeployment_missing_info", "modeldeployment", deployment) {
		l := labelsOf(m)
		entries = append(entries, strings.TrimSpace(l["pod"]+" "+l["source"]+" "+l["reason"]))
	}
	return entries
}

// endpoint serves a handler on loopback until the test ends, and returns its URL.
func endpoint(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL + "/metrics"
}

// textBody answers with the body.
func textBody(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
}

// hanging accepts and never answers.
func hanging(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// vllmBody is a vLLM server's exposition whose counters are all multiples of n; n requests run.
func vllmBody(n int) string {
	number := func(times int) string { return strconv.Itoa(n * times) }
	return "vllm:num_requests_running " + number(1) + "\n" +
		"vllm:num_requests_waiting 0\n" +
		"vllm:prefix_cache_queries_total " + number(100) + "\n" +
		"vllm:prefix_cache_hits_total " + number(25) + "\n" +
		"vllm:external_prefix_cache_queries_total 0\n" +
		"vllm:external_prefix_cache_hits_total 0\n" +
		"vllm:time_to_first_token_seconds_sum " + number(2) + "\n" +
		"vllm:time_to_first_token_seconds_count " + number(4) + "\n" +
		"vllm:request_time_per_output_token_seconds_sum " + number(1) + "\n" +
		"vllm:request_time_per_output_token_seconds_count " + number(4) + "\n" +
		"vllm:inter_token_latency_seconds_sum " + number(10) + "\n" +
		"vllm:inter_token_latency_seconds_count " + number(40) + "\n"
}

// busy answers as a vLLM server that served more at each read.
func busy() http.HandlerFunc {
	var reads atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, vllmBody(int(reads.Add(1)))) }
}

// vllmServing is a deployment of one role, server, in the namespace ns, which expects the Pods that it has.
func vllmServing(name string, pods ...discovery.Pod) *discovery.Deployment {
	return &discovery.Deployment{
		Deployment: normalize.Deployment{
			Namespace: "ns", Name: name, UID: "uid-" + name, Engine: "vllm",
			Roles: []normalize.Role{{Name: "server", Kind: normalize.RoleServer, Managed: true, Expected: len(pods)}},
		},
		Pods: pods,
	}
}

// enginePod is a Pod of a role; its UID is made of its name.
func enginePod(role, name, url string, arguments ...string) discovery.Pod {
	return discovery.Pod{
		Pod: normalize.Pod{Name: name, UID: "uid-" + name, Scope: normalize.ScopeEngine, Role: role, Arguments: arguments},
		URL: url,
	}
}

func serverPod(name, url string) discovery.Pod { return enginePod("server", name, url) }

func routerPod(name, url string) discovery.Pod {
	return discovery.Pod{Pod: normalize.Pod{Name: name, UID: "uid-" + name, Scope: normalize.ScopeRouter}, URL: url}
}

// receive waits for the channel.
func receive[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen within %v", what, patience)
		panic("unreachable")
	}
}

// gatherer gathers the deployments' series alone.
func (e *exporter) gatherer(t testing.TB, deployments []*discovery.Deployment) prometheus.Gatherer {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(t.Context(), e.reader, deployments))
	return registry
}
