package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// crdSettled is how long a CRD may take to be served or to be gone.
const crdSettled = 30 * time.Second

//go:embed modeldeployments.yaml
var crdManifest []byte

var (
	// ModelDeployments is the resource that the CRD serves.
	ModelDeployments = schema.GroupVersionResource{Group: "worker.gpustack.ai", Version: "v1alpha1", Resource: "modeldeployments"}

	crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// InstallCRD makes the ModelDeployment CRD and waits until its resource is served.
func (c *Cluster) InstallCRD(t testing.TB) {
	t.Helper()
	var crd unstructured.Unstructured
	if err := yaml.Unmarshal(crdManifest, &crd.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Dynamic.Resource(crds).Create(t.Context(), &crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	Eventually(t, crdSettled, "the CRD is established", func(ctx context.Context) error {
		got, err := c.Dynamic.Resource(crds).Get(ctx, crd.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		return established(got)
	})
	Eventually(t, crdSettled, "ModelDeployments are served", func(ctx context.Context) error {
		_, err := c.Dynamic.Resource(ModelDeployments).List(ctx, metav1.ListOptions{})
		return err
	})
}

// RemoveCRD deletes the CRD, and with it every ModelDeployment, and waits until both are gone.
func (c *Cluster) RemoveCRD(t testing.TB) {
	t.Helper()
	name := ModelDeployments.GroupResource().String()
	if err := c.Dynamic.Resource(crds).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	Eventually(t, crdSettled, "the CRD is gone", func(ctx context.Context) error {
		_, err := c.Dynamic.Resource(crds).Get(ctx, name, metav1.GetOptions{})
		return gone(err)
	})
	Eventually(t, crdSettled, "ModelDeployments are no longer served", func(ctx context.Context) error {
		_, err := c.Dynamic.Resource(ModelDeployments).List(ctx, metav1.ListOptions{})
		return gone(err)
	})
}

// gone is nil where err says that the object is not there.
func gone(err error) error {
	switch {
	case err == nil:
		return errors.New("still there")
	case apierrors.IsNotFound(err):
		return nil
	default:
		return err
	}
}

// established is nil where the CRD's condition Established is true.
func established(crd *unstructured.Unstructured) error {
	conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
	if err != nil {
		return err
	}
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
			return nil
		}
	}
	return fmt.Errorf("conditions are %v", conditions)
}
