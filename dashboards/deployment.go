package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// The legends, in a dashboard of one deployment.
const (
	eachRole   = "{{role}} {{source}}"
	eachPod    = "{{pod}}"
	eachSource = "{{source}}"
	eachCache  = "{{role}} {{cache}}"
)

// deployment is one deployment with all its fields.
func deployment() page {
	return page{
		uid:   deploymentUID,
		title: "ModelDeployments: deployment",
		text:  "One ModelDeployment: every field by role and Pod, the engine beside the router. Role and Pod choose among the engine's; the router's panels show all its Pods. A gap is a value that was not measured; the last row says why.",
		variables: []cog.Builder[dashboard.VariableModel]{
			source(), namespace(false), modeldeployment(false), role(), pod(),
		},
		links: []cog.Builder[dashboard.DashboardLink]{
			link("Fleet", fleetUID, false), link("Coverage of this deployment", coverageUID, true),
		},
		rows: []row{
			{"What it is", deploymentNow()},
			{"Engine beside router", engineBesideRouter()},
			{"Roles side by side", rolesSideBySide()},
			{"Requests in the engine", deploymentGauges()},
			{"Latency by Pod", latencyByPod()},
			{"Router by Pod", routerByPod()},
			{"Cache hits", cacheHits()},
			{"KV transfer from prefill to decode", kvTransfer()},
			{"Windows and reads", windows()},
			{"What is missing", deploymentMissing()},
		},
	}
}

func deploymentNow() []panel {
	return []panel{
		{
			title: "State", unit: plain, width: 3, height: 5, kind: stateNumber(), noValue: "no data",
			text:    "Whole, partial (a required source did not contribute), or unavailable (no Pod could be read).",
			queries: []query{{expr: state()}},
		},
		rows(panel{
			title: "Configuration", unit: plain, width: 9, height: 5, noValue: "–",
			text: "The deployment's engine, router, mode and whether a KV cache pool is attached.",
		}, "Engine", false,
			column{title: "Engine", label: "engine"}, column{title: "Router", label: "router"},
			column{title: "Mode", label: "mode"}, column{title: "KV cache", label: "kv_cache"},
			hidden(once([]string{"engine", "router", "mode", "kv_cache"}, of("info"))),
		),
		rows(panel{
			title: "Pods", unit: plain, width: 8, height: 5, noValue: "–",
			text: "Pods that each role and the router should have, that the deployment owns, and that were read. The router's role is empty.",
		}, "Scope", false,
			column{title: "Scope", label: "scope"}, column{title: "Role", label: "role"},
			column{title: "Expected", expr: once([]string{"scope", "role"}, of("expected_pods"))},
			column{title: "Owned", expr: once([]string{"scope", "role"}, of("owned_pods"))},
			column{title: "Read", expr: once([]string{"scope", "role"}, of("read_pods"))},
		),
		{
			title: "Reading", unit: seconds, width: 4, height: 5, kind: number(), noValue: "no data",
			text: "How old the last collection is, and how long it took.",
			queries: []query{
				{"time() - " + once(byDeployment, of("snapshot_timestamp_seconds")), "age"},
				{once(byDeployment, of("snapshot_duration_seconds")), "duration"},
			},
		},
	}
}

func engineBesideRouter() []panel {
	pair := func(what, unit, engineText, routerText string, engineQueries, routerQueries []query) []panel {
		return []panel{
			{title: "Engine: " + what, text: engineText, unit: unit, width: 12, height: 8, kind: graph(), queries: engineQueries},
			{title: "Router: " + what, text: routerText, unit: unit, width: 12, height: 8, kind: graph(), queries: routerQueries},
		}
	}
	weighed := func(series, scope, legend string, more ...string) []query {
		return []query{{mean(bySource, series, with([]string{scope}, more...)...), legend}}
	}
	var all []panel
	for _, p := range [][]panel{
		pair("requests in flight", plain,
			"Requests in the running batch, by role, over its readable Pods. Prefill and decode each count a request once.",
			"Requests that the router is handling, over its replicas. It counts the engine's requests again, and those on their way.",
			[]query{{once(bySource, of("running_requests", engine, ofRole)), eachRole}},
			[]query{{once(bySource, of("router_running_requests", router)), eachSource}}),
		pair("time to first token", seconds,
			"Mean of the window's requests as the engine measures it, Pods weighing by their requests. Of an SGLang pair the decode half has it.",
			"Mean of the window's requests as the router measures it, replicas weighing by their requests: more of the path than the engine sees. The llm-d router alone has it.",
			weighed("time_to_first_token_mean_seconds", engine, eachRole, ofRole),
			weighed("router_time_to_first_token_mean_seconds", router, eachSource)),
		pair("time per output token", seconds,
			"Mean of the window's requests, Pods weighing by their requests; a request with at most one token counts as zero. vLLM alone has it.",
			"Mean of the window's streamed requests, replicas weighing by their requests. The llm-d router alone has it.",
			weighed("time_per_output_token_mean_seconds", engine, eachRole, ofRole),
			weighed("router_time_per_output_token_mean_seconds", router, eachSource)),
	} {
		all = append(all, p...)
	}
	return all
}

func rolesSideBySide() []panel {
	gauge := func(series, legend string) query { return query{once(bySource, of(series, engine, ofRole)), legend} }
	latency := func(series, legend string) query { return query{mean(bySource, series, engine, ofRole), legend} }
	return []panel{
		{
			title: "$role: requests", unit: plain, width: 24, height: 8, kind: graph(), repeat: "role",
			text: "Requests in the role's engines: in the running batch, not scheduled yet, and waiting for their KV blocks.",
			queries: []query{
				gauge("running_requests", "running"), gauge("waiting_requests", "waiting"),
				gauge("decode_transfer_waiting_requests", "waiting for KV transfer"),
			},
		},
		{
			title: "$role: latency", unit: seconds, width: 24, height: 8, kind: graph(), repeat: "role",
			text: "The role's mean times, Pods weighing by what their windows counted. A prefill half answers with one token, and has neither time per output token nor inter-token latency.",
			queries: []query{
				latency("time_to_first_token_mean_seconds", "time to first token"),
				latency("time_per_output_token_mean_seconds", "time per output token"),
				latency("inter_token_latency_mean_seconds", "inter-token latency"),
			},
		},
		{
			title: "$role: cache hits", unit: ratio, width: 24, height: 8, kind: shares(), repeat: "role",
			text:    "Hit tokens over queried tokens of the windows of the role's Pods, by cache scope. An SGLang decode half never prefills and has none.",
			queries: []query{{hitRatio(bySource, engine, ofRole), "{{cache}}"}},
		},
	}
}

func deploymentGauges() []panel {
	eachContributor := func(title, series string) panel {
		return panel{
			title: title, unit: plain, width: 8, height: 8, kind: graph(),
			text:    "The role's value over the Pods that contributed to it: how busy a Pod is, whatever their number.",
			queries: []query{{eachPods(bySource, series, engine, ofRole), eachRole}},
		}
	}
	return []panel{
		{
			title: "Waiting requests", unit: plain, width: 8, height: 8, kind: graph(),
			text:    "Requests that the engine has not scheduled yet, by role. vLLM's decode half counts those whose KV blocks are still arriving among them.",
			queries: []query{{once(bySource, of("waiting_requests", engine, ofRole)), eachRole}},
		},
		{
			title: "Waiting for KV transfer", unit: plain, width: 8, height: 8, kind: graph(),
			text:    "Requests of an SGLang decode half whose KV blocks are still arriving.",
			queries: []query{{once(bySource, of("decode_transfer_waiting_requests", engine, ofRole)), eachRole}},
		},
		{
			title: "Pods behind the gauges", unit: plain, width: 8, height: 8, kind: graph(),
			text:    "Pods that contributed to each gauge: where it falls, so does the sum.",
			queries: []query{{once(bySource, of("source_pods", engine, ofRole)), eachRole}},
		},
		eachContributor("Running requests of a Pod, in the mean", "running_requests"),
		eachContributor("Waiting requests of a Pod, in the mean", "waiting_requests"),
		{
			title: "Inter-token latency", unit: seconds, width: 8, height: 8, kind: graph(),
			text:    "Mean gap between streamed tokens, by role, Pods weighing by their tokens.",
			queries: []query{{mean(bySource, "inter_token_latency_mean_seconds", engine, ofRole), eachRole}},
		},
	}
}

// eachPodOf is an engine's windowed value by Pod.
func eachPodOf(title, text, unit string, width uint32, series string) panel {
	return panel{title: title, text: text, unit: unit, width: width, height: 9, kind: graph(),
		queries: []query{{once(byPod, of(series, engine, ofRole, ofPod)), eachPod}}}
}

func latencyByPod() []panel {
	return []panel{
		eachPodOf("Time to first token", "Mean of the requests of the Pod's window.", seconds, 8, "time_to_first_token_mean_seconds"),
		eachPodOf("Time per output token", "Mean of the requests of the Pod's window, those with at most one token counting as zero. vLLM alone has it.", seconds, 8, "time_per_output_token_mean_seconds"),
		eachPodOf("Inter-token latency", "Mean gap between the streamed tokens of the Pod's window.", seconds, 8, "inter_token_latency_mean_seconds"),
	}
}

func routerByPod() []panel {
	each := func(series string) query { return query{once(byPod, of(series, router)), eachPod + " {{source}}"} }
	return []panel{
		{
			title: "Requests", unit: perSecond, width: 8, height: 8, kind: graph(),
			text:    "Requests a second: all that reached the router, or completed successes alone (vLLM router), or those of a pair (vLLM router before one), as the source says.",
			queries: []query{each("router_requests_per_second"), each("router_successful_requests_per_second"), each("router_pd_requests_per_second")},
		},
		{
			title: "Errors", unit: errorsPerSecond, width: 8, height: 8, kind: graph(),
			text:    "Errors a second, as the router counts them: also requests that its request counter never records, the SGLang gateway apart.",
			queries: []query{each("router_request_errors_per_second"), each("router_errors_per_second"), each("router_pd_errors_per_second")},
		},
		{
			title: "Error ratio", unit: ratio, width: 8, height: 8, kind: graph(),
			text:    "Share of the window's routed requests that ended in an error. The SGLang gateway alone counts both alike.",
			queries: []query{each("router_error_ratio")},
		},
		{
			title: "5xx responses", unit: responsesPerSecond, width: 8, height: 8, kind: graph(),
			text:    "Responses with a status from 500 to 599, on any path; no part of the error ratio. The SGLang gateway alone has it.",
			queries: []query{each("router_http_5xx_responses_per_second")},
		},
		{
			title: "Retries exhausted", unit: perSecond, width: 8, height: 8, kind: graph(),
			text:    "Requests given up after the last attempt. The vLLM router alone has it.",
			queries: []query{each("router_retries_exhausted_per_second")},
		},
		{
			title: "Backends in a replica's view", unit: plain, width: 8, height: 8, kind: graph(),
			text: "Backends that the router holds ready or has in its pool, or workers that it reports, over its replicas: each has its own view of the same ones. Compare with the Pods expected.",
			queries: []query{
				{eachPods(bySource, "router_backends", router), eachSource},
				{eachPods(bySource, "router_reported_workers", router), eachSource},
			},
		},
		{
			title: "Time to first token", unit: seconds, width: 12, height: 8, kind: graph(),
			text:    "Mean of the requests of the replica's window. The llm-d router alone has it.",
			queries: []query{each("router_time_to_first_token_mean_seconds")},
		},
		{
			title: "Time per output token", unit: seconds, width: 12, height: 8, kind: graph(),
			text:    "Mean of the streamed requests of the replica's window. The llm-d router alone has it.",
			queries: []query{each("router_time_per_output_token_mean_seconds")},
		},
	}
}

func cacheHits() []panel {
	const (
		local  = `cache="local-prefix"`
		store  = `cache="external-store"`
		sglang = `cache=~"device-prefix|host-prefix|storage-prefix"`
	)
	perPod := func(title, text, cache, legend string) panel {
		return panel{title: title, text: text, unit: ratio, width: 8, height: 9, kind: shares(),
			queries: []query{{once(with(byPod, "cache"), of("cache_hit_ratio", engine, ofRole, ofPod, cache)), legend}}}
	}
	return []panel{
		perPod("Own cache, by Pod (vLLM)", "Share of the prompt tokens of the Pod's window that were in its own KV cache.", local, eachPod),
		perPod("External store, by Pod (vLLM)", "Share, of the tokens that were not found locally, that the store supplied. It is no part of the Pod's own cache.", store, eachPod),
		perPod("Tiers, by Pod (SGLang)", "Share of the tokens of the Pod's window that were found on the device, in host memory, in the storage backend: tiers of one whole.", sglang, eachPod+" {{cache}}"),
		{
			title: "Tiers of a role (SGLang)", unit: ratio, width: 8, height: 9, kind: stacked(),
			text:    "Hit tokens of each tier over the tokens of the windows of the role's Pods. The tiers share one denominator, so they stand on each other.",
			queries: []query{{hitRatio(bySource, engine, ofRole, sglang), eachCache}},
		},
		{
			title: "Tokens found", unit: tokens, width: 8, height: 9, kind: graph(),
			text:    "Tokens found a second in each cache scope, over the role's Pods, each by its own window.",
			queries: []query{{tokensPerSecond(bySource, "cache_window_hit_tokens", engine, ofRole), eachCache}},
		},
		{
			title: "Tokens looked up", unit: tokens, width: 8, height: 9, kind: graph(),
			text:    "Tokens looked up a second in each cache scope, over the role's Pods, each by its own window. SGLang's tiers share one number.",
			queries: []query{{tokensPerSecond(bySource, "cache_window_query_tokens", engine, ofRole), eachCache}},
		},
	}
}

func kvTransfer() []panel {
	const half = " Read from the prefill half of an SGLang pair, which sends the blocks."
	return []panel{
		eachPodOf("Transfer time", "Mean time of a transfer of the Pod's window."+half, seconds, 6, "kv_transfer_latency_mean_seconds"),
		eachPodOf("Transfer speed", "Mean speed of the transfers of the Pod's window."+half, bytesPerSecond, 6, "kv_transfer_speed_mean_bytes_per_second"),
		eachPodOf("Transfer size", "Mean size of the transfers of the Pod's window."+half, bytesSI, 6, "kv_transfer_size_mean_bytes"),
		eachPodOf("Transfer failures", "Transfers that failed, a second. Nothing is there before the first."+half, "suffix:failures/s", 6, "kv_transfer_failures_per_second"),
	}
}

func windows() []panel {
	return []panel{
		{
			title: "Window length", unit: seconds, width: 8, height: 9, kind: graph(),
			text:    "How long the window behind each value of a Pod is.",
			queries: []query{{once(byPod, of("window_seconds", ofRole, ofPod)), eachPod + " {{source}}"}},
		},
		{
			title: "Window samples", unit: plain, width: 8, height: 9, kind: graph(),
			text:    "What the window behind each value of a Pod counted: observations, events, requests or queried tokens. A mean of few says little.",
			queries: []query{{once(byPod, of("window_samples", ofRole, ofPod)), eachPod + " {{source}}"}},
		},
		{
			title: "Age of a Pod's read", unit: seconds, width: 8, height: 9, kind: graph(),
			text:    "How long ago the Pod's exposition had been read.",
			queries: []query{{"time() - " + once(byRead, of("pod_read_timestamp_seconds", ofRole, ofPod)), eachPod}},
		},
	}
}

func deploymentMissing() []panel {
	return []panel{
		missingTable(10),
		missingByReason("Required sources missing, by reason", "Entries that make the deployment partial.", ofRole, ofPod, required),
		missingByReason("Normal absences, by reason", "Entries that leave the deployment whole: not exported yet, not provided by the configuration, or idle.", ofRole, ofPod, normal),
	}
}
