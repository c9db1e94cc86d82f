package collector

import (
	"context"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
	"github.com/md-exporter/md-exporter/simulate"
)

// simulated starts the deployments and returns their fleet as discovery sees it.
func simulated(t testing.TB, deployments ...simulate.Deployment) (*simulate.Fleet, *discovery.Fleet) {
	t.Helper()
	fleet, err := simulate.NewFleet(simulate.Options{Now: time.Now}, deployments...)
	if err != nil {
		t.Fatal(err)
	}
	if err := fleet.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = fleet.Close(ctx) // The connections that wait for another read are cut.
	})
	return fleet, discovered(t, string(fleet.Manifests()))
}

// discovered is the fleet that the manifest describes.
func discovered(t testing.TB, manifest string) *discovery.Fleet {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := discovery.NewManifests([]string{path}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return source.Fleet()
}

// demoWithoutFaults is the demo's fleet, every Pod healthy, and a vLLM pair behind the one router that
// the demo has no pair for.
func demoWithoutFaults() []simulate.Deployment {
	deployments := simulate.Demo(7)
	deployments = append(deployments, simulate.Deployment{
		Namespace: "agents", Name: "pd", Model: "example/pd", Engine: simulate.VLLM,
		Roles: []simulate.Role{
			{Name: "prefill", Kind: simulate.Prefill, Replicas: 2},
			{Name: "decode", Kind: simulate.Decode, Replicas: 2},
		},
		Router: simulate.VLLMRouter, RouterReplicas: 2,
		Load: simulate.Load{RequestsPerSecond: 4, PromptTokens: 800, OutputTokens: 100, PrefixShare: 0.4, StreamingShare: 0.5, Seed: 11},
	})
	for i := range deployments {
		deployments[i].Roles = slices.Clone(deployments[i].Roles)
		for j := range deployments[i].Roles {
			deployments[i].Roles[j].Refusing, deployments[i].Roles[j].Hanging = 0, 0
		}
		// Every counter has moved before the first read, and every histogram moves between the two.
		deployments[i].Load.ErrorRate, deployments[i].Load.StreamingShare = 0.2, 0.8
	}
	return deployments
}

// The contract of docs/metrics.md once more, by hand: what each series is of.
var (
	gaugesByHand = map[string]simulate.Field{
		"running_requests":                 simulate.Running,
		"waiting_requests":                 simulate.Waiting,
		"decode_transfer_waiting_requests": simulate.DecodeTransferWaiting,
		"router_running_requests":          simulate.RouterRunning,
		"router_backends":                  simulate.RouterBackends,
		"router_reported_workers":          simulate.RouterReportedWorkers,
	}
	meansByHand = map[string]struct {
		field  simulate.Field
		factor float64
	}{
		"time_to_first_token_mean_seconds":          {simulate.TTFT, 1},
		"time_per_output_token_mean_seconds":        {simulate.TPOT, 1},
		"inter_token_latency_mean_seconds":          {simulate.ITL, 1},
		"router_time_to_first_token_mean_seconds":   {simulate.TTFT, 1},
		"router_time_per_output_token_mean_seconds": {simulate.TPOT, 1},
		"kv_transfer_latency_mean_seconds":          {simulate.TransferLatency, 1e-3},
		"kv_transfer_speed_mean_bytes_per_second":   {simulate.TransferSpeed, 1e9},
		"kv_transfer_size_mean_bytes":               {simulate.TransferSize, 1e6},
	}
	ratesByHand = map[string]simulate.Field{
		"router_requests_per_second":            simulate.Requests,
		"router_successful_requests_per_second": simulate.SuccessfulRequests,
		"router_pd_requests_per_second":         simulate.PDRequests,
		"router_request_errors_per_second":      simulate.RequestErrors,
		"router_errors_per_second":              simulate.Errors,
		"router_pd_errors_per_second":           simulate.PDErrors,
		"router_retries_exhausted_per_second":   simulate.RetriesExhausted,
		"router_http_5xx_responses_per_second":  simulate.HTTP5xxResponses,
		"kv_transfer_failures_per_second":       simulate.TransferFailures,
	}
)

// journal is what the servers stated in the answers to the two scrapes.
type journal struct {
	t     *testing.T
	fleet *simulate.Fleet
	got   scraped
}

// window is what the Pod's server stated at the two scrapes.
func (j *journal) window(pod map[string]string) (first, second simulate.Totals) {
	j.t.Helper()
	answers := j.fleet.Server(pod["namespace"], pod["pod"]).Answers()
	if len(answers) != 2 {
		j.t.Fatalf("%s answered %d times, want twice", pod["pod"], len(answers))
	}
	return answers[0].Totals, answers[1].Totals
}

// seconds is the length of the window behind a series.
func (j *journal) seconds(labels map[string]string) float64 {
	j.t.Helper()
	return j.behind("modeldeployment_window_seconds", labels)
}

func (j *journal) behind(name string, labels map[string]string) float64 {
	j.t.Helper()
	var same []string
	for _, l := range []string{"namespace", "modeldeployment", "scope", "role", "source", "pod"} {
		same = append(same, l, labels[l])
	}
	return j.got.value(j.t, name, same...)
}

// expected recomputes a series' value and the samples behind it.
func (j *journal) expected(name string, m *dto.Metric) (value, samples float64) {
	j.t.Helper()
	labels := labelsOf(m)
	if field, isGauge := gaugesByHand[name]; isGauge {
		for _, s := range j.fleet.Simulation(labels["namespace"], labels["modeldeployment"]).Servers() {
			isRouter := s.Role() == ""
			if s.Role() != labels["role"] || isRouter != (labels["scope"] == "router") {
				continue
			}
			answers := s.Answers()
			value += answers[len(answers)-1].Totals.Values[field]
			samples++
		}
		return value, samples
	}
	first, second := j.window(labels)
	count := func(f simulate.Field) float64 { return second.Values[f] - first.Values[f] }
	switch {
	case ratesByHand[name] != "":
		return count(ratesByHand[name]) / j.seconds(labels), count(ratesByHand[name])
	case name == "router_error_ratio":
		return count(simulate.Errors) / count(simulate.Requests), count(simulate.Requests)
	case strings.HasPrefix(name, "cache_"):
		cache := simulate.Field(labels["cache"])
		hits := second.Caches[cache].Hits - first.Caches[cache].Hits
		queries := second.Caches[cache].Queries - first.Caches[cache].Queries
		switch name {
		case "cache_hit_ratio":
			return hits / queries, queries
		case "cache_window_hit_tokens":
			return hits, queries
		}
		return queries, queries
	}
	mean, known := meansByHand[name]
	if !known {
		j.t.Fatalf("%s is no series of the contract", name)
	}
	a, b := first.Histograms[mean.field], second.Histograms[mean.field]
	return (b.Sum - a.Sum) / (b.Count - a.Count) * mean.factor, b.Count - a.Count
}

// Every value of a fleet is the one that the servers' journals give.
func TestValuesAgainstTheJournal(t *testing.T) {
	fleet, found := simulated(t, demoWithoutFaults()...)
	fleet.Advance(3 * time.Minute)
	e := newExporter(t, settings{}, found.Deployments...)
	first := e.scrape(t, "/metrics")
	fleet.Advance(45 * time.Second)
	got := e.scrape(t, "/metrics")
	j := &journal{t, fleet, got}

	for _, d := range found.Deployments {
		labels := []string{"namespace", d.Namespace, "modeldeployment", d.Name}
		if up := got.value(t, "modeldeployment_up", labels...); up != 1 {
			t.Errorf("%s is not up", d.Name)
		}
		for _, p := range d.Pods {
			ofPod := append(labels[:4:4], "pod", p.Name)
			read := got.value(t, "modeldeployment_pod_read_timestamp_seconds", ofPod...)
			length := read - first.value(t, "modeldeployment_pod_read_timestamp_seconds", ofPod...)
			answered := float64(fleet.Server(d.Namespace, p.Name).Answers()[1].At.UnixNano()) / 1e9
			if read < answered || read > answered+patience.Seconds() {
				t.Errorf("%s: read at %v, answered at %v", p.Name, read, answered)
			}
			for _, w := range got.find("modeldeployment_window_seconds", ofPod...) {
				if math.Abs(valueOf(w)-length) > 1e-6 {
					t.Errorf("%s: a window of %v s between reads that are %v s apart", p.Name, valueOf(w), length)
				}
			}
		}
	}

	fields, values := map[simulate.Field]bool{}, 0
	for name, family := range got {
		short, ours := strings.CutPrefix(name, "modeldeployment_")
		_, isGauge := gaugesByHand[short]
		if !ours || !isGauge && !slices.Contains(j.windowed(), short) {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := labelsOf(m)
			want, samples := j.expected(short, m)
			// A time or a rate is divided once; everything else is exact.
			if v := valueOf(m); math.Abs(v-want) > 1e-12*math.Abs(want) || math.IsNaN(v) {
				t.Errorf("%s %v is %v, want %v", name, labels, v, want)
			}
			behind := "modeldeployment_window_samples"
			if isGauge {
				behind = "modeldeployment_source_pods"
			}
			if v := j.behind(behind, labels); v != samples {
				t.Errorf("%s %v: %v samples behind it, want %v", name, labels, v, samples)
			}
			values++
			fields[fieldByHand(short, labels)] = true
		}
	}
	for _, info := range normalize.Fields() {
		if !fields[simulate.Field(info.Field)] {
			t.Errorf("no value of %s", info.Field)
		}
	}
	if values < 100 {
		t.Errorf("only %d values", values)
	}
	for _, entry := range got["modeldeployment_missing_info"].GetMetric() {
		l := labelsOf(entry)
		// The llm-d router of today does not export its TPOT.
		if l["partial"] == "true" && l["source"] != "llm_d_epp_request_streaming_tpot_seconds" {
			t.Errorf("missing in a healthy fleet: %v", l)
		}
	}
}

// windowed are the series with a window behind them.
func (j *journal) windowed() []string {
	all := []string{"router_error_ratio", "cache_hit_ratio", "cache_window_hit_tokens", "cache_window_query_tokens"}
	all = slices.AppendSeq(all, maps.Keys(meansByHand))
	return slices.AppendSeq(all, maps.Keys(ratesByHand))
}

// fieldByHand is the field that a series is of.
func fieldByHand(name string, labels map[string]string) simulate.Field {
	switch {
	case labels["cache"] != "":
		return simulate.Field(labels["cache"])
	case name == "router_error_ratio":
		return "error-ratio"
	case gaugesByHand[name] != "":
		return gaugesByHand[name]
	case ratesByHand[name] != "":
		return ratesByHand[name]
	}
	return meansByHand[name].field
}

// A process that starts anew between two reads has no window and no value for what went backwards, and
// has them again at the next read.
func TestRestartedPod(t *testing.T) {
	fleet, found := simulated(t, simulate.Demo(3)[0])
	fleet.Advance(2 * time.Minute)
	e := newExporter(t, settings{}, found.Deployments...)
	e.scrape(t, "/metrics")
	pod := "qwen3-8b-server-0"
	fleet.Server("chat", pod).Restart()
	fleet.Advance(time.Second)
	reset := e.scrape(t, "/metrics")
	if !slices.Contains(reset.missing("qwen3-8b"), pod+" vllm:time_to_first_token_seconds counter_reset") {
		t.Errorf("missing: %q", reset.missing("qwen3-8b"))
	}
	if n := len(reset.find("modeldeployment_window_seconds", "pod", pod)); n != 0 {
		t.Errorf("%d windows across a restart", n)
	}
	fleet.Advance(30 * time.Second)
	again := e.scrape(t, "/metrics")
	if n := len(again.find("modeldeployment_time_to_first_token_mean_seconds", "pod", pod)); n != 1 {
		t.Errorf("%d means after the restart's read, want one; missing: %q", n, again.missing("qwen3-8b"))
	}
}
