package normalize

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// captures is the folder of captured bodies; tests that read them are skipped where there is none.
var captures = filepath.Join("..", "..", "shared", "captures")

func readCapture(t *testing.T, name string) []byte {
	t.Helper()
	if _, err := os.Stat(captures); err != nil {
		t.Skip("no captures here")
	}
	data, err := os.ReadFile(filepath.Join(captures, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// vllmSupplies is what a vLLM with all series supplies.
func vllmSupplies(running, waiting, hits, queries int, ttftSum float64, ttftCount int, itlSum float64, itlCount int, tpotSum float64, tpotCount int) string {
	supplies := sprint("vllm:num_requests_running=%d vllm:num_requests_waiting=%d "+
		"vllm:prefix_cache_hits_total=%d vllm:prefix_cache_queries_total=%d "+
		"vllm:external_prefix_cache_hits_total=0 vllm:external_prefix_cache_queries_total=0 "+
		"vllm:time_to_first_token_seconds_sum=%v vllm:time_to_first_token_seconds_count=%d "+
		"vllm:inter_token_latency_seconds_sum=%v vllm:inter_token_latency_seconds_count=%d",
		running, waiting, hits, queries, ttftSum, ttftCount, itlSum, itlCount)
	if tpotCount >= 0 {
		supplies += sprint(" vllm:request_time_per_output_token_seconds_sum=%v vllm:request_time_per_output_token_seconds_count=%d", tpotSum, tpotCount)
	}
	return supplies
}

// sglangSupplies is what an SGLang server with all series supplies.
func sglangSupplies(runs, queued, transfers int, modes string) string {
	return sprint("sglang:num_running_reqs=%d sglang:num_queue_reqs=%d sglang:num_decode_transfer_queue_reqs=%d %s ", runs, queued, transfers, modes) + sglangLatency
}

const sglangLatency = "sglang:time_to_first_token_seconds_sum=14.041178104739371 sglang:time_to_first_token_seconds_count=20 " +
	"sglang:inter_token_latency_seconds_sum=2.6088918032236705 sglang:inter_token_latency_seconds_count=230"

// TestCaptures reads what real engines and routers answered. The expected values were added up by hand
// from the bodies' lines.
func TestCaptures(t *testing.T) {
	for _, c := range []struct {
		file, table, want string
	}{
		{"datadog-vllm-mixed-no-trailing-newline.prom", "vllm", vllmSupplies(0, 0, 64, 117, 0.31326723098754883, 1, 0.6237391703762114, 144, 0.02554149661946724, 6)},
		{"gen-vllm-single.prom", "vllm", vllmSupplies(1, 0, 240, 900, 0.6271316710768171, 5, 1.9021357739047045, 115, 0.08270155538716104, 5)},
		{"gen-vllm-single-idle.prom", "vllm", vllmSupplies(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)},
		{"gen-vllm-single-legacy.prom", "vllm", vllmSupplies(1, 0, 240, 900, 0.6271316710768171, 5, 1.9021357739047045, 115, 0, -1)},
		{"gen-vllm-dp2.prom", "vllm", vllmSupplies(3, 1, 720, 2700, 2.0914885533978911, 15, 5.6817946913478146, 345, 0.24703455179773109, 15)},
		{"gpustack_vllm_server_idle_first.prom", "vllm", vllmSupplies(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)},
		{"gpustack_vllm_server_busy_first.prom", "vllm", vllmSupplies(1, 0, 12880, 18228, 2.8345773220062256, 116, 31.09642936099135, 5428, 0.6588608722976982, 115)},
		{"gpustack_vllm_server_busy_second.prom", "vllm", vllmSupplies(0, 0, 39536, 56070, 7.488968133926392, 354, 95.50316835599187, 16638, 2.0319823054466366, 354)},

		{"gen-sglang-tp1-busy.prom", "sglang", sglangSupplies(3, 1, 0, sglangModeValues(4180, 14153, 0, 0))},
		{"gen-sglang-tp4-default.prom", "sglang", sglangSupplies(3, 1, 0, sglangModeValues(4180, 14153, 0, 0))},
		{"gen-sglang-hicache-tiers.prom", "sglang", sglangSupplies(3, 1, 0, sglangModeValues(4180, 9000, 3000, 2153))},
		// priority="" is 5 and 3; with the priorities beside it a plain sum has 10 and 6.
		{"gen-sglang-priority-label.prom", "sglang", sglangSupplies(5, 3, 0, sglangModeValues(4180, 14153, 0, 0))},
		{"gen-sglang-tp1-startup-norequest.prom", "sglang", sglangModeValues(0, 0, 0, 0)},
		// Two ranks: 20 transfers observed by each, one failure seen by both.
		{"gen-sglang-pd-prefill-tp2.prom", "sglang", "sglang:num_running_reqs=0 sglang:num_queue_reqs=1 sglang:num_decode_transfer_queue_reqs=0 " +
			sglangModeValues(4180, 14153, 0, 0) + " sglang:num_transfer_failed_reqs_total=1 sglang:kv_transfer_latency_ms_sum=500 sglang:kv_transfer_latency_ms_count=40 " +
			"sglang:kv_transfer_speed_gb_s_sum=800 sglang:kv_transfer_speed_gb_s_count=40"},
		{"gen-sglang-pd-decode-tp2.prom", "sglang", sglangSupplies(4, 0, 3, sglangModeValues(0, 0, 0, 0))},
		{"gpustack_sglang_server_idle_first.prom", "sglang", "sglang:num_running_reqs=0 sglang:num_queue_reqs=0 " + sglangModeValues(110, 0, 0, 0) +
			" sglang:time_to_first_token_seconds_sum=8.331696819999706 sglang:time_to_first_token_seconds_count=1"},
		{"sglang-0.4-docs-example.prom", "sglang", "sglang:num_running_reqs=162 sglang:num_queue_reqs=2826 sglang:time_to_first_token_seconds_sum=2351897.9474117756 sglang:time_to_first_token_seconds_count=11008"},

		{"epp-real-registry-startup.prom", "llm-d-router", ""},
		{"gie-1.5.0-real-registry-busy.prom", "llm-d-router", ""},
		{"epp-real-registry-busy.prom", "llm-d-router", "llm_d_epp_ready_endpoints=2 llm_d_epp_request_running=3 llm_d_epp_request_total=4 llm_d_epp_request_error_total=2 " +
			"llm_d_epp_request_ttft_seconds_sum=0.6 llm_d_epp_request_ttft_seconds_count=4 llm_d_epp_request_streaming_tpot_seconds_sum=0.089473684210526316 llm_d_epp_request_streaming_tpot_seconds_count=2"},

		{"gpustack_vllm_router_server_first.prom", "vllm-router", "vllm_router_requests_total=108 vllm_router_running_requests=1 vllm_router_active_workers=2"},
		{"gpustack_vllm_router_server_second.prom", "vllm-router", "vllm_router_requests_total=354 vllm_router_running_requests=0 vllm_router_active_workers=2"},
		{"gpustack_vllm_router_backend_failure.prom", "vllm-router", "vllm_router_requests_total=1 vllm_router_retries_exhausted_total=1 vllm_router_active_workers=1"},
		{"vllm-router-busy-cache_aware.prom", "vllm-router", "vllm_router_requests_total=42 vllm_router_request_errors_total=3 vllm_router_retries_exhausted_total=2 vllm_router_active_workers=4 vllm_router_running_requests=3"},
		{"gpustack_vllm_router_pd_serving.prom", "vllm-router-pd", "vllm_router_pd_requests_total=1"},
		{"vllm-router-pd-only.prom", "vllm-router-pd", "vllm_router_pd_requests_total=10 vllm_router_active_workers=2"},

		{"gpustack_sglang_gateway_no_workers.prom", "sglang-gateway", "smg_router_requests_total=1 smg_http_responses_total{5xx}=1"},
		{"smg-grpc-ge1.6-ttft-histogram.prom", "sglang-gateway", "smg_router_requests_total=14 smg_http_responses_total{5xx}=3 smg_worker_pool_size=2 smg_worker_requests_active=1"},
		{"smg-pd-pool.prom", "sglang-gateway", "smg_router_requests_total=5 smg_worker_pool_size=6"},
	} {
		t.Run(c.file, func(t *testing.T) {
			table := tableNamed(t, c.table)
			values, err := table.Parse(readCapture(t, c.file))
			if err != nil {
				t.Fatal(err)
			}
			got, want := numbers(t, supplied(table, values)), numbers(t, strings.Fields(c.want))
			for name, value := range got {
				if w, expected := want[name]; !expected || math.Abs(value-w) > 1e-12*w {
					t.Errorf("%s = %v, want %v (%v)", name, value, w, expected)
				}
				delete(want, name)
			}
			for name, value := range want {
				t.Errorf("%s is absent, want %v", name, value)
			}
		})
	}
}

// numbers reads lines of name=value.
func numbers(t *testing.T, lines []string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, line := range lines {
		at := strings.LastIndexByte(line, '=')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		all[line[:at]] = value
	}
	return all
}

// TestCaptureWindows reads the captures that come in pairs, thirty seconds apart.
func TestCaptureWindows(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second string
		d             *Deployment
		p             *Pod
		want          []string // The values' beginnings, and the missing entries.
	}{
		{"vllm busy", "gpustack_vllm_server_busy_first.prom", "gpustack_vllm_server_busy_second.prom", engineOf("vllm", RoleServer), enginePod(RoleServer), []string{
			"running = 0 requests", "waiting = 0 requests", "local-prefix = 26656/37842 tokens",
			"ttft = 0.019556", "tpot = 0.005745", "itl = 0.005745",
			"- external-store: unsupported_no_kv_connector",
		}},
		{"sglang busy", "gpustack_sglang_server_busy_first.prom", "gpustack_sglang_server_busy_second.prom", engineOf("sglang", RoleServer), enginePod(RoleServer), []string{
			"running = 0 requests", "waiting = 0 requests", "device-prefix = 35928/46111 tokens",
			"ttft = 0.154204", "itl = 0.005637",
			"- host-prefix: unsupported_no_host_tier", "- storage-prefix: unsupported_no_storage_tier",
		}},
		// Its input grew by 22 tokens, so device-prefix has a value although the Pod is idle.
		{"sglang idle", "gpustack_sglang_server_idle_first.prom", "gpustack_sglang_server_idle_second.prom", engineOf("sglang", RoleServer), enginePod(RoleServer), []string{
			"running = 0 requests", "waiting = 0 requests", "device-prefix = 0/22 tokens",
			"- sglang:time_to_first_token_seconds: idle_window", "- sglang:inter_token_latency_seconds: not_yet_exported",
			"- host-prefix: unsupported_no_host_tier", "- storage-prefix: unsupported_no_storage_tier",
		}},
		{"vllm idle", "gpustack_vllm_server_idle_first.prom", "gpustack_vllm_server_idle_first.prom", engineOf("vllm", RoleServer), enginePod(RoleServer), []string{
			"running = 0 requests", "waiting = 0 requests", "- local-prefix: idle_window", "- external-store: unsupported_no_kv_connector",
			"- vllm:time_to_first_token_seconds: idle_window", "- vllm:request_time_per_output_token_seconds: idle_window", "- vllm:inter_token_latency_seconds: idle_window",
		}},
		{"vllm router", "gpustack_vllm_router_server_first.prom", "gpustack_vllm_router_server_second.prom", withRouter(engineOf("vllm", RoleServer), "vllm-router"), routerPod(), []string{
			"router-running = 0 requests", "router-reported-workers = 2 workers", "successful-requests = 8.2 requests/second of 246 in 30s",
			"- vllm_router_request_errors_total: not_yet_exported", "- vllm_router_retries_exhausted_total: not_yet_exported",
		}},
		{"vllm router before a pair", "gpustack_vllm_router_pd_serving.prom", "gpustack_vllm_router_pd_serving.prom", withRouter(engineOf("vllm", RolePrefill, RoleDecode), "vllm-router"), routerPod(), []string{
			"- vllm_router_running_requests: unsupported_pd_router_gauge", "- vllm_router_active_workers: unsupported_pd_router_gauge",
			"pd-requests = 0 requests/second of 0 in 30s", "- vllm_router_pd_errors_total: not_yet_exported",
		}},
		{"gateway without workers", "gpustack_sglang_gateway_no_workers.prom", "gpustack_sglang_gateway_no_workers.prom", gateway(), routerPod(), []string{
			"- smg_worker_requests_active: metric_absent", "- smg_worker_pool_size: metric_absent",
			"requests = 0 requests/second of 0 in 30s", "- smg_router_request_errors_total: not_yet_exported", "http-5xx-responses = 0 responses/second of 0 in 30s",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := outcome(t, c.d, c.p, twice(string(readCapture(t, c.first)), string(readCapture(t, c.second)))...)
			for i, line := range got {
				for _, want := range c.want {
					if strings.HasPrefix(line, want) {
						got[i] = want
					}
				}
			}
			compare(t, got, c.want)
		})
	}
}
