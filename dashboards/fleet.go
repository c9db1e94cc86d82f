package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

const eachDeploymentRole = "{{namespace}}/{{modeldeployment}} {{role}}"

// fleet is every deployment at a glance.
func fleet() page {
	return page{
		uid:   fleetUID,
		title: "ModelDeployments: fleet",
		text:  "Every ModelDeployment: whether it is read, how busy its roles are, how fast they answer. An empty cell or a gap is a value that was not measured; Coverage says why.",
		variables: []cog.Builder[dashboard.VariableModel]{
			source(), namespace(true), modeldeployment(true), role(),
		},
		links: []cog.Builder[dashboard.DashboardLink]{
			link("Deployment", deploymentUID, false), link("Coverage", coverageUID, true),
		},
		rows: []row{
			{"Now", fleetNow()},
			{"Deployments", []panel{fleetTable(), routerTable()}},
			{"Engines over time", fleetEngines()},
			{"Routers over time", fleetRouters()},
			{"Coverage over time", fleetCoverage()},
		},
	}
}

func fleetNow() []panel {
	return []panel{
		{
			title: "Deployments", unit: plain, width: 6, height: 4, kind: number(), noValue: "no data",
			text:    "ModelDeployments that the exporter collects.",
			queries: []query{{expr: count(nil, once(byDeployment, of("info")))}},
		},
		{
			title: "Unavailable", unit: plain, width: 6, height: 4, noValue: "no data",
			kind:    number(otherwise(green), from(1, red)),
			text:    "Deployments none of whose Pods could be read.",
			queries: []query{{expr: total(nil, once(byDeployment, of("up"))+" == bool 0")}},
		},
		{
			title: "Partial", unit: plain, width: 6, height: 4, noValue: "no data",
			kind:    number(otherwise(green), from(1, orange)),
			text:    "Deployments to which a required source did not contribute, the unavailable ones included.",
			queries: []query{{expr: total(nil, once(byDeployment, of("partial")))}},
		},
		{
			title: "Pods read, of those expected", unit: ratio, width: 6, height: 4, noValue: "no data",
			kind: number(otherwise(red), from(0.5, orange), from(1, green)),
			text: "Pods that were read over Pods that the roles, or the routers, should have. More than 100 % during a rollout.",
			queries: []query{{
				expr: total([]string{"scope"}, once(byRole, of("read_pods"))) +
					" / (" + total([]string{"scope"}, once(byRole, of("expected_pods"))) + " > 0)",
				legend: "{{scope}}",
			}},
		},
		{
			title: "Running requests", unit: plain, width: 8, height: 5, kind: number(), noValue: "not measured",
			text:    "Requests in the engines' running batches, by engine and by the roles' names: prefill and decode each count a request once, so roles are never added.",
			queries: []query{{expr: total([]string{"role", "source"}, once(bySource, of("running_requests", engine, ofRole))), legend: "{{role}} {{source}}"}},
		},
		{
			title: "Waiting requests", unit: plain, width: 8, height: 5, kind: number(), noValue: "not measured",
			text:    "Requests that the engines have not scheduled yet, by engine and by the roles' names.",
			queries: []query{{expr: total([]string{"role", "source"}, once(bySource, of("waiting_requests", engine, ofRole))), legend: "{{role}} {{source}}"}},
		},
		{
			title: "Requests in flight at the routers", unit: plain, width: 8, height: 5, kind: number(), noValue: "not measured",
			text:    "Requests that the routers are handling, by router. They are the engines' requests once more, and those on their way: the two are never added.",
			queries: []query{{expr: total([]string{"source"}, once(bySource, of("router_running_requests", router))), legend: "{{source}}"}},
		},
	}
}

// engineValue is a gauge of a deployment's role, in a table's row.
func engineValue(gauge string) string { return once(byTableRow, of(gauge, engine, ofRole)) }

// engineMean is a mean of a deployment's role, in a table's row: an engine has one source of it.
func engineMean(series string) string {
	return once(byTableRow, mean(bySource, series, engine, ofRole))
}

func fleetTable() panel {
	info := once(with(byDeployment, "engine", "router", "mode"), of("info"))
	whole := info + " * on (namespace, modeldeployment) group_right (engine, router, mode) " + roles()
	// A deployment that expects no Pod has no role, and a row all the same.
	without := "(" + info + " unless on (namespace, modeldeployment) " + once(byDeployment, of("expected_pods", engine)) + ")"
	return rows(panel{
		title: "Deployments and their roles", unit: plain, width: 24, height: 11, noValue: "–",
		text: "A row is a role of a deployment. Up, partial and the router's error ratio are the deployment's and stand in each of its rows; everything else is the role's. Means over Pods weigh each Pod by the requests or tokens of its window. Only the SGLang gateway has an error ratio. An empty cell was not measured. Click a deployment to open it, a header to sort.",
	}, "Waiting", true,
		column{title: "Namespace", label: "namespace", width: 110},
		column{title: "Deployment", label: "modeldeployment", width: 170, link: toDeployment},
		column{title: "Role", label: "role", width: 80},
		column{title: "Engine", label: "engine", width: 75},
		column{title: "Router", label: "router", width: 120},
		column{title: "Mode", label: "mode", width: 115},
		hidden(whole+" or "+without),
		column{title: "Up", expr: forEachRole(once(byDeployment, of("up"))), width: 55,
			values: []named{{"0", "no", red}, {"1", "yes", green}}},
		column{title: "Partial", expr: forEachRole(once(byDeployment, of("partial"))), width: 70,
			values: []named{{"0", "no", green}, {"1", "yes", orange}}},
		column{title: "Pods read", expr: engineValue("read_pods"), width: 80},
		column{title: "Pods expected", expr: engineValue("expected_pods"), width: 110},
		column{title: "Running", expr: engineValue("running_requests"), width: 80},
		column{title: "Waiting", expr: engineValue("waiting_requests"), width: 80},
		column{title: "Transfer waiting", expr: engineValue("decode_transfer_waiting_requests"), width: 120},
		column{title: "TTFT", expr: engineMean("time_to_first_token_mean_seconds"), unit: seconds, width: 80},
		column{title: "TPOT", expr: engineMean("time_per_output_token_mean_seconds"), unit: seconds, width: 80},
		column{title: "ITL", expr: engineMean("inter_token_latency_mean_seconds"), unit: seconds, width: 80},
		column{title: "Error ratio", expr: forEachRole(once(byDeployment, mean(bySource, "router_error_ratio", router))), unit: ratio, width: 90,
			steps: []dashboard.Threshold{otherwise(text), from(0.05, orange), from(0.2, red)}},
		column{title: "Required, missing", expr: count(byTableRow, once(byEntry, of("missing_info", engine, ofRole, required))), width: 130,
			steps: []dashboard.Threshold{otherwise(text), from(1, orange)}},
	)
}

// routerRate is a rate of a deployment's router, in a table's row: a router has one source of it.
func routerRate(series string) string {
	return once(byDeployment, total(with(byDeployment, "source"), once(byPod, of(series, router))))
}

func routerTable() panel {
	return rows(panel{
		title: "Routers", unit: plain, width: 24, height: 8, noValue: "–",
		text: "A row is a deployment's router, added over its replicas; backends and workers are one replica's view. Each router has some of these alone: what it counts as a request or an error differs from the others, so the columns are not to be added.",
	}, "Deployment", false,
		column{title: "Namespace", label: "namespace", width: 110},
		column{title: "Deployment", label: "modeldeployment", width: 170, link: toDeployment},
		column{title: "Pods read", expr: once(byDeployment, of("read_pods", router)), width: 80},
		column{title: "Pods expected", expr: once(byDeployment, of("expected_pods", router)), width: 110},
		column{title: "In flight", expr: once(byDeployment, of("router_running_requests", router)), width: 80},
		column{title: "Backends", expr: once(byDeployment, eachPods(bySource, "router_backends", router)), width: 80},
		column{title: "Workers", expr: once(byDeployment, eachPods(bySource, "router_reported_workers", router)), width: 80},
		column{title: "Requests", expr: routerRate("router_requests_per_second"), unit: perSecond, width: 100},
		column{title: "Successes", expr: routerRate("router_successful_requests_per_second"), unit: perSecond, width: 100},
		column{title: "PD requests", expr: routerRate("router_pd_requests_per_second"), unit: perSecond, width: 105},
		column{title: "Request errors", expr: routerRate("router_request_errors_per_second"), unit: errorsPerSecond, width: 120},
		column{title: "Errors", expr: routerRate("router_errors_per_second"), unit: errorsPerSecond, width: 120},
		column{title: "PD errors", expr: routerRate("router_pd_errors_per_second"), unit: errorsPerSecond, width: 120},
		column{title: "Retries exhausted", expr: routerRate("router_retries_exhausted_per_second"), unit: perSecond, width: 130},
		column{title: "5xx responses", expr: routerRate("router_http_5xx_responses_per_second"), unit: responsesPerSecond, width: 120},
		column{title: "Error ratio", expr: once(byDeployment, mean(bySource, "router_error_ratio", router)), unit: ratio, width: 90,
			steps: []dashboard.Threshold{otherwise(text), from(0.05, orange), from(0.2, red)}},
	)
}

func fleetEngines() []panel {
	gauge := func(title, text, series string) panel {
		return panel{title: title, text: text, unit: plain, width: 8, height: 9, kind: graph(),
			queries: []query{{once(bySource, of(series, engine, ofRole)), eachDeploymentRole}}}
	}
	latency := func(title, text, series string) panel {
		return panel{title: title, unit: seconds, width: 8, height: 9, kind: graph(),
			text:    text + " Pods weigh by what their windows counted.",
			queries: []query{{mean(bySource, series, engine, ofRole), eachDeploymentRole}}}
	}
	return []panel{
		gauge("Running requests", "Requests in the engine's running batch, over the role's readable Pods.", "running_requests"),
		gauge("Waiting requests", "Requests that the engine has not scheduled yet. vLLM's include those whose KV blocks are still arriving.", "waiting_requests"),
		gauge("Waiting for KV transfer", "Requests of an SGLang decode half whose KV blocks are still arriving.", "decode_transfer_waiting_requests"),
		latency("Time to first token", "Mean time to first token of the requests of the exporter's window.", "time_to_first_token_mean_seconds"),
		latency("Time per output token", "Mean time per output token, requests with at most one token counting as zero. vLLM alone has it.", "time_per_output_token_mean_seconds"),
		latency("Inter-token latency", "Mean gap between streamed tokens.", "inter_token_latency_mean_seconds"),
		{
			title: "Cache hits", unit: ratio, width: 24, height: 9, kind: shares(),
			text:    "Hit tokens over queried tokens of the windows of a role's Pods, by cache scope. Scopes are not to be added, nor compared between engines.",
			queries: []query{{hitRatio(bySource, engine, ofRole), eachDeploymentRole + " {{cache}}"}},
		},
	}
}

func fleetRouters() []panel {
	const each = "{{namespace}}/{{modeldeployment}} {{source}}"
	perDeployment := with(byDeployment, "source")
	sum := func(series string) query {
		return query{total(perDeployment, once(byPod, of(series, router))), each}
	}
	return []panel{
		{
			title: "Requests", unit: perSecond, width: 8, height: 9, kind: graph(),
			text: "Requests a second over the router's replicas: all that reached it, or completed successes alone, or those of a pair, as the legend's source says.",
			queries: []query{sum("router_requests_per_second"), sum("router_successful_requests_per_second"),
				sum("router_pd_requests_per_second")},
		},
		{
			title: "Errors", unit: errorsPerSecond, width: 8, height: 9, kind: graph(),
			text: "Errors a second over the router's replicas, as each router counts them.",
			queries: []query{sum("router_request_errors_per_second"), sum("router_errors_per_second"),
				sum("router_pd_errors_per_second")},
		},
		{
			title: "Error ratio", unit: ratio, width: 8, height: 9, kind: graph(),
			text:    "Share of routed requests that ended in an error, replicas weighing by their requests. The SGLang gateway alone has it.",
			queries: []query{{mean(perDeployment, "router_error_ratio", router), each}},
		},
		{
			title: "Requests in flight", unit: plain, width: 8, height: 9, kind: graph(),
			text:    "Requests that the router is handling, over its replicas.",
			queries: []query{{once(perDeployment, of("router_running_requests", router)), each}},
		},
		{
			title: "Time to first token, at the router", unit: seconds, width: 8, height: 9, kind: graph(),
			text:    "Mean time to first token as the router measures it, which is more of the request's path than the engine sees. The llm-d router alone has it.",
			queries: []query{{mean(perDeployment, "router_time_to_first_token_mean_seconds", router), each}},
		},
		{
			title: "5xx responses", unit: responsesPerSecond, width: 8, height: 9, kind: graph(),
			text:    "Responses with a status from 500 to 599, on any path. They are no part of the error ratio.",
			queries: []query{sum("router_http_5xx_responses_per_second")},
		},
	}
}

func fleetCoverage() []panel {
	return []panel{
		deploymentStates(12),
		missingByReason("Required sources missing, by reason", "Entries that make their deployment partial.", ofRole, required),
	}
}
