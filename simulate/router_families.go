package simulate

// rustBuckets are the bounds that vllm-router and smg use for durations.
var rustBuckets = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 45, 60, 90, 120, 180, 240}

// vllmRouterFamilies serve both modes: a family without a series is not written, so each mode
// exports what it increments.
var vllmRouterFamilies = []family{
	{name: "vllm_router_requests_total", kind: counter, labels: []string{"route"}},
	{name: "vllm_router_request_errors_total", kind: counter, labels: []string{"route", "error_type"}},
	{name: "vllm_router_retries_total", kind: counter, labels: []string{"route"}},
	{name: "vllm_router_retries_exhausted_total", kind: counter, labels: []string{"route"}},
	{name: "vllm_router_retry_backoff_duration_seconds", kind: histogram, labels: []string{"attempt"}, buckets: rustBuckets},
	{name: "vllm_router_request_duration_seconds", kind: histogram, labels: []string{"route"}, buckets: rustBuckets},
	{name: "vllm_router_generate_duration_seconds", kind: histogram, buckets: rustBuckets, lazy: true},
	{name: "vllm_router_active_workers", kind: gauge},
	{name: "vllm_router_running_requests", kind: gauge, labels: []string{"worker"}},
	{name: "vllm_router_worker_health", kind: gauge, labels: []string{"worker"}},
	{name: "vllm_router_processed_requests_total", kind: counter, labels: []string{"worker"}},
	{name: "vllm_router_policy_decisions_total", kind: counter, labels: []string{"policy", "worker"}},
	{name: "vllm_router_cb_state", kind: gauge, labels: []string{"worker"}},
	{name: "vllm_router_pd_requests_total", kind: counter, labels: []string{"route"}},
	{name: "vllm_router_pd_errors_total", kind: counter, labels: []string{"error_type"}},
	{name: "vllm_router_pd_prefill_requests_total", kind: counter, labels: []string{"worker"}},
	{name: "vllm_router_pd_decode_requests_total", kind: counter, labels: []string{"worker"}},
	{name: "vllm_router_pd_request_duration_seconds", kind: histogram, labels: []string{"route"}, buckets: rustBuckets},
	{name: "vllm_tokenizer_tokens_per_encode", kind: summary},
}

// smgFamilies are those of sglang-gateway's HTTP router.
var smgFamilies = []family{
	{name: "smg_http_requests_total", kind: counter, labels: []string{"method", "path"}},
	{name: "smg_http_responses_total", kind: counter, labels: []string{"status_code", "error_code"}},
	{name: "smg_http_request_duration_seconds", kind: histogram, labels: []string{"method", "path"}, buckets: rustBuckets},
	{name: "smg_http_inflight_request_age_count", kind: gauge, labels: []string{"gt", "le"}},
	{name: "smg_router_requests_total", kind: counter, labels: smgRoute},
	{name: "smg_router_request_errors_total", kind: counter, labels: []string{"router_type", "backend_type", "connection_mode", "model", "endpoint", "error_type"}},
	{name: "smg_router_request_duration_seconds", kind: histogram, labels: []string{"router_type", "backend_type", "connection_mode", "model", "endpoint"}, buckets: rustBuckets},
	{name: "smg_router_stage_duration_seconds", kind: histogram, labels: []string{"router_type", "stage"}, buckets: rustBuckets},
	{name: "smg_worker_pool_size", kind: gauge, labels: []string{"worker_type", "connection_mode", "model"}},
	{name: "smg_worker_requests_active", kind: gauge, labels: []string{"worker"}},
	{name: "smg_worker_health", kind: gauge, labels: []string{"worker"}},
	{name: "smg_worker_selection_total", kind: counter, labels: []string{"worker_type", "connection_mode", "model", "policy"}},
	{name: "smg_worker_retries_total", kind: counter, labels: []string{"worker_type", "endpoint"}},
	{name: "smg_worker_cb_state", kind: gauge, labels: []string{"worker"}},
	{name: "smg_discovery_workers_discovered", kind: gauge, labels: []string{"source"}},
}

var smgRoute = []string{"router_type", "backend_type", "connection_mode", "model", "endpoint", "streaming"}
