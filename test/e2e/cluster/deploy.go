package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/md-exporter/md-exporter/test/e2e/servers"
)

// bindingHolds is how long the API server may take to obey a role that was just bound.
const bindingHolds = 10 * time.Second

// The exporter's manifests, as folders that kustomize renders.
const (
	ClusterWide = "deploy/exporter"
	Namespaced  = "deploy/exporter/namespaced"
)

// Render renders a folder of the repository with kubectl kustomize.
func Render(t testing.TB, folder string) []*unstructured.Unstructured {
	t.Helper()
	root, err := servers.Root()
	if err != nil {
		t.Fatal(err)
	}
	out, err := Kubectl(t, os.DevNull, "kustomize", filepath.Join(root, folder))
	if err != nil {
		t.Fatal(err)
	}
	return Manifests(t, []byte(out))
}

// role is the one Role or ClusterRole among the objects.
func role(t testing.TB, objects []*unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Role" || o.GetKind() == "ClusterRole"
	})
	if i < 0 {
		t.Fatal("no role among the manifests")
	}
	return objects[i]
}

// Rules are the rules of the one Role or ClusterRole among the objects.
func Rules(t testing.TB, objects []*unstructured.Unstructured) []any {
	t.Helper()
	rules, _, err := unstructured.NestedSlice(role(t, objects).Object, "rules")
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// SetRules sets the rules of the one Role or ClusterRole among the objects.
func SetRules(t testing.TB, objects []*unstructured.Unstructured, rules []any) {
	t.Helper()
	if err := unstructured.SetNestedSlice(role(t, objects).Object, rules, "rules"); err != nil {
		t.Fatal(err)
	}
}

// Apply applies the objects server side, in their order; more are kubectl's arguments.
func (c *Cluster) Apply(t testing.TB, objects []*unstructured.Unstructured, more ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	var stream []byte
	for _, o := range objects {
		document, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		stream = append(append(stream, "---\n"...), document...)
	}
	if err := os.WriteFile(file, stream, 0o600); err != nil {
		t.Fatal(err)
	}
	return c.Kubectl(t, append([]string{"apply", "--server-side", "--force-conflicts", "--filename=" + file}, more...)...)
}

// InstallRBAC applies what of the objects grants rights, and the ServiceAccount and namespace that it
// is granted to, and returns a kubeconfig with which a program is that account and nobody else. It
// waits until the rights hold.
func (c *Cluster) InstallRBAC(t testing.TB, objects []*unstructured.Unstructured) (kubeconfig string) {
	t.Helper()
	var grants []*unstructured.Unstructured
	var account *unstructured.Unstructured
	for _, o := range objects {
		switch o.GetKind() {
		case "ServiceAccount":
			account = o
		case "Namespace", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding":
		default:
			continue
		}
		grants = append(grants, o)
	}
	c.Apply(t, grants)
	config := c.API.AdminConfig()
	config.BearerToken = c.Token(t, account.GetNamespace(), account.GetName())
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespace := role(t, objects).GetNamespace()
	for _, rule := range Rules(t, objects) {
		waitGranted(t, client, namespace, rule.(map[string]any))
	}
	return c.KubeconfigFor(t, account.GetNamespace(), account.GetName())
}

// waitGranted waits until the client may do what the rule says.
func waitGranted(t testing.TB, client kubernetes.Interface, namespace string, rule map[string]any) {
	t.Helper()
	list := func(field string) []string {
		values, _, err := unstructured.NestedStringSlice(rule, field)
		if err != nil {
			t.Fatal(err)
		}
		return values
	}
	for _, group := range list("apiGroups") {
		for _, resource := range list("resources") {
			for _, verb := range list("verbs") {
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource},
				}}
				Eventually(t, bindingHolds, "the right to "+verb+" "+resource, func(ctx context.Context) error {
					answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
					if err == nil && !answer.Status.Allowed {
						err = fmt.Errorf("denied: %s", answer.Status.Reason)
					}
					return err
				})
			}
		}
	}
}

// InstallExporter grants the exporter's ServiceAccount what deploy/exporter grants it, and starts the
// exporter as that account, with the environment of its Deployment, and with the arguments.
func (c *Cluster) InstallExporter(t testing.TB, args ...string) *Exporter {
	t.Helper()
	path, err := exporterBinary()
	if err != nil {
		t.Fatal(err)
	}
	manifests := Render(t, ClusterWide)
	return startExporter(t, command{path: path, env: environment(t, manifests),
		args: append([]string{"--kubeconfig=" + c.InstallRBAC(t, manifests)}, args...)})
}

// environment is what the one Deployment among the objects sets, by value.
func environment(t testing.TB, objects []*unstructured.Unstructured) []string {
	t.Helper()
	var env []string
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range containers {
			variables, _, err := unstructured.NestedSlice(c.(map[string]any), "env")
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range variables {
				if v := v.(map[string]any); v["value"] != nil {
					env = append(env, fmt.Sprintf("%s=%s", v["name"], v["value"]))
				}
			}
		}
	}
	return env
}
