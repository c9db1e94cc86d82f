package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// capture is the path of a captured body; tests that read one are skipped where there is none.
func capture(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join("..", "..", "..", "shared", "captures", name)
	if _, err := os.Stat(path); err != nil {
		t.Skip("no captures here")
	}
	return path
}

// inspects runs the command and expects each part in what it prints.
func inspects(t *testing.T, parts []string, args ...string) string {
	t.Helper()
	got := runToEnd(t, append([]string{"inspect"}, args...)...)
	if got.status != 0 || got.stderr != "" {
		t.Fatalf("status %d, stderr %q", got.status, got.stderr)
	}
	// The columns' width is the table's own matter.
	flat := strings.Join(strings.Fields(got.stdout), " ")
	for _, part := range parts {
		if !strings.Contains(flat, part) {
			t.Errorf("no %q in:\n%s", part, got.stdout)
		}
	}
	return got.stdout
}

// Captured bodies, and what a person asks about them.
func TestInspectCaptures(t *testing.T) {
	for _, row := range []struct {
		files []string
		flags string
		says  []string
	}{
		{[]string{"gen-sglang-priority-label.prom"}, "", []string{
			"Guessed from the families: --engine=sglang.", "running 5 requests sglang:num_running_reqs",
			`1 of 4 samples counted = 5`, `counted: {priority=""} 5`,
			`the priorities are counted once, in the total: {priority="0"} 3 {priority="10"} 2 {priority="None"} 0`,
		}},
		{[]string{"gen-sglang-pd-prefill-tp2.prom"}, "--role-kind=prefill", []string{
			"sglang, prefill role of a prefill/decode pair", "ttft not read sglang:time_to_first_token_seconds Not read from a prefill role of a pair.",
			"transfer-latency missing sglang:kv_transfer_latency_ms first_sample", "the ranks are counted once, by the largest",
		}},
		{[]string{"gen-sglang-pd-decode-tp2.prom"}, "--role-kind=decode --pair", []string{
			"decode-transfer-waiting 3 requests", "device-prefix not read", "Not read from a decode role of a pair.",
		}},
		{[]string{"gen-sglang-hicache-tiers.prom"}, "--arg=--enable-hierarchical-cache --arg=--hicache-storage-backend=file", []string{
			"host-prefix missing sglang:prefill_effective_tokens_total first_sample", "storage-prefix missing sglang:prefill_effective_tokens_total first_sample",
		}},
		{[]string{"gen-sglang-tp1-startup-norequest.prom"}, "", []string{"running missing sglang:num_running_reqs metric_absent", "sglang:num_running_reqs: for running; not in the exposition"}},
		{[]string{"gpustack_vllm_server_busy_first.prom", "gpustack_vllm_server_busy_second.prom"}, "", []string{
			"Two expositions, 30s apart", "local-prefix 70.4 % vllm:prefix_cache 26656 of 37842 tokens found in 30s",
			"ttft 0.01956 seconds vllm:time_to_first_token_seconds 238 samples in 30s",
			"unsupported_no_kv_connector", "_count = 354, before 116",
		}},
		{[]string{"gpustack_vllm_server_busy_second.prom", "gpustack_vllm_server_busy_first.prom"}, "", []string{"counter_reset"}},
		{[]string{"gpustack_vllm_router_server_first.prom", "gpustack_vllm_router_server_second.prom"}, "--window=10m", []string{
			"Guessed from the families: --router=vllm-router.", "vllm-router in ordinary serving", "successful-requests 0.41 requests/second",
			"10m0s apart", "no window longer than 5m0s", "errors missing vllm_router_request_errors_total not_yet_exported",
		}},
		{[]string{"gpustack_vllm_router_pd_serving.prom"}, "", []string{"Guessed from the families: --router=vllm-router --pair.", "unsupported_pd_router_gauge"}},
		{[]string{"gpustack_vllm_router_pd_serving.prom"}, "--router=vllm-router --no-pair", []string{"vllm-router in ordinary serving", "successful-requests missing vllm_router_requests_total metric_absent"}},
		{[]string{"epp-real-registry-busy.prom"}, "", []string{"--router=llm-d-router", "router-backends 2 backends"}},
		{[]string{"gpustack_sglang_gateway_no_workers.prom"}, "", []string{
			"--router=sglang-gateway", `{status_code=~"5[0-9][0-9]"} = 1`, "no value of the label that a field reads:",
			"error-ratio not read", "One of its two counters has no window",
		}},
		{[]string{"smg-pd-pool.prom"}, "--router=sglang-gateway --pair", []string{"sglang-gateway before a prefill/decode pair", "router-backends 6 backends"}},
	} {
		t.Run(strings.Join(row.files, " ")+row.flags, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(row.flags)
			for _, name := range row.files {
				args = append(args, capture(t, name))
			}
			inspects(t, row.says, args...)
		})
	}
}

// Whose exposition it is and what it is compared with, by the flags alone.
func TestInspectShapes(t *testing.T) {
	empty := write(t, "empty.prom", "")
	for _, row := range []struct {
		flags string
		says  []string
	}{
		{"--engine=vllm", []string{"vllm, server role Assumed, where they matter: --role-kind=server, no --pair, no --kv-cache, no --arg. One exposition", "tpot missing", "external-store missing vllm:external_prefix_cache unsupported_no_kv_connector"}},
		{"--engine=vllm --kv-cache --arg=--kv-transfer-config={}", []string{"external-store missing vllm:external_prefix_cache metric_absent"}},
		{"--engine=vllm --arg=--kv-transfer-config={}", []string{"external-store missing vllm:external_prefix_cache unsupported_not_store"}},
		{"--engine=vllm --kv-cache --arg=--kv-transfer-config={} --role-kind=decode", []string{"external-store missing vllm:external_prefix_cache unsupported_not_store", "tpot missing"}},
		{"--engine=vllm --role-kind=prefill", []string{"vllm, prefill role of a prefill/decode pair", "tpot not read"}},
		{"--engine=sglang --role-kind=server --pair", []string{"sglang, server role of a prefill/decode pair", "decode-transfer-waiting not read"}},
		{"--router=vllm-router", []string{"router-running missing vllm_router_running_requests metric_absent"}},
		{"--router=vllm-router --pair", []string{"router-running missing vllm_router_running_requests unsupported_pd_router_gauge"}},
	} {
		t.Run(row.flags, func(t *testing.T) {
			t.Parallel()
			out := inspects(t, row.says, append(strings.Fields(row.flags), empty)...)
			if strings.Contains(out, "Guessed") {
				t.Errorf("nothing was to be guessed:\n%s", out)
			}
		})
	}
}

// Standard input is read, beside a file too.
func TestInspectStandardInput(t *testing.T) {
	cmd := exec.Command(binary, "inspect", write(t, "first.prom", "vllm_router_requests_total 1\n"), "-", "--window=10s")
	cmd.Stdin = strings.NewReader("vllm_router_requests_total 31\n")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), " and standard input: ") || !strings.Contains(string(out), "3 requests/second") {
		t.Errorf("%v: %s", err, out)
	}
	cmd = exec.Command(binary, "inspect", "-")
	cmd.Stdin = strings.NewReader("{}\n")
	if out, err := cmd.CombinedOutput(); err == nil || string(out) != "md-exporter: error: standard input: malformed exposition: no line of the body is an exposition line\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// One URL is read once, two are read a window apart, and each once.
func TestInspectURL(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "vllm_router_requests_total %d\n", asked.Add(1)*100)
	}))
	defer server.Close()
	inspects(t, []string{server.URL + "/metrics: vllm-router", "first_sample"}, server.URL+"/metrics")
	if asked.Swap(0) != 1 {
		t.Error("it was not read once")
	}
	started := time.Now()
	out := inspects(t, []string{server.URL + ", twice: vllm-router", "100 samples in", "_total: for successful-requests"}, server.URL, server.URL, "--window=300ms")
	if took := time.Since(started); asked.Load() != 2 || took < 300*time.Millisecond {
		t.Errorf("asked %d times in %v: %s", asked.Load(), took, out)
	}
	// A URL beside a file is not waited for.
	inspects(t, []string{"10m0s apart"}, write(t, "first.prom", "vllm_router_requests_total 1\n"), server.URL, "--window=10m")
}

// A label's value cannot move the cursor.
func TestInspectHarmless(t *testing.T) {
	out := inspects(t, nil, write(t, "a.prom", "vllm:num_requests_running{a=\"\x1b[2J\"} 1\n# TYPE vllm:num_requests_running gau\x1b[1mge\n"))
	if strings.Contains(out, "\x1b") {
		t.Errorf("an escape sequence: %q", out)
	}
}
