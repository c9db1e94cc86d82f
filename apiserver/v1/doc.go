// Package v1 is the JSON document of one deployment: the snapshot as a Kubernetes object,
// ModelDeploymentMetrics of worker.gpustack.ai/v1. It renders what the series render, with the
// engines' own units.
package v1
