// Package rules holds the recording and alerting rules over the exporter's series.
//
// md-exporter.rules.yaml is the source, and a Prometheus rule file as it stands. prometheusrule.yaml is
// the same as a PrometheusRule for prometheus-operator, generated from it. tests holds promtool's unit
// tests: for each alert one in which it fires and one in which it must not. The runbooks are
// docs/alerts.md.
package rules

//go:generate go run ./generate md-exporter.rules.yaml prometheusrule.yaml
