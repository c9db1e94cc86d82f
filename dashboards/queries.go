package dashboards

import (
	"fmt"
	"slices"
	"strings"
)

// The matchers. A panel of a router's series goes by the deployment alone: its role is empty, and
// its Pods are not the engine's.
const (
	ofDeployment = `namespace=~"$namespace", modeldeployment=~"$modeldeployment"`
	ofRole       = `role=~"$role"`
	ofPod        = `pod=~"$pod"`
	engine       = `scope="engine"`
	router       = `scope="router"`
	required     = `partial="true"`
	normal       = `partial="false"`
)

// The labels that a value is told apart by.
var (
	byDeployment = []string{"namespace", "modeldeployment"}
	byTableRow   = with(byDeployment, "role")
	byRole       = with(byDeployment, "scope", "role")
	bySource     = with(byRole, "source")
	byPod        = with(bySource, "pod")
	byRead       = with(byRole, "pod")
	byEntry      = with(byPod, "reason", "partial")
)

func with(labels []string, more ...string) []string { return slices.Concat(labels, more) }

// of selects a series of the deployments, by its name without prefix.
func of(series string, matchers ...string) string {
	return fmt.Sprintf("modeldeployment_%s{%s}", series, strings.Join(with([]string{ofDeployment}, matchers...), ", "))
}

// once is each value once, however many servers or targets it was scraped from.
func once(labels []string, expr string) string { return aggregate("max", labels, expr) }

// total adds values whose labels are not among these.
func total(labels []string, expr string) string { return aggregate("sum", labels, expr) }

func count(labels []string, expr string) string { return aggregate("count", labels, expr) }

func aggregate(operator string, labels []string, expr string) string {
	if len(labels) == 0 {
		return fmt.Sprintf("%s(%s)", operator, expr)
	}
	return fmt.Sprintf("%s by (%s) (%s)", operator, strings.Join(labels, ", "), expr)
}

// mean is the mean of a windowed mean or ratio of several Pods: each weighs what its window counted. A
// value that was scraped twice is in both sums twice, which changes nothing.
func mean(labels []string, series string, matchers ...string) string {
	value, weight := of(series, matchers...), of("window_samples", matchers...)
	return fmt.Sprintf("%s / %s", total(labels, value+" * "+weight), total(labels, weight+" and "+value))
}

// hitRatio is the cache hit ratio of several Pods: hit tokens over query tokens.
func hitRatio(labels []string, matchers ...string) string {
	labels = with(labels, "cache")
	return fmt.Sprintf("%s / %s",
		total(labels, of("cache_window_hit_tokens", matchers...)),
		total(labels, of("cache_window_query_tokens", matchers...)))
}

// tokensPerSecond is a cache's tokens of each Pod's window over that window, added over Pods.
func tokensPerSecond(labels []string, series string, matchers ...string) string {
	return total(with(labels, "cache"), once(with(byPod, "cache"), fmt.Sprintf("%s / ignoring (cache) group_left () %s",
		of(series, matchers...), of("window_seconds", matchers...))))
}

// eachPods is a router gauge over the Pods that contributed to it: every replica has its own view
// of the same backends.
func eachPods(labels []string, gauge string, matchers ...string) string {
	return fmt.Sprintf("%s / %s", once(labels, of(gauge, matchers...)), once(labels, of("source_pods", matchers...)))
}

// roles is 1 for each engine role of the deployments.
func roles() string {
	return fmt.Sprintf("(%s >= bool 0)", once(byTableRow, of("expected_pods", engine, ofRole)))
}

// forEachRole repeats a value of a deployment in the row of each of its engine roles.
func forEachRole(expr string) string {
	return fmt.Sprintf("%s * on (namespace, modeldeployment) group_right () %s", expr, roles())
}

// state is 0 for a deployment that is unavailable, 1 for one that is read in part, 2 for one that is
// read whole.
func state() string {
	return fmt.Sprintf("%s * (2 - %s)", once(byDeployment, of("up")), once(byDeployment, of("partial")))
}

// rate is a counter of the exporter's own, a second.
func rate(labels []string, series string) string {
	return total(labels, fmt.Sprintf("rate(md_exporter_%s[$__rate_interval])", series))
}

// quantile is a quantile of a histogram of the exporter's own.
func quantile(q float64, series string) string {
	return fmt.Sprintf("histogram_quantile(%g, %s)", q, rate([]string{"le"}, series+"_bucket"))
}
