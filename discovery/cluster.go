package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// What is watched, and no more: the README's RBAC table and the roles under deploy/ say the same.
var (
	modelDeploymentsResource = schema.GroupVersionResource{Group: modelDeploymentGroup, Version: "v1alpha1", Resource: "modeldeployments"}
	podsResource             = corev1.SchemeGroupVersion.WithResource("pods")
	replicaSetsResource      = appsv1.SchemeGroupVersion.WithResource("replicasets")
	deploymentsResource      = appsv1.SchemeGroupVersion.WithResource("deployments")
)

// The label selectors: the operator's Pods, and the objects of its routers' chains.
const (
	podSelector   = nameLabel + "=" + nameLabelValue
	chainSelector = podSelector + "," + routerLabel
)

// Cluster is the fleet that a Kubernetes API server describes, kept up to date by watches. Reading it
// makes no API call, and what is known stands while the server is away.
type Cluster struct {
	logger  *slog.Logger
	watches []*resourceWatch

	mu      sync.Mutex
	objects *objects
	// changed is true where the objects are not those that fleet was made of.
	changed bool
	fleet   *Fleet
}

// NewCluster prepares the watches of the namespaces, or of all where none is named; Run does the work.
// The logger and the registerer may be nil.
func NewCluster(config *rest.Config, namespaces []string, logger *slog.Logger, reg prometheus.Registerer) (*Cluster, error) {
	config = rest.CopyConfig(config)
	// There are four lists or watches a namespace, and those that fail are apart by themselves: a limit
	// over all would only hold up a start in many namespaces.
	config.QPS = -1
	pods, err := newPodClient(config)
	if err != nil {
		return nil, err
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubernetes metadata client: %w", err)
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubernetes dynamic client: %w", err)
	}

	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	c := &Cluster{logger: logger, objects: newObjects(), fleet: &Fleet{}}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(namespaces))) {
		models := untyped.Resource(modelDeploymentsResource).Namespace(namespace)
		c.watch(namespace, modelDeploymentsResource, "", untyped, &unstructured.Unstructured{}, calls{
			list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return models.List(ctx, o) },
			watch: models.Watch,
		})
		c.watch(namespace, podsResource, podSelector, pods, &corev1.Pod{}, pods.in(namespace))
		for _, gvr := range []schema.GroupVersionResource{replicaSetsResource, deploymentsResource} {
			chain := meta.Resource(gvr).Namespace(namespace)
			c.watch(namespace, gvr, chainSelector, meta, &metav1.PartialObjectMetadata{}, calls{
				list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return chain.List(ctx, o) },
				watch: chain.Watch,
			})
		}
	}
	if reg != nil {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// calls are the two calls of one resource in one namespace.
type calls struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (apiwatch.Interface, error)
}

// Run watches until the context ends, and returns nil then.
func (c *Cluster) Run(ctx context.Context) error {
	// client-go tells of every attempt that fails; here a change is told once.
	ctx = klog.NewContext(ctx, klog.Logger{}.WithSink(debugSink(c.logger)))
	var wg sync.WaitGroup
	for _, w := range c.watches {
		wg.Go(func() { w.run(ctx) })
	}
	wg.Wait()
	return nil
}

// Synced reports whether every resource has been listed whole once.
func (c *Cluster) Synced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(c.watches, func(w *resourceWatch) bool { return !w.listed })
}

// Fleet returns what is known now, of the namespaces in which every resource has been listed: half of what
// is known would read as Pods that are not there. A fleet that did not change is the same one, and so is a deployment
// within it.
func (c *Cluster) Fleet() *Fleet {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed {
		c.changed = false
		c.fleet = c.objects.fleet().only(c.whole).reuse(c.fleet)
	}
	return c.fleet
}

// whole reports whether every resource has been listed once in the namespace.
func (c *Cluster) whole(namespace string) bool {
	return !slices.ContainsFunc(c.watches, func(w *resourceWatch) bool {
		return !w.listed && (w.namespace == "" || w.namespace == namespace)
	})
}

// only keeps the deployments of the namespaces that are known whole.
func (f *Fleet) only(whole func(namespace string) bool) *Fleet {
	f.Deployments = slices.DeleteFunc(f.Deployments, func(d *Deployment) bool { return !whole(d.Namespace) })
	return f
}

// reuse takes over the deployments of an earlier fleet that have not changed, and returns that fleet
// where none has.
func (f *Fleet) reuse(earlier *Fleet) *Fleet {
	same := len(f.Deployments) == len(earlier.Deployments)
	for i, d := range f.Deployments {
		if before := earlier.Get(d.Namespace, d.Name); before != nil && before.equal(d) {
			f.Deployments[i] = before
		} else {
			same = false
		}
	}
	if same {
		return earlier
	}
	return f
}

// equal reports whether two deployments and their Pods are the same to a reader.
func (d *Deployment) equal(other *Deployment) bool {
	if (d.Router == nil) != (other.Router == nil) || d.Router != nil && *d.Router != *other.Router {
		return false
	}
	return d.UID == other.UID && d.Engine == other.Engine && d.KVCache == other.KVCache &&
		slices.Equal(d.Roles, other.Roles) &&
		slices.EqualFunc(d.Pods, other.Pods, func(a, b Pod) bool {
			return a.URL == b.URL && a.Name == b.Name && a.UID == b.UID && a.Scope == b.Scope && a.Role == b.Role &&
				slices.Equal(a.Arguments, b.Arguments)
		})
}

var syncedDesc = prometheus.NewDesc("md_exporter_discovery_synced",
	"Whether the resource has been listed whole and is being watched (1), or the API server does not serve it now (0).",
	[]string{"resource"}, nil)

// Describe implements prometheus.Collector.
func (c *Cluster) Describe(descs chan<- *prometheus.Desc) { descs <- syncedDesc }

// Collect implements prometheus.Collector.
func (c *Cluster) Collect(metrics chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	synced := map[string]float64{}
	for _, w := range c.watches {
		value := 1.0
		if !w.listed || w.trouble != "" {
			value = 0
		}
		if before, known := synced[w.name()]; known {
			value = min(value, before)
		}
		synced[w.name()] = value
	}
	for name, value := range synced {
		metrics <- prometheus.MustNewConstMetric(syncedDesc, prometheus.GaugeValue, value, name)
	}
}
