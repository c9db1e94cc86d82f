// Package apiserver serves the snapshots of deployments as a Kubernetes API: the subresource
// modeldeployments/metrics of an aggregated API, for whoever may get it.
//
// A fleet and a reader of its own come in: a person who asks does not move what Prometheus sees. What
// goes out is one ModelDeploymentMetrics a request, read when it is requested, or a Status that says why
// there is none. Who asks and whether they may is the cluster's API server's to say: this one keeps no
// accounts and no objects.
package apiserver
