// Package v1 is the JSON document of one deployment: the snapshot as a Kubernetes object,
// ModelDeploymentMetrics of worker.gpustack.ai/v1. It renders what the series render, with the
// engines' own units.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=ai.gpustack.worker.v1
package v1
