// Package e2e holds the end-to-end tests: the exporter as a process against a real kube-apiserver
// and a real Prometheus, which package cluster starts and package servers builds.
package e2e
