package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"
)

// manifest is a deployment chat/m of one vLLM Pod at an address.
var manifest = template.Must(template.New("").Parse(`
apiVersion: worker.gpustack.ai/v1alpha1
kind: ModelDeployment
metadata: {name: m, namespace: chat, uid: u}
spec: {engine: {name: vllm}, roles: [{name: server}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: m-server-0
  namespace: chat
  uid: p
  labels: {app.kubernetes.io/name: model-deployment, app.kubernetes.io/instance: m, app.kubernetes.io/component: server}
  annotations: {prometheus.io/scrape: "true", prometheus.io/path: /metrics, prometheus.io/port: "{{.Port}}"}
  ownerReferences: [{apiVersion: worker.gpustack.ai/v1alpha1, kind: ModelDeployment, name: m, uid: u, controller: true}]
spec: {containers: [{name: engine, ports: [{containerPort: {{.Port}}}]}]}
status: {phase: Running, podIP: {{.Host}}}
`))

// manifestOf writes the manifest of a server.
func manifestOf(t *testing.T, server *httptest.Server) string {
	t.Helper()
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := manifest.Execute(&text, map[string]string{"Host": host, "Port": port}); err != nil {
		t.Fatal(err)
	}
	return write(t, "fleet.yaml", text.String())
}

// serving is a Pod that answers.
func serving(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("vllm:num_requests_running 3\n"))
	}))
	t.Cleanup(s.Close)
	return s
}

// serve is the command where none is named.
func TestServe(t *testing.T) {
	path := manifestOf(t, serving(t))
	for name, args := range map[string][]string{
		"by default": {"--manifests=" + path},
		"named":      {"serve", "--manifests=" + path},
		"a folder":   {"--manifests", filepath.Dir(path), "--log.level=debug"},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProcess(t, args...)
			body := p.get(t, "/metrics")
			want := []string{`modeldeployment_running_requests{modeldeployment="m",namespace="chat",pod="",role="server",scope="engine",source="vllm:num_requests_running"} 3`}
			if got := series(body, "modeldeployment_running_requests{"); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			for _, prefix := range []string{`md_exporter_build_info{`, "go_goroutines ", "process_start_time_seconds ", "md_exporter_manifests_reload_success 1"} {
				if len(series(body, prefix)) != 1 {
					t.Errorf("no series %s", prefix)
				}
			}
			if n := len(series(p.get(t, "/probe?target=chat/m"), "modeldeployment_up{", "} 1")); n != 1 {
				t.Errorf("/probe has %d series up", n)
			}
			if body := p.get(t, "/sd"); !strings.Contains(body, `"chat/m"`) {
				t.Errorf("/sd: %s", body)
			}
			if body := p.get(t, "/"); !strings.Contains(body, `href="/metrics"`) && !strings.Contains(body, `href="metrics"`) {
				t.Errorf("landing page: %s", body)
			}
			p.get(t, "/-/healthy")
			p.get(t, "/-/ready")
			p.terminate(t)
			if status := p.status(t); status != 0 {
				t.Errorf("status %d: %s", status, p.stderr)
			}
			if strings.Contains(p.stderr.String(), "level=ERROR") {
				t.Errorf("logged: %s", p.stderr)
			}
		})
	}
}

// A file that changes changes what is served; one that breaks changes nothing and is said.
func TestServeFollowsItsManifests(t *testing.T) {
	path := manifestOf(t, serving(t))
	p := startProcess(t, "--manifests="+path)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	await := func(prefix string, parts ...string) {
		t.Helper()
		for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
			if len(series(p.get(t, "/metrics"), prefix, parts...)) == 1 {
				return
			}
		}
		t.Fatalf("no series %s with %q: %s", prefix, parts, p.stderr)
	}
	await("modeldeployment_up{", `modeldeployment="m"`)
	replace("kind: {")
	await("md_exporter_manifests_reload_success 0")
	await("modeldeployment_up{", `modeldeployment="m"`, "} 1")
	replace(strings.ReplaceAll(string(good), "name: m,", "name: renamed,"))
	await("md_exporter_manifests_reload_success 1")
	await("modeldeployment_up{", `modeldeployment="renamed"`)
	if n := len(series(p.get(t, "/metrics"), "modeldeployment_", `modeldeployment="m"`)); n != 0 {
		t.Errorf("%d series of the deployment that is gone", n)
	}
}

// A scrape in flight when SIGTERM comes is answered, and what comes after it is refused.
func TestTerminateDuringAScrape(t *testing.T) {
	for name, row := range map[string]struct{ flag, reason string }{
		"until the fetch's limit":         {"--scrape.timeout=1s", "timeout"},
		"until the deployment's deadline": {"--snapshot.timeout=1s", "scrape_deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			came := make(chan struct{}, 1)
			hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				came <- struct{}{}
				<-r.Context().Done()
			}))
			defer hanging.Close()
			p := startProcess(t, "--manifests="+manifestOf(t, hanging), row.flag)
			type reply struct {
				body string
				err  error
			}
			replies := make(chan reply, 1)
			go func() {
				body, err := p.ask("/metrics")
				replies <- reply{body, err}
			}()
			select {
			case <-came:
			case <-time.After(patience):
				t.Fatal("the Pod was not asked")
			}
			p.terminate(t)
			got := <-replies
			if got.err != nil {
				t.Fatalf("the scrape in flight: %v\n%s", got.err, p.stderr)
			}
			if n := len(series(got.body, "modeldeployment_missing_info{", `reason="`+row.reason+`"`)); n != 1 {
				t.Errorf("%d entries %s in %s", n, row.reason, got.body)
			}
			if status := p.status(t); status != 0 {
				t.Errorf("status %d: %s", status, p.stderr)
			}
			if strings.Contains(p.stderr.String(), "cut off") {
				t.Errorf("logged: %s", p.stderr)
			}
			if _, err := p.ask("/-/healthy"); err == nil {
				t.Error("it still answers")
			}
		})
	}
}
