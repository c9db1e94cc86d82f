package cluster

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/md-exporter/md-exporter/test/e2e/servers"
)

const (
	// apiServerReady is how long the API server may take to be ready: 2 s on an idle machine.
	apiServerReady = 60 * time.Second
	// adminToken is the bearer token of the administrator, who is in system:masters.
	adminToken = "e2e-administrator"
)

// APIServer is a kube-apiserver with RBAC that keeps its port, certificate and keys over stops and
// starts.
type APIServer struct {
	// URL is its address.
	URL string
	// CA is the file of the certificate that clients trust.
	CA string

	port    int
	flags   []string // beside those that every one has
	etcd    *Etcd
	dir     string
	log     string
	owner   testing.TB
	process *Process
}

// StartAPIServer starts an API server on etcd, with the options, and waits until it is ready.
func StartAPIServer(t testing.TB, etcd *Etcd, options ...Option) *APIServer {
	t.Helper()
	dir, port := t.TempDir(), FreePort(t)
	a := &APIServer{
		URL:   "https://" + loopback(port),
		CA:    filepath.Join(dir, "tls.crt"),
		port:  port,
		etcd:  etcd,
		dir:   dir,
		log:   logFile(t, "kube-apiserver"),
		owner: t,
	}
	a.writeCredentials(t)
	for _, option := range options {
		option(t, a)
	}
	a.Start(t)
	return a
}

// writeCredentials writes the serving certificate, the key that signs service account tokens and
// the administrator's token.
func (a *APIServer) writeCredentials(t testing.TB) {
	t.Helper()
	// The server's certificate is followed by the one that signed it.
	crt, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"})
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"tls.crt":      crt,
		"tls.key":      key,
		"accounts.key": accounts,
		"tokens.csv":   []byte(adminToken + ",admin,admin,system:masters\n"),
	} {
		if err := os.WriteFile(filepath.Join(a.dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Start starts a stopped API server on the port that it had.
func (a *APIServer) Start(t testing.TB) {
	t.Helper()
	file := func(name string) string { return filepath.Join(a.dir, name) }
	a.process = start(t, command{name: "kube-apiserver", path: binary(t, servers.APIServer), log: a.log, owner: a.owner, args: append([]string{
		"--etcd-servers=" + a.etcd.URL,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(a.port),
		"--tls-cert-file=" + file("tls.crt"),
		"--tls-private-key-file=" + file("tls.key"),
		"--cert-dir=" + a.dir,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + file("accounts.key"),
		"--service-account-signing-key-file=" + file("accounts.key"),
		"--token-auth-file=" + file("tokens.csv"),
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.0.0.0/24",
		// Nothing makes the default ServiceAccount that Pods would be given.
		"--disable-admission-plugins=ServiceAccount",
		// The address would be published in the Service "kubernetes", where a loopback address may
		// not be; given all the same so that no address of the machine is looked for.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--profiling=false",
		// A stop ends the watches that are open, and does not wait a minute for them.
		"--shutdown-watch-termination-grace-period=1s",
	}, a.flags...)})
	config := a.AdminConfig()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	a.process.waitReady(t, apiServerReady, func(ctx context.Context) error {
		if err := get(ctx, client, a.URL+"/readyz"); err != nil {
			return err
		}
		return get(ctx, client, a.URL+"/api/v1/namespaces/default")
	})
}

// Stop ends the API server as an orderly restart does.
func (a *APIServer) Stop(t testing.TB) {
	t.Helper()
	if err := a.process.Stop(); err != nil {
		t.Fatalf("stop kube-apiserver: %v", err)
	}
}

// Kill ends the API server as a crash does: connections break in the middle.
func (a *APIServer) Kill() { a.process.Kill() }

// AdminConfig is a client configuration of the administrator, without a rate limit.
func (a *APIServer) AdminConfig() *rest.Config {
	return &rest.Config{
		Host:            a.URL,
		BearerToken:     adminToken,
		TLSClientConfig: rest.TLSClientConfig{CAFile: a.CA},
		QPS:             -1,
		UserAgent:       "md-exporter-e2e",
	}
}
