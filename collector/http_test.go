package collector

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
)

func TestPaths(t *testing.T) {
	d := vllmServing("m", serverPod("a", endpoint(t, busy())))
	e := newExporter(t, settings{}, d)
	unsynced := newExporter(t, settings{unsynced: true})
	for _, row := range []struct {
		e              *exporter
		method, target string
		status         int
		body           string
	}{
		{e, "GET", "/metrics", 200, "modeldeployment_up"},
		{e, "HEAD", "/metrics", 200, ""},
		{e, "POST", "/metrics", 405, ""},
		{e, "GET", "/metrics/", 404, ""},
		{e, "GET", "/probe?target=ns/m", 200, "modeldeployment_up"},
		{e, "GET", "/probe?target=ns%2Fm", 200, "modeldeployment_up"},
		{e, "PUT", "/probe?target=ns/m", 405, ""},
		{e, "GET", "/probe?target=ns/other", 404, "No such ModelDeployment."},
		{e, "GET", "/probe?target=other/m", 404, "No such ModelDeployment."},
		{e, "GET", "/probe", 400, "target=NAMESPACE/NAME"},
		{e, "GET", "/probe?target=", 400, "target=NAMESPACE/NAME"},
		{e, "GET", "/probe?target=m", 400, "target=NAMESPACE/NAME"},
		{e, "GET", "/probe?target=/m", 400, "target=NAMESPACE/NAME"},
		{e, "GET", "/probe?target=ns/", 400, "target=NAMESPACE/NAME"},
		{e, "GET", "/probe?target=/", 400, "target=NAMESPACE/NAME"},
		{e, "GET", "/probe?target=ns/m/a", 400, "target=NAMESPACE/NAME"},
		{e, "GET", "/probe?target=ns/m&target=ns/m", 400, "target=NAMESPACE/NAME"},
		{e, "GET", "/probe?Target=ns/m", 400, "target=NAMESPACE/NAME"},
		{e, "GET", "/sd", 200, "ns/m"},
		{e, "DELETE", "/sd", 405, ""},
		{e, "GET", "/-/healthy", 200, "Healthy."},
		{e, "GET", "/-/ready", 200, "Ready."},
		{e, "POST", "/-/ready", 405, ""},
		{e, "GET", "/-/quit", 404, ""},
		{e, "GET", "/debug/pprof/", 404, ""},
		{e, "GET", "/anything", 404, ""},

		{unsynced, "GET", "/-/healthy", 200, "Healthy."},
		{unsynced, "GET", "/-/ready", 503, "not synced"},
		{unsynced, "GET", "/sd", 503, "not synced"},
		{unsynced, "GET", "/probe?target=ns/m", 503, "not synced"},
		{unsynced, "GET", "/probe?target=m", 400, "target=NAMESPACE/NAME"},
		{unsynced, "GET", "/metrics", 200, "md_exporter_deployments 0"},
	} {
		w := httptest.NewRecorder()
		row.e.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), row.method, row.target, nil))
		if w.Code != row.status || !strings.Contains(w.Body.String(), row.body) {
			t.Errorf("%s %s: %d %q, want %d with %q", row.method, row.target, w.Code, w.Body, row.status, row.body)
		}
	}
}

// A probe has its deployment's series and no other's, and none of the exporter's own.
func TestProbeIsOfOneDeployment(t *testing.T) {
	url := endpoint(t, busy())
	e := newExporter(t, settings{}, vllmServing("m", serverPod("a", url)), vllmServing("n", serverPod("a", url)))
	got := e.scrape(t, "/probe?target=ns/n")
	for name, family := range got {
		for _, m := range family.GetMetric() {
			if l := labelsOf(m); l["modeldeployment"] != "n" || l["namespace"] != "ns" {
				t.Errorf("%s of %v", name, l)
			}
		}
	}
	if len(got) < 10 {
		t.Errorf("%d families", len(got))
	}
}

// A scrape's read is a probe's baseline, and the other way round.
func TestProbeSharesBaselines(t *testing.T) {
	e := newExporter(t, settings{}, vllmServing("m", serverPod("a", endpoint(t, busy()))))
	for i, target := range []string{"/metrics", "/probe?target=ns/m", "/metrics"} {
		got := e.scrape(t, target)
		if n := len(got.find("modeldeployment_time_to_first_token_mean_seconds")); (n == 1) != (i > 0) {
			t.Errorf("read %d, of %s: %d means", i+1, target, n)
		}
	}
}

// The deadline that a request has is said, and only where it has one.
func TestRequestDeadline(t *testing.T) {
	d := vllmServing("m", serverPod("a", endpoint(t, hanging)))
	e := newExporter(t, settings{}, d)
	got := e.scrape(t, "/metrics", deadlineHeader, "0.2")
	if v := got.value(t, "md_exporter_request_deadline_seconds"); v != 0.1 {
		t.Errorf("the deadline was %v s, want half of the scrape timeout", v)
	}
	if want := []string{"a scrape scrape_deadline"}; got.missing("m")[0] != want[0] {
		t.Errorf("missing: %q, want %q", got.missing("m"), want)
	}
	if v := got.value(t, "modeldeployment_snapshot_duration_seconds"); v < 0.05 {
		t.Errorf("assembled after %v s, long before the deadline", v)
	}
	e.serve()
	for _, header := range []string{"", "NaN", "0"} {
		if got := e.scrape(t, "/metrics", deadlineHeader, header); got["md_exporter_request_deadline_seconds"] != nil {
			t.Errorf("a request with %q has a deadline", header)
		}
	}
}

func TestServiceDiscovery(t *testing.T) {
	routed := vllmServing("routed")
	routed.Router = &normalize.Router{Name: "vllm-router"}
	e := newExporter(t, settings{}, vllmServing("m"), routed)
	w := e.ask(t, "/sd")
	if ct := w.Header().Get("Content-Type"); ct != "application/json" {
		t.Errorf("Content-Type is %s", ct)
	}
	var got []map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := `[map[labels:map[__meta_modeldeployment_engine:vllm __meta_modeldeployment_name:m __meta_modeldeployment_namespace:ns] targets:[ns/m]] ` +
		`map[labels:map[__meta_modeldeployment_engine:vllm __meta_modeldeployment_name:routed __meta_modeldeployment_namespace:ns __meta_modeldeployment_router:vllm-router] targets:[ns/routed]]]`
	if fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
	// Each target is one that /probe knows.
	for _, target := range got {
		name := target["targets"].([]any)[0].(string)
		if w := e.ask(t, "/probe?target="+name); w.Code != http.StatusOK {
			t.Errorf("/probe?target=%s: status %d", name, w.Code)
		}
	}
	e.serve()
	if body := e.ask(t, "/sd").Body.String(); body != "[]\n" {
		t.Errorf("without a deployment: %q, want an empty list", body)
	}
}

func TestMaxRequests(t *testing.T) {
	g := newGated(t)
	e := newExporter(t, settings{maxRequests: 1}, vllmServing("m", serverPod("a", g.url)))
	first := make(chan *httptest.ResponseRecorder, 1)
	go func() { first <- e.ask(t, "/metrics") }()
	receive(t, g.came, "the request to the Pod")
	for _, target := range []string{"/metrics", "/probe?target=ns/m"} {
		if w := e.ask(t, target); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "--web.max-requests") {
			t.Errorf("%s beside the one that may be: %d %s", target, w.Code, w.Body)
		}
	}
	// What does not collect is not bounded.
	for _, target := range []string{"/sd", "/-/healthy", "/-/ready"} {
		if w := e.ask(t, target); w.Code != http.StatusOK {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	g.open <- struct{}{}
	if w := receive(t, first, "the first answer"); w.Code != http.StatusOK {
		t.Errorf("the first is %d", w.Code)
	}
	g.open <- struct{}{}
	if w := e.ask(t, "/metrics"); w.Code != http.StatusOK {
		t.Errorf("the next is %d", w.Code)
	}
}

// An answer is compressed for a client that takes that, and in the format that it asks for.
func TestNegotiation(t *testing.T) {
	e := newExporter(t, settings{}, vllmServing("m", serverPod("a", endpoint(t, busy()))))
	for _, row := range []struct {
		encoding string
		want     bool
	}{
		{"gzip", true}, {"GZIP;q=1", true}, {"deflate, gzip;q=0.5", true}, {"br,gzip", true}, {"gzip; q=1.0", true},
		{"", false}, {"identity", false}, {"gzip;q=0", false}, {"gzip;q=0.000", false}, {"deflate", false},
	} {
		w := e.ask(t, "/metrics", "Accept-Encoding", row.encoding)
		zipped := w.Header().Get("Content-Encoding") == "gzip"
		if zipped != row.want {
			t.Errorf("Accept-Encoding: %s: Content-Encoding: %q", row.encoding, w.Header().Get("Content-Encoding"))
		}
		if ct := w.Header().Get("Content-Type"); !strings.HasPrefix(ct, "text/plain; version=0.0.4") {
			t.Errorf("Content-Type: %s", ct)
		}
		body := w.Body.Bytes()
		if zipped {
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if up := parse(t, body).value(t, "modeldeployment_up"); up != 1 {
			t.Errorf("Accept-Encoding: %s: up is %v", row.encoding, up)
		}
	}

	const delimited = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
	w := e.ask(t, "/probe?target=ns/m", "Accept", delimited+", text/plain;q=0.5")
	got := scraped{}
	for decoder := expfmt.NewDecoder(w.Body, expfmt.ResponseFormat(w.Header())); ; {
		family := &dto.MetricFamily{}
		if err := decoder.Decode(family); err != nil {
			if err != io.EOF {
				t.Fatal(err)
			}
			break
		}
		got[family.GetName()] = family
	}
	if !strings.HasPrefix(w.Header().Get("Content-Type"), "application/vnd.google.protobuf") || got.value(t, "modeldeployment_up") != 1 {
		t.Errorf("as %s: %d families", w.Header().Get("Content-Type"), len(got))
	}
}

// A client that does not read its answer keeps no other from reading theirs, and what it asked for from
// nobody.
func TestAStalledClient(t *testing.T) {
	g := newGated(t)
	fleet := []*discovery.Deployment{vllmServing("m", serverPod("a", g.url))}
	for i := range 2000 {
		// More than any socket's buffers take, of deployments that cost nothing to read.
		d := vllmServing(fmt.Sprintf("z%04d", i))
		d.Engine = strings.Repeat("x", 4<<10)
		fleet = append(fleet, d)
	}
	e := newExporter(t, settings{}, fleet...)
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	stalled, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stalled.Close()
	fmt.Fprintf(stalled, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	receive(t, g.came, "the stalled client's read")
	g.open <- struct{}{}
	// The first bytes are there: the answer is being written.
	if line, err := bufio.NewReaderSize(stalled, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q, %v", line, err)
	}
	for n := range 3 {
		g.open <- struct{}{}
		if got := e.scrape(t, "/probe?target=ns/m"); got.value(t, "modeldeployment_running_requests") != float64(n+2) {
			t.Errorf("the answer beside a stalled client is not of read %d", n+2)
		}
	}
	stalled.Close()
	server.Close() // Waits for the stalled answer, which ends with its connection.
	if logs := e.logs.String(); logs != "" {
		t.Errorf("a client that left is logged: %s", logs)
	}
}

// What is gone is gone from the next scrape.
func TestNothingLingers(t *testing.T) {
	url := endpoint(t, busy())
	e := newExporter(t, settings{}, vllmServing("m", serverPod("a", url), serverPod("b", url)), vllmServing("n", serverPod("c", url)))
	mentions := func(name string) int {
		return bytes.Count(e.ask(t, "/metrics").Body.Bytes(), []byte(`="`+name+`"`))
	}
	mentions("m")
	for _, name := range []string{"a", "b", "c", "m", "n"} {
		if mentions(name) == 0 {
			t.Errorf("%s has no series", name)
		}
	}
	e.serve(vllmServing("m", serverPod("a", url)))
	for name, there := range map[string]bool{"a": true, "m": true, "b": false, "c": false, "n": false} {
		if n := mentions(name); (n > 0) != there {
			t.Errorf("%s is in %d series", name, n)
		}
	}
	if w := e.ask(t, "/probe?target=ns/n"); w.Code != http.StatusNotFound {
		t.Errorf("/probe of what is gone: status %d", w.Code)
	}
	e.serve()
	if body := e.ask(t, "/metrics").Body.String(); strings.Contains(body, "modeldeployment_") {
		t.Errorf("series of an empty fleet: %s", body)
	}
}

// Names that no cluster would take, from a file, arrive as they are.
func TestOddLabelValues(t *testing.T) {
	const role = "a \"quoted\" \\ role\nof two lines, {ünï=\"côdé\"} 漢字 #"
	quotedRole, err := json.Marshal(role)
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSuffix(strings.TrimPrefix(endpoint(t, busy()), "http://"), "/metrics")
	host, port, _ := strings.Cut(address, ":")
	fleet := discovered(t, fmt.Sprintf(`
apiVersion: worker.gpustack.ai/v1alpha1
kind: ModelDeployment
metadata: {name: m, namespace: ns, uid: u}
spec: {engine: {name: vllm}, roles: [{name: %[1]s}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: a
  namespace: ns
  uid: p
  labels: {app.kubernetes.io/name: model-deployment, app.kubernetes.io/instance: m, app.kubernetes.io/component: %[1]s}
  annotations: {prometheus.io/scrape: "true", prometheus.io/path: /metrics, prometheus.io/port: "%[3]s"}
  ownerReferences: [{apiVersion: worker.gpustack.ai/v1alpha1, kind: ModelDeployment, name: m, uid: u, controller: true}]
spec: {containers: [{name: engine, ports: [{containerPort: %[3]s}]}]}
status: {phase: Running, podIP: %[2]s}
`, quotedRole, host, port))
	e := newExporter(t, settings{}, fleet.Deployments...)
	got := e.scrape(t, "/metrics")
	if v := got.value(t, "modeldeployment_running_requests", "role", role); v != 1 {
		t.Errorf("%v requests run", v)
	}
	for name, family := range got {
		for _, m := range family.GetMetric() {
			if r, there := labelsOf(m)["role"]; there && r != role {
				t.Errorf("%s has the role %q", name, r)
			}
		}
	}
	if logs := e.logs.String(); logs != "" {
		t.Error(logs)
	}
}
