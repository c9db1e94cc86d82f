package collector

import (
	"os"
	"strings"
	"testing"
	"time"

	v1 "github.com/md-exporter/md-exporter/apiserver/v1"
	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
	"github.com/md-exporter/md-exporter/simulate"
)

// One collection rendered both ways says the same: every value, window and missing entry of the document is
// a series, and no series has a value that the document lacks.
func TestDocumentAgreesWithSeries(t *testing.T) {
	fleet, err := simulate.NewFleet(simulate.Options{}, simulate.Demo(3)...)
	if err != nil {
		t.Fatal(err)
	}
	fleet.Advance(5 * time.Minute)
	manifests := t.TempDir() + "/fleet.yaml"
	if err := os.WriteFile(manifests, fleet.Manifests(), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := discovery.NewManifests([]string{manifests}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	histories := map[string]*normalize.History{}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for range 2 {
		fleet.Advance(30 * time.Second)
		now = now.Add(30 * time.Second)
		for _, d := range source.Fleet().Deployments {
			s := snapshotOf(t, fleet, d, histories, now)
			compare(t, &s)
		}
	}
}

// snapshotOf reads a deployment's simulated Pods without a network.
func snapshotOf(t *testing.T, fleet *simulate.Fleet, d *discovery.Deployment, histories map[string]*normalize.History, now time.Time) normalize.Snapshot {
	t.Helper()
	c := normalize.Collection{Deployment: &d.Deployment, At: now, Started: now}
	for i := range d.Pods {
		p := &d.Pods[i].Pod
		c.Owned = append(c.Owned, p)
		server := fleet.Server(d.Namespace, p.Name)
		body, _ := server.Exposition()
		values, err := normalize.TableOf(&d.Deployment, p).Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		if histories[p.UID] == nil {
			histories[p.UID] = &normalize.History{}
		}
		config := normalize.WindowConfig{MaxAge: normalize.DefaultWindowMaxAge}
		c.Results = append(c.Results, histories[p.UID].Observe(&d.Deployment, p, values, now, config))
	}
	return c.Snapshot()
}

// compare holds the document against the rows of the series.
func compare(t *testing.T, s *normalize.Snapshot) {
	t.Helper()
	rows := map[string]float64{} // by series and the values of its labels
	for _, series := range all {
		series.rows(s, func(value float64, labels ...string) {
			rows[series.Name+" "+strings.Join(labels, "|")] = value
		})
	}
	d, m := s.Deployment, v1.FromSnapshot(s)
	take := func(series, unit string, value float64, labels ...string) {
		t.Helper()
		key := "modeldeployment_" + series + " " + strings.Join(append([]string{d.Namespace, d.Name}, labels...), "|")
		factor := map[string]float64{"milliseconds": 1e-3, "GB/second": 1e9, "MB": 1e6}[unit]
		if factor == 0 {
			factor = 1
		}
		if got, found := rows[key]; !found || got != value*factor {
			t.Errorf("%s is %v (%t), the document has %v %s", key, got, found, value, unit)
		}
		delete(rows, key)
	}
	nameOf := func(scope normalize.Scope, field normalize.Field) string {
		for _, series := range all {
			if series.key == (fieldKey{scope, field}) {
				return strings.TrimPrefix(series.Name, "modeldeployment_")
			}
		}
		return ""
	}
	for _, list := range [][]v1.Gauge{m.Processing, m.Queueing} {
		for _, g := range list {
			take(nameOf(g.Scope, g.Name), g.Unit, g.Value, string(g.Scope), g.Role, g.Source, "")
			take("source_pods", "", float64(g.PodCount), string(g.Scope), g.Role, g.Source, "")
		}
	}
	for i, c := range m.CacheHits {
		labels := []string{"engine", c.Role, c.Source, c.Pod}
		take("cache_hit_ratio", "", c.Rate, append(labels, string(c.Scope))...)
		take("cache_window_hit_tokens", "", c.Hits, append(labels, string(c.Scope))...)
		take("cache_window_query_tokens", "", c.Queries, append(labels, string(c.Scope))...)
		if i == 0 || m.CacheHits[i-1].Pod != c.Pod || m.CacheHits[i-1].Source != c.Source {
			take("window_seconds", "", c.WindowSeconds, labels...)
			take("window_samples", "", c.Queries, labels...)
		}
	}
	for _, list := range [][]v1.Sample{m.Latency, m.Traffic, m.Transfer} {
		for _, v := range list {
			labels := []string{string(v.Scope), v.Role, v.Source, v.Pod}
			take(nameOf(v.Scope, v.Name), v.Unit, v.Value, labels...)
			take("window_seconds", "", v.WindowSeconds, labels...)
			take("window_samples", "", v.Samples, labels...)
		}
	}
	for _, e := range m.Missing {
		partial := map[bool]string{true: "true", false: "false"}[e.Partial]
		take("missing_info", "", 1, string(e.Scope), e.Role, e.Source, e.Pod, string(e.Code), partial)
	}
	take("partial", "", number(m.Partial), "")
	for key := range rows {
		for _, known := range []string{"info", "up", "expected_pods", "owned_pods", "read_pods", "pod_read_timestamp_seconds", "snapshot_timestamp_seconds", "snapshot_duration_seconds"} {
			if strings.HasPrefix(key, "modeldeployment_"+known+" ") {
				delete(rows, key)
			}
		}
	}
	for key := range rows {
		t.Errorf("%s is not in the document", key)
	}
}
