package collector

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/md-exporter/md-exporter/normalize"
)

// Series is one series of the contract that docs/metrics.md writes down: its name, what it says, and its labels.
type Series struct {
	Name string
	// Unit is the value's: a base unit, what is counted, "ratio" for 0 to 1, or "none" for a flag.
	Unit   string
	Help   string
	Labels []string

	// key is the one field whose values the series has; zero for every other series.
	key  fieldKey
	desc *prometheus.Desc
	// sorted are the indices of Labels in the labels' order.
	sorted []int
	// rows gives the series' values in a snapshot.
	rows rows
}

// rows gives each value that a snapshot has of one series, with its labels in the order of
// Series.Labels.
type rows func(s *normalize.Snapshot, emit emit)

// emit takes one value; it keeps no labels.
type emit func(value float64, labels ...string)

// fieldKey is a field in one of the two scopes, whose values are never added.
type fieldKey struct {
	scope normalize.Scope
	field normalize.Field
}

// AllSeries lists every series that a Collector may produce, sorted by name.
func AllSeries() []*Series { return append([]*Series(nil), all...) }

// The label sets. Every series carries pod, empty where it is not a Pod's, so that no label of the
// scrape target fills it in.
var (
	infoLabels       = []string{"namespace", "modeldeployment", "pod", "engine", "router", "mode", "kv_cache"}
	deploymentLabels = []string{"namespace", "modeldeployment", "pod"}
	coverageLabels   = []string{"namespace", "modeldeployment", "scope", "role", "pod"}
	sourceLabels     = []string{"namespace", "modeldeployment", "scope", "role", "source", "pod"}
	missingLabels    = []string{"namespace", "modeldeployment", "scope", "role", "source", "pod", "reason", "partial"}
	cacheLabels      = []string{"namespace", "modeldeployment", "scope", "role", "source", "pod", "cache"}
)

// The scopes, and the engine's units in base units. They are converted here and only here; a field keeps
// the engine's unit.
const (
	engine = normalize.ScopeEngine
	router = normalize.ScopeRouter

	millisecond = 1e-3
	gigabyte    = 1e9
	megabyte    = 1e6
)

// all is every series, sorted by name.
var all = sorted(
	// What a deployment is, and how far it could be read. A deployment that expects no Pod has info alone.
	series("info", "none", "The deployment's engine, router, mode and KV cache pool; always 1.",
		infoLabels, func(s *normalize.Snapshot, emit emit) {
			d, router := s.Deployment, ""
			if d.Router != nil {
				router = d.Router.Name
			}
			emit(1, d.Namespace, d.Name, "", d.Engine, router, string(s.Mode), strconv.FormatBool(d.KVCache))
		}),
	series("up", "none", "Whether at least one of the deployment's Pods was read.",
		deploymentLabels, ofDeployment(func(s *normalize.Snapshot) float64 { return number(s.Up) })),
	series("partial", "none", "Whether a required source did not contribute.",
		deploymentLabels, ofDeployment(func(s *normalize.Snapshot) float64 { return number(s.Partial) })),
	series("snapshot_timestamp_seconds", "seconds", "When the deployment's values were assembled, in Unix time.",
		deploymentLabels, ofDeployment(func(s *normalize.Snapshot) float64 { return seconds(s.Timestamp) })),
	series("snapshot_duration_seconds", "seconds", "How long reading the deployment had taken when its values were assembled.",
		deploymentLabels, ofDeployment(func(s *normalize.Snapshot) float64 { return s.Duration.Seconds() })),
	series("missing_info", "none", "A source that did not contribute, and why; always 1.",
		missingLabels, func(s *normalize.Snapshot, emit emit) {
			for _, m := range s.Missing {
				emit(1, s.Deployment.Namespace, s.Deployment.Name, string(m.Scope), m.Role, m.Source, m.Pod,
					string(m.Reason), strconv.FormatBool(m.Reason.Partial()))
			}
		}),
	series("expected_pods", "Pods", "Pods that the role or the router should have.",
		coverageLabels, ofCoverage(func(c normalize.Coverage) int { return c.Expected })),
	series("owned_pods", "Pods", "Pods that the deployment owns in the role or as its router.",
		coverageLabels, ofCoverage(func(c normalize.Coverage) int { return c.Owned })),
	series("read_pods", "Pods", "Pods that were read.",
		coverageLabels, ofCoverage(func(c normalize.Coverage) int { return c.Read })),
	series("pod_read_timestamp_seconds", "seconds", "When the Pod's exposition had been read, in Unix time.",
		coverageLabels, func(s *normalize.Snapshot, emit emit) {
			for _, r := range s.Reads {
				emit(seconds(r.ObservedAt), s.Deployment.Namespace, s.Deployment.Name, string(r.Scope), r.Role, r.Pod)
			}
		}),

	// Gauges of the moment, summed over Pods.
	gauge(engine, normalize.Running, "running_requests", "requests",
		"Requests in the engine's running batch, summed over the role's Pods."),
	gauge(engine, normalize.Waiting, "waiting_requests", "requests",
		"Requests that the engine has not scheduled yet, summed over the role's Pods."),
	gauge(engine, normalize.DecodeTransferWaiting, "decode_transfer_waiting_requests", "requests",
		"Requests whose KV blocks are still arriving, summed over the role's Pods."),
	gauge(router, normalize.RouterRunning, "router_running_requests", "requests",
		"Requests that the router is handling, summed over its Pods."),
	gauge(router, normalize.RouterBackends, "router_backends", "backends",
		"Backends that the router holds ready or has in its pool, summed over its Pods."),
	gauge(router, normalize.RouterReportedWorkers, "router_reported_workers", "workers",
		"Workers that the router reports, summed over its Pods."),
	series("source_pods", "Pods", "Pods that contributed to the gauge with the same scope, role and source.",
		sourceLabels, func(s *normalize.Snapshot, emit emit) {
			for _, g := range s.Gauges {
				emit(float64(g.PodCount), s.Deployment.Namespace, s.Deployment.Name, string(g.Scope), g.Role, g.Source, "")
			}
		}),

	// Cache hits of a Pod over a window.
	series("cache_hit_ratio", "ratio", "Share of the window's cache queries that hit, from 0 to 1.",
		cacheLabels, ofCaches(func(c normalize.CacheHit) float64 { return c.Rate })),
	series("cache_window_hit_tokens", "tokens", "Tokens found in the cache during the window.",
		cacheLabels, ofCaches(func(c normalize.CacheHit) float64 { return c.Hits })),
	series("cache_window_query_tokens", "tokens", "Tokens looked up in the cache during the window.",
		cacheLabels, ofCaches(func(c normalize.CacheHit) float64 { return c.Queries })),

	// Means, rates and the ratio of a Pod over a window.
	sample(engine, normalize.TTFT, "time_to_first_token_mean_seconds", "seconds", 1,
		"Mean time to first token of the window's requests, as the engine measures it."),
	sample(engine, normalize.TPOT, "time_per_output_token_mean_seconds", "seconds", 1,
		"Mean time per output token of the window's requests, as the engine measures it."),
	sample(engine, normalize.ITL, "inter_token_latency_mean_seconds", "seconds", 1,
		"Mean time between the window's output tokens, as the engine measures it."),
	sample(router, normalize.TTFT, "router_time_to_first_token_mean_seconds", "seconds", 1,
		"Mean time to first token of the window's requests, as the router measures it."),
	sample(router, normalize.TPOT, "router_time_per_output_token_mean_seconds", "seconds", 1,
		"Mean time per output token of the window's streamed requests, as the router measures it."),

	sample(router, normalize.Requests, "router_requests_per_second", "requests/second", 1,
		"Requests that the router routed, failed ones included, a second."),
	sample(router, normalize.SuccessfulRequests, "router_successful_requests_per_second", "requests/second", 1,
		"Requests that the router completed with success, a second."),
	sample(router, normalize.PDRequests, "router_pd_requests_per_second", "requests/second", 1,
		"Requests that the router sent to a prefill/decode pair, a second."),
	sample(router, normalize.RequestErrors, "router_request_errors_per_second", "errors/second", 1,
		"Errors of requests, those that the request counter never records included, a second."),
	sample(router, normalize.Errors, "router_errors_per_second", "errors/second", 1,
		"Errors that the router records, a second."),
	sample(router, normalize.PDErrors, "router_pd_errors_per_second", "errors/second", 1,
		"Errors in front of a prefill/decode pair, refused requests included, a second."),
	sample(router, normalize.RetriesExhausted, "router_retries_exhausted_per_second", "requests/second", 1,
		"Requests that the router gave up after its last attempt, a second."),
	sample(router, normalize.HTTP5xxResponses, "router_http_5xx_responses_per_second", "responses/second", 1,
		"Responses of the router with a status from 500 to 599, on any path, a second."),
	sample(router, normalize.ErrorRatio, "router_error_ratio", "ratio", 1,
		"Share of the window's routed requests that ended in an error, from 0 to 1."),

	sample(engine, normalize.TransferLatency, "kv_transfer_latency_mean_seconds", "seconds", millisecond,
		"Mean time of the window's KV cache transfers from prefill to decode."),
	sample(engine, normalize.TransferSpeed, "kv_transfer_speed_mean_bytes_per_second", "bytes/second", gigabyte,
		"Mean speed of the window's KV cache transfers from prefill to decode."),
	sample(engine, normalize.TransferSize, "kv_transfer_size_mean_bytes", "bytes", megabyte,
		"Mean size of the window's KV cache transfers from prefill to decode."),
	sample(engine, normalize.TransferFailures, "kv_transfer_failures_per_second", "transfers/second", 1,
		"KV cache transfers that failed, a second."),

	// The window behind a value.
	series("window_seconds", "seconds",
		"Length of the window behind the value with the same scope, role, source and pod.",
		sourceLabels, ofWindows(func(length time.Duration, _ float64) float64 { return length.Seconds() })),
	series("window_samples", "samples",
		"Observations, events or cache queries in the window behind the value with the same scope, role, source and pod.",
		sourceLabels, ofWindows(func(_ time.Duration, samples float64) float64 { return samples })),
)

// sorted sorts series by name.
func sorted(all ...*Series) []*Series {
	slices.SortFunc(all, func(a, b *Series) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func series(name, unit, help string, labels []string, rows rows) *Series {
	s := &Series{Name: "modeldeployment_" + name, Unit: unit, Help: help, Labels: labels, rows: rows}
	s.desc = prometheus.NewDesc(s.Name, s.Help, s.Labels, nil)
	for i := range labels {
		s.sorted = append(s.sorted, i)
	}
	slices.SortFunc(s.sorted, func(a, b int) int { return strings.Compare(labels[a], labels[b]) })
	return s
}

// gauge is the series of a field that is summed over Pods.
func gauge(scope normalize.Scope, field normalize.Field, name, unit, help string) *Series {
	s := series(name, unit, help, sourceLabels, func(s *normalize.Snapshot, emit emit) {
		for _, g := range s.Gauges {
			if g.Scope == scope && g.Field == field {
				emit(g.Value, s.Deployment.Namespace, s.Deployment.Name, string(scope), g.Role, g.Source, "")
			}
		}
	})
	s.key = fieldKey{scope, field}
	return s
}

// sample is the series of a field of a Pod over a window: the field's value times the factor.
func sample(scope normalize.Scope, field normalize.Field, name, unit string, factor float64, help string) *Series {
	s := series(name, unit, help, sourceLabels, func(s *normalize.Snapshot, emit emit) {
		for _, v := range s.Samples {
			if v.Scope == scope && v.Field == field {
				emit(v.Value*factor, s.Deployment.Namespace, s.Deployment.Name, string(scope), v.Role, v.Source, v.Pod)
			}
		}
	})
	s.key = fieldKey{scope, field}
	return s
}

// ofDeployment gives one value a deployment that is read at all.
func ofDeployment(value func(*normalize.Snapshot) float64) rows {
	return func(s *normalize.Snapshot, emit emit) {
		if !s.Empty {
			emit(value(s), s.Deployment.Namespace, s.Deployment.Name, "")
		}
	}
}

// ofCoverage gives one value a role and router.
func ofCoverage(value func(normalize.Coverage) int) rows {
	return func(s *normalize.Snapshot, emit emit) {
		for _, c := range s.Coverage {
			emit(float64(value(c)), s.Deployment.Namespace, s.Deployment.Name, string(c.Scope), c.Role, "")
		}
	}
}

// ofCaches gives one value a Pod and cache scope.
func ofCaches(value func(normalize.CacheHit) float64) rows {
	return func(s *normalize.Snapshot, emit emit) {
		for _, c := range s.Caches {
			emit(value(c), s.Deployment.Namespace, s.Deployment.Name, string(engine), c.Role, c.Source, c.Pod, string(c.Cache))
		}
	}
}

// ofWindows gives one value a Pod and source that has a value over a window.
func ofWindows(value func(length time.Duration, samples float64) float64) rows {
	return func(s *normalize.Snapshot, emit emit) {
		d := s.Deployment
		for i, c := range s.Caches {
			// The scopes of one source stand side by side and share its window.
			if i == 0 || s.Caches[i-1].Pod != c.Pod || s.Caches[i-1].Source != c.Source {
				emit(value(c.Window, c.Queries), d.Namespace, d.Name, string(engine), c.Role, c.Source, c.Pod)
			}
		}
		for _, v := range s.Samples {
			emit(value(v.Window, v.Samples), d.Namespace, d.Name, string(v.Scope), v.Role, v.Source, v.Pod)
		}
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
