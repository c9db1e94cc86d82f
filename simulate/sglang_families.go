package simulate

import "math/big"

// sglangEngine are the labels of the series that SGLang's front process writes; sglangRank those of
// a scheduler's, one process a tensor-parallel rank. Where data-parallel attention or priorities are
// on, dp_rank or priority is added to the latter.
var (
	sglangEngine = []string{"engine_type", "model_name"}
	sglangRank   = []string{"engine_type", "model_name", "moe_ep_rank", "pp_rank", "tp_rank"}
)

var (
	sglangTTFTBuckets  = []float64{0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400}
	sglangE2EBuckets   = []float64{0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400}
	sglangITLBuckets   = []float64{0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8}
	sglangQueueBuckets = []float64{0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 60, 100, 1000, 3000}
	sglangStageBuckets = exponential(0.001, 1.62, 30)
	sglangKVLatency    = []float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000}
	sglangKVSpeed      = []float64{0.1, 0.5, 1, 5, 10, 25, 50, 100, 200, 400}
	sglangKVSize       = []float64{1, 5, 10, 50, 100, 250, 500, 1000, 2500, 5000, 10000}
)

// exponential returns n bounds from start, each factor times the one before it. The power is rounded
// once, as C's pow does, so the bounds have the digits that Python's have.
func exponential(start, factor float64, n int) []float64 {
	bounds := make([]float64, n)
	power := new(big.Float).SetPrec(2048).SetInt64(1)
	for i := range bounds {
		rounded, _ := power.Float64()
		bounds[i] = start * rounded
		power.Mul(power, new(big.Float).SetFloat64(factor))
	}
	return bounds
}

// sglangModes are the values of prefill_effective_tokens_total's mode.
var sglangModes = []string{"input", "device_hit", "host_hit", "storage_hit"}

// sglangStages are the stages of a request that each kind of engine times.
var sglangStages = map[string][]string{
	"unified": {"prefill_waiting", "prefill_forward", "decode_loop"},
	"prefill": {"prefill_bootstrap", "prefill_forward", "prefill_transfer_kv_cache"},
	"decode":  {"decode_prepare", "decode_bootstrap", "decode_waiting"},
}

// sglangFamilies are the engine's own, as its main line of 2026 lists them, for a scheduler's labels.
func sglangFamilies(rank []string) []family {
	with := func(more ...string) []string { return append(append([]string{}, rank...), more...) }
	front := func(more ...string) []string { return append(append([]string{}, sglangEngine...), more...) }
	return []family{
		{name: "sglang:prompt_tokens_total", kind: counter, help: "Prompt tokens taken in.", labels: front("is_streaming")},
		{name: "sglang:generation_tokens_total", kind: counter, help: "Tokens put out.", labels: front("is_streaming")},
		{name: "sglang:num_requests_total", kind: counter, help: "Requests that ended.", labels: front("is_streaming")},
		{name: "sglang:http_requests_total", kind: counter, help: "HTTP requests answered, by endpoint.", labels: []string{"endpoint", "method"}},
		{name: "sglang:time_to_first_token_seconds", kind: histogram, help: "From a request's arrival to its first token.", labels: front("is_streaming"), buckets: sglangTTFTBuckets},
		{name: "sglang:e2e_request_latency_seconds", kind: histogram, help: "From a request's arrival to its end.", labels: front("is_streaming"), buckets: sglangE2EBuckets},
		{name: "sglang:inter_token_latency_seconds", kind: histogram, help: "Between one streamed token and the next.", labels: sglangEngine, buckets: sglangITLBuckets, lazy: true},
		{name: "sglang:queue_time_seconds", kind: histogram, help: "How long a request waited for a batch.", labels: rank, buckets: sglangQueueBuckets, lazy: true},
		{name: "sglang:per_stage_req_latency_seconds", kind: histogram, help: "How long one stage of a request took.", labels: with("stage"), buckets: sglangStageBuckets, lazy: true},
		{name: "sglang:kv_transfer_latency_ms", kind: histogram, help: "How long the KV blocks of a request took to be sent, in milliseconds.", labels: rank, buckets: sglangKVLatency, lazy: true},
		{name: "sglang:kv_transfer_speed_gb_s", kind: histogram, help: "How fast the KV blocks of a request were sent, in GB a second.", labels: rank, buckets: sglangKVSpeed, lazy: true},
		{name: "sglang:kv_transfer_total_mb", kind: histogram, help: "How many MB of KV blocks a request sent.", labels: rank, buckets: sglangKVSize, lazy: true},
		{name: "sglang:num_retracted_reqs", kind: gauge, help: "Requests put back into the queue.", labels: with("pid"), lazy: true},
		{name: "sglang:num_paused_reqs", kind: gauge, help: "Requests on hold.", labels: with("pid"), lazy: true},
		{name: "sglang:max_total_num_tokens", kind: gauge, help: "Tokens that the KV pool has room for.", labels: rank, start: 441792},
		{name: "sglang:prefill_effective_tokens_total", kind: counter, help: "Prompt tokens by where their KV came from; retracted requests count once.", labels: with("mode"), seed: sglangModes},
		{name: "sglang:num_transfer_failed_reqs_total", kind: counter, help: "Requests whose KV blocks did not arrive.", labels: rank, lazy: true},
		{name: "sglang:num_bootstrap_failed_reqs_total", kind: counter, help: "Requests whose two halves did not find each other.", labels: rank, lazy: true},
		{name: "sglang:realtime_tokens_total", kind: counter, help: "Tokens as each step handles them, by what was done.", labels: with("mode"), lazy: true},
		{name: "sglang:num_running_reqs", kind: gauge, help: "Requests in the batch being executed.", labels: rank, lazy: true},
		{name: "sglang:num_queue_reqs", kind: gauge, help: "Requests in the scheduler's waiting queue.", labels: rank, lazy: true},
		{name: "sglang:token_usage", kind: gauge, help: "Share of the KV pool in use, from 0 to 1.", labels: rank, lazy: true},
		{name: "sglang:cache_hit_rate", kind: gauge, help: "Share of the last batch's prompt found in the cache.", labels: rank, lazy: true},
		{name: "sglang:gen_throughput", kind: gauge, help: "Tokens put out a second, over the last interval.", labels: rank, lazy: true},
		{name: "sglang:fwd_occupancy", kind: gauge, help: "Share of time in forward passes; NaN where it is not timed.", labels: rank, lazy: true},
		{name: "sglang:num_prefill_bootstrap_queue_reqs", kind: gauge, help: "Requests waiting for their decode half to be found.", labels: rank, lazy: true},
		{name: "sglang:num_prefill_inflight_queue_reqs", kind: gauge, help: "Requests whose KV blocks are being sent.", labels: rank, lazy: true},
		{name: "sglang:num_decode_prealloc_queue_reqs", kind: gauge, help: "Requests waiting for room in the KV pool.", labels: rank, lazy: true},
		{name: "sglang:num_decode_transfer_queue_reqs", kind: gauge, help: "Requests whose KV blocks are still arriving.", labels: rank, lazy: true},
		{name: "sglang:routing_key_running_req_count", kind: gauge, help: "Routing keys by how many of their requests run.", labels: with("gt", "le"), lazy: true},
		{name: "sglang:http_requests_active", kind: gauge, help: "HTTP requests being answered.", labels: []string{"endpoint", "method"}},
	}
}
