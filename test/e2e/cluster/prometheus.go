package cluster

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"github.com/md-exporter/md-exporter/test/e2e/servers"
)

const (
	// ScrapeInterval is how often Prometheus scrapes here, as it is written in its configuration.
	ScrapeInterval = "1s"
	// prometheusReady is how long Prometheus may take to be ready.
	prometheusReady = 30 * time.Second
	// queryTimeout bounds one query.
	queryTimeout = 10 * time.Second
)

// Job is one element of scrape_configs in Prometheus's own words. A test adds or changes any of them.
type Job map[string]any

// StaticJob scrapes fixed addresses. honorLabels keeps a series' own labels where a target's label
// has the same name.
func StaticJob(name string, honorLabels bool, addresses ...string) Job {
	return Job{
		"job_name":       name,
		"honor_labels":   honorLabels,
		"static_configs": []any{map[string]any{"targets": addresses}},
	}
}

// HTTPJob scrapes the targets that url lists by HTTP service discovery.
func HTTPJob(name string, honorLabels bool, url string) Job {
	return Job{
		"job_name":        name,
		"honor_labels":    honorLabels,
		"http_sd_configs": []any{map[string]any{"url": url, "refresh_interval": ScrapeInterval}},
	}
}

// PodJob scrapes the Pods that advertise themselves by the annotations prometheus.io/scrape, scheme,
// path and port, found through the API server with the kubeconfig; no namespace is every namespace.
// The targets carry the labels namespace and pod.
func PodJob(name, kubeconfig string, namespaces ...string) Job {
	discovery := map[string]any{"role": "pod", "kubeconfig_file": kubeconfig}
	if len(namespaces) > 0 {
		discovery["namespaces"] = map[string]any{"names": namespaces}
	}
	const annotation = "__meta_kubernetes_pod_annotation_prometheus_io_"
	rule := func(action, target, regex, replacement string, sources ...string) map[string]any {
		r := map[string]any{"action": action, "source_labels": sources}
		for key, value := range map[string]string{"target_label": target, "regex": regex, "replacement": replacement} {
			if value != "" {
				r[key] = value
			}
		}
		return r
	}
	return Job{
		"job_name":              name,
		"kubernetes_sd_configs": []any{discovery},
		"relabel_configs": []any{
			rule("keep", "", "true", "", annotation+"scrape"),
			rule("drop", "", "Succeeded|Failed", "", "__meta_kubernetes_pod_phase"),
			rule("keep", "", ".+;[0-9]+", "", "__meta_kubernetes_pod_ip", annotation+"port"),
			rule("replace", "__scheme__", "(https?)", "", annotation+"scheme"),
			rule("replace", "__metrics_path__", "(.+)", "", annotation+"path"),
			rule("replace", "__address__", "([0-9.]+);([0-9]+)", "$1:$2", "__meta_kubernetes_pod_ip", annotation+"port"),
			rule("replace", "__address__", "([0-9a-f:]+:[0-9a-f:.]*);([0-9]+)", "[$1]:$2", "__meta_kubernetes_pod_ip", annotation+"port"),
			rule("replace", "namespace", "", "", "__meta_kubernetes_namespace"),
			rule("replace", "pod", "", "", "__meta_kubernetes_pod_name"),
		},
	}
}

// Prometheus is a running Prometheus server.
type Prometheus struct {
	// URL is its address.
	URL string
	// API is the client of its HTTP API.
	API promv1.API

	config  string
	process *Process
}

// StartPrometheus starts a Prometheus that scrapes the jobs every ScrapeInterval and waits until it
// is ready. Servers with different external labels scrape a target at different moments.
func StartPrometheus(t testing.TB, externalLabels map[string]string, jobs ...Job) *Prometheus {
	t.Helper()
	dir := t.TempDir()
	address := loopback(FreePort(t))
	p := &Prometheus{URL: "http://" + address, config: filepath.Join(dir, "prometheus.yaml")}
	writeConfig(t, p.config, externalLabels, jobs)
	p.process = start(t, command{name: "prometheus", path: binary(t, servers.Prometheus), log: logFile(t, "prometheus"), args: []string{
		"--config.file=" + p.config,
		"--storage.tsdb.path=" + filepath.Join(dir, "data"),
		"--web.listen-address=" + address,
		// Targets found are scraped from the next half second on, not after five (a hidden flag).
		"--scrape.discovery-reload-interval=500ms",
	}})
	client, err := api.NewClient(api.Config{Address: p.URL})
	if err != nil {
		t.Fatal(err)
	}
	p.API = promv1.NewAPI(client)
	p.process.waitReady(t, prometheusReady, func(ctx context.Context) error {
		return get(ctx, http.DefaultClient, p.URL+"/-/ready")
	})
	return p
}

// Stop ends Prometheus before the test does.
func (p *Prometheus) Stop(t testing.TB) {
	t.Helper()
	if err := p.process.Stop(); err != nil {
		t.Fatalf("stop prometheus: %v", err)
	}
}

// Query evaluates an expression now.
func (p *Prometheus) Query(t testing.TB, expression string) model.Vector {
	t.Helper()
	vector, err := p.QueryAt(t.Context(), expression, time.Time{})
	if err != nil {
		t.Fatalf("query %s: %v", expression, err)
	}
	return vector
}

// QueryAt evaluates an expression that gives a vector or a scalar at a time; the zero time is the
// server's now.
func (p *Prometheus) QueryAt(ctx context.Context, expression string, at time.Time) (model.Vector, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	value, warnings, _, err := p.API.Query(ctx, expression, at)
	if err != nil {
		return nil, err
	}
	if len(warnings) > 0 {
		return nil, queryError{expression, "warnings", warnings}
	}
	switch value := value.(type) {
	case model.Vector:
		return value, nil
	case *model.Scalar:
		return model.Vector{{Metric: model.Metric{}, Value: value.Value, Timestamp: value.Timestamp}}, nil
	default:
		return nil, queryError{expression, "neither vector nor scalar", value.Type()}
	}
}

// Value evaluates an expression that must give exactly one sample now.
func (p *Prometheus) Value(ctx context.Context, expression string) (float64, error) {
	vector, err := p.QueryAt(ctx, expression, time.Time{})
	if err != nil {
		return 0, err
	}
	if len(vector) != 1 {
		return 0, queryError{expression, "not exactly one sample", vector}
	}
	return float64(vector[0].Value), nil
}

// Range evaluates an expression from start to end, both included.
func (p *Prometheus) Range(t testing.TB, expression string, start, end time.Time, step time.Duration) model.Matrix {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), queryTimeout)
	defer cancel()
	value, warnings, _, err := p.API.QueryRange(ctx, expression, promv1.Range{Start: start, End: end, Step: step})
	if err != nil {
		t.Fatalf("query %s: %v", expression, err)
	}
	if len(warnings) > 0 {
		t.Fatalf("query %s: warnings %v", expression, warnings)
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		t.Fatalf("query %s: %s is no matrix", expression, value.Type())
	}
	return matrix
}

// writeConfig writes a Prometheus configuration.
func writeConfig(t testing.TB, path string, externalLabels map[string]string, jobs []Job) {
	t.Helper()
	scrape := make([]Job, len(jobs))
	for i, job := range jobs {
		scrape[i] = Job{"scrape_interval": ScrapeInterval, "scrape_timeout": ScrapeInterval}
		maps.Copy(scrape[i], job)
	}
	content, err := yaml.Marshal(map[string]any{
		"global":         map[string]any{"external_labels": externalLabels},
		"scrape_configs": scrape,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// queryError is an answer of another shape than asked for.
type queryError struct {
	expression, problem string
	answer              any
}

func (e queryError) Error() string {
	return fmt.Sprintf("%s: %s: %v", e.expression, e.problem, e.answer)
}
