package normalize

import (
	"maps"
	"slices"
)

// The source tables: which series each field reads, by engine and by router, and from which Pods.
// They mirror the specification's "Per-field series". A new engine, a new router or a renamed
// series is a few lines here.

var vllm = newTable(ScopeEngine, []row{
	{field: Running, kind: gauge, series: "vllm:num_requests_running"},
	{field: Waiting, kind: gauge, series: "vllm:num_requests_waiting"},

	{field: LocalPrefix, kind: cache, series: "vllm:prefix_cache",
		hits:    "vllm:prefix_cache_hits_total",
		queries: []string{"vllm:prefix_cache_queries_total"}},
	{field: ExternalStore, kind: cache, series: "vllm:external_prefix_cache",
		hits:    "vllm:external_prefix_cache_hits_total",
		queries: []string{"vllm:external_prefix_cache_queries_total"},
		unless: []unless{
			{noKVConnector, UnsupportedNoKVConnector},
			{notStore, UnsupportedNotStore},
		}},

	{field: TTFT, kind: histogram, series: "vllm:time_to_first_token_seconds"},
	{field: TPOT, kind: histogram, series: "vllm:request_time_per_output_token_seconds", on: butPrefillOfPair},
	{field: ITL, kind: histogram, series: "vllm:inter_token_latency_seconds", on: butPrefillOfPair},
})

// sglangModes is the denominator of every SGLang tier: prompt tokens prefilled and tokens found in each tier.
var sglangModes = []string{
	`sglang:prefill_effective_tokens_total{mode="input"}`,
	`sglang:prefill_effective_tokens_total{mode="device_hit"}`,
	`sglang:prefill_effective_tokens_total{mode="host_hit"}`,
	`sglang:prefill_effective_tokens_total{mode="storage_hit"}`,
}

var sglang = newTable(ScopeEngine, []row{
	{field: Running, kind: gauge, series: "sglang:num_running_reqs"},
	{field: Waiting, kind: gauge, series: "sglang:num_queue_reqs"},
	{field: DecodeTransferWaiting, kind: gauge, series: "sglang:num_decode_transfer_queue_reqs", on: decodeOfPair},

	{field: DevicePrefix, kind: cache, series: "sglang:prefill_effective_tokens_total", on: butDecodeOfPair,
		hits: sglangModes[1], queries: sglangModes},
	{field: HostPrefix, kind: cache, series: "sglang:prefill_effective_tokens_total", on: butDecodeOfPair,
		hits: sglangModes[2], queries: sglangModes,
		unless: []unless{{noHostTier, UnsupportedNoHostTier}}},
	{field: StoragePrefix, kind: cache, series: "sglang:prefill_effective_tokens_total", on: butDecodeOfPair,
		hits: sglangModes[3], queries: sglangModes,
		unless: []unless{{noStorageTier, UnsupportedNoStorageTier}}},

	{field: TTFT, kind: histogram, series: "sglang:time_to_first_token_seconds", on: butPrefillOfPair},
	{field: ITL, kind: histogram, series: "sglang:inter_token_latency_seconds", on: butPrefillOfPair, onceStreaming: true},

	{field: TransferLatency, kind: histogram, series: "sglang:kv_transfer_latency_ms", on: prefillOfPair},
	{field: TransferSpeed, kind: histogram, series: "sglang:kv_transfer_speed_gb_s", on: prefillOfPair},
	{field: TransferSize, kind: histogram, series: "sglang:kv_transfer_total_mb", on: prefillOfPair},
	{field: TransferFailures, kind: counter, series: "sglang:num_transfer_failed_reqs_total", on: prefillOfPair, beside: TransferSize},
}, foldRanks)

var llmdRouter = newTable(ScopeRouter, []row{
	{field: RouterRunning, kind: gauge, series: "llm_d_epp_request_running"},
	{field: RouterBackends, kind: gauge, series: "llm_d_epp_ready_endpoints"},

	{field: Requests, kind: counter, series: "llm_d_epp_request_total"},
	{field: RequestErrors, kind: counter, series: "llm_d_epp_request_error_total", beside: Requests},

	{field: TTFT, kind: histogram, series: "llm_d_epp_request_ttft_seconds"},
	{field: TPOT, kind: histogram, series: "llm_d_epp_request_streaming_tpot_seconds"},
})

var vllmRouter = newTable(ScopeRouter, []row{
	{field: RouterRunning, kind: gauge, series: "vllm_router_running_requests"},
	{field: RouterReportedWorkers, kind: gauge, series: "vllm_router_active_workers"},

	{field: SuccessfulRequests, kind: counter, series: "vllm_router_requests_total"},
	{field: Errors, kind: counter, series: "vllm_router_request_errors_total", beside: SuccessfulRequests},
	{field: RetriesExhausted, kind: counter, series: "vllm_router_retries_exhausted_total", beside: SuccessfulRequests},
})

var vllmRouterPD = newTable(ScopeRouter, []row{
	{field: RouterRunning, kind: gauge, series: "vllm_router_running_requests",
		unless: []unless{{always, UnsupportedPDRouterGauge}}},
	{field: RouterReportedWorkers, kind: gauge, series: "vllm_router_active_workers",
		unless: []unless{{always, UnsupportedPDRouterGauge}}},

	{field: PDRequests, kind: counter, series: "vllm_router_pd_requests_total"},
	{field: PDErrors, kind: counter, series: "vllm_router_pd_errors_total", beside: PDRequests},
})

var sglangGateway = newTable(ScopeRouter, []row{
	{field: RouterRunning, kind: gauge, series: "smg_worker_requests_active"},
	{field: RouterBackends, kind: gauge, series: "smg_worker_pool_size"},

	{field: Requests, kind: counter, series: "smg_router_requests_total"},
	{field: Errors, kind: counter, series: "smg_router_request_errors_total", beside: Requests},
	{field: ErrorRatio, kind: ratio, series: "smg_router_requests_total+smg_router_request_errors_total",
		errors: Errors, requests: Requests},
	{field: HTTP5xxResponses, kind: counter, series: "smg_http_responses_total", statusCode5xx: true},
})

// engines are the tables by spec.engine.name. vLLM-Ascend Pods are read as vLLM.
var engines = map[string]*Table{
	"vllm":   vllm,
	"sglang": sglang,
}

// routers are the tables by spec.router.name: ordinary serving, and behind a prefill/decode pair.
var routers = map[string]struct{ serving, pair *Table }{
	"llm-d-router":   {llmdRouter, llmdRouter},
	"vllm-router":    {vllmRouter, vllmRouterPD},
	"sglang-gateway": {sglangGateway, sglangGateway},
}

// Engines lists the engines' names, sorted.
func Engines() []string { return slices.Sorted(maps.Keys(engines)) }

// Routers lists the routers' names, sorted.
func Routers() []string { return slices.Sorted(maps.Keys(routers)) }
