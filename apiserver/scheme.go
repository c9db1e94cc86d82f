package apiserver

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/md-exporter/md-exporter/apiserver/v1"
)

const (
	// resource is the parent, subresource what is served of it.
	resource    = "modeldeployments"
	singular    = "modeldeployment"
	subresource = "metrics"
)

// newScheme knows the document under the group and version that it is served as: what is encoded
// carries them, so that a client decodes it.
func newScheme(served schema.GroupVersion) *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(served.WithKind(v1.Kind), &v1.ModelDeploymentMetrics{})
	metav1.AddToGroupVersion(scheme, served)
	// The options and the Status of every request are of the core group's version.
	core := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, core)
	scheme.AddUnversionedTypes(core, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{},
		&metav1.APIGroup{}, &metav1.APIResourceList{})
	return scheme
}
