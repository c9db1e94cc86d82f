package cluster

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/md-exporter/md-exporter/test/e2e/servers"
)

// kubectlTimeout bounds one kubectl command.
const kubectlTimeout = time.Minute

// Cluster is a Kubernetes API with its storage, and the administrator's clients for it.
type Cluster struct {
	Etcd *Etcd
	API  *APIServer
	// Kubeconfig is the administrator's.
	Kubeconfig string
	// Kube and Dynamic are the administrator's clients, without a rate limit.
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
}

// Start starts an empty cluster: no CRD, no objects but those that the API server makes itself.
func Start(t testing.TB, options ...Option) *Cluster {
	t.Helper()
	etcd := StartEtcd(t)
	c := &Cluster{Etcd: etcd, API: StartAPIServer(t, etcd, options...)}
	config := c.API.AdminConfig()
	c.Kubeconfig = c.writeKubeconfig(t, config)
	var err error
	if c.Kube, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if c.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return c
}

// Restart restarts the API server and its storage with their data.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	c.API.Stop(t)
	c.Etcd.Stop(t)
	c.Etcd.Start(t)
	c.API.Start(t)
}

// RestartEmpty restarts the API server on an empty storage: every object is lost, and with its
// ServiceAccount every token.
func (c *Cluster) RestartEmpty(t testing.TB) {
	t.Helper()
	c.API.Stop(t)
	c.Etcd.Stop(t)
	c.Etcd.Wipe(t)
	c.Etcd.Start(t)
	c.API.Start(t)
}

// Kubectl runs kubectl with a kubeconfig and returns what it wrote to standard output. The error
// holds what it wrote to standard error.
func Kubectl(t testing.TB, kubeconfig string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary(t, servers.Kubectl),
		append([]string{"--kubeconfig=" + kubeconfig, "--cache-dir=" + t.TempDir(), "--request-timeout=" + kubectlTimeout.String()}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %q: %w: %s", args, err, stderr.String())
	}
	return stdout.String(), nil
}

// Kubectl runs kubectl as the administrator and fails the test when it fails.
func (c *Cluster) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := Kubectl(t, c.Kubeconfig, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// writeKubeconfig writes a kubeconfig file with the configuration's address, trust and token.
func (c *Cluster) writeKubeconfig(t testing.TB, config *rest.Config) string {
	t.Helper()
	ca, err := os.ReadFile(c.API.CA)
	if err != nil {
		t.Fatal(err)
	}
	const name = "e2e"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: ca}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
	return path
}
