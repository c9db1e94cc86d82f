package apiserver

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	v1 "github.com/md-exporter/md-exporter/apiserver/v1"
	"github.com/md-exporter/md-exporter/collector"
)

// parent is modeldeployments, which has no verbs here: a subresource must have a parent, and the objects
// are the CRD's. Its kind is the document's, as metrics.k8s.io has pods of the kind PodMetrics: in the
// CRD's own group the kind ModelDeployment stays the CRD's alone.
type parent struct{}

var (
	_ rest.Storage                  = parent{}
	_ rest.Scoper                   = parent{}
	_ rest.SingularNameProvider     = parent{}
	_ rest.GroupVersionKindProvider = parent{}
)

// New implements rest.Storage.
func (parent) New() runtime.Object { return &v1.ModelDeploymentMetrics{} }

// Destroy implements rest.Storage.
func (parent) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (parent) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider.
func (parent) GetSingularName() string { return singular }

// GroupVersionKind implements rest.GroupVersionKindProvider.
func (parent) GroupVersionKind(served schema.GroupVersion) schema.GroupVersionKind {
	return served.WithKind(v1.Kind)
}

// metrics is modeldeployments/metrics: what one read of a deployment says.
type metrics struct {
	parent
	rest.TableConvertor

	deployments schema.GroupResource
	source      collector.Source
	reader      *collector.Reader
	// slots bound the requests that read at once.
	slots chan struct{}
}

var (
	_ rest.Getter         = &metrics{}
	_ rest.TableConvertor = &metrics{}
)

func newMetrics(group string, config *Config) *metrics {
	return &metrics{
		TableConvertor: table{},
		deployments:    schema.GroupResource{Group: group, Resource: resource},
		source:         config.Source,
		reader:         config.Reader,
		slots:          make(chan struct{}, config.MaxRequests),
	}
}

// Get implements rest.Getter: it reads the named deployment of the request's namespace. An error is a
// Status: TooManyRequests, ServiceUnavailable, or NotFound.
func (m *metrics) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	namespace, ok := request.NamespaceFrom(ctx)
	if !ok {
		return nil, fmt.Errorf("a request for %s/%s without a namespace", resource, subresource)
	}
	// The server's own limit would refuse probes too, and let the administrator pass.
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	default:
		return nil, tooManyRequests(cap(m.slots))
	}
	if !m.source.Synced() {
		return nil, notSynced()
	}
	fleet := m.source.Fleet()
	m.reader.Retain(fleet)
	d := fleet.Get(namespace, name)
	if d == nil {
		return nil, notFound(m.deployments, name)
	}
	snapshot := m.reader.Snapshot(ctx, d)
	if !snapshot.Up && !snapshot.Empty {
		return nil, unavailable(m.deployments, &snapshot)
	}
	return v1.FromSnapshot(&snapshot), nil
}
