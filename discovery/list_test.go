package discovery

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// One list of each resource is a fleet, and no watch is asked for.
func TestClusterList(t *testing.T) {
	for _, row := range []struct {
		name       string
		namespaces []string
		fleet      string
	}{
		{"everywhere", nil, whole},
		{"in the namespace", []string{"ai"}, whole},
		{"in another", []string{"web"}, describe(&Fleet{})},
	} {
		t.Run(row.name, func(t *testing.T) {
			server := newAPIServer(t, true)
			server.apply(all...)
			c, err := NewCluster(server.config(), row.namespaces, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.List(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := describe(c.Fleet()); got != row.fleet {
				t.Errorf(" got %s\nwant %s", got, row.fleet)
			}
			if !c.Synced() || len(server.asked) != 4 || strings.Contains(strings.Join(server.asked, "\n"), "watch") {
				t.Errorf("synced %t, asked for %q", c.Synced(), server.asked)
			}
		})
	}
}

// What goes wrong is one error, which names the verb and the resource.
func TestClusterListFails(t *testing.T) {
	for _, row := range []struct {
		name  string
		setup func(*apiServer)
		names []string
	}{
		{"forbidden", func(s *apiServer) { s.set(http.StatusForbidden, "list pods") }, []string{"list pods in namespace ai: "}},
		{"all forbidden", func(s *apiServer) {
			s.set(http.StatusForbidden, "list pods", "list modeldeployments", "list replicasets", "list deployments")
		}, []string{"list modeldeployments.worker.gpustack.ai in namespace ai: "}},
		{"not served", func(s *apiServer) { s.set(http.StatusNotFound, "list modeldeployments") }, []string{"list modeldeployments.worker.gpustack.ai"}},
		{"away", func(s *apiServer) { s.setAway(true) }, []string{"list modeldeployments.worker.gpustack.ai", "connection refused"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			server := newAPIServer(t, true)
			server.apply(all...)
			row.setup(server)
			c, err := NewCluster(server.config(), []string{"ai"}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = c.List(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			for _, name := range row.names {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("no %q in %v", name, err)
				}
			}
		})
	}
}

// A server that does not answer is waited for until the deadline, and the error says so.
func TestClusterListDeadline(t *testing.T) {
	config := newAPIServer(t, true).config()
	config.Transport = silent{}
	c, err := NewCluster(config, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if err := c.List(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "did not answer in time") {
		t.Errorf("the error is %v", err)
	}
}

// silent never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}
