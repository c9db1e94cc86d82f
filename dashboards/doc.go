// Package dashboards is the Grafana dashboards of the exporter's series, as code.
//
// What comes in are the series of the contract (docs/metrics.md). What goes out is three dashboards:
// Fleet, every deployment at a glance; Deployment, one with all its fields by role and Pod; Coverage,
// what is missing and why. Their JSON beside this file is written by `make generate`, and is what
// Grafana loads: by provisioning, or by a sidecar from the ConfigMaps of deploy/dashboards.
//
// The panels keep the rules of the series. Nothing is added across source or scope, nor across the
// roles of one deployment. Means and ratios of Pods are weighed by what their windows counted. What
// was not measured is a gap or an empty cell, never a zero.
package dashboards

//go:generate go run ./generate
