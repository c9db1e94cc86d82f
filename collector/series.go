package collector

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/md-exporter/md-exporter/normalize"
)

// Series is one series of the contract (DESIGN §6): its name, what it says, and its labels.
type Series struct {
	Name string
	// Unit is the value's: a base unit, what is counted, "ratio" for 0 to 1, or "none" for a flag.
	Unit   string
	Help   string
	Labels []string

	desc *prometheus.Desc
}

// The label sets. Every series carries pod, empty where it is not a Pod's, so that no label of the
// scrape target fills it in.
var (
	deploymentLabels = []string{"namespace", "modeldeployment", "pod"}
	coverageLabels   = []string{"namespace", "modeldeployment", "scope", "role", "pod"}
	sourceLabels     = []string{"namespace", "modeldeployment", "scope", "role", "source", "pod"}
)

// all lists every series in the order of definition.
var all []*Series

func define(name, unit, help string, labels []string, more ...string) *Series {
	s := &Series{
		Name:   "modeldeployment_" + name,
		Unit:   unit,
		Help:   help,
		Labels: append(append([]string(nil), labels...), more...),
	}
	s.desc = prometheus.NewDesc(s.Name, s.Help, s.Labels, nil)
	all = append(all, s)
	return s
}

// AllSeries lists every series that a Collector may produce.
func AllSeries() []*Series { return append([]*Series(nil), all...) }

// What a deployment is, and how far it could be read.
var (
	infoSeries = define("info", "none", "The deployment's engine, router, mode and KV cache pool; always 1.",
		deploymentLabels, "engine", "router", "mode", "kv_cache")
	upSeries = define("up", "none", "Whether at least one of the deployment's Pods was read.",
		deploymentLabels)
	partialSeries = define("partial", "none", "Whether a required source did not contribute.",
		deploymentLabels)
	missingSeries = define("missing_info", "none", "A source that did not contribute, and why; always 1.",
		sourceLabels, "reason", "partial")
	expectedPodsSeries = define("expected_pods", "Pods", "Pods that the role or the router should have.",
		coverageLabels)
	ownedPodsSeries = define("owned_pods", "Pods", "Pods that the deployment owns in the role or as its router.",
		coverageLabels)
	readPodsSeries = define("read_pods", "Pods", "Pods that were read.",
		coverageLabels)
	snapshotTimestampSeries = define("snapshot_timestamp_seconds", "seconds", "When the deployment's values were assembled, in Unix time.",
		deploymentLabels)
	snapshotDurationSeries = define("snapshot_duration_seconds", "seconds", "How long reading the deployment had taken when its values were assembled.",
		deploymentLabels)
	podReadTimestampSeries = define("pod_read_timestamp_seconds", "seconds", "When the Pod's exposition had been read, in Unix time.",
		coverageLabels)
)

// fieldKey is a field in one of the two scopes, whose values are never added.
type fieldKey struct {
	scope normalize.Scope
	field normalize.Field
}

// Gauges of the moment, summed over Pods.
var (
	gaugeSeries = map[fieldKey]*Series{
		{normalize.ScopeEngine, normalize.Running}: define("running_requests", "requests",
			"Requests in the engine's running batch, summed over the role's Pods.", sourceLabels),
		{normalize.ScopeEngine, normalize.Waiting}: define("waiting_requests", "requests",
			"Requests that the engine has not scheduled yet, summed over the role's Pods.", sourceLabels),
		{normalize.ScopeEngine, normalize.DecodeTransferWaiting}: define("decode_transfer_waiting_requests", "requests",
			"Requests whose KV blocks are still arriving, summed over the role's Pods.", sourceLabels),
		{normalize.ScopeRouter, normalize.RouterRunning}: define("router_running_requests", "requests",
			"Requests that the router is handling, summed over its Pods.", sourceLabels),
		{normalize.ScopeRouter, normalize.RouterBackends}: define("router_backends", "backends",
			"Backends that the router holds ready or has in its pool, summed over its Pods.", sourceLabels),
		{normalize.ScopeRouter, normalize.RouterReportedWorkers}: define("router_reported_workers", "workers",
			"Workers that the router reports, summed over its Pods.", sourceLabels),
	}
	sourcePodsSeries = define("source_pods", "Pods",
		"Pods that contributed to the gauge with the same scope, role and source.", sourceLabels)
)

// Cache hits of a Pod over a window.
var (
	cacheRatioSeries = define("cache_hit_ratio", "ratio",
		"Share of the window's cache queries that hit, from 0 to 1.", sourceLabels, "cache")
	cacheHitsSeries = define("cache_window_hit_tokens", "tokens",
		"Tokens found in the cache during the window.", sourceLabels, "cache")
	cacheQueriesSeries = define("cache_window_query_tokens", "tokens",
		"Tokens looked up in the cache during the window.", sourceLabels, "cache")
)

// converted is a series whose value is the field's times a factor: base units are made here and only
// here, while the field keeps the engine's unit.
type converted struct {
	*Series
	factor float64
}

// Means, rates and the ratio of a Pod over a window.
var sampleSeries = map[fieldKey]converted{
	{normalize.ScopeEngine, normalize.TTFT}: {define("time_to_first_token_mean_seconds", "seconds",
		"Mean time to first token of the window's requests, as the engine measures it.", sourceLabels), 1},
	{normalize.ScopeEngine, normalize.TPOT}: {define("time_per_output_token_mean_seconds", "seconds",
		"Mean time per output token of the window's requests, as the engine measures it.", sourceLabels), 1},
	{normalize.ScopeEngine, normalize.ITL}: {define("inter_token_latency_mean_seconds", "seconds",
		"Mean time between the window's output tokens, as the engine measures it.", sourceLabels), 1},
	{normalize.ScopeRouter, normalize.TTFT}: {define("router_time_to_first_token_mean_seconds", "seconds",
		"Mean time to first token of the window's requests, as the router measures it.", sourceLabels), 1},
	{normalize.ScopeRouter, normalize.TPOT}: {define("router_time_per_output_token_mean_seconds", "seconds",
		"Mean time per output token of the window's streamed requests, as the router measures it.", sourceLabels), 1},

	{normalize.ScopeRouter, normalize.Requests}: {define("router_requests_per_second", "requests/second",
		"Requests that reached the router, a second.", sourceLabels), 1},
	{normalize.ScopeRouter, normalize.SuccessfulRequests}: {define("router_successful_requests_per_second", "requests/second",
		"Requests that the router completed with success, a second.", sourceLabels), 1},
	{normalize.ScopeRouter, normalize.PDRequests}: {define("router_pd_requests_per_second", "requests/second",
		"Requests that the router sent to a prefill/decode pair, a second.", sourceLabels), 1},
	{normalize.ScopeRouter, normalize.RequestErrors}: {define("router_request_errors_per_second", "errors/second",
		"Errors of requests, those that the request counter never records included, a second.", sourceLabels), 1},
	{normalize.ScopeRouter, normalize.Errors}: {define("router_errors_per_second", "errors/second",
		"Errors that the router records, a second.", sourceLabels), 1},
	{normalize.ScopeRouter, normalize.PDErrors}: {define("router_pd_errors_per_second", "errors/second",
		"Errors in front of a prefill/decode pair, refused requests included, a second.", sourceLabels), 1},
	{normalize.ScopeRouter, normalize.RetriesExhausted}: {define("router_retries_exhausted_per_second", "requests/second",
		"Requests that the router gave up after its last attempt, a second.", sourceLabels), 1},
	{normalize.ScopeRouter, normalize.HTTP5xxResponses}: {define("router_http_5xx_responses_per_second", "responses/second",
		"Responses of the router with a status from 500 to 599, on any path, a second.", sourceLabels), 1},
	{normalize.ScopeRouter, normalize.ErrorRatio}: {define("router_error_ratio", "ratio",
		"Share of the window's routed requests that ended in an error, from 0 to 1.", sourceLabels), 1},

	{normalize.ScopeEngine, normalize.TransferLatency}: {define("kv_transfer_latency_mean_seconds", "seconds",
		"Mean time of the window's KV cache transfers from prefill to decode.", sourceLabels), 1e-3},
	{normalize.ScopeEngine, normalize.TransferSpeed}: {define("kv_transfer_speed_mean_bytes_per_second", "bytes/second",
		"Mean speed of the window's KV cache transfers from prefill to decode.", sourceLabels), 1e9},
	{normalize.ScopeEngine, normalize.TransferSize}: {define("kv_transfer_size_mean_bytes", "bytes",
		"Mean size of the window's KV cache transfers from prefill to decode.", sourceLabels), 1e6},
	{normalize.ScopeEngine, normalize.TransferFailures}: {define("kv_transfer_failures_per_second", "transfers/second",
		"KV cache transfers that failed, a second.", sourceLabels), 1},
}

// The window behind a value.
var (
	windowSecondsSeries = define("window_seconds", "seconds",
		"Length of the window behind the value with the same scope, role, source and pod.", sourceLabels)
	windowSamplesSeries = define("window_samples", "samples",
		"Observations, events or cache queries in the window behind the value with the same scope, role, source and pod.", sourceLabels)
)

// emit takes one value of a series; the labels are in the order of Series.Labels.
type emit func(s *Series, value float64, labels ...string)

// render gives every series of a snapshot to emit.
func render(s *normalize.Snapshot, emit emit) {
	d := s.Deployment
	router := ""
	if d.Router != nil {
		router = d.Router.Name
	}
	emit(infoSeries, 1, d.Namespace, d.Name, "", d.Engine, router, string(s.Mode), strconv.FormatBool(d.KVCache))
	if s.Empty {
		return
	}
	emit(upSeries, number(s.Up), d.Namespace, d.Name, "")
	emit(partialSeries, number(s.Partial), d.Namespace, d.Name, "")
	emit(snapshotTimestampSeries, seconds(s.Timestamp), d.Namespace, d.Name, "")
	emit(snapshotDurationSeries, s.Duration.Seconds(), d.Namespace, d.Name, "")
	for _, c := range s.Coverage {
		emit(expectedPodsSeries, float64(c.Expected), d.Namespace, d.Name, string(c.Scope), c.Role, "")
		emit(ownedPodsSeries, float64(c.Owned), d.Namespace, d.Name, string(c.Scope), c.Role, "")
		emit(readPodsSeries, float64(c.Read), d.Namespace, d.Name, string(c.Scope), c.Role, "")
	}
	for _, r := range s.Reads {
		emit(podReadTimestampSeries, seconds(r.ObservedAt), d.Namespace, d.Name, string(r.Scope), r.Role, r.Pod)
	}
	for _, m := range s.Missing {
		emit(missingSeries, 1, d.Namespace, d.Name, string(m.Scope), m.Role, m.Source, m.Pod,
			string(m.Reason), strconv.FormatBool(m.Reason.Partial()))
	}
	renderValues(s, emit)
}

// renderValues gives the values and the windows behind them.
func renderValues(s *normalize.Snapshot, emit emit) {
	d := s.Deployment
	for _, g := range s.Gauges {
		emit(gaugeSeries[fieldKey{g.Scope, g.Field}], g.Value, d.Namespace, d.Name, string(g.Scope), g.Role, g.Source, "")
		emit(sourcePodsSeries, float64(g.PodCount), d.Namespace, d.Name, string(g.Scope), g.Role, g.Source, "")
	}
	window := func(scope normalize.Scope, role, source, pod string, length time.Duration, samples float64) {
		emit(windowSecondsSeries, length.Seconds(), d.Namespace, d.Name, string(scope), role, source, pod)
		emit(windowSamplesSeries, samples, d.Namespace, d.Name, string(scope), role, source, pod)
	}
	for i, c := range s.Caches {
		labels := []string{d.Namespace, d.Name, string(normalize.ScopeEngine), c.Role, c.Source, c.Pod, string(c.Cache)}
		emit(cacheRatioSeries, c.Rate, labels...)
		emit(cacheHitsSeries, c.Hits, labels...)
		emit(cacheQueriesSeries, c.Queries, labels...)
		// The scopes of one source stand side by side and share its window.
		if i == 0 || s.Caches[i-1].Pod != c.Pod || s.Caches[i-1].Source != c.Source {
			window(normalize.ScopeEngine, c.Role, c.Source, c.Pod, c.Window, c.Queries)
		}
	}
	for _, v := range s.Samples {
		series := sampleSeries[fieldKey{v.Scope, v.Field}]
		emit(series.Series, v.Value*series.factor, d.Namespace, d.Name, string(v.Scope), v.Role, v.Source, v.Pod)
		window(v.Scope, v.Role, v.Source, v.Pod, v.Window, v.Samples)
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// seconds is a Unix time.
func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
