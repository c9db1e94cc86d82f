package discovery

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
)

// retried is longer than any wait between two tries.
const retried = 15 * time.Second

func init() {
	// apimachinery slows errors down by the time of the one before, which in a bubble's time is later
	// than the next bubble's start.
	runtime.ErrorHandlers = runtime.ErrorHandlers[:1]
}

// discoverer is a Cluster at work on a server.
type discoverer struct {
	*Cluster
	t      *testing.T
	server *apiServer
	log    *logBuffer
}

// logBuffer is a log of which the lines are looked at.
type logBuffer struct{ bytes.Buffer }

// at are the lines at a level.
func (l *logBuffer) at(level string) (lines []string) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, "level="+level) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// inCluster runs a test of a Cluster over the server in a bubble whose time passes by itself.
func inCluster(t *testing.T, streams bool, namespaces []string, prepare func(*apiServer), test func(*discoverer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := newAPIServer(t, streams)
		prepare(server)
		log := &logBuffer{}
		c, err := NewCluster(server.config(), namespaces, slog.New(slog.NewTextHandler(log, nil)), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		synctest.Wait()
		test(&discoverer{Cluster: c, t: t, server: server, log: log})
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// both runs the test over a server that streams lists and over one that does not.
func both(t *testing.T, namespaces []string, prepare func(*apiServer), test func(*discoverer)) {
	t.Helper()
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprintf("streams=%t", streams), func(t *testing.T) { inCluster(t, streams, namespaces, prepare, test) })
	}
}

func (d *discoverer) expect(when, fleet string) {
	d.t.Helper()
	synctest.Wait()
	if got := describe(d.Fleet()); got != fleet {
		d.t.Errorf("%s:\n got %s\nwant %s", when, got, fleet)
	}
}

func (d *discoverer) expectSynced(when string, want bool) {
	d.t.Helper()
	synctest.Wait()
	if got := d.Synced(); got != want {
		d.t.Errorf("%s: synced is %t", when, got)
	}
}

// expectServed looks at the series: each resource is served but those.
func (d *discoverer) expectServed(when string, but ...string) {
	d.t.Helper()
	synctest.Wait()
	var want strings.Builder
	want.WriteString("# HELP md_exporter_discovery_synced Whether the resource has been listed whole and is being watched (1), or the API server does not serve it now (0).\n# TYPE md_exporter_discovery_synced gauge\n")
	for _, resource := range []string{"deployments.apps", "modeldeployments.worker.gpustack.ai", "pods", "replicasets.apps"} {
		value := 1
		if slices.Contains(but, resource) {
			value = 0
		}
		fmt.Fprintf(&want, "md_exporter_discovery_synced{resource=%q} %d\n", resource, value)
	}
	if err := testutil.CollectAndCompare(d, strings.NewReader(want.String())); err != nil {
		d.t.Errorf("%s: %v", when, err)
	}
}

// expectLog looks at how many warnings and errors there have been, each with the words.
func (d *discoverer) expectLog(when, level string, n int, words ...string) {
	d.t.Helper()
	lines := d.log.at(level)
	if len(lines) != n {
		d.t.Errorf("%s: %d lines at %s, want %d:\n%s", when, len(lines), level, n, strings.Join(lines, "\n"))
	}
	for _, line := range lines {
		for _, word := range words {
			if !strings.Contains(line, word) {
				d.t.Errorf("%s: no %q in %s", when, word, line)
			}
		}
	}
}

func whole5(s *apiServer) { s.apply(all...) }

// named is the deployment of the fixtures under another name or in another namespace.
func named(text, namespace, name string) string {
	text = strings.ReplaceAll(text, "namespace: ai", "namespace: "+namespace)
	return strings.ReplaceAll(text, "chat", name)
}

func TestClusterSync(t *testing.T) {
	both(t, nil, func(s *apiServer) {
		s.apply(all...)
		// The same objects without the label are not asked for.
		for _, text := range all[1:] {
			s.apply(named(strings.ReplaceAll(text, "name: model-deployment", "name: other"), "ai", "unlabelled"))
		}
	}, func(d *discoverer) {
		d.expectSynced("started", true)
		d.expect("started", whole)
		d.expectServed("started")
		d.expectLog("started", "", 0)
		asked := map[string]bool{}
		for _, call := range d.server.asked {
			_, what, _ := strings.Cut(call, " ")
			asked[what] = true
		}
		for _, what := range []string{
			"modeldeployments",
			"pods  app.kubernetes.io/name=model-deployment",
			"replicasets  app.kubernetes.io/name=model-deployment,modeldeployment.gpustack.ai/router",
			"deployments  app.kubernetes.io/name=model-deployment,modeldeployment.gpustack.ai/router",
		} {
			if !asked[what] {
				d.t.Errorf("%q was not asked for, but %q", what, d.server.asked)
			}
			delete(asked, what)
		}
		if len(asked) > 0 {
			d.t.Errorf("also asked for: %v", asked)
		}
	})
}

func TestClusterFollows(t *testing.T) {
	both(t, nil, func(*apiServer) {}, func(d *discoverer) {
		d.expectSynced("an empty cluster", true)
		d.expect("an empty cluster", "")
		d.server.apply(enginePodYAML)
		d.expect("a Pod before its deployment", "")
		d.server.apply(deploymentYAML)
		d.expect("its deployment", "ai/chat vllm 6a1f: engine chat-server-0 https://[fd00::7]:8000/metrics")
		d.server.apply(routerPodYAML, replicaSetYAML)
		d.expect("a router Pod whose chain is not whole", "ai/chat vllm 6a1f: engine chat-server-0 https://[fd00::7]:8000/metrics")
		d.server.apply(appsDeploymentYAML)
		d.expect("its chain", whole)
		d.server.apply(strings.Replace(enginePodYAML, "fd00::7", "10.0.0.7", 1))
		d.expect("another address", strings.Replace(whole, "[fd00::7]", "10.0.0.7", 1))
		d.server.apply(strings.Replace(enginePodYAML, "Running", "Failed", 1))
		d.expect("a Pod that failed", "ai/chat vllm 6a1f: router chat-router-59-k2 http://10.0.0.9:29000/metrics")
		d.server.remove("replicasets/ai/chat-router-59")
		d.expect("the ReplicaSet gone", "ai/chat vllm 6a1f:")
		d.server.apply(replicaSetYAML, enginePodYAML)
		d.expect("both again", whole)
		d.server.remove("pods/ai/chat-server-0", "deployments/ai/chat-router")
		d.expect("Pod and Deployment gone", "ai/chat vllm 6a1f:")
		d.server.remove("modeldeployments/ai/chat")
		d.expect("all gone", "")
		d.server.apply(strings.Replace(deploymentYAML, "6a1f", "ffff", 1), enginePodYAML)
		d.expect("made anew, with a Pod of the one before", "ai/chat vllm ffff:")

		// Watches end by themselves after some minutes.
		time.Sleep(time.Hour)
		d.server.apply(strings.Replace(enginePodYAML, "uid: 6a1f", "uid: ffff", 1))
		d.expect("an hour later", "ai/chat vllm ffff: engine chat-server-0 https://[fd00::7]:8000/metrics")
		d.server.expire("pods")
		time.Sleep(retried)
		d.server.remove("pods/ai/chat-server-0")
		d.expect("after a watch that was too old", "ai/chat vllm ffff:")
		d.expectLog("all the time", "", 0)
	})
}

func TestClusterUndecodable(t *testing.T) {
	broken := strings.Replace(named(deploymentYAML, "ai", "broken"), "roles:\n  - name: server\n    replicas: 2\n", "roles: many\n", 1)
	both(t, nil, func(s *apiServer) { s.apply(append(slices.Clone(all), broken)...) }, func(d *discoverer) {
		d.expectSynced("one is not understood", true)
		d.expect("one is not understood", whole)
		d.expectLog("one is not understood", "", 1, "level=ERROR", "not understood", "modeldeployment=broken", "namespace=ai")
		d.server.apply(named(deploymentYAML, "ai", "broken"))
		d.expect("mended", "ai/broken vllm 6a1f: | "+whole)
		d.server.apply(broken)
		d.expect("broken again, its last shape is not kept", whole)
	})
}

// TestClusterPointers holds that what did not change is the same: who reads a fleet compares pointers.
func TestClusterPointers(t *testing.T) {
	both(t, nil, func(s *apiServer) {
		s.apply(all...)
		s.apply(named(deploymentYAML, "ai", "other"))
	}, func(d *discoverer) {
		before := d.Fleet()
		if again := d.Fleet(); again != before {
			d.t.Error("read twice, the fleet is another one")
		}
		d.server.apply(
			strings.Replace(deploymentYAML, "phase: Ready", "phase: Scaling", 1),
			strings.Replace(enginePodYAML, "phase: Running", "phase: Running\n  conditions: [{type: Ready, status: \"True\", lastProbeTime: \"2026-05-04T03:02:01Z\"}]", 1),
			strings.Replace(replicaSetYAML, "  name: chat-router-59\n", "  name: chat-router-59\n  annotations: {deployment.kubernetes.io/revision: \"7\"}\n", 1),
		)
		synctest.Wait()
		if d.Fleet() != before {
			d.t.Error("a heartbeat makes another fleet")
		}
		d.server.remove("pods/ai/chat-server-0")
		synctest.Wait()
		after := d.Fleet()
		if after == before || after.Get("ai", "chat") == before.Get("ai", "chat") {
			d.t.Error("a deployment without its Pod is the same")
		}
		if after.Get("ai", "other") != before.Get("ai", "other") {
			d.t.Error("a deployment that did not change is another one")
		}
		if got := describe(before); !strings.Contains(got, "chat-server-0") {
			d.t.Errorf("a fleet that was read has changed: %s", got)
		}
	})
}

func TestClusterNamespaces(t *testing.T) {
	both(t, []string{"web", "ai", "web"}, func(s *apiServer) {
		for _, text := range all {
			s.apply(text, named(text, "web", "chat"), named(text, "elsewhere", "chat"))
		}
		s.set(http.StatusForbidden, "list pods web", "watch pods web")
	}, func(d *discoverer) {
		time.Sleep(time.Minute)
		d.expectSynced("forbidden in one", false)
		d.expectServed("forbidden in one", "pods")
		d.expectLog("forbidden in one", "", 1, "level=ERROR", "resource=pods", "namespace=web")
		d.server.set(0, "list pods web", "watch pods web")
		time.Sleep(retried)
		d.expectSynced("granted", true)
		d.expectServed("granted")
		d.expect("two of three", whole+" | "+strings.Replace(whole, "ai/", "web/", 1))
		for _, call := range d.server.asked {
			if !strings.Contains(call, " ai") && !strings.Contains(call, " web") {
				d.t.Fatalf("asked for %q", call)
			}
		}
		d.server.setAway(true)
		time.Sleep(time.Minute)
		d.server.wipe(5)
		d.server.apply(deploymentYAML)
		d.server.setAway(false)
		time.Sleep(retried)
		d.expect("one is left", "ai/chat vllm 6a1f:")
	})
}

// TestClusterManyNamespaces holds that a start in many namespaces waits for nothing.
func TestClusterManyNamespaces(t *testing.T) {
	var namespaces []string
	for i := range 50 {
		namespaces = append(namespaces, fmt.Sprintf("team-%02d", i))
	}
	inCluster(t, true, namespaces, func(*apiServer) {}, func(d *discoverer) { d.expectSynced("at once", true) })
}

func TestNewCluster(t *testing.T) {
	reg := prometheus.NewRegistry()
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	if _, err := NewCluster(config, nil, nil, reg); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.GatherAndCount(reg, "md_exporter_discovery_synced"); err != nil || n != 4 {
		t.Errorf("%d series before it runs, %v", n, err)
	}
	if _, err := NewCluster(config, nil, nil, reg); err == nil {
		t.Error("two clusters in one registry")
	}
	if config.QPS != 0 || config.ContentType != "" {
		t.Error("the caller's configuration was changed")
	}
	if _, err := NewCluster(&rest.Config{Host: "http://%zz"}, nil, nil, nil); err == nil {
		t.Error("a host that is no URL is taken")
	}
}
