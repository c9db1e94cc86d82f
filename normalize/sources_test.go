package normalize

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// sourceCase is one cell of the specification's two tables: the series of one field, read twice, and
// what they give in each shape that the field is read in. In a shape that is not named, nothing is said
// of the field at all.
type sourceCase struct {
	name          string
	first, second string
	// gives is the line of the value by shape.
	gives map[string]string
	// absent is the source of the missing entry where the series are not there.
	absent string
	// unsupported is the reason by shape where the source is not supported, exported or not.
	unsupported map[string]Reason
	// pair names the case whose series, where they are there, make this one not_yet_exported.
	pair string
	// with names the cases whose series the value needs besides its own.
	with []string
}

// shape is a Pod and the deployment that it is of.
type shape struct {
	deployment *Deployment
	pod        *Pod
}

// in gives the same line in each of the shapes.
func in(line string, shapes ...string) map[string]string {
	all := map[string]string{}
	for _, s := range shapes {
		all[s] = line
	}
	return all
}

const (
	server       = "server"
	lonePrefill  = "prefill of no pair"
	loneDecode   = "decode of no pair"
	pairPrefill  = "prefill of a pair"
	pairDecode   = "decode of a pair"
	pairServer   = "server beside a pair"
	routerAlone  = "serving"
	routerOfPair = "prefill/decode"
)

// engineShapes are the roles that an engine's Pod may have, with everything configured.
func engineShapes(engine string, arguments ...string) map[string]shape {
	pair := withPool(engineOf(engine, RolePrefill, RoleDecode, RoleServer))
	return map[string]shape{
		server:      {withPool(engineOf(engine, RoleServer)), enginePod(RoleServer, arguments...)},
		lonePrefill: {withPool(engineOf(engine, RolePrefill)), enginePod(RolePrefill, arguments...)},
		loneDecode:  {withPool(engineOf(engine, RoleDecode)), enginePod(RoleDecode, arguments...)},
		pairPrefill: {pair, enginePod(RolePrefill, arguments...)},
		pairDecode:  {pair, enginePod(RoleDecode, arguments...)},
		pairServer:  {pair, enginePod(RoleServer, arguments...)},
	}
}

// routerShapes are a router before one role, and before a pair.
func routerShapes(router string) map[string]shape {
	return map[string]shape{
		routerAlone:  {withRouter(engineOf("vllm", RoleServer), router), routerPod()},
		routerOfPair: {withRouter(engineOf("vllm", RolePrefill, RoleDecode), router), routerPod()},
	}
}

var (
	everyShape           = []string{server, lonePrefill, loneDecode, pairPrefill, pairDecode, pairServer}
	everyButPrefillOfAll = []string{server, lonePrefill, loneDecode, pairDecode, pairServer}
	everyButDecodeOfAll  = []string{server, lonePrefill, loneDecode, pairPrefill, pairServer}
	bothModes            = []string{routerAlone, routerOfPair}
)

var sourceTables = []struct {
	name   string
	shapes map[string]shape
	cases  []sourceCase
}{
	{"vllm", engineShapes("vllm", "--kv-transfer-config", `{"kv_connector":"LMCacheConnectorV1"}`), []sourceCase{
		{
			name:   "running",
			first:  `vllm:num_requests_running{engine="0"} 1`,
			second: `vllm:num_requests_running{engine="0"} 3`,
			gives:  in("running = 3 requests of 1 (vllm:num_requests_running)", everyShape...),
			absent: "vllm:num_requests_running",
		},
		{
			name:   "waiting",
			first:  `vllm:num_requests_waiting{engine="0"} 1`,
			second: `vllm:num_requests_waiting{engine="0"} 0`,
			gives:  in("waiting = 0 requests of 1 (vllm:num_requests_waiting)", everyShape...),
			absent: "vllm:num_requests_waiting",
		},
		{
			name:   "local-prefix",
			first:  body(`vllm:prefix_cache_hits_total{engine="0"} 100`, `vllm:prefix_cache_queries_total{engine="0"} 200`),
			second: body(`vllm:prefix_cache_hits_total{engine="0"} 130`, `vllm:prefix_cache_queries_total{engine="0"} 240`),
			gives:  in("local-prefix = 30/40 tokens in 30s (vllm:prefix_cache)", everyShape...),
			absent: "local-prefix",
		},
		{
			name:        "external-store",
			first:       body(`vllm:external_prefix_cache_hits_total{engine="0"} 5`, `vllm:external_prefix_cache_queries_total{engine="0"} 50`),
			second:      body(`vllm:external_prefix_cache_hits_total{engine="0"} 6`, `vllm:external_prefix_cache_queries_total{engine="0"} 60`),
			gives:       in("external-store = 1/10 tokens in 30s (vllm:external_prefix_cache)", everyButDecodeOfAll...),
			absent:      "external-store",
			unsupported: map[string]Reason{pairDecode: UnsupportedNotStore},
		},
		{
			name:   "ttft",
			first:  body(`vllm:time_to_first_token_seconds_count{engine="0"} 10`, `vllm:time_to_first_token_seconds_sum{engine="0"} 5`),
			second: body(`vllm:time_to_first_token_seconds_count{engine="0"} 14`, `vllm:time_to_first_token_seconds_sum{engine="0"} 7`),
			gives:  in("ttft = 0.5 seconds of 4 in 30s (vllm:time_to_first_token_seconds)", everyShape...),
			absent: "vllm:time_to_first_token_seconds",
		},
		{
			name:   "tpot",
			first:  body(`vllm:request_time_per_output_token_seconds_count{engine="0"} 10`, `vllm:request_time_per_output_token_seconds_sum{engine="0"} 1`),
			second: body(`vllm:request_time_per_output_token_seconds_count{engine="0"} 12`, `vllm:request_time_per_output_token_seconds_sum{engine="0"} 1.5`),
			gives:  in("tpot = 0.25 seconds of 2 in 30s (vllm:request_time_per_output_token_seconds)", everyButPrefillOfAll...),
			absent: "vllm:request_time_per_output_token_seconds",
		},
		{
			name:   "itl",
			first:  body(`vllm:inter_token_latency_seconds_count{engine="0"} 100`, `vllm:inter_token_latency_seconds_sum{engine="0"} 1`),
			second: body(`vllm:inter_token_latency_seconds_count{engine="0"} 164`, `vllm:inter_token_latency_seconds_sum{engine="0"} 2`),
			gives:  in("itl = 0.015625 seconds of 64 in 30s (vllm:inter_token_latency_seconds)", everyButPrefillOfAll...),
			absent: "vllm:inter_token_latency_seconds",
		},
	}},

	{"sglang", engineShapes("sglang", "--enable-hierarchical-cache", "--hicache-storage-backend", "mooncake"), []sourceCase{
		{
			name:   "running",
			first:  `sglang:num_running_reqs{tp_rank="0"} 1`,
			second: `sglang:num_running_reqs{tp_rank="0"} 3`,
			gives:  in("running = 3 requests of 1 (sglang:num_running_reqs)", everyShape...),
			absent: "sglang:num_running_reqs",
		},
		{
			name:   "waiting",
			first:  `sglang:num_queue_reqs{tp_rank="0"} 1`,
			second: `sglang:num_queue_reqs{tp_rank="0"} 0`,
			gives:  in("waiting = 0 requests of 1 (sglang:num_queue_reqs)", everyShape...),
			absent: "sglang:num_queue_reqs",
		},
		{
			name:   "decode-transfer-waiting",
			first:  `sglang:num_decode_transfer_queue_reqs{tp_rank="0"} 1`,
			second: `sglang:num_decode_transfer_queue_reqs{tp_rank="0"} 2`,
			gives:  in("decode-transfer-waiting = 2 requests of 1 (sglang:num_decode_transfer_queue_reqs)", pairDecode),
			absent: "sglang:num_decode_transfer_queue_reqs",
		},
		{
			name:   "device-prefix",
			first:  modes(100, 10, 20, 30),
			second: modes(140, 40, 40, 40),
			gives:  in("device-prefix = 30/100 tokens in 30s (sglang:prefill_effective_tokens_total)", everyButDecodeOfAll...),
			absent: "device-prefix",
		},
		{
			name:   "host-prefix",
			with:   []string{"device-prefix"},
			gives:  in("host-prefix = 20/100 tokens in 30s (sglang:prefill_effective_tokens_total)", everyButDecodeOfAll...),
			absent: "host-prefix",
		},
		{
			name:   "storage-prefix",
			with:   []string{"device-prefix"},
			gives:  in("storage-prefix = 10/100 tokens in 30s (sglang:prefill_effective_tokens_total)", everyButDecodeOfAll...),
			absent: "storage-prefix",
		},
		{
			name:   "ttft",
			first:  body(`sglang:time_to_first_token_seconds_sum{is_streaming="true"} 5`, `sglang:time_to_first_token_seconds_count{is_streaming="true"} 10`),
			second: body(`sglang:time_to_first_token_seconds_sum{is_streaming="true"} 7`, `sglang:time_to_first_token_seconds_count{is_streaming="true"} 14`),
			gives:  in("ttft = 0.5 seconds of 4 in 30s (sglang:time_to_first_token_seconds)", everyButPrefillOfAll...),
			absent: "sglang:time_to_first_token_seconds",
		},
		{
			name:   "itl",
			first:  body(`sglang:inter_token_latency_seconds_sum 1`, `sglang:inter_token_latency_seconds_count 100`),
			second: body(`sglang:inter_token_latency_seconds_sum 2`, `sglang:inter_token_latency_seconds_count 164`),
			gives:  in("itl = 0.015625 seconds of 64 in 30s (sglang:inter_token_latency_seconds)", everyButPrefillOfAll...),
			absent: "sglang:inter_token_latency_seconds",
		},
		{
			name:   "transfer-latency",
			first:  body(`sglang:kv_transfer_latency_ms_sum 100`, `sglang:kv_transfer_latency_ms_count 10`),
			second: body(`sglang:kv_transfer_latency_ms_sum 150`, `sglang:kv_transfer_latency_ms_count 12`),
			gives:  in("transfer-latency = 25 milliseconds of 2 in 30s (sglang:kv_transfer_latency_ms)", pairPrefill),
			absent: "sglang:kv_transfer_latency_ms",
		},
		{
			name:   "transfer-speed",
			first:  body(`sglang:kv_transfer_speed_gb_s_sum 100`, `sglang:kv_transfer_speed_gb_s_count 10`),
			second: body(`sglang:kv_transfer_speed_gb_s_sum 125`, `sglang:kv_transfer_speed_gb_s_count 12`),
			gives:  in("transfer-speed = 12.5 GB/second of 2 in 30s (sglang:kv_transfer_speed_gb_s)", pairPrefill),
			absent: "sglang:kv_transfer_speed_gb_s",
		},
		{
			name:   "transfer-size",
			first:  body(`sglang:kv_transfer_total_mb_sum 100`, `sglang:kv_transfer_total_mb_count 10`),
			second: body(`sglang:kv_transfer_total_mb_sum 356`, `sglang:kv_transfer_total_mb_count 12`),
			gives:  in("transfer-size = 128 MB of 2 in 30s (sglang:kv_transfer_total_mb)", pairPrefill),
			absent: "sglang:kv_transfer_total_mb",
		},
		{
			name:   "transfer-failures",
			first:  `sglang:num_transfer_failed_reqs_total{tp_rank="0"} 1`,
			second: `sglang:num_transfer_failed_reqs_total{tp_rank="0"} 16`,
			gives:  in("transfer-failures = 0.5 errors/second of 15 in 30s (sglang:num_transfer_failed_reqs_total)", pairPrefill),
			absent: "sglang:num_transfer_failed_reqs_total",
			pair:   "transfer-size",
		},
	}},

	{"llm-d-router", routerShapes("llm-d-router"), []sourceCase{
		{
			name:   "router-running",
			first:  `llm_d_epp_request_running{model_name="m"} 1`,
			second: `llm_d_epp_request_running{model_name="m"} 4`,
			gives:  in("router-running = 4 requests of 1 (llm_d_epp_request_running)", bothModes...),
			absent: "llm_d_epp_request_running",
		},
		{
			name:   "router-backends",
			first:  `llm_d_epp_ready_endpoints{name="pool"} 1`,
			second: `llm_d_epp_ready_endpoints{name="pool"} 2`,
			gives:  in("router-backends = 2 backends of 1 (llm_d_epp_ready_endpoints)", bothModes...),
			absent: "llm_d_epp_ready_endpoints",
		},
		{
			name:   "requests",
			first:  `llm_d_epp_request_total{model_name="m"} 10`,
			second: `llm_d_epp_request_total{model_name="m"} 70`,
			gives:  in("requests = 2 requests/second of 60 in 30s (llm_d_epp_request_total)", bothModes...),
			absent: "llm_d_epp_request_total",
		},
		{
			name:   "request-errors",
			first:  `llm_d_epp_request_error_total{error_code="Internal"} 10`,
			second: `llm_d_epp_request_error_total{error_code="Internal"} 25`,
			gives:  in("request-errors = 0.5 errors/second of 15 in 30s (llm_d_epp_request_error_total)", bothModes...),
			absent: "llm_d_epp_request_error_total",
			pair:   "requests",
		},
		{
			name:   "ttft",
			first:  body(`llm_d_epp_request_ttft_seconds_sum 5`, `llm_d_epp_request_ttft_seconds_count 10`),
			second: body(`llm_d_epp_request_ttft_seconds_sum 7`, `llm_d_epp_request_ttft_seconds_count 14`),
			gives:  in("ttft = 0.5 seconds of 4 in 30s (llm_d_epp_request_ttft_seconds)", bothModes...),
			absent: "llm_d_epp_request_ttft_seconds",
		},
		{
			name:   "tpot",
			first:  body(`llm_d_epp_request_streaming_tpot_seconds_sum 1`, `llm_d_epp_request_streaming_tpot_seconds_count 10`),
			second: body(`llm_d_epp_request_streaming_tpot_seconds_sum 1.5`, `llm_d_epp_request_streaming_tpot_seconds_count 12`),
			gives:  in("tpot = 0.25 seconds of 2 in 30s (llm_d_epp_request_streaming_tpot_seconds)", bothModes...),
			absent: "llm_d_epp_request_streaming_tpot_seconds",
		},
	}},

	// In prefill/decode mode the two gauges are unsupported even if exported, and the serving counters are not read.
	{"vllm-router", routerShapes("vllm-router"), []sourceCase{
		{
			name:        "router-running",
			first:       `vllm_router_running_requests{worker="http://a:8000"} 1`,
			second:      `vllm_router_running_requests{worker="http://a:8000"} 4`,
			gives:       in("router-running = 4 requests of 1 (vllm_router_running_requests)", routerAlone),
			absent:      "vllm_router_running_requests",
			unsupported: map[string]Reason{routerOfPair: UnsupportedPDRouterGauge},
		},
		{
			name:        "router-reported-workers",
			first:       `vllm_router_active_workers 2`,
			second:      `vllm_router_active_workers 3`,
			gives:       in("router-reported-workers = 3 workers of 1 (vllm_router_active_workers)", routerAlone),
			absent:      "vllm_router_active_workers",
			unsupported: map[string]Reason{routerOfPair: UnsupportedPDRouterGauge},
		},
		{
			name:   "successful-requests",
			first:  `vllm_router_requests_total{route="/v1/completions"} 10`,
			second: `vllm_router_requests_total{route="/v1/completions"} 70`,
			gives:  in("successful-requests = 2 requests/second of 60 in 30s (vllm_router_requests_total)", routerAlone),
			absent: "vllm_router_requests_total",
		},
		{
			name:   "errors",
			first:  `vllm_router_request_errors_total{route="/v1/completions"} 10`,
			second: `vllm_router_request_errors_total{route="/v1/completions"} 25`,
			gives:  in("errors = 0.5 errors/second of 15 in 30s (vllm_router_request_errors_total)", routerAlone),
			absent: "vllm_router_request_errors_total",
			pair:   "successful-requests",
		},
		{
			name:   "retries-exhausted",
			first:  `vllm_router_retries_exhausted_total{route="/v1/completions"} 0`,
			second: `vllm_router_retries_exhausted_total{route="/v1/completions"} 30`,
			gives:  in("retries-exhausted = 1 events/second of 30 in 30s (vllm_router_retries_exhausted_total)", routerAlone),
			absent: "vllm_router_retries_exhausted_total",
			pair:   "successful-requests",
		},
	}},
	{"vllm-router-pd", routerShapes("vllm-router"), []sourceCase{
		{
			name:   "pd-requests",
			first:  `vllm_router_pd_requests_total{route="/v1/completions"} 10`,
			second: `vllm_router_pd_requests_total{route="/v1/completions"} 70`,
			gives:  in("pd-requests = 2 requests/second of 60 in 30s (vllm_router_pd_requests_total)", routerOfPair),
			absent: "vllm_router_pd_requests_total",
		},
		{
			name:   "pd-errors",
			first:  `vllm_router_pd_errors_total{error_type="upstream"} 10`,
			second: `vllm_router_pd_errors_total{error_type="upstream"} 25`,
			gives:  in("pd-errors = 0.5 errors/second of 15 in 30s (vllm_router_pd_errors_total)", routerOfPair),
			absent: "vllm_router_pd_errors_total",
			pair:   "pd-requests",
		},
	}},

	{"sglang-gateway", routerShapes("sglang-gateway"), []sourceCase{
		{
			name:   "router-running",
			first:  `smg_worker_requests_active{worker="http://a:30000"} 1`,
			second: body(`smg_worker_requests_active{worker="http://a:30000"} 3`, `smg_worker_requests_active{worker="http://b:30000"} 1`),
			gives:  in("router-running = 4 requests of 1 (smg_worker_requests_active)", bothModes...),
			absent: "smg_worker_requests_active",
		},
		{
			name:   "router-backends",
			first:  `smg_worker_pool_size{worker_type="regular"} 1`,
			second: `smg_worker_pool_size{worker_type="regular"} 2`,
			gives:  in("router-backends = 2 backends of 1 (smg_worker_pool_size)", bothModes...),
			absent: "smg_worker_pool_size",
		},
		{
			name:   "requests",
			first:  `smg_router_requests_total{endpoint="chat"} 10`,
			second: `smg_router_requests_total{endpoint="chat"} 70`,
			gives:  in("requests = 2 requests/second of 60 in 30s (smg_router_requests_total)", bothModes...),
			absent: "smg_router_requests_total",
		},
		{
			name:   "errors",
			first:  `smg_router_request_errors_total{error_type="timeout"} 10`,
			second: `smg_router_request_errors_total{error_type="timeout"} 25`,
			gives:  in("errors = 0.5 errors/second of 15 in 30s (smg_router_request_errors_total)", bothModes...),
			absent: "smg_router_request_errors_total",
			pair:   "requests",
		},
		{
			name:  "error-ratio",
			with:  []string{"requests", "errors"},
			gives: in("error-ratio = 0.25 fraction of 60 in 30s (smg_router_requests_total+smg_router_request_errors_total)", bothModes...),
		},
		{
			name:   "http-5xx-responses",
			first:  body(`smg_http_responses_total{status_code="200"} 10`, `smg_http_responses_total{status_code="503"} 1`),
			second: body(`smg_http_responses_total{status_code="200"} 80`, `smg_http_responses_total{status_code="503"} 31`),
			gives:  in("http-5xx-responses = 1 responses/second of 30 in 30s (smg_http_responses_total)", bothModes...),
			absent: "smg_http_responses_total",
		},
	}},
}

// modes are SGLang's prefill token counters.
func modes(input, device, host, storage int) string {
	return body(
		sprint(`sglang:prefill_effective_tokens_total{mode="input",tp_rank="0"} %d`, input),
		sprint(`sglang:prefill_effective_tokens_total{mode="device_hit",tp_rank="0"} %d`, device),
		sprint(`sglang:prefill_effective_tokens_total{mode="host_hit",tp_rank="0"} %d`, host),
		sprint(`sglang:prefill_effective_tokens_total{mode="storage_hit",tp_rank="0"} %d`, storage),
	)
}

// casesOf are the cases of one exporter of series: the vLLM router has one table in each mode.
func casesOf(table string) []sourceCase {
	var cases []sourceCase
	for _, s := range sourceTables {
		if s.name == table || strings.TrimSuffix(s.name, "-pd") == strings.TrimSuffix(table, "-pd") {
			cases = append(cases, s.cases...)
		}
	}
	return cases
}

// TestSources reads every row of the specification's tables in every shape: alone in the exposition, and
// among all the others'.
func TestSources(t *testing.T) {
	for _, table := range sourceTables {
		for _, row := range table.cases {
			for _, name := range slices.Sorted(maps.Keys(table.shapes)) {
				t.Run(table.name+"/"+row.name+"/"+name, func(t *testing.T) {
					cases, s := casesOf(table.name), table.shapes[name]
					t.Run("alone", func(t *testing.T) {
						exported := append([]string{row.name}, row.with...)
						if row.name == "host-prefix" || row.name == "storage-prefix" || row.name == "device-prefix" {
							exported = []string{"device-prefix", "host-prefix", "storage-prefix"}
						}
						compareSources(t, s, name, cases, exported)
					})
					t.Run("among all", func(t *testing.T) {
						var exported []string
						for _, c := range cases {
							exported = append(exported, c.name)
						}
						compareSources(t, s, name, cases, exported)
					})
				})
			}
		}
	}
}

// compareSources reads an exposition with the series of some cases twice, and compares the outcome.
func compareSources(t *testing.T, s shape, name string, cases []sourceCase, exported []string) {
	t.Helper()
	var first, second, want []string
	for _, c := range cases {
		is := slices.Contains(exported, c.name)
		if is {
			first, second = append(first, c.first), append(second, c.second)
		}
		line, read := c.gives[name]
		reason, unsupported := c.unsupported[name]
		switch {
		case unsupported:
			want = append(want, "- "+c.absent+": "+string(reason))
		case !read:
		case is && !slices.ContainsFunc(c.with, func(with string) bool { return !slices.Contains(exported, with) }):
			want = append(want, line)
		case c.absent == "":
		case c.pair != "" && slices.Contains(exported, c.pair):
			want = append(want, "- "+c.absent+": not_yet_exported")
		default:
			want = append(want, "- "+c.absent+": metric_absent")
		}
	}
	compare(t, outcome(t, s.deployment, s.pod, twice(body(first...), body(second...))...), want)
}

// TestSourcesComplete holds the fields, the tables of this package and the cases above together.
func TestSourcesComplete(t *testing.T) {
	tables := map[string]*Table{"vllm-router-pd": routers["vllm-router"].pair}
	for name, table := range engines {
		tables[name] = table
	}
	for name, router := range routers {
		tables[name] = router.serving
	}
	produced := map[Field]bool{}
	for _, s := range sourceTables {
		table := tables[s.name]
		if table == nil {
			t.Fatalf("no table is named %q", s.name)
		}
		delete(tables, s.name)
		var rows, cases []string
		for _, r := range table.rows {
			produced[r.field] = true
			if len(r.unless) > 0 && r.unless[0].reason == UnsupportedPDRouterGauge {
				continue // Its case stands with the router's other mode.
			}
			rows = append(rows, string(r.field))
		}
		for _, c := range s.cases {
			cases = append(cases, c.name)
		}
		slices.Sort(rows)
		slices.Sort(cases)
		if !slices.Equal(rows, cases) {
			t.Errorf("%s has the rows %v, but cases for %v", s.name, rows, cases)
		}
	}
	for name := range tables {
		t.Errorf("table %q has no cases", name)
	}
	for _, info := range Fields() {
		if !produced[info.Field] {
			t.Errorf("no table produces %s", info.Field)
		}
		if info.Field.Info() != info || info.Unit == "" || info.Section == "" {
			t.Errorf("%s is %+v, want %+v", info.Field, info.Field.Info(), info)
		}
		delete(produced, info.Field)
	}
	for f := range produced {
		t.Errorf("a table produces %q, which Fields lacks", f)
	}
	if got := Field("nothing").Info(); got != (FieldInfo{}) {
		t.Errorf("an unknown field is %+v", got)
	}
}

// TestSourcesListed: Sources lists every row of every table, by supplier, with the series of its cases.
func TestSourcesListed(t *testing.T) {
	rows := 0
	for _, s := range sourceTables {
		rows += len(tableNamed(t, s.name).rows)
	}
	sources := Sources()
	if len(sources) != rows {
		t.Errorf("%d sources, want %d", len(sources), rows)
	}
	for _, source := range sources {
		table, found := strings.CutSuffix(source.Supplier, " (PD mode)")
		if found {
			table += "-pd"
		}
		if want := tableNamed(t, table).scope; source.Scope != want {
			t.Errorf("%+v: want scope %q", source, want)
		}
		if !slices.ContainsFunc(casesOf(table), func(c sourceCase) bool {
			lines := slices.Collect(maps.Values(c.gives))
			return c.name == string(source.Field) && strings.HasSuffix(lines[0], "("+source.Series+")")
		}) {
			t.Errorf("no case has %+v", source)
		}
	}
}

// TestFieldUnits holds the units to those of the JSON document, and the sections to the specification.
func TestFieldUnits(t *testing.T) {
	want := map[Field]FieldInfo{}
	for _, row := range []struct {
		section Section
		unit    string
		fields  string
	}{
		{Processing, "requests", "running router-running"},
		{Processing, "backends", "router-backends"},
		{Processing, "workers", "router-reported-workers"},
		{Queueing, "requests", "waiting decode-transfer-waiting"},
		{CacheHits, "tokens", "local-prefix external-store device-prefix host-prefix storage-prefix"},
		{Latency, "seconds", "ttft tpot itl"},
		{Traffic, "requests/second", "requests successful-requests pd-requests"},
		{Traffic, "errors/second", "request-errors errors pd-errors"},
		{Traffic, "events/second", "retries-exhausted"},
		{Traffic, "responses/second", "http-5xx-responses"},
		{Traffic, "fraction", "error-ratio"},
		{Transfer, "milliseconds", "transfer-latency"},
		{Transfer, "GB/second", "transfer-speed"},
		{Transfer, "MB", "transfer-size"},
		{Transfer, "errors/second", "transfer-failures"},
	} {
		for f := range strings.FieldsSeq(row.fields) {
			want[Field(f)] = FieldInfo{Field(f), row.section, row.unit}
		}
	}
	got := map[Field]FieldInfo{}
	for _, info := range Fields() {
		got[info.Field] = info
	}
	if !maps.Equal(got, want) {
		t.Errorf("Fields are\n%v, want\n%v", got, want)
	}
}

// TestTableOf tells which table reads which Pod.
func TestTableOf(t *testing.T) {
	pair := []RoleKind{RolePrefill, RoleDecode}
	for _, c := range []struct {
		name string
		d    *Deployment
		p    *Pod
		want *Table
	}{
		{"vllm", engineOf("vllm", RoleServer), enginePod(RoleServer), engines["vllm"]},
		{"sglang", engineOf("sglang", RoleServer), enginePod(RoleServer), engines["sglang"]},
		{"engine of no table", engineOf("tgi", RoleServer), enginePod(RoleServer), nil},
		{"no router", engineOf("vllm", RoleServer), routerPod(), nil},
		{"router of no table", withRouter(engineOf("vllm", RoleServer), "envoy"), routerPod(), nil},
		{"router of no table before a pair", withRouter(engineOf("vllm", pair...), "envoy"), routerPod(), nil},
		{"router", withRouter(engineOf("vllm", RoleServer), "vllm-router"), routerPod(), routers["vllm-router"].serving},
		{"router before a pair", withRouter(engineOf("vllm", pair...), "vllm-router"), routerPod(), routers["vllm-router"].pair},
		{"router before an engine of no table", withRouter(engineOf("tgi", RoleServer), "llm-d-router"), routerPod(), routers["llm-d-router"].serving},
	} {
		if got := TableOf(c.d, c.p); got != c.want {
			t.Errorf("%s: got another table", c.name)
		}
	}
}

// TestPair: a pair has at least one prefill and one decode role, whoever owns their commands.
func TestPair(t *testing.T) {
	for _, c := range []struct {
		kinds []RoleKind
		want  bool
	}{
		{nil, false},
		{[]RoleKind{RoleServer}, false},
		{[]RoleKind{RolePrefill, RoleServer}, false},
		{[]RoleKind{RoleDecode}, false},
		{[]RoleKind{RolePrefill, RoleDecode}, true},
		{[]RoleKind{RoleServer, RoleDecode, RolePrefill, RolePrefill}, true},
	} {
		d := engineOf("vllm", c.kinds...)
		for i := range d.Roles {
			d.Roles[i].Managed = false
		}
		if d.Pair() != c.want {
			t.Errorf("%v: Pair is %v, want %v", c.kinds, !c.want, c.want)
		}
	}
}
