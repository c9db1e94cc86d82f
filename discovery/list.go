package discovery

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// List lists every resource once, in place of Run, for a caller that asks once and needs no watch. What
// goes wrong first, in the order of modeldeployments, pods, replicasets and deployments, is the error: it
// names the verb and the resource, and there is no fleet then.
func (c *Cluster) List(ctx context.Context) error {
	errs := make([]error, len(c.watches))
	var wg sync.WaitGroup
	for i, w := range c.watches {
		wg.Go(func() { errs[i] = w.listOnce(ctx) })
	}
	wg.Wait()
	for i, w := range c.watches {
		switch err := errs[i]; {
		case err == nil:
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return fmt.Errorf("list %s: the API server did not answer in time: %w", w.where(), err)
		default:
			return fmt.Errorf("list %s: %w", w.where(), err)
		}
	}
	return nil
}

// where is the resource, and the namespace where it is one.
func (w *resourceWatch) where() string {
	if w.namespace == "" {
		return w.name()
	}
	return w.name() + " in namespace " + w.namespace
}

// listOnce replaces what is known of the resource.
func (w *resourceWatch) listOnce(ctx context.Context) error {
	var all []any
	pages := pager.New(w.list)
	err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: w.selector}, func(o runtime.Object) error {
		all = append(all, w.cut(o))
		return nil
	})
	if err != nil {
		return err
	}
	return w.Replace(all, "")
}
