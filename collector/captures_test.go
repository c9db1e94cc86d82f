package collector

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/md-exporter/md-exporter/normalize"
)

// captures reads captured expositions, one a stage; the test is skipped where they are not.
func (s *stages) captures(t *testing.T, names ...string) string {
	t.Helper()
	var bodies []string
	for _, name := range names {
		body, err := os.ReadFile(filepath.Join("..", "..", "shared", "captures", name+".prom"))
		if err != nil {
			t.Skipf("no captures here: %v", err)
		}
		bodies = append(bodies, string(body))
	}
	return s.serve(t, bodies...)
}

// A vLLM server under load and one without, behind vllm-router, as they were captured thirty seconds apart.
func TestCapturedServing(t *testing.T) {
	var s stages
	d := vllmServing("m",
		routerPod("router", s.captures(t, "gpustack_vllm_router_server_first", "gpustack_vllm_router_server_second")),
		serverPod("busy", s.captures(t, "gpustack_vllm_server_busy_first", "gpustack_vllm_server_busy_second")),
		serverPod("idle", s.captures(t, "gpustack_vllm_server_idle_first", "gpustack_vllm_server_idle_first")))
	d.Roles[0].Expected, d.Router = 2, &normalize.Router{Name: "vllm-router", Expected: 1}
	bubble(t, func(t *testing.T) {
		e := newExporter(t, settings{}, d)
		first := e.scrape(t, "/metrics")
		if first.value(t, "modeldeployment_partial") != 1 || !slices.Contains(first.missing("m"), "busy local-prefix first_sample") {
			t.Errorf("first read: missing %q", first.missing("m"))
		}
		s.now.Store(1)
		time.Sleep(apart)
		got := e.scrape(t, "/metrics")
		for _, row := range []struct {
			name   string
			labels []string
			want   float64
		}{
			{"up", nil, 1},
			{"partial", nil, 0},
			{"cache_window_hit_tokens", []string{"pod", "busy", "cache", "local-prefix"}, 26656},
			{"cache_window_query_tokens", []string{"pod", "busy", "cache", "local-prefix"}, 37842},
			{"cache_hit_ratio", []string{"pod", "busy", "cache", "local-prefix"}, 26656.0 / 37842.0},
			{"window_seconds", []string{"pod", "busy", "source", "vllm:prefix_cache"}, 30},
			{"window_samples", []string{"pod", "busy", "source", "vllm:prefix_cache"}, 37842},
			{"read_pods", []string{"scope", "engine"}, 2},
			{"read_pods", []string{"scope", "router"}, 1},
			{"source_pods", []string{"source", "vllm:num_requests_running"}, 2},
			{"router_reported_workers", nil, 2},
		} {
			if v := got.value(t, "modeldeployment_"+row.name, row.labels...); v != row.want {
				t.Errorf("%s %q is %v, want %v", row.name, row.labels, v, row.want)
			}
		}
		want := []string{
			"busy external-store unsupported_no_kv_connector",
			"idle external-store unsupported_no_kv_connector",
			"idle local-prefix idle_window",
			"idle vllm:inter_token_latency_seconds idle_window",
			"idle vllm:request_time_per_output_token_seconds idle_window",
			"idle vllm:time_to_first_token_seconds idle_window",
			"router vllm_router_request_errors_total not_yet_exported",
			"router vllm_router_retries_exhausted_total not_yet_exported",
		}
		if missing := slices.Sorted(slices.Values(got.missing("m"))); !slices.Equal(missing, want) {
			t.Errorf("missing\n%s\nwant\n%s", strings.Join(missing, "\n"), strings.Join(want, "\n"))
		}
	})
}

// Bodies with a trait that is easily read wrong.
func TestCapturedTraits(t *testing.T) {
	for _, row := range []struct {
		capture, engine string
		running         float64
	}{
		// priority="" is the total of the priorities beside it.
		{"gen-sglang-priority-label", "sglang", 5},
		// It has no newline at its end.
		{"datadog-vllm-mixed-no-trailing-newline", "vllm", 0},
	} {
		t.Run(row.capture, func(t *testing.T) {
			var s stages
			d := vllmServing("m", serverPod("a", s.captures(t, row.capture)))
			d.Engine = row.engine
			got := newExporter(t, settings{}, d).scrape(t, "/metrics")
			if v := got.value(t, "modeldeployment_running_requests"); v != row.running {
				t.Errorf("%v requests run, want %v", v, row.running)
			}
		})
	}
}
