package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	v1 "github.com/md-exporter/md-exporter/apiserver/v1"
	"github.com/md-exporter/md-exporter/normalize"
	"github.com/md-exporter/md-exporter/simulate"
)

// soundDemo are the demo's deployments, every Pod healthy and every counter at work.
func soundDemo() []simulate.Deployment {
	deployments := simulate.Demo(7)
	for i := range deployments {
		deployments[i].Roles = slices.Clone(deployments[i].Roles)
		for j := range deployments[i].Roles {
			deployments[i].Roles[j].Refusing, deployments[i].Roles[j].Hanging = 0, 0
		}
		deployments[i].Load.ErrorRate, deployments[i].Load.StreamingShare = 0.2, 0.8
	}
	return deployments
}

// Every value of the document is the one that the servers' journals give.
func TestSnapshotAgainstTheJournal(t *testing.T) {
	for _, d := range soundDemo() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			fleet, err := simulate.NewFleet(simulate.Options{Now: time.Now}, d)
			if err != nil {
				t.Fatal(err)
			}
			fleet.Advance(3 * time.Minute)
			if err := fleet.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			var traffic sync.WaitGroup
			traffic.Go(func() { advanceOnceRead(fleet, ended) })
			got := runToEnd(t, "snapshot", d.Namespace+"/"+d.Name, "-o", "json", "--window=3s",
				"--manifests="+write(t, "fleet.yaml", string(fleet.Manifests())))
			close(ended)
			traffic.Wait()
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = fleet.Close(ctx) // The connections that wait for another read are cut.

			var m v1.ModelDeploymentMetrics
			if err := json.Unmarshal([]byte(got.stdout), &m); err != nil {
				t.Fatalf("%v: %s%s", err, got.stdout, got.stderr)
			}
			if want := map[bool]int{false: 0, true: 3}[m.Partial]; got.status != want || got.stderr != "" {
				t.Errorf("status %d, want %d; stderr %q", got.status, want, got.stderr)
			}
			if m.Kind != v1.Kind || m.Name != d.Name || m.Namespace != d.Namespace {
				t.Errorf("%s %s/%s", m.Kind, m.Namespace, m.Name)
			}
			compareDocument(t, fleet, d.Namespace, &m)
			for _, e := range m.Missing {
				// The llm-d router of today does not export its TPOT.
				if e.Partial && e.Source != "llm_d_epp_request_streaming_tpot_seconds" {
					t.Errorf("missing in a healthy fleet: %+v", e)
				}
			}
		})
	}
}

// advanceOnceRead moves the fleet on when each server has answered once.
func advanceOnceRead(fleet *simulate.Fleet, ended <-chan struct{}) {
	for {
		if !slices.ContainsFunc(fleet.Servers(), func(s *simulate.Server) bool { return len(s.Answers()) == 0 }) {
			fleet.Advance(45 * time.Second)
			return
		}
		select {
		case <-ended:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// compareDocument holds the document's values to what the servers stated in their two answers.
func compareDocument(t *testing.T, fleet *simulate.Fleet, namespace string, m *v1.ModelDeploymentMetrics) {
	t.Helper()
	values := 0
	compare := func(what string, got, want float64) {
		t.Helper()
		values++
		if math.IsNaN(got) || math.Abs(got-want) > 1e-12*math.Abs(want) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	totals := func(pod string) (first, second simulate.Totals) {
		answers := fleet.Server(namespace, pod).Answers()
		if len(answers) != 2 {
			t.Fatalf("%s answered %d times, want twice", pod, len(answers))
		}
		return answers[0].Totals, answers[1].Totals
	}
	for _, g := range append(slices.Clone(m.Processing), m.Queueing...) {
		var sum float64
		pods := 0
		for _, s := range fleet.Servers() {
			if isRouter := s.Role() == ""; s.Role() == g.Role && isRouter == (g.Scope == normalize.ScopeRouter) {
				_, now := totals(s.Pod())
				sum += now.Values[simulate.Field(g.Name)]
				pods++
			}
		}
		compare(string(g.Name)+" "+g.Role, g.Value, sum)
		compare(string(g.Name)+" "+g.Role+" Pods", float64(g.PodCount), float64(pods))
	}
	for _, c := range m.CacheHits {
		first, second := totals(c.Pod)
		a, b := first.Caches[simulate.Field(c.Scope)], second.Caches[simulate.Field(c.Scope)]
		compare(c.Pod+" "+string(c.Scope)+" hits", c.Hits, b.Hits-a.Hits)
		compare(c.Pod+" "+string(c.Scope)+" queries", c.Queries, b.Queries-a.Queries)
		compare(c.Pod+" "+string(c.Scope)+" rate", c.Rate, (b.Hits-a.Hits)/(b.Queries-a.Queries))
	}
	for _, v := range slices.Concat(m.Latency, m.Traffic, m.Transfer) {
		first, second := totals(v.Pod)
		count := func(f simulate.Field) float64 { return second.Values[f] - first.Values[f] }
		field, what := simulate.Field(v.Name), v.Pod+" "+string(v.Name)
		a, b := first.Histograms[field], second.Histograms[field]
		switch {
		case v.Name == normalize.ErrorRatio:
			compare(what, v.Value, count(simulate.Errors)/count(simulate.Requests))
			compare(what+" samples", v.Samples, count(simulate.Requests))
		case b.Count > 0:
			compare(what, v.Value, (b.Sum-a.Sum)/(b.Count-a.Count))
			compare(what+" samples", v.Samples, b.Count-a.Count)
		default:
			compare(what, v.Value, count(field)/v.WindowSeconds)
			compare(what+" samples", v.Samples, count(field))
		}
		if v.WindowSeconds < 1 || v.WindowSeconds > patience.Seconds() {
			t.Errorf("%s: a window of %v s, want some three", what, v.WindowSeconds)
		}
	}
	if values < 20 || len(m.Processing) == 0 || len(m.CacheHits) == 0 || len(m.Latency) == 0 || len(m.Traffic) == 0 {
		t.Errorf("only %d values: %+v", values, m)
	}
}

// whole is a vLLM server to whose exposition nothing is missing, busier at each read.
func whole(t *testing.T) *httptest.Server {
	t.Helper()
	var mu sync.Mutex
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		n++
		fmt.Fprintf(w, "vllm:num_requests_running 3\nvllm:num_requests_waiting 0\n"+
			"vllm:prefix_cache_hits_total %d\nvllm:prefix_cache_queries_total %d\n", 25*n, 100*n)
		for _, name := range []string{"time_to_first_token_seconds", "request_time_per_output_token_seconds", "inter_token_latency_seconds"} {
			fmt.Fprintf(w, "vllm:%s_sum %d\nvllm:%s_count %d\n", name, 2*n, name, 4*n)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// The exit status says how whole the snapshot is, in every form, and nothing but it is printed.
func TestSnapshotStatus(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	goneManifest := manifestOf(t, gone)
	gone.Close()
	empty := write(t, "empty.yaml", "apiVersion: worker.gpustack.ai/v1alpha1\nkind: ModelDeployment\nmetadata: {name: m, namespace: chat, uid: u}\nspec: {engine: {name: vllm}, roles: [{name: server, replicas: 0}]}\n")
	for _, row := range []struct {
		name, manifests string
		status          int
		says            []string
	}{
		{"complete", manifestOf(t, whole(t)), 0, []string{"chat/m: vllm\n", "Complete: every required source contributed.", "local-prefix", "25.0 %", "0.5", "unsupported_no_kv_connector"}},
		{"partial", manifestOf(t, serving(t)), 3, []string{"Partial: 5 required sources did not contribute.", "3      requests", "metric_absent"}},
		{"unavailable", goneManifest, 4, []string{"Unavailable: none of its Pods could be read.", "connection_failed"}},
		{"nothing to read", empty, 0, []string{"Nothing to read: the deployment expects no Pod."}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, form := range []string{"table", "json", "yaml"} {
				got := runToEnd(t, "snapshot", "chat/m", "--window=50ms", "--output="+form, "--manifests="+row.manifests)
				if got.status != row.status || got.stderr != "" {
					t.Errorf("%s: status %d, want %d; stderr %q", form, got.status, row.status, got.stderr)
				}
				var m v1.ModelDeploymentMetrics
				switch form {
				case "table":
					for _, part := range row.says {
						if !strings.Contains(got.stdout, part) {
							t.Errorf("no %q in:\n%s", part, got.stdout)
						}
					}
					continue
				case "json":
					if err := json.Unmarshal([]byte(got.stdout), &m); err != nil {
						t.Errorf("%v: %s", err, got.stdout)
					}
				case "yaml":
					if err := yaml.UnmarshalStrict([]byte(got.stdout), &m); err != nil {
						t.Errorf("%v: %s", err, got.stdout)
					}
				}
				if m.Name != "m" || m.Kind != v1.Kind || m.Partial != (row.status != 0) {
					t.Errorf("%s: %s", form, got.stdout)
				}
			}
		})
	}
}

// With the log at debug level it says what became of the Pods, with addresses.
func TestSnapshotDebug(t *testing.T) {
	got := runToEnd(t, "snapshot", "chat/m", "--window=50ms", "--log.level=debug", "--scrape.timeout=100ms", "--manifests="+manifestOf(t, hanging(t)))
	if got.status != 4 || !strings.Contains(got.stderr, "reason=timeout") {
		t.Errorf("status %d, stderr %q", got.status, got.stderr)
	}
}

// hanging is a Pod that never answers.
func hanging(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(s.Close)
	return s
}

// SIGINT ends the commands wherever they are.
func TestInterrupt(t *testing.T) {
	silent, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	defer silent.Close()
	came := make(chan struct{}, 8)
	pod := func(answer http.HandlerFunc) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer(w, r)
			came <- struct{}{}
			if w.Header().Get("Hang") != "" {
				<-r.Context().Done()
			}
		}))
		t.Cleanup(s.Close)
		return s
	}
	answers := pod(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "vllm:num_requests_running 1") })
	hangs := pod(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Hang", "yes") })
	for _, row := range []struct {
		name string
		args []string
		// asks is false for a command that no Pod tells of: it may end before it listens for the signal.
		asks bool
	}{
		{"between the reads", []string{"snapshot", "chat/m", "--window=1h", "--manifests=" + manifestOf(t, answers)}, true},
		{"within a read", []string{"snapshot", "chat/m", "--scrape.timeout=1h", "--snapshot.timeout=1h", "--manifests=" + manifestOf(t, hangs)}, true},
		{"while the API server is silent", []string{"snapshot", "chat/m", "--kubeconfig=" + kubeconfig(t, hangs.URL)}, true},
		{"between two URLs", []string{"inspect", answers.URL, answers.URL, "--window=1h"}, true},
		{"within a URL", []string{"inspect", hangs.URL, "--scrape.timeout=1h"}, true},
		{"reading standard input", []string{"inspect", "-", answers.URL}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			cmd := exec.Command(binary, row.args...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = silent, &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = cmd.Wait() // The state says how it ended.
			}()
			t.Cleanup(func() {
				_ = cmd.Process.Kill() // It fails where the process has ended.
				<-ended
			})
			if row.asks {
				select {
				case <-came:
				case <-ended:
				case <-time.After(patience):
					t.Fatal("nothing was asked")
				}
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ended:
			case <-time.After(patience):
				t.Fatalf("it did not end within %v", patience)
			}
			if stdout.Len() > 0 || row.asks && (cmd.ProcessState.ExitCode() != 1 || stderr.String() != "md-exporter: error: interrupted\n") {
				t.Errorf("status %d, stdout %q, stderr %q", cmd.ProcessState.ExitCode(), stdout.String(), stderr.String())
			}
			for len(came) > 0 {
				<-came
			}
		})
	}
}
