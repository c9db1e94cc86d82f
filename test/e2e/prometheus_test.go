package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"

	"github.com/md-exporter/md-exporter/test/e2e/cluster"
)

// settled is how long Prometheus may take to show what it scrapes every second.
const settled = 20 * time.Second

// TestPrometheus scrapes a target with two servers and asks both.
func TestPrometheus(t *testing.T) {
	var scrapes atomic.Int64
	target := serve(t, "127.0.0.1", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "scrapes_total %d\nlabelled{pod=\"\",instance=\"own\"} 7\n", scrapes.Add(1))
	})
	started := time.Now()
	honoring := cluster.StartPrometheus(t, map[string]string{"replica": "a"}, cluster.StaticJob("target", true, target.String()))
	renaming := cluster.StartPrometheus(t, map[string]string{"replica": "b"}, cluster.StaticJob("target", false, target.String()))
	t.Logf("two Prometheus servers ready in %s", time.Since(started).Round(time.Millisecond))
	onlyLoopback(t, honoring.URL)

	for _, p := range []*cluster.Prometheus{honoring, renaming} {
		cluster.Eventually(t, settled, "four scrapes of an interval of one second", func(ctx context.Context) error {
			n, err := p.Value(ctx, `count_over_time(scrapes_total{job="target"}[1m])`)
			if err == nil && n < 4 {
				err = fmt.Errorf("%v samples", n)
			}
			return err
		})
		matrix := p.Range(t, `scrapes_total`, started, time.Now(), time.Second)
		if len(matrix) != 1 || len(matrix[0].Values) < 3 {
			t.Fatalf("range query: %v", matrix)
		}
		if !slices.IsSortedFunc(matrix[0].Values, func(a, b model.SamplePair) int { return int(a.Value - b.Value) }) {
			t.Errorf("a counter falls: %v", matrix[0].Values)
		}
	}
	for p, want := range map[*cluster.Prometheus]model.Metric{
		honoring: {"__name__": "labelled", "instance": "own", "job": "target"},
		renaming: {"__name__": "labelled", "instance": model.LabelValue(target.String()), "exported_instance": "own", "job": "target"},
	} {
		if got := p.Query(t, "labelled"); len(got) != 1 || !got[0].Metric.Equal(want) || got[0].Value != 7 {
			t.Errorf("labelled is %v, want %v", got, want)
		}
	}
	honoring.Stop(t)
	if v, err := renaming.Value(t.Context(), "sum(up)"); err != nil || v != 1 {
		t.Errorf("after the other server stopped: up is %v, %v", v, err)
	}
}

// TestPrometheusPods finds Pods through the API server: those that advertise themselves, and no other.
func TestPrometheusPods(t *testing.T) {
	c := cluster.Start(t)
	c.CreateNamespace(t, "models")
	c.CreateNamespace(t, "elsewhere")
	pod := func(namespace, name, address string, change func(*cluster.Pod)) {
		server := serve(t, address, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics" {
				http.NotFound(w, r)
				return
			}
			_, _ = fmt.Fprintf(w, "served_by{name=%q} 1\n", name)
		})
		ip, port := cluster.HostPort(t, server)
		p := cluster.Pod{
			Namespace: namespace, Name: name, IP: ip, Phase: corev1.PodRunning,
			Annotations: cluster.Advertise(port, "http"), Ports: []int{port, port + 1},
		}
		if change != nil {
			change(&p)
		}
		c.CreatePod(t, p)
	}
	pod("models", "ipv4", "127.0.0.21", nil)
	pod("models", "ipv6", "::1", nil)
	pod("models", "silent", "127.0.0.22", func(p *cluster.Pod) { p.Annotations = nil })
	pod("models", "declines", "127.0.0.23", func(p *cluster.Pod) { p.Annotations["prometheus.io/scrape"] = "false" })
	pod("models", "done", "127.0.0.24", func(p *cluster.Pod) { p.Phase = corev1.PodSucceeded })
	pod("models", "no-address", "127.0.0.25", func(p *cluster.Pod) { p.IP = "" })
	pod("elsewhere", "other-namespace", "127.0.0.26", nil)

	c.CreateServiceAccount(t, "models", "prometheus")
	c.Grant(t, "models", "prometheus", readPods)
	p := cluster.StartPrometheus(t, nil, cluster.PodJob("pods", c.KubeconfigFor(t, "models", "prometheus"), "models"))

	expect := func(what string, want ...string) {
		t.Helper()
		cluster.Eventually(t, settled, what, func(ctx context.Context) error {
			vector, err := p.QueryAt(ctx, `served_by`, time.Time{})
			if err != nil {
				return err
			}
			targets, err := p.API.Targets(ctx)
			if err != nil {
				return err
			}
			var got, found []string
			for _, s := range vector {
				if s.Metric["name"] != s.Metric["pod"] || s.Metric["namespace"] != "models" {
					return fmt.Errorf("a sample with the labels of another Pod: %v", s)
				}
				got = append(got, string(s.Metric["name"]))
			}
			for _, target := range targets.Active {
				found = append(found, string(target.Labels["pod"]))
			}
			slices.Sort(got)
			slices.Sort(found)
			if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(found, want) {
				return fmt.Errorf("targets %v, samples of %v, want %v", found, got, want)
			}
			return nil
		})
	}
	expect("the advertised Pods alone are scraped", "ipv4", "ipv6")
	c.DeletePod(t, "models", "ipv4")
	expect("a deleted Pod's series are stale", "ipv6")
}

// serve answers HTTP on a free port of an address until the test ends.
func serve(t *testing.T, ip string, handler http.HandlerFunc) net.Addr {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return listener.Addr()
}

// TestPrometheusBetween looks at a target's own clock: two servers ask in turn, half a second apart.
func TestPrometheusBetween(t *testing.T) {
	var mutex sync.Mutex
	var asked []time.Time
	target := serve(t, "127.0.0.1", func(w http.ResponseWriter, _ *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		asked = append(asked, time.Now())
		_, _ = fmt.Fprintln(w, "answer 42")
	})
	job := cluster.StaticJob("target", true, target.String())
	first := cluster.StartPrometheus(t, nil, job)
	cluster.StartPrometheusBetween(t, first, `up{job="target"}`, job)

	mutex.Lock()
	asked = nil
	mutex.Unlock()
	cluster.Eventually(t, settled, "eight scrapes", func(context.Context) error {
		mutex.Lock()
		defer mutex.Unlock()
		if len(asked) < 8 {
			return fmt.Errorf("%d scrapes", len(asked))
		}
		return nil
	})
	mutex.Lock()
	defer mutex.Unlock()
	gaps := make([]time.Duration, 0, len(asked))
	for i := range asked[1:] {
		gaps = append(gaps, asked[i+1].Sub(asked[i]))
	}
	slices.Sort(gaps)
	if median := gaps[len(gaps)/2]; median < 300*time.Millisecond || median > 700*time.Millisecond {
		t.Errorf("the target is asked every %v", gaps)
	}
}
