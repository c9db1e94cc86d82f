// Package discovery tells which ModelDeployments there are, which Pods each of them owns and where
// each Pod advertises its metrics. Kubernetes objects come in; plain values (Fleet, Deployment, Pod)
// go out. It reads no metrics.
//
// A source cuts each object to what is used (objects) as it arrives, and ownership is decided over
// the whole set at once, so that the order in which objects arrive means nothing. Manifests is the
// source for files.
package discovery
