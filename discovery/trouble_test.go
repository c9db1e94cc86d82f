package discovery

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// hanging answers no request while it hangs: each ends by a time-out.
type hanging struct {
	*apiServer
	hangs atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (h *hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.hangs.Load() {
		time.Sleep(10 * time.Second)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
	return h.apiServer.RoundTrip(r)
}

// A server that hangs is told of, and what is known stands; when it is back, with an older world, that is
// caught up with.
func TestClusterHangs(t *testing.T) {
	for _, streams := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := &hanging{apiServer: newAPIServer(t, streams)}
			s.apply(all...)
			log := &logBuffer{}
			config := s.config()
			config.Transport = s
			c, err := NewCluster(config, nil, slog.New(slog.NewTextHandler(log, nil)), nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- c.Run(ctx) }()
			d := &discoverer{Cluster: c, t: t, server: s.apiServer, log: log}
			time.Sleep(time.Second)
			d.expect("before", whole)

			s.hangs.Store(true)
			s.mu.Lock()
			s.breakWatches()
			s.mu.Unlock()
			time.Sleep(time.Hour)
			d.expect("after an hour", whole)
			d.expectServed("after an hour", "deployments.apps", "modeldeployments.worker.gpustack.ai", "pods", "replicasets.apps")
			if n := strings.Count(log.String(), "resource=pods"); n != 1 {
				t.Errorf("%d lines of pods in an hour:\n%s", n, log)
			}

			s.wipe(3)
			s.apply(named(deploymentYAML, "ai", "code"))
			s.hangs.Store(false)
			time.Sleep(time.Minute)
			if got := describe(d.Fleet()); !strings.HasPrefix(got, "ai/code") || strings.Contains(got, "ai/chat") {
				t.Errorf("a minute after it is back: %s", got)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// A watch that fails where lists work is told once, not at every attempt.
func TestClusterWatchFails(t *testing.T) {
	for _, code := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusConflict} {
		both(t, nil, func(s *apiServer) { s.apply(all...); s.set(code, "watch pods") }, func(d *discoverer) {
			time.Sleep(10 * time.Minute)
			if n := strings.Count(d.log.String(), "resource=pods"); n != 1 {
				d.t.Errorf("%d: %d lines of pods in ten minutes:\n%s", code, n, d.log)
			}
		})
	}
}

// A resource that the server has long not served is gone with its objects, whatever was missed.
func TestClusterForgetsUnserved(t *testing.T) {
	both(t, nil, whole5, func(d *discoverer) {
		d.server.setAway(true)
		time.Sleep(time.Minute)
		d.expect("while it is away", whole)
		d.server.wipe(3)
		d.server.set(http.StatusNotFound, "list modeldeployments", "watch modeldeployments")
		d.server.setAway(false)
		time.Sleep(2 * time.Minute)
		d.expect("when it has not been served for two minutes", "")
	})
}

// What is known in part says nothing: Pods would seem to be missing that were only not listed yet.
func TestClusterKnownInPart(t *testing.T) {
	both(t, nil, func(s *apiServer) {
		s.apply(all...)
		s.set(http.StatusForbidden, "list replicasets", "watch replicasets")
	}, func(d *discoverer) {
		time.Sleep(time.Minute)
		d.expect("without replicasets", "")
		d.server.set(0, "list replicasets", "watch replicasets")
		time.Sleep(time.Minute)
		d.expect("with them", whole)
	})
}

// Credentials that are refused are not a matter of roles.
func TestClusterUnauthorized(t *testing.T) {
	both(t, nil, func(s *apiServer) { s.apply(all...); s.set(http.StatusUnauthorized, "list pods", "watch pods") }, func(d *discoverer) {
		time.Sleep(time.Minute)
		if log := d.log.String(); strings.Count(log, "does not accept the exporter's credentials") != 1 || strings.Contains(log, "roles") {
			d.t.Error(log)
		}
	})
}
