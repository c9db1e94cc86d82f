package discovery

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// podClient lists and watches Pods, and knows no other type: client-go's clientset carries all of
// Kubernetes' types, which in memory weigh more than a thousand Pods here.
type podClient struct {
	client     rest.Interface
	parameters runtime.ParameterCodec
}

func newPodClient(config *rest.Config) (*podClient, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)

	config = rest.CopyConfig(config)
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// A fifth of the work of JSON.
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubernetes client: %w", err)
	}
	return &podClient{client, runtime.NewParameterCodec(scheme)}, nil
}

// in are the calls of a namespace, or of all.
func (p *podClient) in(namespace string) calls {
	request := func(o metav1.ListOptions) *rest.Request {
		r := p.client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(podsResource.Resource).VersionedParams(&o, p.parameters)
		if o.TimeoutSeconds != nil {
			r = r.Timeout(time.Duration(*o.TimeoutSeconds) * time.Second)
		}
		return r
	}
	return calls{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			var list corev1.PodList
			err := request(o).Do(ctx).Into(&list)
			for i := range list.Items {
				list.Items[i] = used(&list.Items[i])
			}
			return &list, err
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.Watch = true
			return request(o).Watch(ctx)
		},
	}
}

// used is a Pod cut to what newPod reads: a server that does not stream its lists sends them in pages, which
// the reflector keeps until the last has come.
func used(p *corev1.Pod) corev1.Pod {
	out := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion,
		Labels: p.Labels, Annotations: p.Annotations, OwnerReferences: p.OwnerReferences,
	}}
	for _, c := range p.Spec.Containers {
		out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Command: c.Command, Args: c.Args, Ports: c.Ports})
	}
	for _, c := range p.Spec.InitContainers {
		out.Spec.InitContainers = append(out.Spec.InitContainers, corev1.Container{Ports: c.Ports})
	}
	out.Status.Phase, out.Status.PodIP = p.Status.Phase, p.Status.PodIP
	return out
}
