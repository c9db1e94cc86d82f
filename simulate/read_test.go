package simulate

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// parse reads a body with prometheus/common and fails on what a scraper would trip over.
func parse(t testing.TB, body []byte) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		t.Fatalf("the body does not parse: %v", err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			continue
		}
		key := line
		if !strings.HasPrefix(line, "#") {
			key = line[:strings.LastIndexByte(line, ' ')]
		}
		if seen[key] {
			t.Errorf("twice in one body: %s", key)
		}
		seen[key] = true
	}
	for name, f := range families {
		for _, m := range f.Metric {
			if h := m.Histogram; h != nil {
				checkHistogram(t, name, h)
			}
		}
	}
	return families
}

// checkHistogram holds the buckets to the count and the sum.
func checkHistogram(t testing.TB, name string, h *dto.Histogram) {
	t.Helper()
	var last uint64
	var lowest, highest float64
	bound := math.Inf(-1)
	for _, b := range h.Bucket {
		if b.GetCumulativeCount() < last || b.GetUpperBound() <= bound {
			t.Errorf("%s: bucket %v of %d follows %v of %d", name, b.GetUpperBound(), b.GetCumulativeCount(), bound, last)
		}
		n := float64(b.GetCumulativeCount() - last)
		if bound > 0 {
			lowest += n * bound
		}
		if n > 0 {
			highest += n * b.GetUpperBound()
		}
		last, bound = b.GetCumulativeCount(), b.GetUpperBound()
	}
	if !math.IsInf(bound, 1) || last != h.GetSampleCount() {
		t.Errorf("%s: the last bucket is %v of %d, the count %d", name, bound, last, h.GetSampleCount())
	}
	if sum := h.GetSampleSum(); sum < lowest || sum > highest {
		t.Errorf("%s: the sum %v is not between the buckets' %v and %v", name, sum, lowest, highest)
	}
}

// series reads sums by the exporter's rules, independently of the simulation: ranks that see the
// same requests count once, a priority's total stands for its parts.
type seriesReader map[string]*dto.MetricFamily

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.Label {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

func (r seriesReader) value(name string, match ...string) (float64, bool) {
	f := r[name]
	if f == nil {
		return 0, false
	}
	groups := map[string]float64{}
	for _, m := range f.Metric {
		if labelOf(m, "priority") != "" && strings.HasPrefix(name, "sglang:") || len(match) == 2 && labelOf(m, match[0]) != match[1] {
			continue
		}
		var key strings.Builder
		for _, l := range m.Label {
			if !slices.Contains([]string{"tp_rank", "pp_rank", "moe_ep_rank"}, l.GetName()) {
				key.WriteString(l.GetName() + "=" + l.GetValue() + ";")
			}
		}
		v := m.GetGauge().GetValue() + m.GetCounter().GetValue()
		groups[key.String()] = max(groups[key.String()], v)
	}
	var sum float64
	for _, v := range groups {
		sum += v
	}
	return sum, len(groups) > 0
}

func (r seriesReader) histogram(name string) (Sum, bool) {
	f := r[name]
	if f == nil {
		return Sum{}, false
	}
	var s Sum
	for _, m := range f.Metric {
		s.Sum += m.GetHistogram().GetSampleSum()
		s.Count += float64(m.GetHistogram().GetSampleCount())
	}
	return s, true
}

// sources are the series that the specification reads each field from.
var sources = map[string]struct {
	values, histograms map[Field]string
	caches             map[Field][2]string
}{
	VLLM: {
		values:     map[Field]string{Running: "vllm:num_requests_running", Waiting: "vllm:num_requests_waiting"},
		histograms: map[Field]string{TTFT: "vllm:time_to_first_token_seconds", TPOT: "vllm:request_time_per_output_token_seconds", ITL: "vllm:inter_token_latency_seconds"},
		caches: map[Field][2]string{
			LocalPrefix:   {"vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"},
			ExternalStore: {"vllm:external_prefix_cache_hits_total", "vllm:external_prefix_cache_queries_total"},
		},
	},
	SGLang: {
		values: map[Field]string{Running: "sglang:num_running_reqs", Waiting: "sglang:num_queue_reqs",
			DecodeTransferWaiting: "sglang:num_decode_transfer_queue_reqs", TransferFailures: "sglang:num_transfer_failed_reqs_total"},
		histograms: map[Field]string{TTFT: "sglang:time_to_first_token_seconds", ITL: "sglang:inter_token_latency_seconds",
			TransferLatency: "sglang:kv_transfer_latency_ms", TransferSpeed: "sglang:kv_transfer_speed_gb_s", TransferSize: "sglang:kv_transfer_total_mb"},
	},
	VLLMRouter: {
		values: map[Field]string{RouterRunning: "vllm_router_running_requests", RouterReportedWorkers: "vllm_router_active_workers",
			SuccessfulRequests: "vllm_router_requests_total", PDRequests: "vllm_router_pd_requests_total", Errors: "vllm_router_request_errors_total",
			PDErrors: "vllm_router_pd_errors_total", RetriesExhausted: "vllm_router_retries_exhausted_total"},
	},
	SGLangGateway: {
		values: map[Field]string{RouterRunning: "smg_worker_requests_active", RouterBackends: "smg_worker_pool_size",
			Requests: "smg_router_requests_total", Errors: "smg_router_request_errors_total"},
	},
	LLMDRouter: {
		values: map[Field]string{RouterRunning: "llm_d_epp_request_running", RouterBackends: "llm_d_epp_ready_endpoints",
			Requests: "llm_d_epp_request_total", RequestErrors: "llm_d_epp_request_error_total"},
		histograms: map[Field]string{TTFT: "llm_d_epp_request_ttft_seconds", TPOT: "llm_d_epp_request_streaming_tpot_seconds"},
	},
}

// stated reads a body into totals.
func stated(t testing.TB, software string, body []byte) Totals {
	t.Helper()
	r := seriesReader(parse(t, body))
	got := newTotals()
	for field, name := range sources[software].values {
		if v, ok := r.value(name); ok {
			got.Values[field] = v
		}
	}
	for field, name := range sources[software].histograms {
		if h, ok := r.histogram(name); ok {
			got.Histograms[field] = h
		}
	}
	for field, names := range sources[software].caches {
		hits, ok := r.value(names[0])
		queries, also := r.value(names[1])
		if ok && also {
			got.Caches[field] = Cache{Hits: hits, Queries: queries}
		}
	}
	if software == SGLang {
		var queries float64
		for _, mode := range sglangModes {
			v, _ := r.value("sglang:prefill_effective_tokens_total", "mode", mode)
			queries += v
		}
		for field, mode := range map[Field]string{DevicePrefix: "device_hit", HostPrefix: "host_hit", StoragePrefix: "storage_hit"} {
			if hits, ok := r.value("sglang:prefill_effective_tokens_total", "mode", mode); ok {
				got.Caches[field] = Cache{Hits: hits, Queries: queries}
			}
		}
	}
	if f := r["smg_http_responses_total"]; f != nil {
		got.Values[HTTP5xxResponses] = 0
		for _, m := range f.Metric {
			if code := labelOf(m, "status_code"); code >= "500" && code <= "599" {
				got.Values[HTTP5xxResponses] += m.GetCounter().GetValue()
			}
		}
	}
	return got
}
