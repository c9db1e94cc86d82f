package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// loadConcurrency is how many objects are written at once.
const loadConcurrency = 16

// resources are the kinds that Load knows.
var resources = map[schema.GroupVersionKind]schema.GroupVersionResource{
	ModelDeployments.GroupVersion().WithKind("ModelDeployment"): ModelDeployments,

	{Version: "v1", Kind: "Pod"}:                       {Version: "v1", Resource: "pods"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"}: {Group: "apps", Version: "v1", Resource: "replicasets"},
	{Group: "apps", Version: "v1", Kind: "Deployment"}: {Group: "apps", Version: "v1", Resource: "deployments"},
}

// Manifests reads a stream of YAML or JSON documents, lists taken apart.
func Manifests(t testing.TB, stream []byte) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(stream), 4096)
	for {
		var object unstructured.Unstructured
		err := decoder.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF):
			return objects
		case err != nil:
			t.Fatal(err)
		case len(object.Object) == 0: // a document of comments
		case object.IsList():
			err := object.EachListItem(func(item runtime.Object) error {
				objects = append(objects, item.(*unstructured.Unstructured))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		default:
			objects = append(objects, &object)
		}
	}
}

// Load makes the objects, and their namespaces, as the manifests describe them, status included.
// The API server gives each a UID of its own: owner references among them are written to follow,
// one to a UID that none of them has is kept as it is. It returns the new UID for each old one.
func (c *Cluster) Load(t testing.TB, objects []*unstructured.Unstructured) map[types.UID]types.UID {
	t.Helper()
	namespaces := map[string]bool{}
	for _, o := range objects {
		if !namespaces[o.GetNamespace()] {
			namespaces[o.GetNamespace()] = true
			c.CreateNamespace(t, o.GetNamespace())
		}
	}
	l := loader{cluster: c, waiting: map[types.UID]bool{}, uids: map[types.UID]types.UID{}}
	for _, o := range objects {
		if o.GetUID() != "" {
			l.waiting[o.GetUID()] = true
		}
	}
	// Owners first: each round makes the objects whose owners exist.
	for len(objects) > 0 {
		var ready, later []*unstructured.Unstructured
		for _, o := range objects {
			if l.ownerWaits(o) {
				later = append(later, o)
			} else {
				ready = append(ready, o)
			}
		}
		if len(ready) == 0 {
			t.Fatalf("load: %d objects own each other", len(later))
		}
		if err := l.create(t.Context(), ready); err != nil {
			t.Fatal(err)
		}
		objects = later
	}
	return l.uids
}

// loader makes objects round by round.
type loader struct {
	cluster *Cluster
	waiting map[types.UID]bool // the manifests' UIDs that are not made yet

	mutex sync.Mutex
	uids  map[types.UID]types.UID
}

// ownerWaits reports whether an owner of o is still to be made.
func (l *loader) ownerWaits(o *unstructured.Unstructured) bool {
	for _, r := range o.GetOwnerReferences() {
		if l.waiting[r.UID] {
			return true
		}
	}
	return false
}

// create makes one round.
func (l *loader) create(ctx context.Context, round []*unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loadConcurrency)
	for _, o := range round {
		group.Go(func() error {
			if err := l.createOne(ctx, o); err != nil {
				return fmt.Errorf("load %s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, o := range round {
		delete(l.waiting, o.GetUID())
	}
	return nil
}

// createOne makes one object and then writes its status, which a create leaves out.
func (l *loader) createOne(ctx context.Context, manifest *unstructured.Unstructured) error {
	resource, ok := resources[manifest.GroupVersionKind()]
	if !ok {
		return fmt.Errorf("no resource is known for %s", manifest.GroupVersionKind())
	}
	object := manifest.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	if references := object.GetOwnerReferences(); len(references) > 0 {
		l.mutex.Lock()
		for i := range references {
			if uid, ok := l.uids[references[i].UID]; ok {
				references[i].UID = uid
			}
		}
		l.mutex.Unlock()
		object.SetOwnerReferences(references)
	}
	if err := completeTemplate(object); err != nil {
		return err
	}
	client := l.cluster.Dynamic.Resource(resource).Namespace(object.GetNamespace())
	created, err := client.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if manifest.GetUID() != "" {
		l.mutex.Lock()
		l.uids[manifest.GetUID()] = created.GetUID()
		l.mutex.Unlock()
	}
	if status, ok := manifest.Object["status"]; ok {
		created.Object["status"] = status
		if _, err := client.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("status: %w", err)
		}
	}
	return nil
}
