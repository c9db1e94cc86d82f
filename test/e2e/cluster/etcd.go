package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/md-exporter/md-exporter/test/e2e/servers"
)

// etcdReady is how long etcd may take to answer.
const etcdReady = 30 * time.Second

// Etcd is a one-member etcd that keeps its port and its data folder over stops and starts.
type Etcd struct {
	// URL is the address for clients.
	URL string

	peerURL string
	dir     string
	log     string
	owner   testing.TB
	process *Process
}

// StartEtcd starts an empty etcd and waits until it serves.
func StartEtcd(t testing.TB) *Etcd {
	t.Helper()
	e := &Etcd{
		URL:     "http://" + loopback(FreePort(t)),
		peerURL: "http://" + loopback(FreePort(t)),
		dir:     filepath.Join(t.TempDir(), "etcd"),
		log:     logFile(t, "etcd"),
		owner:   t,
	}
	e.Start(t)
	return e
}

// Start starts a stopped etcd on the data that it had.
func (e *Etcd) Start(t testing.TB) {
	t.Helper()
	e.process = start(t, command{name: "etcd", path: binary(t, servers.Etcd), log: e.log, owner: e.owner, args: []string{
		"--name=e2e",
		"--data-dir=" + e.dir,
		"--listen-client-urls=" + e.URL,
		"--advertise-client-urls=" + e.URL,
		"--listen-peer-urls=" + e.peerURL,
		"--initial-advertise-peer-urls=" + e.peerURL,
		"--initial-cluster=e2e=" + e.peerURL,
		"--log-level=warn",
		// The data need not outlive the machine.
		"--unsafe-no-fsync",
	}})
	e.process.waitReady(t, etcdReady, func(ctx context.Context) error {
		return get(ctx, http.DefaultClient, e.URL+"/readyz")
	})
}

// Stop stops etcd and keeps its data.
func (e *Etcd) Stop(t testing.TB) {
	t.Helper()
	// etcd ends itself by the signal that it was sent, which is no failure of the test.
	_ = e.process.Stop()
}

// Wipe removes the data of a stopped etcd.
func (e *Etcd) Wipe(t testing.TB) {
	t.Helper()
	if ended, _ := e.process.Ended(); !ended {
		t.Fatal("etcd still runs on the data to remove")
	}
	if err := os.RemoveAll(e.dir); err != nil {
		t.Fatal(err)
	}
}

// get asks for url and wants status 200.
func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}
