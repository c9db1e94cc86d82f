package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/md-exporter/md-exporter/simulate"
	"github.com/md-exporter/md-exporter/test/e2e/cluster"
	"github.com/md-exporter/md-exporter/test/e2e/servers"
)

// emptyOverDemo are the series, by what follows their prefix, that no deployment of the demo has, and
// why. A pair behind a vLLM router has them, and every other query that is empty is an error.
var emptyOverDemo = map[string]string{
	"router_pd_requests_per_second": "the demo has no vLLM router before a pair",
	"router_pd_errors_per_second":   "the demo has no vLLM router before a pair",
}

// warm is how long it may take until every field has been seen: an error of each router among them.
const warm = 60 * time.Second

// TestDashboards runs every query of every dashboard in Prometheus, which scrapes the demo, as Grafana
// asks it: for what is chosen, over a range or now.
func TestDashboards(t *testing.T) {
	asked := dashboardQueries(t)
	exporter := cluster.StartExporter(t, "demo", "--window.min=2s")
	exporter.WaitReady(t, ready)
	p := cluster.StartPrometheus(t, nil, cluster.StaticJob("md-exporter", true, exporter.Address))
	expectValue(t, p, `count(modeldeployment_info)`, float64(len(simulate.Demo(1))))

	var filled, empty int
	for _, q := range asked {
		if slices.ContainsFunc(slices.Collect(maps.Keys(emptyOverDemo)), func(s string) bool { return strings.Contains(q.expr, s) }) {
			empty++
			continue
		}
		filled++
		cluster.Eventually(t, warm, q.String(), func(ctx context.Context) error { return q.answered(ctx, p) })
	}
	t.Logf("%d queries, %d of them expected to be empty", filled+empty, empty)
	// Now that all else is there, what is expected to be empty still is.
	for _, q := range asked {
		for series, reason := range emptyOverDemo {
			if !strings.Contains(q.expr, series) {
				continue
			}
			if err := q.answered(t.Context(), p); err == nil {
				t.Errorf("%s has data, though %s", q, reason)
			}
		}
	}
	t.Run("means weigh Pods", func(t *testing.T) { meansWeighPods(t, p, asked) })
	t.Run("nothing is shown for what is missing", func(t *testing.T) { nothingForMissing(t, p, asked) })
}

// TestDashboardsOfVLLMPair asks what the demo cannot answer of a pair behind a vLLM router.
func TestDashboardsOfVLLMPair(t *testing.T) {
	fleet := cluster.StartFleet(t, simulate.Deployment{
		Namespace: "pairs", Name: "paired", Model: "m", Engine: simulate.VLLM,
		Roles: []simulate.Role{
			{Name: "prefill", Kind: simulate.Prefill, Replicas: 1},
			{Name: "decode", Kind: simulate.Decode, Replicas: 1},
		},
		Router: simulate.VLLMRouter,
		Load:   simulate.Load{RequestsPerSecond: 10, PromptTokens: 200, OutputTokens: 20, ErrorRate: 0.3, StreamingShare: 1, Seed: 1},
	})
	manifests := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(manifests, fleet.Manifests(), 0o600); err != nil {
		t.Fatal(err)
	}
	exporter := cluster.StartExporter(t, "--manifests="+manifests, "--window.min=2s")
	exporter.WaitReady(t, ready)
	p := cluster.StartPrometheus(t, nil, cluster.StaticJob("md-exporter", true, exporter.Address))

	for series := range emptyOverDemo {
		found := false
		for _, q := range dashboardQueries(t) {
			if strings.Contains(q.expr, series) {
				found = true
				cluster.Eventually(t, warm, q.String(), func(ctx context.Context) error { return q.answered(ctx, p) })
			}
		}
		if !found {
			t.Errorf("no panel shows %s", series)
		}
	}
}

// TestDashboardsScrapedTwice asks a Prometheus that has every series twice.
func TestDashboardsScrapedTwice(t *testing.T) {
	exporter := cluster.StartExporter(t, "demo", "--window.min=2s")
	exporter.WaitReady(t, ready)
	p := cluster.StartPrometheus(t, nil,
		cluster.StaticJob("md-exporter", true, exporter.Address), cluster.StaticJob("again", true, exporter.Address))
	expectValue(t, p, `count(modeldeployment_info)`, float64(2*len(simulate.Demo(1))))

	var deployments, pods, routers float64
	for _, d := range simulate.Demo(1) {
		deployments++
		routers += float64(max(1, d.RouterReplicas))
		for _, r := range d.Roles {
			pods += float64(r.Replicas)
		}
	}
	want := map[string]map[model.LabelValue]float64{
		"Deployments":   {"": deployments},
		"Pods expected": {"engine": pods, "router": routers},
	}
	for _, q := range dashboardQueries(t) {
		if slices.ContainsFunc(slices.Collect(maps.Keys(emptyOverDemo)), func(s string) bool { return strings.Contains(q.expr, s) }) {
			continue
		}
		cluster.Eventually(t, warm, q.String(), func(ctx context.Context) error { return q.answered(ctx, p) })
		if values := want[q.panel]; values != nil && q.instant && q.dashboard != "deployment.json" {
			delete(want, q.panel)
			for _, s := range p.Query(t, q.with([2]string{".*", ".*"})) {
				if float64(s.Value) != values[s.Metric["scope"]] {
					t.Errorf("%s: %v", q, s)
				}
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("no panels %v", slices.Collect(maps.Keys(want)))
	}
}

// dashboardQuery is a query of a panel, or of a variable.
type dashboardQuery struct {
	dashboard, panel, ref, expr string
	instant                     bool
}

func (q dashboardQuery) String() string {
	return fmt.Sprintf("%s: %s, %s: %s", q.dashboard, q.panel, q.ref, q.expr)
}

// dashboardQueries are all that the dashboards ask.
func dashboardQueries(t *testing.T) []dashboardQuery {
	t.Helper()
	root, err := servers.Root()
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(root, "dashboards", "*.json"))
	if err != nil || len(paths) != 3 {
		t.Fatalf("dashboards %v: %v", paths, err)
	}
	var all []dashboardQuery
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			Panels []struct {
				Title   string
				Targets []struct {
					RefID   string
					Expr    string
					Instant bool
				}
			}
			Templating struct {
				List []struct {
					Name       string
					Definition string
				}
			}
		}
		if err := json.Unmarshal(content, &d); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		name := filepath.Base(path)
		before := len(all)
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				all = append(all, dashboardQuery{name, p.Title, target.RefID, target.Expr, target.Instant})
			}
		}
		if len(all)-before < 20 {
			t.Fatalf("%s: only %d queries", name, len(all)-before)
		}
		for _, v := range d.Templating.List {
			// label_values lists the values of a label in what a selector finds.
			if match := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(v.Definition); match != nil {
				expr := fmt.Sprintf(`count by (%s) (%s)`, match[2], match[1])
				all = append(all, dashboardQuery{name, "$" + v.Name, match[2], expr, true})
			}
		}
	}
	return all
}

// chosen are the namespaces and deployments that a person may choose: one, or all of them.
func chosen(dashboard string) [][2]string {
	if dashboard != "deployment.json" {
		return [][2]string{{".*", ".*"}}
	}
	all := [][2]string{{"pairs", "paired"}}
	for _, d := range simulate.Demo(1) {
		all = append(all, [2]string{d.Namespace, d.Name})
	}
	return all
}

// with is the query for a deployment, every role and every Pod.
func (q dashboardQuery) with(deployment [2]string) string {
	return strings.NewReplacer("$__rate_interval", "10s", "$namespace", deployment[0], "$modeldeployment", deployment[1],
		"$role", ".*", "$pod", ".*").Replace(q.expr)
}

// answered reports why the query has no data, whichever deployment is chosen, or what is no number. A
// graph's query is asked over the last seconds, any other now.
func (q dashboardQuery) answered(ctx context.Context, p *cluster.Prometheus) error {
	for _, deployment := range chosen(q.dashboard) {
		expr, now := q.with(deployment), time.Now()
		var values []model.SampleValue
		if q.instant {
			vector, err := p.QueryAt(ctx, expr, now)
			if err != nil {
				return err
			}
			for _, sample := range vector {
				values = append(values, sample.Value)
			}
		} else {
			value, warnings, _, err := p.API.QueryRange(ctx, expr, promv1.Range{Start: now.Add(-10 * time.Second), End: now, Step: time.Second})
			if err != nil || len(warnings) > 0 {
				return errors.Join(err, fmt.Errorf("warnings %v", warnings))
			}
			for _, series := range value.(model.Matrix) {
				for _, pair := range series.Values {
					values = append(values, pair.Value)
				}
			}
		}
		for _, v := range values {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return fmt.Errorf("%s is %v", expr, v)
			}
		}
		if len(values) > 0 {
			return nil
		}
	}
	return errors.New("no data")
}

// meansWeighPods holds what the dashboards show of several Pods against the Pods' own values.
func meansWeighPods(t *testing.T, p *cluster.Prometheus, asked []dashboardQuery) {
	at := time.Now()
	now := func(expr string) model.Vector {
		t.Helper()
		vector, err := p.QueryAt(t.Context(), expr, at)
		if err != nil {
			t.Fatal(err)
		}
		return vector
	}
	key := func(m model.Metric, labels ...model.LabelName) string {
		var parts []string
		for _, l := range labels {
			parts = append(parts, string(m[l]))
		}
		return strings.Join(parts, "/")
	}
	role := []model.LabelName{"namespace", "modeldeployment", "role", "source"}
	weights := map[string]float64{}
	for _, s := range now(`modeldeployment_window_samples`) {
		weights[key(s.Metric, append(role, "pod")...)] = float64(s.Value)
	}
	weighed, weight, pods := map[string]float64{}, map[string]float64{}, map[string]int{}
	for _, s := range now(`modeldeployment_time_to_first_token_mean_seconds`) {
		w := weights[key(s.Metric, append(role, "pod")...)]
		weighed[key(s.Metric, role...)] += w * float64(s.Value)
		weight[key(s.Metric, role...)] += w
		pods[key(s.Metric, role...)]++
	}
	hits, queries := map[string]float64{}, map[string]float64{}
	cache := append(role, "cache")
	for _, s := range now(`modeldeployment_cache_window_hit_tokens`) {
		hits[key(s.Metric, cache...)] += float64(s.Value)
	}
	for _, s := range now(`modeldeployment_cache_window_query_tokens`) {
		queries[key(s.Metric, cache...)] += float64(s.Value)
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(pods)), func(n int) bool { return n > 1 }) {
		t.Fatal("no role has several Pods")
	}

	shown := func(panel string) model.Vector {
		t.Helper()
		i := slices.IndexFunc(asked, func(q dashboardQuery) bool { return q.dashboard == "fleet.json" && q.panel == panel })
		if i < 0 {
			t.Fatalf("no panel %q", panel)
		}
		return now(asked[i].with([2]string{".*", ".*"}))
	}
	ttft := shown("Time to first token")
	if len(ttft) != len(weighed) {
		t.Errorf("%d means of roles, want %d", len(ttft), len(weighed))
	}
	for _, s := range ttft {
		k := key(s.Metric, role...)
		if want := weighed[k] / weight[k]; !near(float64(s.Value), want) {
			t.Errorf("%s: time to first token %v, want %v", k, s.Value, want)
		}
	}
	ratios := shown("Cache hits")
	if len(ratios) != len(hits) {
		t.Errorf("%d hit ratios, want %d", len(ratios), len(hits))
	}
	for _, s := range ratios {
		k := key(s.Metric, cache...)
		if want := hits[k] / queries[k]; !near(float64(s.Value), want) {
			t.Errorf("%s: hit ratio %v, want %v", k, s.Value, want)
		}
	}
}

// nothingForMissing looks at an idle Pod, an engine without a field, and Pods that cannot be read.
func nothingForMissing(t *testing.T, p *cluster.Prometheus, asked []dashboardQuery) {
	for _, c := range []struct {
		panel      string
		deployment [2]string
		label      model.LabelName
		absent     string
		present    string
	}{
		{"Time to first token", [2]string{"chat", "qwen3-8b"}, "pod", "qwen3-8b-server-2", "qwen3-8b-server-0"},
		{"Own cache, by Pod (vLLM)", [2]string{"chat", "qwen3-8b"}, "pod", "qwen3-8b-server-2", "qwen3-8b-server-0"},
		{"Tiers of a role (SGLang)", [2]string{"research", "deepseek-r1"}, "role", "decode", "prefill"},
		{"Age of a Pod's read", [2]string{"batch", "llama-summarizer"}, "pod", "llama-summarizer-server-1", "llama-summarizer-server-0"},
	} {
		var values []string
		for _, q := range asked {
			if q.dashboard != "deployment.json" || q.panel != c.panel {
				continue
			}
			vector, err := p.QueryAt(t.Context(), q.with(c.deployment), time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range vector {
				values = append(values, string(s.Metric[c.label]))
			}
		}
		if slices.Contains(values, c.absent) || !slices.Contains(values, c.present) {
			t.Errorf("%q shows %v: %s must be there, %s must not", c.panel, values, c.present, c.absent)
		}
	}
}
