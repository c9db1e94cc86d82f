package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/md-exporter/md-exporter/normalize"
)

// coverage is what is missing and why.
func coverage() page {
	return page{
		uid:   coverageUID,
		title: "ModelDeployments: coverage",
		text:  "What could not be measured and why, Pods expected, owned and read, and how the exporter itself fares.",
		variables: []cog.Builder[dashboard.VariableModel]{
			source(), namespace(true), modeldeployment(true), role(), pod(),
		},
		links: []cog.Builder[dashboard.DashboardLink]{
			link("Fleet", fleetUID, true), link("Deployment", deploymentUID, false),
		},
		rows: []row{
			{"Now", append(coverageNow(), missingTable(12))},
			{"Missing over time", missingOverTime()},
			{"Pods", pods()},
			{"Reading deployments", reading()},
			{"The exporter", exporter()},
		},
	}
}

func coverageNow() []panel {
	podCount := func(title, text, series string) panel {
		return panel{
			title: title, text: text, unit: plain, width: 4, height: 4, kind: number(), noValue: "no data",
			queries: []query{{total([]string{"scope"}, once(byRole, of(series, ofRole))), "{{scope}}"}},
		}
	}
	return []panel{
		{
			title: "Unavailable deployments", unit: plain, width: 4, height: 4, noValue: "no data",
			kind:    number(otherwise(green), from(1, red)),
			text:    "Deployments none of whose Pods could be read.",
			queries: []query{{expr: total(nil, once(byDeployment, of("up"))+" == bool 0")}},
		},
		{
			title: "Partial deployments", unit: plain, width: 4, height: 4, noValue: "no data",
			kind:    number(otherwise(green), from(1, orange)),
			text:    "Deployments to which a required source did not contribute, the unavailable ones included.",
			queries: []query{{expr: total(nil, once(byDeployment, of("partial")))}},
		},
		podCount("Pods expected", "Pods that the roles and the routers should have.", "expected_pods"),
		podCount("Pods owned", "Pods that the deployments own, pending and terminating ones included.", "owned_pods"),
		podCount("Pods read", "Pods that were read in the last collection.", "read_pods"),
		{
			title: "Missing entries", unit: plain, width: 4, height: 4, kind: number(), noValue: "none listed",
			text: "Sources that did not contribute: those that make a deployment partial, and those that are normal.",
			queries: []query{
				{count(nil, once(byEntry, of("missing_info", ofRole, ofPod, required))), "required"},
				{count(nil, once(byEntry, of("missing_info", ofRole, ofPod, normal))), "normal"},
			},
		},
	}
}

// missingTable is every missing entry of now, with its reason's sentence.
func missingTable(height uint32) panel {
	var reasons []named
	for _, r := range normalize.Reasons() {
		reasons = append(reasons, named{value: string(r), text: string(r) + ": " + r.Sentence()})
	}
	return rows(panel{
		title: "What is missing now", unit: plain, width: 24, height: height, noValue: "–",
		text: "A row is a source that did not contribute. A required one makes the deployment partial; the others are normal. The Pod is empty where the entry is of the whole role or router, the role where it is the router's.",
	}, "Required", true,
		column{title: "Required", label: "partial", width: 95, values: []named{{"true", "yes", orange}, {"false", "no", green}}},
		column{title: "Namespace", label: "namespace", width: 130},
		column{title: "Deployment", label: "modeldeployment", width: 190, link: toDeployment},
		column{title: "Scope", label: "scope", width: 80},
		column{title: "Role", label: "role", width: 100},
		column{title: "Pod", label: "pod", width: 270},
		column{title: "Source", label: "source", width: 330},
		column{title: "Reason", label: "reason", values: reasons},
		hidden(once(byEntry, of("missing_info", ofRole, ofPod))),
	)
}

// missingOver counts missing entries over time by some labels.
func missingOver(title, text string, labels []string, legend string, matchers ...string) panel {
	return panel{
		title: title, unit: plain, width: 12, height: 9, kind: stacked(),
		text:    text + " Where there is none, nothing is shown.",
		queries: []query{{count(labels, once(byEntry, of("missing_info", matchers...))), legend}},
	}
}

// missingByReason is missing entries over time by reason, of the required sources or of the others.
func missingByReason(title, text string, matchers ...string) panel {
	return missingOver(title, text, []string{"reason"}, "{{reason}}", matchers...)
}

// deploymentStates is each deployment's state over time.
func deploymentStates(width uint32) panel {
	return panel{
		title: "State of each deployment", unit: plain, width: width, height: 9, kind: timeline(),
		text:    "Whole, partial (a required source did not contribute), or unavailable (no Pod could be read). A gap is a deployment that was not collected.",
		queries: []query{{state(), "{{namespace}}/{{modeldeployment}}"}},
	}
}

func missingOverTime() []panel {
	const counts = "Entries that make their deployment partial."
	const absences = "Entries that leave their deployment whole: not exported yet, not provided by the configuration, or idle."
	return []panel{
		deploymentStates(24),
		missingByReason("Required, by reason", counts, ofRole, ofPod, required),
		missingByReason("Normal, by reason", absences, ofRole, ofPod, normal),
		missingOver("Required, by source", counts+" A Pod that could not be read is the source scrape.",
			[]string{"source"}, "{{source}}", ofRole, ofPod, required),
		missingOver("Normal, by source", absences, []string{"source"}, "{{source}}", ofRole, ofPod, normal),
		missingOver("Required, by Pod", counts+" An entry of a whole role or router has no Pod.",
			[]string{"namespace", "pod"}, "{{namespace}}/{{pod}}", ofRole, ofPod, required),
		missingOver("Required, by deployment", counts, byDeployment, "{{namespace}}/{{modeldeployment}}", ofRole, ofPod, required),
	}
}

func pods() []panel {
	difference := func(more, less string) string {
		return once(byRole, of(more, ofRole)) + " - " + once(byRole, of(less, ofRole))
	}
	const each = "{{namespace}}/{{modeldeployment}} {{scope}} {{role}}"
	labels := func() []column {
		return []column{
			{title: "Namespace", label: "namespace", width: 130},
			{title: "Deployment", label: "modeldeployment", link: toDeployment},
			{title: "Scope", label: "scope", width: 90},
			{title: "Role", label: "role", width: 120},
		}
	}
	return []panel{
		rows(panel{
			title: "Pods expected, owned and read", unit: plain, width: 12, height: 10, noValue: "–",
			text: "A row is a role of a deployment, or its router, whose role is empty.",
		}, "Deployment", false, append(labels(),
			column{title: "Expected", expr: once(byRole, of("expected_pods", ofRole)), width: 90},
			column{title: "Owned", expr: once(byRole, of("owned_pods", ofRole)), width: 80},
			column{title: "Read", expr: once(byRole, of("read_pods", ofRole)), width: 80},
		)...),
		{
			title: "Pods, by scope", unit: plain, width: 12, height: 10, kind: graph(),
			text: "Pods of the engines and of the routers: expected, owned, read.",
			queries: []query{
				{total([]string{"scope"}, once(byRole, of("expected_pods", ofRole))), "{{scope}} expected"},
				{total([]string{"scope"}, once(byRole, of("owned_pods", ofRole))), "{{scope}} owned"},
				{total([]string{"scope"}, once(byRole, of("read_pods", ofRole))), "{{scope}} read"},
			},
		},
		{
			title: "Pods that lack", unit: plain, width: 12, height: 9, kind: graph(),
			text:    "Pods expected less Pods owned; below zero during a rollout.",
			queries: []query{{difference("expected_pods", "owned_pods"), each}},
		},
		{
			title: "Pods owned and not read", unit: plain, width: 12, height: 9, kind: graph(),
			text:    "Pods owned less Pods read.",
			queries: []query{{difference("owned_pods", "read_pods"), each}},
		},
	}
}

func reading() []panel {
	const each = "{{namespace}}/{{modeldeployment}}"
	return []panel{
		{
			title: "Time to read a deployment", unit: seconds, width: 8, height: 9, kind: graph(),
			text:    "How long reading had taken when the deployment's values were assembled. It is cut by the scrape timeout and by --snapshot.timeout.",
			queries: []query{{once(byDeployment, of("snapshot_duration_seconds")), each}},
		},
		{
			title: "Age of a deployment's values", unit: seconds, width: 8, height: 9, kind: graph(),
			text:    "How long ago the deployment's values were assembled: the scrape interval at most, in health.",
			queries: []query{{"time() - " + once(byDeployment, of("snapshot_timestamp_seconds")), each}},
		},
		{
			title: "Age of a Pod's read", unit: seconds, width: 8, height: 9, kind: graph(),
			text:    "How long ago each Pod's exposition had been read.",
			queries: []query{{"time() - " + once(byRead, of("pod_read_timestamp_seconds", ofRole, ofPod)), eachPod}},
		},
		{
			title: "Window length", unit: seconds, width: 12, height: 9, kind: graph(),
			text:    "How long the window behind each value of a Pod is.",
			queries: []query{{once(byPod, of("window_seconds", ofRole, ofPod)), eachPod + " {{source}}"}},
		},
		{
			title: "Window samples", unit: plain, width: 12, height: 9, kind: graph(),
			text:    "What the window behind each value of a Pod counted: observations, events, requests or queried tokens.",
			queries: []query{{once(byPod, of("window_samples", ofRole, ofPod)), eachPod + " {{source}}"}},
		},
	}
}

func exporter() []panel {
	own := func(title, text, unit string, k kind, queries ...query) panel {
		return panel{title: title, text: text, unit: unit, width: 6, height: 8, kind: k, queries: queries}
	}
	gauge := func(operator, series string) string { return aggregate(operator, nil, "md_exporter_"+series) }
	return []panel{
		own("Fetches, by result", "Fetches of Pods' expositions a second: success, or the reason why not.", "suffix:fetches/s", graph(),
			query{rate([]string{"result"}, "fetches_total"), "{{result}}"}),
		own("Time of a fetch", "How long the fetch of one Pod's exposition takes, whatever its result.", seconds, graph(),
			query{quantile(0.5, "fetch_duration_seconds"), "median"},
			query{quantile(0.99, "fetch_duration_seconds"), "99 %"}),
		own("Time of a collection", "How long the reading of one deployment's Pods takes.", seconds, graph(),
			query{quantile(0.5, "collection_duration_seconds"), "median"},
			query{quantile(0.99, "collection_duration_seconds"), "99 %"}),
		own("Deadline of a scrape", "How long the last scrape had for collecting, by the scrape timeout that it named.", seconds, graph(),
			query{gauge("min", "request_deadline_seconds"), "deadline"}),
		own("Bytes read", "Bytes of Pods' expositions read a second, after decompression.", bytesPerSecond, graph(),
			query{rate(nil, "read_bytes_total"), "bytes"}),
		own("In flight and held", "Fetches under way when it was scraped, and reads held for later windows to start from.", plain, graph(),
			query{gauge("sum", "fetches_in_flight"), "fetches in flight"},
			query{gauge("sum", "held_reads"), "reads held"}),
		own("Deployments of the exporter", "ModelDeployments that the exporter collects, over its shards.", plain, graph(),
			query{gauge("sum", "deployments"), "deployments"}),
		own("Age of the manifests", "How long ago the manifest files were last read whole. Only an exporter that runs from manifests has it.", seconds, graph(),
			query{"time() - " + gauge("min", "manifests_last_reload_success_timestamp_seconds"), "last read whole"}),
	}
}
