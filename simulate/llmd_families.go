package simulate

import (
	"slices"
	"strings"
)

var (
	eppFlow   = []string{"fairness_id", "model_name", "priority", "target_model_name"}
	eppStream = []string{"fairness_id", "model_name", "priority", "streaming", "target_model_name"}
	eppLegacy = []string{"model_name", "target_model_name"}
)

var (
	eppDurationBuckets = []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
	eppTTFTBuckets     = eppDurationBuckets[:24]
	eppTPOTBuckets     = []float64{0.0005, 0.00205, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 2}
	eppITLBuckets      = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2}
	eppNTPOTBuckets    = []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10}
	eppTokenBuckets    = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32778, 65536, 131072, 262144, 524288, 1048576}
	eppSizeBuckets     = exponential(64, 2, 25)
	eppStepBuckets     = []float64{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1}
	goAllocBuckets     = []float64{8.999999999999998, 24.999999999999996, 64.99999999999999, 144.99999999999997, 320.99999999999994, 704.9999999999999, 1536.9999999999998, 3200.9999999999995, 6528.999999999999, 13568.999999999998, 27264.999999999996}
	goTimeBuckets      = []float64{6.399999999999999e-08, 6.399999999999999e-07, 7.167999999999999e-06, 8.191999999999999e-05, 0.0009175039999999999, 0.010485759999999998, 0.11744051199999998}
)

// llmdFamilies are the router's own: the names it has, and the older ones it still answers to.
// Labelled families have no series before their first request.
var llmdFamilies = []family{
	{name: "inference_extension_flow_control_pool_saturation", kind: gauge, help: "Former name: how full the pool is, by stage.", labels: []string{"inference_pool", "stage"}},
	{name: "inference_extension_flow_control_queue_size", kind: gauge, help: "Former name: requests that flow control holds back.", labels: []string{"fairness_id", "inference_pool", "model_name", "priority", "target_model_name"}},
	{name: "inference_extension_info", kind: gauge, help: "Former name: the build, always 1.", labels: []string{"build_ref", "commit"}},
	{name: "inference_extension_plugin_duration_seconds", kind: histogram, help: "Former name: how long a plugin took.", labels: []string{"extension_point", "plugin_name", "plugin_type"}, buckets: eppStepBuckets},
	{name: "inference_extension_scheduler_attempts_total", kind: counter, help: "Former name: attempts to place a request.", labels: []string{"namespace", "pod_name", "port", "status", "target_model_name"}},
	{name: "inference_extension_scheduler_e2e_duration_seconds", kind: histogram, help: "Former name: how long placing a request took.", buckets: eppStepBuckets},
	{name: "inference_objective_input_tokens", kind: histogram, help: "Former name: prompt length of a request.", labels: eppLegacy, buckets: eppTokenBuckets},
	{name: "inference_objective_normalized_time_per_output_token_seconds", kind: histogram, help: "Former name: a request's time for each token put out.", labels: eppLegacy, buckets: eppNTPOTBuckets},
	{name: "inference_objective_output_tokens", kind: histogram, help: "Former name: output length of a request.", labels: eppLegacy, buckets: eppTokenBuckets[:12]},
	{name: "inference_objective_prompt_cached_tokens", kind: histogram, help: "Former name: prompt tokens that a cache supplied.", labels: eppLegacy, buckets: eppTokenBuckets},
	{name: "inference_objective_request_duration_seconds", kind: histogram, help: "Former name: from a request's arrival to its end.", labels: eppLegacy, buckets: eppDurationBuckets},
	{name: "inference_objective_request_error_total", kind: counter, help: "Former name: requests that failed.", labels: []string{"error_code", "model_name", "target_model_name"}},
	{name: "inference_objective_request_sizes", kind: histogram, help: "Former name: bytes of a request.", labels: eppLegacy, buckets: eppSizeBuckets},
	{name: "inference_objective_request_total", kind: counter, help: "Former name: requests handled.", labels: []string{"model_name", "priority", "target_model_name"}},
	{name: "inference_objective_response_sizes", kind: histogram, help: "Former name: bytes of an answer.", labels: eppLegacy, buckets: eppTokenBuckets[:15]},
	{name: "inference_objective_running_requests", kind: gauge, help: "Former name: requests in flight.", labels: []string{"model_name"}},
	{name: "inference_pool_average_kv_cache_utilization", kind: gauge, help: "Former name: mean share of KV blocks in use.", labels: []string{"name"}},
	{name: "inference_pool_average_queue_size", kind: gauge, help: "Former name: mean queue of an endpoint.", labels: []string{"name"}},
	{name: "inference_pool_average_running_requests", kind: gauge, help: "Former name: mean requests that an endpoint runs.", labels: []string{"name"}},
	{name: "inference_pool_ready_pods", kind: gauge, help: "Former name: endpoints held ready.", labels: []string{"name"}},
	{name: "llm_d_epp_average_kv_cache_utilization", kind: gauge, help: "Mean share of KV blocks in use.", labels: []string{"name"}},
	{name: "llm_d_epp_average_queue_size", kind: gauge, help: "Mean queue of an endpoint.", labels: []string{"name"}},
	{name: "llm_d_epp_average_running_requests", kind: gauge, help: "Mean requests that an endpoint runs.", labels: []string{"name"}},
	{name: "llm_d_epp_flow_control_pool_saturation", kind: gauge, help: "How full the pool is, by stage.", labels: []string{"inference_pool", "stage"}},
	{name: "llm_d_epp_flow_control_queue_size", kind: gauge, help: "Requests that flow control holds back.", labels: []string{"fairness_id", "inference_pool", "model_name", "priority", "target_model_name"}},
	{name: "llm_d_epp_flow_control_requests_total", kind: counter, help: "Requests that flow control let go, by outcome.", labels: []string{"inference_pool", "outcome", "priority"}},
	{name: "llm_d_epp_info", kind: gauge, help: "The build, always 1.", labels: []string{"build_ref", "commit"}},
	{name: "llm_d_epp_plugin_duration_seconds", kind: histogram, help: "How long a plugin took.", labels: []string{"extension_point", "plugin_name", "plugin_type"}, buckets: eppStepBuckets},
	{name: "llm_d_epp_ready_endpoints", kind: gauge, help: "Endpoints held ready.", labels: []string{"name"}},
	{name: "llm_d_epp_request_cached_tokens", kind: histogram, help: "Prompt tokens that a cache supplied.", labels: eppFlow, buckets: eppTokenBuckets},
	{name: "llm_d_epp_request_duration_seconds", kind: histogram, help: "From a request's arrival to its end.", labels: eppFlow, buckets: eppDurationBuckets},
	{name: "llm_d_epp_request_error_total", kind: counter, help: "Requests that failed, those that never counted as requests among them.", labels: []string{"error_code", "fairness_id", "model_name", "priority", "target_model_name"}},
	{name: "llm_d_epp_request_input_tokens", kind: histogram, help: "Prompt length of a request.", labels: eppFlow, buckets: eppTokenBuckets},
	{name: "llm_d_epp_request_ntpot_seconds", kind: histogram, help: "A request's time for each token put out.", labels: eppFlow, buckets: eppNTPOTBuckets},
	{name: "llm_d_epp_request_output_tokens", kind: histogram, help: "Output length of a request.", labels: eppFlow, buckets: eppTokenBuckets[:12]},
	{name: "llm_d_epp_request_running", kind: gauge, help: "Requests in flight.", labels: eppFlow},
	{name: "llm_d_epp_request_size_bytes", kind: histogram, help: "Bytes of a request.", labels: eppFlow, buckets: eppSizeBuckets},
	{name: "llm_d_epp_request_streaming_itl_seconds", kind: histogram, help: "Between one streamed token and the next.", labels: eppFlow, buckets: eppITLBuckets},
	{name: "llm_d_epp_request_streaming_tpot_seconds", kind: histogram, help: "A streamed request's mean time for a token after its first.", labels: eppFlow, buckets: eppTPOTBuckets},
	{name: "llm_d_epp_request_total", kind: counter, help: "Requests handled.", labels: eppFlow},
	{name: "llm_d_epp_request_ttft_seconds", kind: histogram, help: "From a request's arrival to its first token.", labels: eppStream, buckets: eppTTFTBuckets},
	{name: "llm_d_epp_response_size_bytes", kind: histogram, help: "Bytes of an answer.", labels: eppFlow, buckets: eppTokenBuckets[:15]},
	{name: "llm_d_epp_scheduler_attempts_total", kind: counter, help: "Attempts to place a request.", labels: []string{"endpoint_name", "namespace", "port", "status", "target_model_name"}},
	{name: "llm_d_epp_scheduler_e2e_duration_seconds", kind: histogram, help: "How long placing a request took.", buckets: eppStepBuckets},
}

// goProcess is one row of what a Go process says of itself.
type goProcess struct {
	name  string
	kind  kind
	start float64
}

// goRuntime are the families of controller-runtime, the Go runtime and the process.
var goRuntime = []goProcess{
	{"certwatcher_read_certificate_errors_total", counter, 0}, {"certwatcher_read_certificate_total", counter, 0},
	{"controller_runtime_conversion_webhook_panics_total", counter, 0}, {"controller_runtime_webhook_panics_total", counter, 0},
	{"go_cgo_go_to_c_calls_calls_total", counter, 1}, {"go_cpu_classes_gc_mark_assist_cpu_seconds_total", counter, 0.000617997},
	{"go_cpu_classes_gc_mark_dedicated_cpu_seconds_total", counter, 0.000757673}, {"go_cpu_classes_gc_mark_idle_cpu_seconds_total", counter, 0.00229466},
	{"go_cpu_classes_gc_pause_cpu_seconds_total", counter, 0.000392337}, {"go_cpu_classes_gc_total_cpu_seconds_total", counter, 0.004062667},
	{"go_cpu_classes_idle_cpu_seconds_total", counter, 0.03806553}, {"go_cpu_classes_scavenge_assist_cpu_seconds_total", counter, 4.1e-07},
	{"go_cpu_classes_scavenge_background_cpu_seconds_total", counter, 4.32e-07}, {"go_cpu_classes_scavenge_total_cpu_seconds_total", counter, 8.42e-07},
	{"go_cpu_classes_total_cpu_seconds_total", counter, 0.106518624}, {"go_cpu_classes_user_cpu_seconds_total", counter, 0.064389585},
	{"go_gc_cleanups_executed_cleanups_total", counter, 0}, {"go_gc_cleanups_queued_cleanups_total", counter, 0},
	{"go_gc_cycles_automatic_gc_cycles_total", counter, 2}, {"go_gc_cycles_forced_gc_cycles_total", counter, 0}, {"go_gc_cycles_total_gc_cycles_total", counter, 2},
	{"go_gc_duration_seconds", summary, 0}, {"go_gc_finalizers_executed_finalizers_total", counter, 0}, {"go_gc_finalizers_queued_finalizers_total", counter, 0},
	{"go_gc_gogc_percent", gauge, 100}, {"go_gc_gomemlimit_bytes", gauge, 1 << 63}, {"go_gc_heap_allocs_by_size_bytes", histogram, 0},
	{"go_gc_heap_allocs_bytes_total", counter, 4132664}, {"go_gc_heap_allocs_objects_total", counter, 28718}, {"go_gc_heap_frees_by_size_bytes", histogram, 0},
	{"go_gc_heap_frees_bytes_total", counter, 1590432}, {"go_gc_heap_frees_objects_total", counter, 14054}, {"go_gc_heap_goal_bytes", gauge, 5243226},
	{"go_gc_heap_live_bytes", gauge, 2445560}, {"go_gc_heap_objects_objects", gauge, 14664}, {"go_gc_heap_tiny_allocs_objects_total", counter, 1317},
	{"go_gc_limiter_last_enabled_gc_cycle", gauge, 0}, {"go_gc_pauses_seconds", histogram, 0}, {"go_gc_scan_globals_bytes", gauge, 347754},
	{"go_gc_scan_heap_bytes", gauge, 2002488}, {"go_gc_scan_stack_bytes", gauge, 4352}, {"go_gc_scan_total_bytes", gauge, 2354594}, {"go_gc_stack_starting_size_bytes", gauge, 2048},
	{"go_goroutines", gauge, 14}, {"go_memory_classes_heap_free_bytes", gauge, 638976}, {"go_memory_classes_heap_objects_bytes", gauge, 2542232},
	{"go_memory_classes_heap_released_bytes", gauge, 2998272}, {"go_memory_classes_heap_stacks_bytes", gauge, 425984}, {"go_memory_classes_heap_unused_bytes", gauge, 1783144},
	{"go_memory_classes_metadata_mcache_free_bytes", gauge, 11480}, {"go_memory_classes_metadata_mcache_inuse_bytes", gauge, 4592},
	{"go_memory_classes_metadata_mspan_free_bytes", gauge, 5760}, {"go_memory_classes_metadata_mspan_inuse_bytes", gauge, 75840},
	{"go_memory_classes_metadata_other_bytes", gauge, 3209456}, {"go_memory_classes_os_stacks_bytes", gauge, 0}, {"go_memory_classes_other_bytes", gauge, 593124},
	{"go_memory_classes_profiling_buckets_bytes", gauge, 1447340}, {"go_memory_classes_total_bytes", gauge, 13736200},
	{"go_memstats_alloc_bytes", gauge, 2542232}, {"go_memstats_alloc_bytes_total", counter, 4132664}, {"go_memstats_buck_hash_sys_bytes", gauge, 1447340},
	{"go_memstats_frees_total", counter, 15371}, {"go_memstats_gc_sys_bytes", gauge, 3209456}, {"go_memstats_heap_alloc_bytes", gauge, 2542232},
	{"go_memstats_heap_idle_bytes", gauge, 3637248}, {"go_memstats_heap_inuse_bytes", gauge, 4325376}, {"go_memstats_heap_objects", gauge, 14664},
	{"go_memstats_heap_released_bytes", gauge, 2998272}, {"go_memstats_heap_sys_bytes", gauge, 7962624}, {"go_memstats_last_gc_time_seconds", gauge, 1772438400.25}, {"go_memstats_mallocs_total", counter, 30035},
	{"go_memstats_mcache_inuse_bytes", gauge, 4592}, {"go_memstats_mcache_sys_bytes", gauge, 16072}, {"go_memstats_mspan_inuse_bytes", gauge, 75840},
	{"go_memstats_mspan_sys_bytes", gauge, 81600}, {"go_memstats_next_gc_bytes", gauge, 5243226}, {"go_memstats_other_sys_bytes", gauge, 593124},
	{"go_memstats_stack_inuse_bytes", gauge, 425984}, {"go_memstats_stack_sys_bytes", gauge, 425984}, {"go_memstats_sys_bytes", gauge, 13736200},
	{"go_sched_gomaxprocs_threads", gauge, 2}, {"go_sched_goroutines_created_goroutines_total", counter, 118}, {"go_sched_goroutines_goroutines", gauge, 14},
	{"go_sched_goroutines_not_in_go_goroutines", gauge, 0}, {"go_sched_goroutines_runnable_goroutines", gauge, 2}, {"go_sched_goroutines_running_goroutines", gauge, 2},
	{"go_sched_goroutines_waiting_goroutines", gauge, 10}, {"go_sched_latencies_seconds", histogram, 0}, {"go_sched_pauses_stopping_gc_seconds", histogram, 0},
	{"go_sched_pauses_stopping_other_seconds", histogram, 0}, {"go_sched_pauses_total_gc_seconds", histogram, 0}, {"go_sched_pauses_total_other_seconds", histogram, 0},
	{"go_sched_threads_total_threads", gauge, 6}, {"go_sync_mutex_wait_total_seconds_total", counter, 0}, {"go_threads", gauge, 7},
	{"process_cpu_seconds_total", counter, 0.07}, {"process_max_fds", gauge, 20000}, {"process_network_receive_bytes_total", counter, 503180857},
	{"process_network_transmit_bytes_total", counter, 2608447}, {"process_open_fds", gauge, 9}, {"process_resident_memory_bytes", gauge, 31993856},
	{"process_virtual_memory_bytes", gauge, 1709142016}, {"process_virtual_memory_max_bytes", gauge, 1 << 64},
}

// goDebugSettings are the GODEBUG settings whose non-default uses the runtime counts, each a family.
const goDebugSettings = `allowmultiplevcs asynctimerchan containermaxprocs cryptocustomrand embedfollowsymlinks execerrdot
	fips140ems gocachehash gocachetest gocacheverify gotestjsonbuildtext gotypesalias htmlmetacontenturlescape http2client
	http2server httpcookiemaxnum httplaxcontentlength httpmuxgo121 httpservecontentkeepheaders installgoroot multipartmaxheaders
	multipartmaxparts multipathtcp netedns0 panicnil randautoseed randseednop rsa1024min tarinsecurepath tls10server tls3des
	tlsmaxrsasize tlsrsakex tlssha1 tlsunsafeekm updatemaxprocs urlmaxqueryparams urlstrictcolons winreadlinkvolume winsymlink
	x509keypairleaf x509negativeserial x509rsacrt x509sha256skid x509usefallbackroots x509usepolicies zipinsecurepath`

// eppFamilies is the whole body of the llm-d router, in the order of names that client_golang writes.
func eppFamilies() []family {
	all := append([]family{}, llmdFamilies...)
	for _, g := range goRuntime {
		f := family{name: g.name, kind: g.kind, start: g.start, help: "What the process says of itself: " + strings.ReplaceAll(strings.TrimPrefix(g.name, "go_"), "_", " ") + ", as its runtime counts it."}
		if g.kind == histogram {
			f.buckets = goTimeBuckets
			if strings.HasSuffix(g.name, "_bytes") {
				f.buckets = goAllocBuckets
			}
		}
		all = append(all, f)
	}
	for _, setting := range strings.Fields(goDebugSettings) {
		all = append(all, family{name: "go_godebug_non_default_behavior_" + setting + "_events_total", kind: counter,
			help: "How often the code under net, os, crypto and their like went another way because GODEBUG sets " + setting + "."})
	}
	all = append(all,
		family{name: "go_info", kind: gauge, help: "The version of Go, always 1.", labels: []string{"version"}, seed: []string{"go1.26.8"}, start: 1},
		family{name: "process_start_time_seconds", kind: gauge, help: "When the process began, in Unix time."})
	sortFamilies(all)
	return all
}

// sortFamilies puts families in the order of their names.
func sortFamilies(all []family) {
	slices.SortFunc(all, func(a, b family) int { return strings.Compare(a.name, b.name) })
}
