package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/md-exporter/md-exporter/test/e2e/cluster"
)

// readPods is what finding Pods needs.
var readPods = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}}

// TestAPIServer holds the ground that every other test stands on: a real API server whose objects
// are what a cluster with the operator in it would hold.
func TestAPIServer(t *testing.T) {
	started := time.Now()
	c := cluster.Start(t)
	t.Logf("etcd and kube-apiserver ready in %s", time.Since(started).Round(time.Millisecond))

	version, err := c.Kube.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(version.GitVersion, "v1.36.") {
		t.Errorf("server version %q is not the pinned one", version.GitVersion)
	}
	onlyLoopback(t, c.API.URL)
	onlyLoopback(t, c.Etcd.URL)

	c.InstallCRD(t)
	md := c.CreateModelDeployment(t, "models", "llama", map[string]any{
		"engine": map[string]any{"name": "vllm"},
		"roles":  []any{map[string]any{"name": "server", "replicas": int64(2)}},
		"router": map[string]any{"name": "vllm-router"},
	})
	own := []metav1.OwnerReference{cluster.ControlledByModelDeployment(md)}
	for i, ip := range []string{"127.0.0.11", "::1"} {
		c.CreatePod(t, cluster.Pod{
			Namespace: "models", Name: fmt.Sprintf("llama-server-%d", i), Owners: own,
			Labels: cluster.EngineLabels("llama", "server"), Annotations: cluster.Advertise(8000, "http"),
			Args: []string{"--model=llama"}, Ports: []int{8000}, IP: ip, Phase: corev1.PodRunning,
		})
	}
	chain := c.CreateRouterChain(t, md, "vllm-router", 1)
	c.CreatePod(t, cluster.Pod{
		Namespace: "models", Name: "llama-router-0-a", Owners: []metav1.OwnerReference{chain.Owner()},
		Labels: chain.Labels, Node: "node", IP: "127.0.0.12", Phase: corev1.PodRunning,
	})

	t.Run("objects are as made", func(t *testing.T) {
		for name, want := range map[string]corev1.PodStatus{
			"llama-server-0":   {PodIP: "127.0.0.11", Phase: corev1.PodRunning},
			"llama-server-1":   {PodIP: "::1", Phase: corev1.PodRunning},
			"llama-router-0-a": {PodIP: "127.0.0.12", Phase: corev1.PodRunning},
		} {
			pod, err := c.Kube.CoreV1().Pods("models").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if pod.Status.PodIP != want.PodIP || pod.Status.Phase != want.Phase {
				t.Errorf("%s: status %s %q, want %s %q", name, pod.Status.Phase, pod.Status.PodIP, want.Phase, want.PodIP)
			}
		}
		if out := c.Kubectl(t, "get", "md", "-n", "models", "-o", "name"); out != "modeldeployment.worker.gpustack.ai/llama\n" {
			t.Errorf("kubectl get md: %q", out)
		}
	})

	t.Run("owner references lead to the ModelDeployment", func(t *testing.T) { ownersLead(t, c, md.GetUID()) })

	t.Run("a deleted Pod on a node terminates until it is removed", func(t *testing.T) {
		c.CreatePod(t, cluster.Pod{Namespace: "models", Name: "ending", Node: "node", IP: "127.0.0.13", Phase: corev1.PodRunning})
		c.TerminatePod(t, "models", "ending")
		c.DeletePod(t, "models", "ending")
	})

	t.Run("a ServiceAccount is itself and has no right that it was not given", func(t *testing.T) {
		c.CreateServiceAccount(t, "models", "reader")
		kubeconfig := c.KubeconfigFor(t, "models", "reader")
		who, err := cluster.Kubectl(t, kubeconfig, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
		if err != nil || who != "system:serviceaccount:models:reader" {
			t.Errorf("whoami: %q, %v", who, err)
		}
		if out, err := cluster.Kubectl(t, kubeconfig, "get", "pods", "-n", "models"); err == nil || !strings.Contains(err.Error(), "cannot list resource \"pods\"") {
			t.Errorf("a ServiceAccount bound to nothing lists Pods: %q, %v", out, err)
		}
		c.Grant(t, "models", "reader", readPods)
		cluster.Eventually(t, 10*time.Second, "the binding holds", func(context.Context) error {
			_, err := cluster.Kubectl(t, kubeconfig, "get", "pods", "-n", "models")
			return err
		})
	})

	t.Run("a crash and a restart keep the data", func(t *testing.T) {
		c.API.Kill()
		c.API.Start(t)
		ownersLead(t, c, md.GetUID())
		c.Restart(t)
		ownersLead(t, c, md.GetUID())
	})

	t.Run("a removed CRD takes its objects along", func(t *testing.T) {
		c.RemoveCRD(t)
		c.InstallCRD(t)
		if names := modelDeployments(t, c); len(names) > 0 {
			t.Errorf("ModelDeployments after the CRD was re-created: %v", names)
		}
		again := c.CreateModelDeployment(t, "models", "llama", map[string]any{})
		if again.GetUID() == md.GetUID() {
			t.Error("a re-created ModelDeployment has the UID of the one before")
		}
	})

	t.Run("a restart without data loses all", func(t *testing.T) {
		c.RestartEmpty(t)
		_, err := c.Dynamic.Resource(cluster.ModelDeployments).List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("listing ModelDeployments without a CRD: %v", err)
		}
		pods, err := c.Kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) > 0 {
			t.Errorf("%d Pods are left, %v", len(pods.Items), err)
		}
		c.InstallCRD(t)
		if names := modelDeployments(t, c); len(names) > 0 {
			t.Errorf("ModelDeployments are left: %v", names)
		}
	})
}

// ownersLead follows the owner references of the Pods of deployment models/llama.
func ownersLead(t *testing.T, c *cluster.Cluster, want types.UID) {
	t.Helper()
	owner := func(o metav1.Object) types.UID {
		r := metav1.GetControllerOf(o)
		if r == nil {
			t.Fatalf("%s has no controller", o.GetName())
		}
		return r.UID
	}
	get := metav1.GetOptions{}
	md, err := c.Dynamic.Resource(cluster.ModelDeployments).Namespace("models").Get(t.Context(), "llama", get)
	if err != nil {
		t.Fatal(err)
	}
	if md.GetUID() != want {
		t.Fatalf("UID of the ModelDeployment is %s, was %s", md.GetUID(), want)
	}
	engines, err := c.Kube.CoreV1().Pods("models").List(t.Context(), metav1.ListOptions{LabelSelector: cluster.LabelComponent})
	if err != nil {
		t.Fatal(err)
	}
	if len(engines.Items) != 2 {
		t.Errorf("%d engine Pods, want 2", len(engines.Items))
	}
	for _, pod := range engines.Items {
		if got := owner(&pod); got != want {
			t.Errorf("%s is controlled by %s, want %s", pod.Name, got, want)
		}
	}
	router, err := c.Kube.CoreV1().Pods("models").Get(t.Context(), "llama-router-0-a", get)
	if err != nil {
		t.Fatal(err)
	}
	set, err := c.Kube.AppsV1().ReplicaSets("models").Get(t.Context(), "llama-router-0", get)
	if err != nil {
		t.Fatal(err)
	}
	deployment, err := c.Kube.AppsV1().Deployments("models").Get(t.Context(), "llama-router", get)
	if err != nil {
		t.Fatal(err)
	}
	if owner(router) != set.UID || owner(set) != deployment.UID || owner(deployment) != want {
		t.Errorf("the router's chain is broken: Pod -> %s, ReplicaSet %s -> %s, Deployment %s -> %s, ModelDeployment %s",
			owner(router), set.UID, owner(set), deployment.UID, owner(deployment), want)
	}
}

// modelDeployments are the names of all ModelDeployments.
func modelDeployments(t *testing.T, c *cluster.Cluster) []string {
	t.Helper()
	list, err := c.Dynamic.Resource(cluster.ModelDeployments).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range list.Items {
		names = append(names, o.GetNamespace()+"/"+o.GetName())
	}
	return names
}
