package cluster

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// The labels by which Pods, and the objects above a router's, belong to a ModelDeployment.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelComponent = "app.kubernetes.io/component"
	LabelRouter    = "modeldeployment.gpustack.ai/router"

	// LabelNameValue is the value of LabelName on all of them.
	LabelNameValue = "model-deployment"
)

// podGone is how long a deleted Pod may take to be gone.
const podGone = 10 * time.Second

// CreateModelDeployment makes a ModelDeployment with the given spec, and its namespace.
func (c *Cluster) CreateModelDeployment(t testing.TB, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	t.Helper()
	c.CreateNamespace(t, namespace)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ModelDeployments.GroupVersion().String(),
		"kind":       "ModelDeployment",
		"metadata":   map[string]any{"namespace": namespace, "name": name},
		"spec":       spec,
	}}
	created, err := c.Dynamic.Resource(ModelDeployments).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// DeleteModelDeployment deletes a ModelDeployment alone: no garbage collector runs.
func (c *Cluster) DeleteModelDeployment(t testing.TB, namespace, name string) {
	t.Helper()
	if err := c.Dynamic.Resource(ModelDeployments).Namespace(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// ControlledBy is the owner reference of a controller. apiVersion and kind are given because typed
// objects do not carry their own.
func ControlledBy(apiVersion, kind string, owner metav1.Object) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{
		APIVersion: apiVersion, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes,
	}
}

// ControlledByModelDeployment is the owner reference that a ModelDeployment's own Pods carry.
func ControlledByModelDeployment(owner metav1.Object) metav1.OwnerReference {
	return ControlledBy(ModelDeployments.GroupVersion().String(), "ModelDeployment", owner)
}

// EngineLabels are the labels of a role's Pod.
func EngineLabels(deployment, role string) map[string]string {
	return map[string]string{LabelName: LabelNameValue, LabelInstance: deployment, LabelComponent: role}
}

// RouterLabels are the labels of a router's Pod and of the ReplicaSet and Deployment above it.
func RouterLabels(deployment, router string) map[string]string {
	return map[string]string{LabelName: LabelNameValue, LabelInstance: deployment, LabelRouter: router}
}

// Advertise are the annotations of a Pod whose /metrics is on the port.
func Advertise(port int, scheme string) map[string]string {
	return map[string]string{
		"prometheus.io/scrape": "true",
		"prometheus.io/path":   "/metrics",
		"prometheus.io/port":   strconv.Itoa(port),
		"prometheus.io/scheme": scheme,
	}
}

// Pod describes a Pod to make.
type Pod struct {
	Namespace, Name     string
	Labels, Annotations map[string]string
	Owners              []metav1.OwnerReference
	// Command and Args are the container's.
	Command, Args []string
	// Ports are the ports that the container declares.
	Ports []int
	// Node is the node that it is bound to. Only a bound Pod terminates: another is gone when deleted.
	Node string
	// IP and Phase are the status that is written after it was made; with both empty none is.
	IP    string
	Phase corev1.PodPhase
}

// CreatePod makes a Pod and writes its status as a kubelet would.
func (c *Cluster) CreatePod(t testing.TB, p Pod) *corev1.Pod {
	t.Helper()
	container := corev1.Container{Name: "main", Image: "example.invalid/main", Command: p.Command, Args: p.Args}
	for _, port := range p.Ports {
		container.Ports = append(container.Ports, corev1.ContainerPort{ContainerPort: int32(port)})
	}
	pod, err := c.Kube.CoreV1().Pods(p.Namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name,
			Labels: p.Labels, Annotations: p.Annotations, OwnerReferences: p.Owners,
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{container}, NodeName: p.Node},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p.IP == "" && p.Phase == "" {
		return pod
	}
	return c.SetPodStatus(t, p.Namespace, p.Name, p.IP, p.Phase)
}

// SetPodStatus writes a Pod's address and phase; an empty one is removed or left.
func (c *Cluster) SetPodStatus(t testing.TB, namespace, name, ip string, phase corev1.PodPhase) *corev1.Pod {
	t.Helper()
	pods := c.Kube.CoreV1().Pods(namespace)
	pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.PodIP, pod.Status.PodIPs = ip, nil
	if ip != "" {
		pod.Status.PodIPs = []corev1.PodIP{{IP: ip}}
	}
	if phase != "" {
		pod.Status.Phase = phase
	}
	if pod, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return pod
}

// TerminatePod deletes a Pod that is bound to a node: it stays, terminating, until DeletePod.
func (c *Cluster) TerminatePod(t testing.TB, namespace, name string) {
	t.Helper()
	pods := c.Kube.CoreV1().Pods(namespace)
	if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("pod %s/%s does not terminate but is gone: %v", namespace, name, err)
	}
	if pod.DeletionTimestamp == nil {
		t.Fatalf("pod %s/%s does not terminate", namespace, name)
	}
}

// DeletePod removes a Pod at once, a terminating one too.
func (c *Cluster) DeletePod(t testing.TB, namespace, name string) {
	t.Helper()
	pods := c.Kube.CoreV1().Pods(namespace)
	if err := pods.Delete(t.Context(), name, *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	Eventually(t, podGone, "pod "+name+" is gone", func(ctx context.Context) error {
		_, err := pods.Get(ctx, name, metav1.GetOptions{})
		return gone(err)
	})
}

// RouterChain are the objects between a ModelDeployment and its router's Pods.
type RouterChain struct {
	Deployment *appsv1.Deployment
	ReplicaSet *appsv1.ReplicaSet
	// Labels are what both carry, and what the Pods must.
	Labels map[string]string
}

// CreateRouterChain makes the Deployment and the ReplicaSet of a ModelDeployment's router.
func (c *Cluster) CreateRouterChain(t testing.TB, owner metav1.Object, router string, replicas int) *RouterChain {
	t.Helper()
	namespace, name, count := owner.GetNamespace(), owner.GetName()+"-router", int32(replicas)
	chain := &RouterChain{Labels: RouterLabels(owner.GetName(), router)}
	selector := &metav1.LabelSelector{MatchLabels: chain.Labels}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: chain.Labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.invalid/main"}}},
	}
	var err error
	chain.Deployment, err = c.Kube.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: chain.Labels,
			OwnerReferences: []metav1.OwnerReference{ControlledByModelDeployment(owner)},
		},
		Spec: appsv1.DeploymentSpec{Replicas: &count, Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	chain.ReplicaSet, err = c.Kube.AppsV1().ReplicaSets(namespace).Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name + "-0", Labels: chain.Labels,
			OwnerReferences: []metav1.OwnerReference{ControlledBy("apps/v1", "Deployment", chain.Deployment)},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: &count, Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// Owner is the owner reference of the chain's Pods.
func (r *RouterChain) Owner() metav1.OwnerReference {
	return ControlledBy("apps/v1", "ReplicaSet", r.ReplicaSet)
}

// Orphaned is an owner reference of the same kind and name that points to an object which is no more.
func Orphaned(owner metav1.OwnerReference) metav1.OwnerReference {
	owner.UID = types.UID("00000000-0000-4000-8000-000000000000")
	return owner
}

// HostPort splits the address of a test's server into a Pod's IP and port.
func HostPort(t testing.TB, address net.Addr) (ip string, port int) {
	t.Helper()
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		t.Fatalf("%s is no TCP address", address)
	}
	return tcp.IP.String(), tcp.Port
}
