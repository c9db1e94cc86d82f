package normalize

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// partialReasons is the closed set: whether each code makes a snapshot partial.
var partialReasons = map[Reason]bool{
	"unknown_engine": true, "unknown_router": true, "no_pods": true, "replicas_missing": true, "pod_limit": true,
	"not_advertised": true, "connection_failed": true, "timeout": true, "scrape_deadline": true, "tls_failed": true,
	"http_status": true, "response_too_large": true, "malformed_response": true,
	"metric_absent": true, "first_sample": true, "counter_reset": true, "incompatible_counters": true,
	"window_mismatch": true, "no_requests": true, "no_queries": true, "no_observations": true,
	"not_yet_exported": false, "unsupported_pd_router_gauge": false, "unsupported_no_kv_connector": false,
	"unsupported_not_store": false, "unsupported_no_host_tier": false, "unsupported_no_storage_tier": false,
	"idle_window": false,
}

// TestReasons: the set is closed, and each code has one sentence of its own without figures or addresses.
func TestReasons(t *testing.T) {
	sentences := map[string]Reason{}
	for _, r := range Reasons() {
		partial, known := partialReasons[r]
		if !known {
			t.Errorf("%s is not in the design", r)
		}
		if r.Partial() != partial {
			t.Errorf("%s: Partial is %v, want %v", r, r.Partial(), partial)
		}
		s := r.Sentence()
		if other, twice := sentences[s]; twice {
			t.Errorf("%s and %s have one sentence", r, other)
		}
		sentences[s] = r
		if !strings.HasSuffix(s, ".") || strings.Count(s, ". ") > 0 || s[0] < 'A' || s[0] > 'Z' {
			t.Errorf("%s: %q is not one sentence", r, s)
		}
		if r != HTTPStatus && strings.ContainsAny(s, "0123456789%") {
			t.Errorf("%s: %q has a figure", r, s)
		}
	}
	if got := Reasons(); len(got) != len(partialReasons) || len(slices.Compact(slices.Sorted(slices.Values(got)))) != len(got) {
		t.Errorf("Reasons has %d codes, want %d, each once", len(got), len(partialReasons))
	}
	if r := Reason("other"); !r.Partial() || sentences[r.Sentence()] != "" {
		t.Errorf("an unknown code: partial %v, sentence %q", r.Partial(), r.Sentence())
	}
}

// TestReasonsProduced: every code comes out of this package by a case of its own: those of a source by
// reads, those of a failed read through Failed, those of a deployment through Collection.
func TestReasonsProduced(t *testing.T) {
	produced := map[Reason]bool{}
	single := engineOf("vllm", RoleServer)
	pool := withPool(single)
	pair := engineOf("vllm", RolePrefill, RoleDecode)
	const sec = time.Second

	for _, c := range []struct {
		name  string
		d     *Deployment
		p     *Pod
		reads []scrape
		// of names the source of the entry; the entry is the only line about it.
		of   string
		want Reason
	}{
		{"a gauge is not there", single, enginePod(RoleServer), twice("", ""), "vllm:num_requests_running", "metric_absent"},
		{"a histogram is read for the first time", single, enginePod(RoleServer),
			[]scrape{{0, hist("vllm:time_to_first_token_seconds", 5, 10)}}, "vllm:time_to_first_token_seconds", "first_sample"},
		{"a count went backwards", single, enginePod(RoleServer),
			twice(hist("vllm:time_to_first_token_seconds", 5, 10), hist("vllm:time_to_first_token_seconds", 6, 9)),
			"vllm:time_to_first_token_seconds", "counter_reset"},
		{"only a sum went backwards", single, enginePod(RoleServer),
			twice(hist("vllm:time_to_first_token_seconds", 5, 10), hist("vllm:time_to_first_token_seconds", 4, 11)),
			"vllm:time_to_first_token_seconds", "counter_reset"},
		{"one mode of SGLang's went backwards", engineOf("sglang", RoleServer), enginePod(RoleServer),
			twice(modes(100, 10, 20, 30), modes(200, 20, 30, 29)), "device-prefix", "counter_reset"},
		{"one mode of SGLang's is not there", engineOf("sglang", RoleServer), enginePod(RoleServer),
			twice(modes(100, 10, 20, 30), strings.Replace(modes(200, 20, 30, 40), "storage_hit", "other", 1)), "device-prefix", "metric_absent"},
		{"hits exceed queries", single, enginePod(RoleServer), twice(prefix(0, 0), prefix(11, 10)), "local-prefix", "incompatible_counters"},
		{"hits without queries", single, enginePod(RoleServer), twice(prefix(0, 0), prefix(1, 0)), "local-prefix", "incompatible_counters"},
		{"errors exceed requests", gateway(), routerPod(), twice(smg(0, 0), smg(10, 11)), ratioSource, "incompatible_counters"},
		{"errors have a younger baseline", gateway(), routerPod(),
			[]scrape{{0, `smg_router_requests_total 1`}, {20 * sec, smg(2, 1)}, {22 * sec, smg(3, 2)}}, ratioSource, "window_mismatch"},
		{"no request in the window", gateway(), routerPod(), twice(smg(5, 2), smg(5, 2)), ratioSource, "no_requests"},
		{"no query while TTFT moved", single, enginePod(RoleServer),
			twice(prefix(1, 2)+hist("vllm:time_to_first_token_seconds", 1, 1), prefix(1, 2)+hist("vllm:time_to_first_token_seconds", 2, 2)),
			"local-prefix", "no_queries"},
		{"no query while TTFT is not known", single, enginePod(RoleServer), twice(prefix(1, 2), prefix(1, 2)), "local-prefix", "no_queries"},
		{"no observation while TTFT moved", single, enginePod(RoleServer),
			twice(hist("vllm:inter_token_latency_seconds", 1, 1)+hist("vllm:time_to_first_token_seconds", 1, 1),
				hist("vllm:inter_token_latency_seconds", 1, 1)+hist("vllm:time_to_first_token_seconds", 2, 2)),
			"vllm:inter_token_latency_seconds", "no_observations"},
		{"no transfer", engineOf("sglang", RolePrefill, RoleDecode), enginePod(RolePrefill),
			twice(hist("sglang:kv_transfer_total_mb", 1, 1), hist("sglang:kv_transfer_total_mb", 1, 1)),
			"sglang:kv_transfer_total_mb", "no_observations"},
		{"an error counter beside its requests", gateway(), routerPod(),
			twice(`smg_router_requests_total 1`, `smg_router_requests_total 2`), "smg_router_request_errors_total", "not_yet_exported"},
		{"transfer failures beside the transfer size", engineOf("sglang", RolePrefill, RoleDecode), enginePod(RolePrefill),
			[]scrape{{0, hist("sglang:kv_transfer_total_mb", 1, 1)}}, "sglang:num_transfer_failed_reqs_total", "not_yet_exported"},
		{"SGLang's ITL on an idle Pod", engineOf("sglang", RoleServer), enginePod(RoleServer),
			twice(hist("sglang:time_to_first_token_seconds", 1, 1), hist("sglang:time_to_first_token_seconds", 1, 1)),
			"sglang:inter_token_latency_seconds", "not_yet_exported"},
		{"the vLLM router's gauge in PD mode", withRouter(engineOf("vllm", RolePrefill, RoleDecode), "vllm-router"), routerPod(),
			twice("vllm_router_active_workers 1", "vllm_router_active_workers 1"), "vllm_router_active_workers", "unsupported_pd_router_gauge"},
		{"no connector", pool, enginePod(RoleServer), twice("", ""), "external-store", "unsupported_no_kv_connector"},
		{"decode of a pair", withPool(pair), enginePod(RoleDecode, "--kv-transfer-config={}"), twice("", ""), "external-store", "unsupported_not_store"},
		{"no host tier", engineOf("sglang", RoleServer), enginePod(RoleServer), twice("", ""), "host-prefix", "unsupported_no_host_tier"},
		{"no storage tier", engineOf("sglang", RoleServer), enginePod(RoleServer), twice("", ""), "storage-prefix", "unsupported_no_storage_tier"},
		{"latency of an idle Pod", single, enginePod(RoleServer),
			twice(hist("vllm:time_to_first_token_seconds", 1, 1), hist("vllm:time_to_first_token_seconds", 1, 1)),
			"vllm:time_to_first_token_seconds", "idle_window"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := new(History)
			r := observe(t, h, c.d, c.p, windows, c.reads...)
			compare(t, only(linesOf(t, c.p, r), c.of), []string{"- " + c.of + ": " + string(c.want)})
			// The snapshot is partial by this very entry, or not.
			s := Collection{Deployment: c.d, Owned: []*Pod{c.p}, At: zero, Results: []Result{{Pod: c.p,
				missing: slices.DeleteFunc(slices.Clone(r.missing), func(m Missing) bool { return m.Source != c.of })}}}
			d := *c.d
			d.Roles, d.Router = nil, c.d.Router
			if c.p.Scope == ScopeEngine {
				d.Roles = []Role{{Name: c.p.Role, Managed: true, Expected: 1}}
				d.Router = nil
			}
			s.Deployment = &d
			if got := s.Snapshot(); got.Partial != partialReasons[c.want] {
				t.Errorf("partial is %v, want %v: %v", got.Partial, partialReasons[c.want], got.Missing)
			}
			produced[c.want] = true
		})
	}

	for _, reason := range []Reason{
		"not_advertised", "connection_failed", "timeout", "scrape_deadline", "tls_failed", "http_status",
		"response_too_large", "malformed_response",
	} {
		t.Run(string(reason), func(t *testing.T) {
			p := enginePod(RoleServer)
			r := Failed(p, reason)
			if r.Failure != reason || !r.ObservedAt.IsZero() {
				t.Errorf("Failed is %+v", r)
			}
			compare(t, linesOf(t, p, r), []string{"- scrape: " + string(reason)})
			produced[reason] = true
		})
	}

	for _, c := range []struct {
		name string
		Collection
		want Missing
	}{
		{"engine of no table", Collection{Deployment: engineOf("tgi", RoleServer), Owned: []*Pod{enginePod(RoleServer)}},
			Missing{"", "engine", "server", "engine/server", "unknown_engine"}},
		{"router of no table", Collection{Deployment: withRouter(engineOf("vllm", RoleServer), "envoy"), Owned: []*Pod{routerPod()}},
			Missing{"", "router", "", "router", "unknown_router"}},
		{"no Pod of a role", Collection{Deployment: single},
			Missing{"", "engine", "server", "engine/server", "no_pods"}},
		{"no router Pod", Collection{Deployment: withRouter(engineOf("vllm", RoleServer), "vllm-router")},
			Missing{"", "router", "", "router", "no_pods"}},
		{"too few Pods", Collection{Deployment: &Deployment{Engine: "vllm", Roles: []Role{{"server", RoleServer, true, 2}}}, Owned: []*Pod{enginePod(RoleServer)}},
			Missing{"", "engine", "server", "engine/server", "replicas_missing"}},
		{"too few router Pods", Collection{Deployment: &Deployment{Engine: "vllm", Router: &Router{"vllm-router", 2}}, Owned: []*Pod{routerPod()}},
			Missing{"", "router", "", "router", "replicas_missing"}},
		{"too many Pods", Collection{Deployment: single, Owned: []*Pod{enginePod(RoleServer)}, PodLimit: true},
			Missing{"", "", "", "pod-discovery", "pod_limit"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.Snapshot()
			if !slices.Contains(s.Missing, c.want) || !s.Partial {
				t.Errorf("partial is %v, missing %v, want %v", s.Partial, s.Missing, c.want)
			}
			produced[c.want.Reason] = true
		})
	}

	for _, r := range Reasons() {
		if !produced[r] {
			t.Errorf("no case produces %s", r)
		}
	}
}

const ratioSource = "smg_router_requests_total+smg_router_request_errors_total"

func gateway() *Deployment { return withRouter(engineOf("sglang", RoleServer), "sglang-gateway") }

// smg are the gateway's two counters, hist is a histogram's sum and count, prefix vLLM's own cache.
func smg(requests, errors int) string {
	return body(sprint("smg_router_requests_total %d", requests), sprint("smg_router_request_errors_total %d", errors))
}

func hist(name string, sum float64, count int) string {
	return body(sprint("%s_sum %v", name, sum), sprint("%s_count %d", name, count))
}

func prefix(hits, queries int) string {
	return body(sprint("vllm:prefix_cache_hits_total %d", hits), sprint("vllm:prefix_cache_queries_total %d", queries))
}

// TestReasonOrder: where two reasons hold at once for a source, the earlier one of observation.apply's order is given.
func TestReasonOrder(t *testing.T) {
	const (
		sec  = time.Second
		ttft = "vllm:time_to_first_token_seconds"
		itl  = "vllm:inter_token_latency_seconds"
	)
	single, sgl := engineOf("vllm", RoleServer), engineOf("sglang", RoleServer)
	sglPair := engineOf("sglang", RolePrefill, RoleDecode)
	still := hist(ttft, 1, 1)
	sglStill := hist("sglang:time_to_first_token_seconds", 1, 1)
	for _, c := range []struct {
		name  string
		d     *Deployment
		p     *Pod
		reads []scrape
		of    string
		want  string
	}{
		{"unsupported before absent", sgl, enginePod(RoleServer), twice("", ""), "host-prefix", "unsupported_no_host_tier"},
		{"unsupported before first_sample", sgl, enginePod(RoleServer), twice("", modes(1, 1, 1, 1)), "host-prefix", "unsupported_no_host_tier"},
		{"unsupported before reset", withPool(engineOf("vllm", RolePrefill, RoleDecode)), enginePod(RoleDecode),
			twice("vllm:external_prefix_cache_hits_total 9\nvllm:external_prefix_cache_queries_total 9", "vllm:external_prefix_cache_hits_total 3\nvllm:external_prefix_cache_queries_total 3"),
			"external-store", "unsupported_not_store"},
		{"no connector before not the store", engineOf("vllm", RoleServer), enginePod(RoleServer), twice("", ""), "external-store", "unsupported_no_kv_connector"},
		{"absent before first_sample", single, enginePod(RoleServer), twice("", ""), itl, "metric_absent"},
		{"absent before what earlier reads show", single, enginePod(RoleServer), twice(hist(itl, 1, 1), ""), itl, "metric_absent"},
		{"absent before idle", single, enginePod(RoleServer), twice(still, still), itl, "metric_absent"},
		{"absent before idle, for a cache", single, enginePod(RoleServer), twice(still, still), "local-prefix", "metric_absent"},
		{"not_yet_exported before first_sample", gateway(), routerPod(), []scrape{{0, "smg_router_requests_total 1"}}, "smg_router_request_errors_total", "not_yet_exported"},
		{"a counter that was exported is not yet exported again", gateway(), routerPod(), twice(smg(1, 1), "smg_router_requests_total 0"), "smg_router_request_errors_total", "not_yet_exported"},
		{"the pair goes one way only", gateway(), routerPod(), twice("smg_router_request_errors_total 1", "smg_router_request_errors_total 1"), "smg_router_requests_total", "metric_absent"},
		{"absent without the pair", gateway(), routerPod(), twice("", ""), "smg_router_request_errors_total", "metric_absent"},
		{"an earlier read's pair is none", gateway(), routerPod(), twice("smg_router_requests_total 1", ""), "smg_router_request_errors_total", "metric_absent"},
		{"an invalid pair is none", gateway(), routerPod(), twice("", "smg_router_requests_total NaN"), "smg_router_request_errors_total", "metric_absent"},
		{"transfer failures, no size", sglPair, enginePod(RolePrefill), twice("", hist("sglang:kv_transfer_latency_ms", 1, 1)), "sglang:num_transfer_failed_reqs_total", "metric_absent"},
		{"transfer size, beside failures", sglPair, enginePod(RolePrefill), twice("", "sglang:num_transfer_failed_reqs_total 1"), "sglang:kv_transfer_total_mb", "metric_absent"},
		{"SGLang's ITL while TTFT moved", sgl, enginePod(RoleServer), twice(sglStill, hist("sglang:time_to_first_token_seconds", 2, 2)), "sglang:inter_token_latency_seconds", "metric_absent"},
		{"SGLang's ITL while TTFT is first", sgl, enginePod(RoleServer), []scrape{{0, sglStill}}, "sglang:inter_token_latency_seconds", "metric_absent"},
		{"SGLang's ITL while TTFT is reset", sgl, enginePod(RoleServer), twice(hist("sglang:time_to_first_token_seconds", 2, 2), sglStill), "sglang:inter_token_latency_seconds", "metric_absent"},
		{"SGLang's ITL while TTFT is absent", sgl, enginePod(RoleServer), twice("", ""), "sglang:inter_token_latency_seconds", "metric_absent"},
		{"vLLM's ITL of an idle Pod", single, enginePod(RoleServer), twice(still, still), itl, "metric_absent"},

		{"first_sample before incompatible", single, enginePod(RoleServer), twice("", prefix(9, 1)), "local-prefix", "first_sample"},
		{"first_sample before idle", single, enginePod(RoleServer), twice(still, still+hist(itl, 1, 1)), itl, "first_sample"},
		{"first_sample before idle, for a cache", single, enginePod(RoleServer), twice(still, still+prefix(1, 1)), "local-prefix", "first_sample"},
		{"reset before incompatible", single, enginePod(RoleServer), twice(prefix(5, 10), prefix(9, 9)), "local-prefix", "counter_reset"},
		{"reset before idle", single, enginePod(RoleServer), twice(still+prefix(5, 10), still+prefix(4, 9)), "local-prefix", "counter_reset"},
		{"reset before no_queries", single, enginePod(RoleServer), twice(prefix(5, 10), prefix(4, 10)), "local-prefix", "counter_reset"},
		{"reset before no_observations", single, enginePod(RoleServer), twice(hist(itl, 2, 2), hist(itl, 1, 2)), itl, "counter_reset"},
		{"incompatible before idle", single, enginePod(RoleServer), twice(still+prefix(5, 10), still+prefix(6, 10)), "local-prefix", "incompatible_counters"},
		{"incompatible before no_queries", single, enginePod(RoleServer), twice(prefix(5, 10), prefix(6, 10)), "local-prefix", "incompatible_counters"},
		{"idle before no_queries", single, enginePod(RoleServer), twice(still+prefix(5, 10), still+prefix(5, 10)), "local-prefix", "idle_window"},
		{"idle before no_observations", single, enginePod(RoleServer), twice(still+hist(itl, 1, 1), still+hist(itl, 1, 1)), itl, "idle_window"},
		{"idle for SGLang's caches", sgl, enginePod(RoleServer), twice(sglStill+modes(1, 1, 1, 1), sglStill+modes(1, 1, 1, 1)), "device-prefix", "idle_window"},
		{"a first token that took no time is a request", single, enginePod(RoleServer), twice(still+hist(itl, 1, 1), hist(ttft, 1, 2)+hist(itl, 1, 1)), itl, "no_observations"},
		{"idle is not known without TTFT's baseline", single, enginePod(RoleServer), twice(hist(itl, 1, 1), still+hist(itl, 1, 1)), itl, "no_observations"},
		{"idle is not known over a reset of TTFT", single, enginePod(RoleServer), twice(hist(ttft, 2, 2)+hist(itl, 1, 1), still+hist(itl, 1, 1)), itl, "no_observations"},
		{"idle is not known where TTFT is not read", sglPair, enginePod(RolePrefill), twice(sglStill+modes(1, 1, 1, 1), sglStill+modes(1, 1, 1, 1)), "device-prefix", "no_queries"},
		{"a transfer is never idle", sglPair, enginePod(RolePrefill),
			twice(sglStill+hist("sglang:kv_transfer_total_mb", 1, 1), sglStill+hist("sglang:kv_transfer_total_mb", 1, 1)), "sglang:kv_transfer_total_mb", "no_observations"},
		{"the llm-d router's own TTFT tells", withRouter(engineOf("vllm", RoleServer), "llm-d-router"), routerPod(),
			twice(hist("llm_d_epp_request_ttft_seconds", 1, 1)+hist("llm_d_epp_request_streaming_tpot_seconds", 1, 1), hist("llm_d_epp_request_ttft_seconds", 1, 1)+hist("llm_d_epp_request_streaming_tpot_seconds", 1, 1)),
			"llm_d_epp_request_streaming_tpot_seconds", "idle_window"},
		{"a TTFT that stood still itself", single, enginePod(RoleServer), twice(still, still), ttft, "idle_window"},

		{"ratio: mismatch before incompatible", gateway(), routerPod(),
			[]scrape{{0, "smg_router_requests_total 1"}, {20 * sec, smg(2, 1)}, {22 * sec, smg(2, 9)}}, ratioSource, "window_mismatch"},
		{"ratio: mismatch before no_requests", gateway(), routerPod(),
			[]scrape{{0, "smg_router_requests_total 1"}, {20 * sec, smg(1, 1)}, {22 * sec, smg(1, 1)}}, ratioSource, "window_mismatch"},
		{"ratio: incompatible before no_requests", gateway(), routerPod(), twice(smg(1, 1), smg(1, 2)), ratioSource, "incompatible_counters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			compare(t, only(outcome(t, c.d, c.p, c.reads...), c.of), []string{"- " + c.of + ": " + c.want})
		})
	}
}

// TestNewSamplesBeforeIdle: a source with new samples gives its value, although TTFT recorded nothing.
func TestNewSamplesBeforeIdle(t *testing.T) {
	still := hist("vllm:time_to_first_token_seconds", 1, 1)
	got := outcome(t, engineOf("vllm", RoleServer), enginePod(RoleServer), twice(
		still+prefix(0, 0)+hist("vllm:inter_token_latency_seconds", 1, 1),
		still+prefix(1, 4)+hist("vllm:inter_token_latency_seconds", 2, 3))...)
	compare(t, only(got, "vllm:time_to_first_token_seconds", "local-prefix", "itl"), []string{
		"- vllm:time_to_first_token_seconds: idle_window",
		"local-prefix = 1/4 tokens in 30s (vllm:prefix_cache)",
		"itl = 0.5 seconds of 2 in 30s (vllm:inter_token_latency_seconds)",
	})
}

// TestErrorRatio: the ratio needs both windows; where one counter has none, its own entry stands alone.
func TestErrorRatio(t *testing.T) {
	const (
		requests = "smg_router_requests_total"
		errors   = "smg_router_request_errors_total"
	)
	for _, c := range []struct {
		name  string
		reads []scrape
		want  []string
	}{
		{"both", twice(smg(0, 0), smg(60, 15)), []string{
			"requests = 2 requests/second of 60 in 30s (smg_router_requests_total)",
			"errors = 0.5 errors/second of 15 in 30s (smg_router_request_errors_total)",
			"error-ratio = 0.25 fraction of 60 in 30s (smg_router_requests_total+smg_router_request_errors_total)"}},
		{"no error is a measured zero", twice(smg(0, 5), smg(60, 5)), []string{
			"requests = 2 requests/second of 60 in 30s (smg_router_requests_total)",
			"errors = 0 errors/second of 0 in 30s (smg_router_request_errors_total)",
			"error-ratio = 0 fraction of 60 in 30s (smg_router_requests_total+smg_router_request_errors_total)"}},
		{"no request is a measured zero, but no ratio", twice(smg(60, 5), smg(60, 5)), []string{
			"requests = 0 requests/second of 0 in 30s (smg_router_requests_total)",
			"errors = 0 errors/second of 0 in 30s (smg_router_request_errors_total)",
			"- " + ratioSource + ": no_requests"}},
		{"both first", []scrape{{0, smg(0, 0)}}, []string{"- " + requests + ": first_sample", "- " + errors + ": first_sample"}},
		{"errors first", twice(requests+" 0", smg(60, 1)), []string{
			"requests = 2 requests/second of 60 in 30s (smg_router_requests_total)", "- " + errors + ": first_sample"}},
		{"requests first", twice(errors+" 0", smg(60, 15)), []string{
			"- " + requests + ": first_sample", "errors = 0.5 errors/second of 15 in 30s (smg_router_request_errors_total)"}},
		{"errors reset", twice(smg(0, 9), smg(60, 1)), []string{
			"requests = 2 requests/second of 60 in 30s (smg_router_requests_total)", "- " + errors + ": counter_reset"}},
		{"errors not yet exported", twice(requests+" 0", requests+" 60"), []string{
			"requests = 2 requests/second of 60 in 30s (smg_router_requests_total)", "- " + errors + ": not_yet_exported"}},
		{"requests absent", twice(errors+" 0", errors+" 15"), []string{
			"- " + requests + ": metric_absent", "errors = 0.5 errors/second of 15 in 30s (smg_router_request_errors_total)"}},
		{"both absent", twice("", ""), []string{"- " + requests + ": metric_absent", "- " + errors + ": metric_absent"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := outcome(t, gateway(), routerPod(), c.reads...)
			compare(t, only(got, "requests", "errors", "error-ratio", requests, errors, ratioSource), c.want)
		})
	}
}
