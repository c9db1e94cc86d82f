package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/md-exporter/md-exporter/simulate"
	"github.com/md-exporter/md-exporter/test/e2e/cluster"
)

// window is the exporter's default --window.min.
const window = 10 * time.Second

// aggregate says how a field is told from the Pods' own series.
type aggregate int

const (
	gauge   aggregate = iota // the sum of the series
	mean                     // of the histogram's observations between two moments
	counted                  // between two moments
	ratio                    // of the series and the one behind it, both counted
)

// measured are fields as they are served and as the engines and routers have them.
var measured = []struct {
	deployment string
	role       string // empty for the router
	field      simulate.Field
	aggregate  aggregate
	// series is the exporter's without its prefix, with a matcher where one is needed.
	series, matcher string
	// native is the engine's or router's, with a matcher; over is the denominator of a ratio.
	native, over string
	// factor turns the engine's unit into the base unit; zero is one.
	factor float64
}{
	{deployment: "vllm", role: "server", field: simulate.Running, series: "running_requests", native: `vllm:num_requests_running`},
	{deployment: "vllm", role: "server", field: simulate.Waiting, series: "waiting_requests", native: `vllm:num_requests_waiting`},
	{deployment: "sglang-pair", role: "prefill", field: simulate.Running, series: "running_requests", native: `sglang:num_running_reqs`},
	{deployment: "sglang-pair", role: "decode", field: simulate.DecodeTransferWaiting, series: "decode_transfer_waiting_requests", native: `sglang:num_decode_transfer_queue_reqs`},
	{deployment: "vllm", field: simulate.RouterRunning, series: "router_running_requests", native: `vllm_router_running_requests`},
	{deployment: "vllm", field: simulate.RouterReportedWorkers, series: "router_reported_workers", native: `vllm_router_active_workers`},
	{deployment: "llm-d", field: simulate.RouterBackends, series: "router_backends", native: `llm_d_epp_ready_endpoints`},
	{deployment: "sglang", field: simulate.RouterRunning, series: "router_running_requests", native: `smg_worker_requests_active`},

	{deployment: "vllm", role: "server", field: simulate.LocalPrefix, aggregate: ratio, series: "cache_hit_ratio", matcher: `cache="local-prefix"`, native: `vllm:prefix_cache_hits_total`, over: `vllm:prefix_cache_queries_total`},
	{deployment: "vllm-pair", role: "prefill", field: simulate.ExternalStore, aggregate: ratio, series: "cache_hit_ratio", matcher: `cache="external-store"`, native: `vllm:external_prefix_cache_hits_total`, over: `vllm:external_prefix_cache_queries_total`},
	{deployment: "sglang", role: "server", field: simulate.DevicePrefix, aggregate: ratio, series: "cache_hit_ratio", matcher: `cache="device-prefix"`, native: `sglang:prefill_effective_tokens_total{mode="device_hit"}`, over: `sglang:prefill_effective_tokens_total`},
	{deployment: "sglang", role: "server", field: simulate.StoragePrefix, aggregate: ratio, series: "cache_hit_ratio", matcher: `cache="storage-prefix"`, native: `sglang:prefill_effective_tokens_total{mode="storage_hit"}`, over: `sglang:prefill_effective_tokens_total`},

	{deployment: "vllm", role: "server", field: simulate.TTFT, aggregate: mean, series: "time_to_first_token_mean_seconds", native: `vllm:time_to_first_token_seconds`},
	{deployment: "vllm", role: "server", field: simulate.TPOT, aggregate: mean, series: "time_per_output_token_mean_seconds", native: `vllm:request_time_per_output_token_seconds`},
	{deployment: "sglang", role: "server", field: simulate.ITL, aggregate: mean, series: "inter_token_latency_mean_seconds", native: `sglang:inter_token_latency_seconds`},
	{deployment: "llm-d", field: simulate.TTFT, aggregate: mean, series: "router_time_to_first_token_mean_seconds", native: `llm_d_epp_request_ttft_seconds`},
	{deployment: "sglang-pair", role: "prefill", field: simulate.TransferLatency, aggregate: mean, series: "kv_transfer_latency_mean_seconds", native: `sglang:kv_transfer_latency_ms`, factor: 1e-3},
	{deployment: "sglang-pair", role: "prefill", field: simulate.TransferSpeed, aggregate: mean, series: "kv_transfer_speed_mean_bytes_per_second", native: `sglang:kv_transfer_speed_gb_s`, factor: 1e9},
	{deployment: "sglang-pair", role: "prefill", field: simulate.TransferSize, aggregate: mean, series: "kv_transfer_size_mean_bytes", native: `sglang:kv_transfer_total_mb`, factor: 1e6},

	{deployment: "llm-d-pair", field: simulate.Requests, aggregate: counted, series: "router_requests_per_second", native: `llm_d_epp_request_total`},
	{deployment: "llm-d", field: simulate.RequestErrors, aggregate: counted, series: "router_request_errors_per_second", native: `llm_d_epp_request_error_total`},
	{deployment: "vllm", field: simulate.SuccessfulRequests, aggregate: counted, series: "router_successful_requests_per_second", native: `vllm_router_requests_total`},
	{deployment: "vllm", field: simulate.Errors, aggregate: counted, series: "router_errors_per_second", native: `vllm_router_request_errors_total`},
	{deployment: "vllm-pair", field: simulate.PDRequests, aggregate: counted, series: "router_pd_requests_per_second", native: `vllm_router_pd_requests_total`},
	{deployment: "sglang", field: simulate.HTTP5xxResponses, aggregate: counted, series: "router_http_5xx_responses_per_second", native: `smg_http_responses_total{status_code=~"5.."}`},
}

// TestMeasured stops the simulated engines' time, lets it go on for half a minute at once, and looks at
// what Prometheus has of that step from the exporter, from the Pods themselves, and what the engines and
// routers wrote in their journals: by PromQL all are the same.
func TestMeasured(t *testing.T) {
	c := cluster.Start(t)
	c.InstallCRD(t)
	fleet := cluster.StartStillFleet(t, everyRouter("fleet")...)
	fleet.Advance(5 * time.Minute)
	c.Load(t, cluster.Manifests(t, fleet.Manifests()))
	exporter := c.InstallExporter(t)
	exporter.WaitReady(t, ready)
	c.CreateServiceAccount(t, "fleet", "prometheus")
	c.Grant(t, "fleet", "prometheus", readPods)
	p := cluster.StartPrometheus(t, nil,
		cluster.StaticJob("md-exporter", true, exporter.Address),
		cluster.PodJob("pods", c.KubeconfigFor(t, "fleet", "prometheus")))

	pods := float64(len(fleet.Servers()))
	scrapedSince := func(moment time.Time) {
		t.Helper()
		since := float64(moment.UnixMilli()) / 1e3
		expectValue(t, p, fmt.Sprintf(`count(modeldeployment_pod_read_timestamp_seconds > %f)`, since), pods)
		expectValue(t, p, fmt.Sprintf(`count(timestamp(up{job="pods"}) > %f)`, since), pods)
		expectValue(t, p, fmt.Sprintf(`count(timestamp(up{job="md-exporter"}) > %f)`, since), 1)
	}
	// Long enough that the windows' baselines are of this state.
	began := time.Now()
	scrapedSince(began.Add(window + 2*time.Second))
	from := time.Now()
	before := journals(t, fleet)
	stepped := time.Now()
	fleet.Advance(30 * time.Second)
	// What is scraped during the step may be of before it.
	scrapedSince(time.Now())
	at := time.Now()
	if age := at.Sub(stepped); age > window {
		t.Fatalf("%s after the step its baselines are gone", age)
	}
	after := journals(t, fleet)

	query := func(t *testing.T, expression string) float64 {
		t.Helper()
		vector, err := p.QueryAt(t.Context(), expression, at)
		if err != nil || len(vector) != 1 {
			t.Fatalf("%s: %v, %v", expression, vector, err)
		}
		return float64(vector[0].Value)
	}
	for _, m := range measured {
		t.Run(fmt.Sprintf("%s %s %s", m.deployment, m.role, m.field), func(t *testing.T) {
			var servers []*simulate.Server // Of the role, or the routers.
			for _, s := range fleet.Simulation("fleet", m.deployment).Servers() {
				if s.Role() == m.role {
					servers = append(servers, s)
				}
			}
			if m.aggregate != gauge {
				servers = servers[:1] // Windows are a Pod's own.
			}
			factor := m.factor
			if factor == 0 {
				factor = 1
			}
			matchers := []string{fmt.Sprintf(`modeldeployment=%q,role=%q`, m.deployment, m.role)}
			if m.matcher != "" {
				matchers = append(matchers, m.matcher)
			}
			podOf := `pod=~"` + servers[0].Pod()
			for _, s := range servers[1:] {
				podOf += "|" + s.Pod()
			}
			podOf += `"`
			if m.aggregate != gauge {
				matchers = append(matchers, podOf)
			}
			served := fmt.Sprintf(`modeldeployment_%s{%s}`, m.series, strings.Join(matchers, ","))
			sum := func(series, suffix string, moment time.Time) string {
				name, matcher, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
				if matcher != "" {
					matcher = "," + matcher
				}
				return fmt.Sprintf(`sum(%s%s{%s%s} @ %f)`, name, suffix, podOf, matcher, float64(moment.UnixMilli())/1e3)
			}
			step := func(series, suffix string) string {
				return fmt.Sprintf("(%s - %s)", sum(series, suffix, at), sum(series, suffix, from))
			}
			var native string
			var want float64
			first, last := before[servers[0]], after[servers[0]]
			switch m.aggregate {
			case gauge:
				native = sum(m.native, "", at)
				for _, s := range servers {
					want += after[s].Values[m.field]
				}
			case mean:
				native = fmt.Sprintf("%v * %s / %s", factor, step(m.native, "_sum"), step(m.native, "_count"))
				a, b := first.Histograms[m.field], last.Histograms[m.field]
				want = factor * (b.Sum - a.Sum) / (b.Count - a.Count)
			case counted:
				served += " * on (pod, source, scope, role) modeldeployment_window_seconds"
				native = step(m.native, "")
				want = last.Values[m.field] - first.Values[m.field]
			case ratio:
				native = step(m.native, "") + " / " + step(m.over, "")
				a, b := first.Caches[m.field], last.Caches[m.field]
				want = (b.Hits - a.Hits) / (b.Queries - a.Queries)
			}
			got, beside := query(t, served), query(t, native)
			t.Logf("%v: %s", got, served)
			if !near(got, want) {
				t.Errorf("%v, the journal has %v: %s", got, want, served)
			}
			if !near(beside, want) {
				t.Errorf("%v, the journal has %v: %s", beside, want, native)
			}
			if m.aggregate != gauge && (want == 0 || want != want) {
				t.Errorf("nothing was measured: %v", want)
			}
		})
	}
	if len(measured) < 10 {
		t.Error("fewer fields than are promised")
	}
	if moved := query(t, `sum(modeldeployment_running_requests)`); moved == 0 {
		t.Error("nothing runs: the gauges prove nothing")
	}
}

// journals are what each server stated last over HTTP.
func journals(t *testing.T, fleet *simulate.Fleet) map[*simulate.Server]simulate.Totals {
	t.Helper()
	all := map[*simulate.Server]simulate.Totals{}
	for _, s := range fleet.Servers() {
		answers := s.Answers()
		if len(answers) == 0 {
			t.Fatalf("%s was not asked", s.Pod())
		}
		all[s] = answers[len(answers)-1].Totals
	}
	return all
}

// TestTwoServers scrapes one exporter by two Prometheus servers half an interval apart: neither shrinks
// the other's windows.
func TestTwoServers(t *testing.T) {
	c := cluster.Start(t)
	c.InstallCRD(t)
	fleet := cluster.StartFleet(t, lifeDeployment("qwen"))
	c.Load(t, cluster.Manifests(t, fleet.Manifests()))
	exporter := c.InstallExporter(t)
	exporter.WaitReady(t, ready)
	job := cluster.StaticJob("md-exporter", true, exporter.Address)
	first := cluster.StartPrometheus(t, nil, job)
	second := cluster.StartPrometheusBetween(t, first, `up{job="md-exporter"}`, job)

	const windows = `modeldeployment_window_seconds{pod!=""}`
	began := time.Now()
	for _, p := range []*cluster.Prometheus{first, second} {
		// Every source of every Pod, over ten seconds in which both scraped and windows were full.
		cluster.Eventually(t, 3*settled, "thirty seconds of both", func(ctx context.Context) error {
			if left := window + 12*time.Second - time.Since(began); left > 0 {
				return fmt.Errorf("%s to go", left)
			}
			n, err := p.Value(ctx, `count(count_over_time(`+windows+`[10s]) >= 9)`)
			if err == nil && n < 12 {
				err = fmt.Errorf("%v windows", n)
			}
			return err
		})
		shortest, longest := value(t, p, `min(min_over_time(`+windows+`[10s]))`), value(t, p, `max(max_over_time(`+windows+`[10s]))`)
		spread := value(t, p, `max(max_over_time(`+windows+`[10s]) - min_over_time(`+windows+`[10s]))`)
		t.Logf("windows are from %.3f to %.3f s long, and change by %.3f s", shortest, longest, spread)
		// A baseline is at least --window.min old; reads are held a fifteenth of it apart, and come every half
		// second.
		if limit := window.Seconds() + 2; shortest < window.Seconds() || longest > limit {
			t.Errorf("windows are from %v to %v s long, want %v to %v", shortest, longest, window.Seconds(), limit)
		}
		if samples := value(t, p, `min(min_over_time(modeldeployment_window_samples{source="vllm:time_to_first_token_seconds"}[10s]))`); samples <= 0 {
			t.Errorf("a window of %v samples", samples)
		}
	}
}

func value(t *testing.T, p *cluster.Prometheus, expression string) float64 {
	t.Helper()
	v, err := p.Value(t.Context(), expression)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestTargetLabels scrapes the exporter as a target that has labels of the names that the series have,
// as every target has that is found in a cluster.
func TestTargetLabels(t *testing.T) {
	c := cluster.Start(t)
	c.InstallCRD(t)
	fleet := cluster.StartFleet(t, lifeDeployment("qwen"))
	c.Load(t, cluster.Manifests(t, fleet.Manifests()))
	exporter := c.InstallExporter(t)
	exporter.WaitReady(t, ready)
	job := func(name string, honor bool) cluster.Job {
		j := cluster.StaticJob(name, honor, exporter.Address)
		j["static_configs"].([]any)[0].(map[string]any)["labels"] = map[string]string{"namespace": "monitoring", "pod": "md-exporter-0"}
		return j
	}
	p := cluster.StartPrometheus(t, nil, job("honoring", true), job("renaming", false))

	const ofNoPod, ofPods = `__name__=~"modeldeployment_(up|partial|info|running_requests|source_pods|expected_pods)"`, `__name__="modeldeployment_pod_read_timestamp_seconds"`
	for _, query := range []struct {
		what, expression string
		want             float64
	}{
		{"honored, a series of no Pod has no pod", `count({job="honoring",namespace="life",pod="",` + ofNoPod + `}) - count({job="honoring",` + ofNoPod + `})`, 0},
		{"honored, a Pod's series has its own", `count({job="honoring",namespace="life",pod=~"qwen-.*",` + ofPods + `})`, 4},
		{"honored, no label is renamed", `absent({job="honoring",exported_pod!=""}) + absent({job="honoring",exported_namespace!=""})`, 2},
		{"honored, the exporter's own series have the target's", `count(md_exporter_build_info{job="honoring",namespace="monitoring",pod="md-exporter-0"})`, 1},
		{"renamed, a series of no Pod gets the target's pod", `count({job="renaming",namespace="monitoring",pod="md-exporter-0",exported_namespace="life",exported_pod="",` + ofNoPod + `}) - count({job="renaming",` + ofNoPod + `})`, 0},
		{"renamed, a Pod's series has its own beside", `count({job="renaming",pod="md-exporter-0",exported_pod=~"qwen-.*",` + ofPods + `})`, 4},
		{"both have the same values", `count({job="honoring",` + ofNoPod + `}) - count({job="renaming",` + ofNoPod + `})`, 0},
	} {
		t.Run(query.what, func(t *testing.T) { expectValue(t, p, query.expression, query.want) })
	}
}
