package discovery_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/md-exporter/md-exporter/discovery"
)

// A deployment and its one Pod from a file.
func ExampleNewManifests() {
	dir, err := os.MkdirTemp("", "manifests")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	err = os.WriteFile(filepath.Join(dir, "chat.yaml"), []byte(`
apiVersion: worker.gpustack.ai/v1alpha1
kind: ModelDeployment
metadata: {name: chat, namespace: ai, uid: 6a1f}
spec:
  engine: {name: vllm}
  roles: [{name: server, replicas: 2}]
---
apiVersion: v1
kind: Pod
metadata:
  name: chat-server-0
  namespace: ai
  uid: ae5b
  labels:
    app.kubernetes.io/name: model-deployment
    app.kubernetes.io/instance: chat
    app.kubernetes.io/component: server
  annotations: {prometheus.io/scrape: "true", prometheus.io/path: /metrics, prometheus.io/port: "8000"}
  ownerReferences: [{apiVersion: worker.gpustack.ai/v1alpha1, kind: ModelDeployment, name: chat, uid: 6a1f, controller: true}]
spec:
  containers: [{name: engine, ports: [{containerPort: 8000}]}]
status: {phase: Running, podIP: 10.0.0.7}
`), 0o600)
	if err != nil {
		fmt.Println(err)
		return
	}

	manifests, err := discovery.NewManifests([]string{dir}, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range manifests.Fleet().Deployments {
		fmt.Printf("%s/%s runs %s and expects %d Pods\n", d.Namespace, d.Name, d.Engine, d.Expected())
		for _, p := range d.Pods {
			fmt.Println(p.Role, p.Name, p.URL)
		}
	}
	// Output:
	// ai/chat runs vllm and expects 2 Pods
	// server chat-server-0 http://10.0.0.7:8000/metrics
}
