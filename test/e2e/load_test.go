package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/md-exporter/md-exporter/test/e2e/cluster"
)

// exported is a deployment as kubectl get -o yaml writes one, owned objects before their owners.
const exported = `
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata:
    name: qwen-router-1-a
    namespace: exported
    uid: pod-uid
    labels: {app.kubernetes.io/name: model-deployment}
    ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: qwen-router-1, uid: set-uid, controller: true}]
  spec:
    containers: [{name: main, image: example.invalid/main}]
  status: {phase: Running, podIP: 127.0.0.31, podIPs: [{ip: 127.0.0.31}]}
- apiVersion: apps/v1
  kind: ReplicaSet
  metadata:
    name: qwen-router-1
    namespace: exported
    uid: set-uid
    ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: qwen-router, uid: lost-uid, controller: true}]
  spec:
    selector: {matchLabels: {app: qwen}}
    template: {metadata: {labels: {app: qwen}}, spec: {containers: [{name: main, image: example.invalid/main}]}}
---
# A document of its own, and one that is a comment.
---
apiVersion: worker.gpustack.ai/v1alpha1
kind: ModelDeployment
metadata: {name: qwen, namespace: exported, uid: md-uid, resourceVersion: "12", generation: 3}
spec: {engine: {name: sglang}}
status: {phase: Ready}
`

// TestLoad writes manifests into the API server: owners first, owner references follow the UIDs that
// the server gives, a broken one stays broken, and the status is there.
func TestLoad(t *testing.T) {
	c := cluster.Start(t)
	c.InstallCRD(t)
	uids := c.Load(t, cluster.Manifests(t, []byte(exported)))
	if len(uids) != 3 {
		t.Errorf("UIDs of %d objects, want 3: %v", len(uids), uids)
	}
	get := metav1.GetOptions{}
	pod, err := c.Kube.CoreV1().Pods("exported").Get(t.Context(), "qwen-router-1-a", get)
	if err != nil {
		t.Fatal(err)
	}
	set, err := c.Kube.AppsV1().ReplicaSets("exported").Get(t.Context(), "qwen-router-1", get)
	if err != nil {
		t.Fatal(err)
	}
	md, err := c.Dynamic.Resource(cluster.ModelDeployments).Namespace("exported").Get(t.Context(), "qwen", get)
	if err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string][2]types.UID{
		"UID of the Pod":             {uids["pod-uid"], pod.UID},
		"UID of the ReplicaSet":      {uids["set-uid"], set.UID},
		"UID of the ModelDeployment": {uids["md-uid"], md.GetUID()},
		"owner of the Pod":           {pod.OwnerReferences[0].UID, set.UID},
		"owner of the ReplicaSet":    {set.OwnerReferences[0].UID, "lost-uid"},
	} {
		if pair[0] == "" || pair[0] != pair[1] {
			t.Errorf("%s: %q, want %q", what, pair[0], pair[1])
		}
	}
	if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP != "127.0.0.31" {
		t.Errorf("the Pod's status is %s %q", pod.Status.Phase, pod.Status.PodIP)
	}
	status, _ := md.Object["status"].(map[string]any)
	if status["phase"] != "Ready" {
		t.Errorf("the ModelDeployment's status is %v", status)
	}
}
