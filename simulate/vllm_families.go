package simulate

// vllmBase are the labels that every vLLM series begins with: the data-parallel rank and the model.
var vllmBase = []string{"engine", "model_name"}

func vllmLabels(more ...string) []string { return append([]string{"engine", "model_name"}, more...) }

var (
	vllmTokenBuckets     = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000}
	vllmIterationBuckets = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	vllmSmallBuckets     = []float64{1, 2, 5, 10, 20}
	vllmTTFTBuckets      = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	vllmTokenTimeBuckets = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	vllmRequestBuckets   = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
)

// pythonFamilies are the collectors that Python's client registers by itself in one process.
var pythonFamilies = []family{
	{name: "python_gc_objects_collected_total", kind: counter, help: "Objects that the garbage collector freed, by generation.", labels: []string{"generation"}, seed: []string{"0", "1", "2"}, start: 289},
	{name: "python_gc_objects_uncollectable_total", kind: counter, help: "Objects that the garbage collector could not free.", labels: []string{"generation"}, seed: []string{"0", "1", "2"}},
	{name: "python_gc_collections_total", kind: counter, help: "Collections run, by generation.", labels: []string{"generation"}, seed: []string{"0", "1", "2"}, start: 40},
	{name: "python_info", kind: gauge, help: "The interpreter, always 1.", labels: []string{"implementation", "major", "minor", "patchlevel", "version"}},
	{name: "process_virtual_memory_bytes", kind: gauge, help: "Address space in use.", start: 29638656},
	{name: "process_resident_memory_bytes", kind: gauge, help: "Memory held in RAM.", start: 23855104},
	{name: "process_start_time_seconds", kind: gauge, help: "When the process began, in Unix time."},
	{name: "process_cpu_seconds_total", kind: counter, help: "Processor time spent, user and system together."},
	{name: "process_open_fds", kind: gauge, help: "Descriptors that are open.", start: 57},
	{name: "process_max_fds", kind: gauge, help: "Descriptors that may be open.", start: 20000},
}

// vllmFamilies are the engine's own, as vLLM 0.15 lists them.
var vllmFamilies = []family{
	{name: "vllm:num_requests_running", kind: gauge, help: "Requests in the batch being executed.", labels: vllmBase},
	{name: "vllm:num_requests_waiting", kind: gauge, help: "Requests that no batch has taken yet.", labels: vllmBase},
	{name: "vllm:engine_sleep_state", kind: gauge, help: "One for the state of sleep that the engine is in.", labels: vllmLabels("sleep_state"), seed: []string{"awake", "weights_offloaded", "discard_all"}},
	{name: "vllm:kv_cache_usage_perc", kind: gauge, help: "Share of the KV blocks in use, from 0 to 1.", labels: vllmBase},
	{name: "vllm:prefix_cache_queries_total", kind: counter, help: "Prompt tokens looked up in the engine's own cache.", labels: vllmBase},
	{name: "vllm:prefix_cache_hits_total", kind: counter, help: "Prompt tokens found in the engine's own cache.", labels: vllmBase},
	{name: "vllm:external_prefix_cache_queries_total", kind: counter, help: "Prompt tokens asked of the KV connector.", labels: vllmBase},
	{name: "vllm:external_prefix_cache_hits_total", kind: counter, help: "Prompt tokens that the KV connector supplied.", labels: vllmBase},
	{name: "vllm:mm_cache_queries_total", kind: counter, help: "Multi-modal items looked up.", labels: vllmBase},
	{name: "vllm:mm_cache_hits_total", kind: counter, help: "Multi-modal items found.", labels: vllmBase},
	{name: "vllm:num_preemptions_total", kind: counter, help: "Times a request lost its blocks to another.", labels: vllmBase},
	{name: "vllm:prompt_tokens_total", kind: counter, help: "Prompt tokens taken in.", labels: vllmBase},
	{name: "vllm:prompt_tokens_by_source_total", kind: counter, help: "Prompt tokens by where their KV blocks came from.", labels: vllmLabels("source"), seed: []string{"local_compute", "local_cache_hit", "external_kv_transfer"}},
	{name: "vllm:generation_tokens_total", kind: counter, help: "Tokens put out.", labels: vllmBase},
	{name: "vllm:request_success_total", kind: counter, help: "Requests that ended, by why.", labels: vllmLabels("finished_reason"), seed: []string{"stop", "length", "abort", "error"}},
	{name: "vllm:request_prompt_tokens", kind: histogram, help: "Prompt length of a request.", labels: vllmBase, buckets: vllmTokenBuckets},
	{name: "vllm:request_generation_tokens", kind: histogram, help: "Output length of a request.", labels: vllmBase, buckets: vllmTokenBuckets},
	{name: "vllm:iteration_tokens_total", kind: histogram, help: "Tokens handled in one step.", labels: vllmBase, buckets: vllmIterationBuckets},
	{name: "vllm:request_params_n", kind: histogram, help: "The n that a request asked for.", labels: vllmBase, buckets: vllmSmallBuckets},
	{name: "vllm:time_to_first_token_seconds", kind: histogram, help: "From a request's arrival to its first token.", labels: vllmBase, buckets: vllmTTFTBuckets},
	{name: "vllm:inter_token_latency_seconds", kind: histogram, help: "Between one token of a request and the next.", labels: vllmBase, buckets: vllmTokenTimeBuckets},
	{name: "vllm:request_time_per_output_token_seconds", kind: histogram, help: "A request's mean time for a token after its first.", labels: vllmBase, buckets: vllmTokenTimeBuckets},
	{name: "vllm:e2e_request_latency_seconds", kind: histogram, help: "From a request's arrival to its end.", labels: vllmBase, buckets: vllmRequestBuckets},
	{name: "vllm:request_queue_time_seconds", kind: histogram, help: "How long a request waited for a batch.", labels: vllmBase, buckets: vllmRequestBuckets},
	{name: "vllm:request_prefill_time_seconds", kind: histogram, help: "How long a request's prompt took.", labels: vllmBase, buckets: vllmRequestBuckets},
	{name: "vllm:cache_config_info", kind: gauge, help: "How the KV cache is set up, always 1.", labels: []string{"block_size", "cache_dtype", "enable_prefix_caching", "engine", "gpu_memory_utilization", "num_gpu_blocks", "swap_space_bytes"}},
	{name: "http_requests_total", kind: counter, help: "HTTP requests answered, by route and class of status.", labels: []string{"handler", "method", "status"}},
}
