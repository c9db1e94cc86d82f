package discovery

import (
	"cmp"
	"slices"

	"github.com/md-exporter/md-exporter/normalize"
)

// Deployment is one ModelDeployment and the Pods that it owns.
type Deployment struct {
	normalize.Deployment
	// Pods are the owned Pods in the order they are read: the router's first, then by name.
	Pods []Pod
}

// Pod is one owned Pod and where it advertises its metrics.
type Pod struct {
	normalize.Pod
	// URL is the advertised endpoint, such as http://10.0.0.7:8000/metrics; empty where the Pod
	// advertises no valid one.
	URL string
}

// Fleet is every ModelDeployment at one moment. It is immutable: a source publishes a new one when
// something changed.
type Fleet struct {
	// Deployments are sorted by namespace, then name, which together are unique.
	Deployments []*Deployment
}

// Get returns the named deployment, or nil where the fleet has none.
func (f *Fleet) Get(namespace, name string) *Deployment {
	i, found := slices.BinarySearchFunc(f.Deployments, [2]string{namespace, name}, func(d *Deployment, key [2]string) int {
		return cmp.Or(cmp.Compare(d.Namespace, key[0]), cmp.Compare(d.Name, key[1]))
	})
	if !found {
		return nil
	}
	return f.Deployments[i]
}
