package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/md-exporter/md-exporter/normalize"
)

// client-go makes a watch without events of a server that does not answer, however often it is asked.
var (
	noEvents    = reflect.TypeOf(apiwatch.NewEmptyWatch())
	errNoAnswer = errors.New("no answer in time")
)

// listPage is how many objects a server that does not stream its lists is asked for at once.
const listPage = 500

// retries are apart from half a second to five: a CRD that is installed late and an API server that is
// back are seen soon, and a server in trouble is not pressed.
var retries = wait.Backoff{Duration: 500 * time.Millisecond, Cap: 5 * time.Second, Steps: 10, Factor: 2, Jitter: 0.5}

// forgetUnserved is how long a server may say that it does not serve a resource before its objects are
// taken for gone with it: as with a CRD that was removed while no watch told of its objects.
const forgetUnserved = 30 * time.Second

// resourceWatch keeps the cluster's objects of one resource in one namespace up to date. It is the
// store of a client-go reflector: the reflector lists and watches, the store keeps what is used of each
// object and nothing else.
type resourceWatch struct {
	cluster   *Cluster
	resource  schema.GroupVersionResource
	namespace string
	reflector *cache.Reflector
	// list is the plain call, selector what it is asked for with.
	list     func(context.Context, metav1.ListOptions) (runtime.Object, error)
	selector string

	// Guarded by the cluster's lock.

	// listed is true once the resource was listed whole.
	listed bool
	// trouble is why the last call failed, as a class, and of which verb; empty where it did not.
	trouble, troubledVerb string
	// stale is true from a call that failed until the next list.
	stale bool
	// unserved is when the server first said that it does not serve the resource; zero where it does.
	unserved time.Time
}

// watch adds a resource's watch.
func (c *Cluster) watch(namespace string, resource schema.GroupVersionResource, selector string, client any, expected runtime.Object, calls calls) {
	w := &resourceWatch{cluster: c, resource: resource, namespace: namespace, list: calls.list, selector: selector}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector, o.Limit = selector, listPage
			if o.Continue == "" {
				// A version would ask for what the server has cached, which it does not send in pages.
				o.ResourceVersion, o.ResourceVersionMatch = "", ""
			}
			list, err := calls.list(ctx, o)
			w.outcome(ctx, "list", true, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.LabelSelector = selector
			initial := o.SendInitialEvents != nil && *o.SendInitialEvents
			switch {
			case initial:
				// What the server has now, and not what it had once: it may be back with older data, which
				// would be waited for until its versions are beyond those that it had.
				o.ResourceVersion = ""
			case w.isStale():
				// The server was away, and may be back without the data that the watch would go on from: it
				// is listed anew.
				return nil, apierrors.NewResourceExpired("the API server was away")
			}
			events, err := calls.watch(ctx, o)
			if err == nil && reflect.TypeOf(events) == noEvents {
				err = errNoAnswer
			}
			if !initial || !apierrors.IsInvalid(err) {
				// A server that cannot stream a list says so; the reflector then asks for it in pages.
				w.outcome(ctx, "watch", initial, err)
			}
			if err != nil {
				return nil, err // and no watch of a type that is not nil
			}
			return events, nil
		},
	}
	backoff := retries
	w.reflector = cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, client), expected, w,
		cache.ReflectorOptions{Name: w.name(), Backoff: &backoff})
	c.watches = append(c.watches, w)
}

func (w *resourceWatch) run(ctx context.Context) { w.reflector.RunWithContext(ctx) }

// name is the resource with its group, such as replicasets.apps.
func (w *resourceWatch) name() string { return w.resource.GroupResource().String() }

func (w *resourceWatch) isStale() bool {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	return w.stale
}

// outcome notes how a call ended, of a list or of a watch that may be one, and logs what changed: one
// line a change, not one an attempt.
func (w *resourceWatch) outcome(ctx context.Context, verb string, lists bool, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return // The end of the process, or a watch that is too old: neither is trouble.
	}
	trouble := ""
	switch {
	case err == nil:
	case apierrors.IsForbidden(err):
		trouble = "forbidden"
	case apierrors.IsUnauthorized(err):
		trouble = "unauthorized"
	case apierrors.IsNotFound(err):
		trouble = "not served"
	default:
		trouble = "unreachable"
	}
	w.cluster.mu.Lock()
	before := w.trouble
	w.stale = err != nil || w.stale && !lists
	w.forget(trouble == "not served")
	if trouble == "" && verb == "list" && w.troubledVerb == "watch" {
		// Only a watch tells that it is allowed again.
		trouble = before
	}
	if trouble != before {
		w.trouble, w.troubledVerb = trouble, verb
	}
	w.cluster.mu.Unlock()
	if trouble == before {
		return
	}
	logger := w.cluster.logger.With("verb", verb, "resource", w.name())
	if w.namespace != "" {
		logger = logger.With("namespace", w.namespace)
	}
	switch trouble {
	case "":
		logger.Info("The API server serves the resource again", "was", before)
	case "forbidden":
		logger.Error("The API server forbids to "+verb+" "+w.name()+"; see the roles under deploy/exporter", "err", err)
	case "unauthorized":
		logger.Error("The API server does not accept the exporter's credentials", "err", err)
	case "not served":
		logger.Warn("The API server does not serve "+w.name()+"; waiting until its CustomResourceDefinition is installed", "err", err)
	default:
		logger.Warn("The API server cannot be asked for "+w.name()+"; what is known of it stands", "err", err)
	}
}

// forget drops the resource's objects once the server has said for a while that it does not serve it.
func (w *resourceWatch) forget(unserved bool) {
	switch {
	case !unserved:
		w.unserved = time.Time{}
	case w.unserved.IsZero():
		w.unserved = time.Now()
	case time.Since(w.unserved) >= forgetUnserved:
		for _, k := range w.keys() {
			w.remove(k)
		}
	}
}

// cut is an object cut to what is used, with the metadata that the reflector's own stores go by.
type cut struct {
	metav1.ObjectMeta
	// One of these is set, or none for an object that cannot be understood.
	model *normalize.Deployment
	pod   *pod
	other *object
}

// Transformer implements cache.TransformingStore: a list is cut object by object as it streams in.
func (w *resourceWatch) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return w.cut(obj), nil }
}

// cut cuts an object to what is used. One that cannot be understood costs itself alone.
func (w *resourceWatch) cut(obj any) *cut {
	switch o := obj.(type) {
	case *cut:
		return o
	case *corev1.Pod:
		return &cut{ObjectMeta: identityOf(o), pod: newPod(o)}
	case *metav1.PartialObjectMetadata:
		other := newObject(&o.ObjectMeta)
		return &cut{ObjectMeta: identityOf(o), other: &other}
	case *unstructured.Unstructured:
		c := &cut{ObjectMeta: identityOf(o)}
		var m modelDeployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &m); err != nil {
			w.cluster.logger.Error("ModelDeployment is not understood and left out",
				"namespace", o.GetNamespace(), "modeldeployment", o.GetName(), "err", err)
			return c
		}
		c.model = m.shape()
		return c
	default:
		w.cluster.logger.Error("Unexpected object in a watch", "resource", w.name(), "type", fmt.Sprintf("%T", obj))
		return &cut{}
	}
}

// identityOf is the metadata that the reflector and its stores need.
func identityOf(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:       o.GetNamespace(),
		Name:            o.GetName(),
		UID:             o.GetUID(),
		ResourceVersion: o.GetResourceVersion(),
	}
}

// Add implements cache.ReflectorStore.
func (w *resourceWatch) Add(obj any) error {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	w.put(w.cut(obj))
	return nil
}

// Update implements cache.ReflectorStore.
func (w *resourceWatch) Update(obj any) error { return w.Add(obj) }

// Delete implements cache.ReflectorStore.
func (w *resourceWatch) Delete(obj any) error {
	o, ok := obj.(metav1.Object)
	if !ok {
		return fmt.Errorf("deleted object of type %T has no metadata", obj)
	}
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	w.remove(key{o.GetNamespace(), o.GetName()})
	return nil
}

// Replace implements cache.ReflectorStore: the resource has been listed whole.
func (w *resourceWatch) Replace(list []any, _ string) error {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	listed := make(map[key]bool, len(list))
	for _, obj := range list {
		c := w.cut(obj)
		listed[key{c.Namespace, c.Name}] = true
		w.put(c)
	}
	for _, k := range w.keys() {
		if !listed[k] {
			w.remove(k)
		}
	}
	w.listed, w.cluster.changed = true, true
	return nil
}

// Resync implements cache.ReflectorStore. There is nothing to do again.
func (w *resourceWatch) Resync() error { return nil }

// put keeps an object; one that changed nothing that is used changes no fleet.
func (w *resourceWatch) put(c *cut) {
	k, o := key{c.Namespace, c.Name}, w.cluster.objects
	switch {
	case c.model != nil:
		set(w.cluster, o.modelDeployments, k, c.model)
	case c.pod != nil:
		set(w.cluster, o.pods, k, c.pod)
	case c.other != nil && w.resource == replicaSetsResource:
		set(w.cluster, o.replicaSets, k, c.other)
	case c.other != nil:
		set(w.cluster, o.deployments, k, c.other)
	default:
		w.remove(k)
	}
}

func set[T any](c *Cluster, objects map[key]*T, k key, object *T) {
	if before, known := objects[k]; !known || !reflect.DeepEqual(before, object) {
		objects[k] = object
		c.changed = true
	}
}

// remove drops an object.
func (w *resourceWatch) remove(k key) {
	o := w.cluster.objects
	switch w.resource {
	case modelDeploymentsResource:
		delete(o.modelDeployments, k)
	case podsResource:
		delete(o.pods, k)
	case replicaSetsResource:
		delete(o.replicaSets, k)
	case deploymentsResource:
		delete(o.deployments, k)
	}
	w.cluster.changed = true
}

// keys are the objects that are kept of the resource in the watch's namespace.
func (w *resourceWatch) keys() []key {
	o := w.cluster.objects
	switch w.resource {
	case modelDeploymentsResource:
		return keysIn(o.modelDeployments, w.namespace)
	case podsResource:
		return keysIn(o.pods, w.namespace)
	case replicaSetsResource:
		return keysIn(o.replicaSets, w.namespace)
	default:
		return keysIn(o.deployments, w.namespace)
	}
}

func keysIn[T any](objects map[key]T, namespace string) []key {
	var keys []key
	for k := range objects {
		if namespace == "" || k.namespace == namespace {
			keys = append(keys, k)
		}
	}
	return keys
}

// debugSink is a log sink that says at debug level whatever is said.
func debugSink(logger *slog.Logger) logr.LogSink {
	return logr.FromSlogHandler(debugHandler{logger.Handler()}).GetSink()
}

// debugHandler lowers every record to debug level.
type debugHandler struct{ slog.Handler }

// Enabled implements slog.Handler.
func (h debugHandler) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler.
func (h debugHandler) Handle(ctx context.Context, r slog.Record) error {
	if !h.Enabled(ctx, r.Level) {
		return nil // logr asks for its information alone, and gives its errors always.
	}
	r.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h debugHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h debugHandler) WithGroup(name string) slog.Handler {
	return debugHandler{h.Handler.WithGroup(name)}
}
