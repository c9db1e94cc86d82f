package e2e

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/md-exporter/md-exporter/test/e2e/cluster"
)

// ready is how long the exporter may take for a small fleet.
const ready = 10 * time.Second

// expectValue waits until the query has exactly one sample, of that value.
func expectValue(t *testing.T, p *cluster.Prometheus, query string, want float64) {
	t.Helper()
	cluster.Eventually(t, settled, query, func(ctx context.Context) error {
		got, err := p.Value(ctx, query)
		if err == nil && !near(got, want) {
			err = fmt.Errorf("%v, want %v", got, want)
		}
		return err
	})
}

// near reports whether two values differ by no more than the rounding of some additions.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

// lines are the lines of a body that are samples of the series and have all the labels, which are
// written as in the exposition.
func lines(body, series string, labels ...string) []string {
	var found []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, series+"{") && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(line, l) }) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// metrics is what the exporter serves now.
func metrics(t *testing.T, e *cluster.Exporter) string {
	t.Helper()
	status, body := e.Get(t, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics: %d %s", status, body)
	}
	return body
}

// expectLines waits until the exporter serves so many samples of the series with the labels.
func expectLines(t *testing.T, e *cluster.Exporter, n int, series string, labels ...string) {
	t.Helper()
	cluster.Eventually(t, settled, fmt.Sprintf("%d of %s %v", n, series, labels), func(context.Context) error {
		if found := lines(metrics(t, e), series, labels...); len(found) != n {
			return fmt.Errorf("%d: %q", len(found), found)
		}
		return nil
	})
}

// expectServed waits until the exporter says that it has every resource, or all but the named one.
func expectServed(t *testing.T, e *cluster.Exporter, but string) {
	t.Helper()
	want := map[string]string{}
	for _, resource := range []string{"modeldeployments.worker.gpustack.ai", "pods", "replicasets.apps", "deployments.apps"} {
		want[resource] = "1"
		if resource == but || but == "*" {
			want[resource] = "0"
		}
	}
	cluster.Eventually(t, settled, fmt.Sprintf("md_exporter_discovery_synced is %v", want), func(context.Context) error {
		if got := discoverySynced(t, e); !maps.Equal(got, want) {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	})
}

// logged are the lines of the exporter's log at a level, such as WARN.
func logged(t *testing.T, e *cluster.Exporter, level string) []string {
	t.Helper()
	var found []string
	for line := range strings.Lines(e.Output(t)) {
		if strings.Contains(line, "level="+level) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}
