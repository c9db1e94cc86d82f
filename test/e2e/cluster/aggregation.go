package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"

	"github.com/md-exporter/md-exporter/test/e2e/servers"
)

// Option changes how an API server is started.
type Option func(testing.TB, *APIServer)

// The manifests of the aggregated API, as folders that kustomize renders.
const (
	APIService             = "deploy/apiservice"
	APIServiceOperatorPath = "deploy/apiservice/operator-path"
	APIServiceTrial        = "deploy/apiservice/trial"
)

// aggregator is the name that the API server's own certificate vouches for.
const aggregator = "aggregator"

// Aggregation lets the API server pass requests on to aggregated APIs.
func Aggregation(t testing.TB, a *APIServer) {
	t.Helper()
	now := time.Now()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "front-proxy"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	client := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: aggregator},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	var keys [2]*ecdsa.PrivateKey
	for i := range keys {
		var err error
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(a.dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	signed, err := x509.CreateCertificate(rand.Reader, authority, authority, &keys[0].PublicKey, keys[0])
	authorityFile := write("front-proxy-ca.crt", "CERTIFICATE", signed, err)
	signed, err = x509.CreateCertificate(rand.Reader, client, authority, &keys[1].PublicKey, keys[0])
	clientFile := write("front-proxy.crt", "CERTIFICATE", signed, err)
	der, err := x509.MarshalECPrivateKey(keys[1])
	keyFile := write("front-proxy.key", "EC PRIVATE KEY", der, err)
	a.flags = append(a.flags,
		"--client-ca-file="+a.CA,
		"--requestheader-client-ca-file="+authorityFile,
		"--requestheader-allowed-names="+aggregator,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+clientFile,
		"--proxy-client-key-file="+keyFile,
	)
}

// apiBinary builds the aggregated API's program once a test process.
var apiBinary = sync.OnceValues(func() (string, error) {
	root, err := servers.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, ".cache", "bin", "md-exporter-apiserver")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-race=false", "-o", path, "./cmd/md-exporter")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the aggregated API: %w\n%s", err, out)
	}
	return path, nil
})

// API is the aggregated API as a process.
type API struct {
	*Process
	port  int
	start func(testing.TB)
}

// InstallAPI applies the manifests but for what needs a node: in place of the Pods a process runs with
// the rights of their ServiceAccount, and the Service is the name of the address where it listens. The
// certificate is of the Service's name, where the manifests verify one.
func (c *Cluster) InstallAPI(t testing.TB, folder string, args ...string) *API {
	t.Helper()
	path, err := apiBinary()
	if err != nil {
		t.Fatal(err)
	}
	api := &API{port: FreePort(t)}
	const name = "md-exporter-apiservice"
	dir := t.TempDir()
	var apply []*unstructured.Unstructured
	var own []string
	for _, o := range Render(t, folder) {
		switch o.GetKind() {
		case "Deployment":
			containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			if err != nil {
				t.Fatal(err)
			}
			// The folder's own arguments, but for the certificate's place.
			for _, arg := range containers[0].(map[string]any)["args"].([]any) {
				switch arg {
				case "--api.tls-cert-file=/tls/tls.crt":
					arg = "--api.tls-cert-file=" + filepath.Join(dir, "tls.crt")
				case "--api.tls-private-key-file=/tls/tls.key":
					arg = "--api.tls-private-key-file=" + filepath.Join(dir, "tls.key")
				}
				own = append(own, arg.(string))
			}
			continue
		case "Service":
			continue
		case "APIService":
			if err := unstructured.SetNestedField(o.Object, int64(api.port), "spec", "service", "port"); err != nil {
				t.Fatal(err)
			}
			if skip, _, _ := unstructured.NestedBool(o.Object, "spec", "insecureSkipTLSVerify"); !skip {
				if err := unstructured.SetNestedField(o.Object, servingCertificate(t, dir, name+".md-exporter.svc"), "spec", "caBundle"); err != nil {
					t.Fatal(err)
				}
			}
		}
		apply = append(apply, o)
	}
	c.Apply(t, apply)
	_, err = c.Kube.CoreV1().Services("md-exporter").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	args = append(append(own, args...), "--kubeconfig="+c.KubeconfigFor(t, "md-exporter", name), "--api.listen-address="+loopback(api.port))
	log := logFile(t, name)
	api.start = func(t testing.TB) {
		t.Helper()
		api.Process = start(t, command{name: name, path: path, args: args, log: log, owner: c.API.owner})
		api.waitReady(t, apiServerReady, func(ctx context.Context) error {
			return get(ctx, &http.Client{Transport: &http.Transport{
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
			}}, api.URL("/readyz"))
		})
	}
	api.Start(t)
	return api
}

// Start starts a stopped process as it was.
func (a *API) Start(t testing.TB) {
	t.Helper()
	a.start(t)
}

// URL is the process's own address of a path.
func (a *API) URL(path string) string { return "https://" + loopback(a.port) + path }

// servingCertificate writes a certificate of the name and returns the authority's, as an APIService has it.
func servingCertificate(t testing.TB, dir, name string) string {
	t.Helper()
	crt, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{"tls.crt": crt, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return base64.StdEncoding.EncodeToString(crt)
}
