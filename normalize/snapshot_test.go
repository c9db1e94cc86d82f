package normalize

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// podOf is a Pod of a role, or of the router where the role is empty.
func podOf(name, role string) *Pod {
	scope := ScopeEngine
	if role == "" {
		scope = ScopeRouter
	}
	return &Pod{Name: name, UID: name, Scope: scope, Role: role}
}

// readPod is the result of one first read.
func readPod(t *testing.T, d *Deployment, p *Pod, at time.Duration, text string) Result {
	t.Helper()
	return observe(t, new(History), d, p, windows, scrape{at, text})
}

// vllmOf is a vLLM's gauges alone.
func vllmOf(running, waiting int) string {
	return sprint("vllm:num_requests_running %d\nvllm:num_requests_waiting %d\n", running, waiting)
}

// collect assembles a snapshot ten seconds after zero, begun at nine.
func collect(c Collection) Snapshot {
	c.At, c.Started = zero.Add(10*time.Second), zero.Add(9*time.Second)
	return c.Snapshot()
}

// TestSnapshotGauges: gauges are summed by role over the Pods that supply them, with their number and
// the newest of their reads; roles, and the engine's and the router's views, stay apart.
func TestSnapshotGauges(t *testing.T) {
	d := withRouter(engineOf("vllm", RolePrefill, RoleDecode), "llm-d-router")
	d.Roles[0].Expected, d.Roles[1].Expected, d.Router.Expected = 3, 1, 2
	p0, p1, p2, d0 := podOf("p-0", "prefill"), podOf("p-1", "prefill"), podOf("p-2", "prefill"), podOf("d-0", "decode")
	r0, r1 := podOf("r-0", ""), podOf("r-1", "")
	s := collect(Collection{
		Deployment: d,
		Owned:      []*Pod{r1, p2, p0, d0, p1, r0},
		Results: []Result{
			readPod(t, d, r1, 5*time.Second, "llm_d_epp_request_running 3\nllm_d_epp_ready_endpoints 4"),
			readPod(t, d, p1, 3*time.Second, vllmOf(2, 10)),
			readPod(t, d, p0, 4*time.Second, vllmOf(1, 0)),
			// This one lacks a gauge, which so comes of two Pods.
			readPod(t, d, p2, 2*time.Second, "vllm:num_requests_running 4"),
			readPod(t, d, d0, 1*time.Second, vllmOf(0, 0)),
			readPod(t, d, r0, 6*time.Second, "llm_d_epp_request_running 2\nllm_d_epp_ready_endpoints 4"),
		},
	})
	at := func(seconds int) time.Time { return zero.Add(time.Duration(seconds) * time.Second) }
	wantGauges := []Gauge{
		{RouterBackends, ScopeRouter, "", "llm_d_epp_ready_endpoints", 8, 2, at(6)},
		{RouterRunning, ScopeRouter, "", "llm_d_epp_request_running", 5, 2, at(6)},
		{Running, ScopeEngine, "decode", "vllm:num_requests_running", 0, 1, at(1)},
		{Running, ScopeEngine, "prefill", "vllm:num_requests_running", 7, 3, at(4)},
		{Waiting, ScopeEngine, "decode", "vllm:num_requests_waiting", 0, 1, at(1)},
		{Waiting, ScopeEngine, "prefill", "vllm:num_requests_waiting", 10, 2, at(4)},
	}
	if !slices.Equal(s.Gauges, wantGauges) {
		t.Errorf("gauges are\n%+v, want\n%+v", s.Gauges, wantGauges)
	}
	wantCoverage := []Coverage{
		{ScopeEngine, "prefill", 3, 3, 3}, {ScopeEngine, "decode", 1, 1, 1}, {ScopeRouter, "", 2, 2, 2},
	}
	if !slices.Equal(s.Coverage, wantCoverage) {
		t.Errorf("coverage is %+v, want %+v", s.Coverage, wantCoverage)
	}
	wantReads := []PodRead{
		{"d-0", ScopeEngine, "decode", at(1)},
		{"p-0", ScopeEngine, "prefill", at(4)}, {"p-1", ScopeEngine, "prefill", at(3)}, {"p-2", ScopeEngine, "prefill", at(2)},
		{"r-0", ScopeRouter, "", at(6)}, {"r-1", ScopeRouter, "", at(5)},
	}
	if !slices.Equal(s.Reads, wantReads) {
		t.Errorf("reads are %+v, want %+v", s.Reads, wantReads)
	}
	if s.Deployment != d || s.Mode != "prefill-decode" || !s.Up || s.Empty || !s.Partial || !s.Timestamp.Equal(at(10)) || s.Duration != time.Second {
		t.Errorf("the snapshot is %+v", s)
	}
}

// TestSnapshotCoverage: what a deployment lacks is named by role, and makes it partial or unavailable.
func TestSnapshotCoverage(t *testing.T) {
	own := func(n int, managed bool) Role { return Role{"own", RoleServer, managed, n} }
	two := &Deployment{Engine: "vllm", Roles: []Role{{"a", RoleServer, true, 2}, {"b", RoleServer, true, 1}}, Router: &Router{"vllm-router", 1}}
	a0, a1, b0, r0 := podOf("a-0", "a"), podOf("a-1", "a"), podOf("b-0", "b"), podOf("r-0", "")
	read := func(p *Pod) Result { return Result{Pod: p, ObservedAt: zero} }
	unknown := &Deployment{Engine: "tgi", Roles: two.Roles, Router: &Router{"envoy", 1}}
	for _, c := range []struct {
		name string
		Collection
		up, partial, empty bool
		coverage           []Coverage
		missing            []Missing
	}{
		{"all there", Collection{Deployment: two, Owned: []*Pod{a0, a1, b0, r0}, Results: []Result{read(a0), read(a1), read(b0), read(r0)}},
			true, false, false,
			[]Coverage{{"engine", "a", 2, 2, 2}, {"engine", "b", 1, 1, 1}, {"router", "", 1, 1, 1}}, nil},
		{"one failed", Collection{Deployment: two, Owned: []*Pod{a0, a1, b0, r0}, Results: []Result{Failed(a0, Timeout), read(a1), read(b0), read(r0)}},
			true, true, false,
			[]Coverage{{"engine", "a", 2, 2, 1}, {"engine", "b", 1, 1, 1}, {"router", "", 1, 1, 1}},
			[]Missing{{"a-0", "engine", "a", "scrape", "timeout"}}},
		{"replicas and a role are missing", Collection{Deployment: two, Owned: []*Pod{a0, r0}, Results: []Result{read(a0), read(r0)}},
			true, true, false,
			[]Coverage{{"engine", "a", 2, 1, 1}, {"engine", "b", 1, 0, 0}, {"router", "", 1, 1, 1}},
			[]Missing{{"", "engine", "a", "engine/a", "replicas_missing"}, {"", "engine", "b", "engine/b", "no_pods"}}},
		{"nothing is owned", Collection{Deployment: two},
			false, true, false,
			[]Coverage{{"engine", "a", 2, 0, 0}, {"engine", "b", 1, 0, 0}, {"router", "", 1, 0, 0}},
			[]Missing{{"", "engine", "a", "engine/a", "no_pods"}, {"", "engine", "b", "engine/b", "no_pods"}, {"", "router", "", "router", "no_pods"}}},
		{"nothing could be read", Collection{Deployment: engineOf("vllm", RoleServer), Owned: []*Pod{enginePod(RoleServer)}, Results: []Result{Failed(enginePod(RoleServer), HTTPStatus)}},
			false, true, false,
			[]Coverage{{"engine", "server", 1, 1, 0}},
			[]Missing{{"server-0", "engine", "server", "scrape", "http_status"}}},
		{"nothing was read, and no result says why", Collection{Deployment: engineOf("vllm", RoleServer), Owned: []*Pod{enginePod(RoleServer)}},
			false, true, false,
			[]Coverage{{"engine", "server", 1, 1, 0}}, nil},
		{"more Pods than expected", Collection{Deployment: engineOf("vllm", RoleServer), Owned: []*Pod{podOf("x", "server"), podOf("y", "server")}, Results: []Result{read(podOf("x", "server")), read(podOf("y", "server"))}},
			true, false, false,
			[]Coverage{{"engine", "server", 1, 2, 2}}, nil},
		{"the limit", Collection{Deployment: two, Owned: []*Pod{a0, a1, b0, r0}, PodLimit: true, Results: []Result{read(r0), read(a0)}},
			true, true, false,
			[]Coverage{{"engine", "a", 2, 2, 1}, {"engine", "b", 1, 1, 0}, {"router", "", 1, 1, 1}},
			[]Missing{{"", "", "", "pod-discovery", "pod_limit"}}},

		{"an engine and a router of no table", Collection{Deployment: unknown, Owned: []*Pod{a0, a1, b0, r0}},
			false, true, false,
			[]Coverage{{"engine", "a", 2, 2, 0}, {"engine", "b", 1, 1, 0}, {"router", "", 1, 1, 0}},
			[]Missing{{"", "engine", "a", "engine/a", "unknown_engine"}, {"", "engine", "b", "engine/b", "unknown_engine"}, {"", "router", "", "router", "unknown_router"}}},
		{"missing Pods of an engine and a router of no table", Collection{Deployment: unknown, Owned: []*Pod{a0}},
			false, true, false,
			[]Coverage{{"engine", "a", 2, 1, 0}, {"engine", "b", 1, 0, 0}, {"router", "", 1, 0, 0}},
			[]Missing{
				{"", "engine", "a", "engine/a", "replicas_missing"}, {"", "engine", "a", "engine/a", "unknown_engine"},
				{"", "engine", "b", "engine/b", "no_pods"}, {"", "engine", "b", "engine/b", "unknown_engine"},
				{"", "router", "", "router", "no_pods"}, {"", "router", "", "router", "unknown_router"}}},
		{"an engine of no table behind a router that is known", Collection{Deployment: &Deployment{Engine: "tgi", Roles: two.Roles[1:], Router: two.Router}, Owned: []*Pod{b0, r0}, Results: []Result{read(r0)}},
			true, true, false,
			[]Coverage{{"engine", "b", 1, 1, 0}, {"router", "", 1, 1, 1}},
			[]Missing{{"", "engine", "b", "engine/b", "unknown_engine"}}},

		{"a role with a command of its own", Collection{Deployment: &Deployment{Engine: "vllm", Roles: []Role{own(0, false)}, Router: two.Router}, Owned: []*Pod{r0}, Results: []Result{read(r0)}},
			true, false, false,
			[]Coverage{{"router", "", 1, 1, 1}}, nil},
		{"a role without replicas", Collection{Deployment: &Deployment{Engine: "vllm", Roles: []Role{{"z", RoleServer, true, 0}}, Router: two.Router}, Owned: []*Pod{r0}, Results: []Result{read(r0)}},
			true, false, false,
			[]Coverage{{"engine", "z", 0, 0, 0}, {"router", "", 1, 1, 1}}, nil},
		{"only roles with commands of their own", Collection{Deployment: &Deployment{Engine: "tgi", Roles: []Role{own(0, false)}}},
			false, false, true, nil, nil},
		{"no replicas", Collection{Deployment: &Deployment{Engine: "vllm", Roles: []Role{{"z", RoleServer, true, 0}}}},
			false, false, true, nil, nil},
		{"nothing", Collection{Deployment: &Deployment{}}, false, false, true, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := collect(c.Collection)
			if s.Up != c.up || s.Partial != c.partial || s.Empty != c.empty {
				t.Errorf("up %v, partial %v, empty %v; want %v, %v, %v", s.Up, s.Partial, s.Empty, c.up, c.partial, c.empty)
			}
			if !slices.Equal(s.Coverage, c.coverage) {
				t.Errorf("coverage is %v, want %v", s.Coverage, c.coverage)
			}
			if !slices.Equal(s.Missing, c.missing) {
				t.Errorf("missing is\n%v, want\n%v", s.Missing, c.missing)
			}
			if s.Mode != "serving" {
				t.Errorf("mode is %q", s.Mode)
			}
		})
	}
	// An unavailable deployment has no value.
	s := collect(Collection{Deployment: two, Owned: []*Pod{a0}, Results: []Result{Failed(a0, TLSFailed)}})
	if s.Gauges != nil || s.Caches != nil || s.Samples != nil || s.Reads != nil {
		t.Errorf("unavailable, but %+v", s)
	}
}

// TestSnapshotSorted: every list is in one order, whatever order the results come in.
func TestSnapshotSorted(t *testing.T) {
	d := withRouter(engineOf("vllm", RoleDecode, RolePrefill), "llm-d-router")
	d.Roles[0].Expected = 2
	var results []Result
	var owned []*Pod
	for _, p := range []*Pod{podOf("b", "prefill"), podOf("a", "decode"), podOf("d", ""), podOf("c", "decode")} {
		text := vllmOf(1, 1) + prefix(1, 2) + hist(ttftName, 1, 1) + "llm_d_epp_request_total 1\n"
		more := vllmOf(1, 1) + prefix(2, 4) + hist(ttftName, 2, 2) + "llm_d_epp_request_total 2\n"
		owned = append(owned, p)
		results = append(results, observe(t, new(History), d, p, windows, twice(text, more)...))
	}
	results = append(results, Failed(podOf("0", "decode"), Timeout))
	want := collect(Collection{Deployment: d, Owned: owned, Results: results, PodLimit: true})
	var samples, caches, missing []string
	for _, v := range want.Samples {
		samples = append(samples, v.Pod+" "+string(v.Field))
	}
	for _, c := range want.Caches {
		caches = append(caches, c.Pod+" "+string(c.Cache))
	}
	for _, m := range want.Missing {
		missing = append(missing, m.Pod+" "+m.Source)
	}
	if w := []string{"a ttft", "b ttft", "c ttft", "d requests"}; !slices.Equal(samples, w) {
		t.Errorf("samples are %v, want %v", samples, w)
	}
	if w := []string{"a local-prefix", "b local-prefix", "c local-prefix"}; !slices.Equal(caches, w) {
		t.Errorf("caches are %v, want %v", caches, w)
	}
	if !slices.IsSorted(missing) || missing[0] != " pod-discovery" || missing[1] != "0 scrape" {
		t.Errorf("missing is %v", missing)
	}
	for range 4 {
		results = append(results[1:], results[0])
		got := collect(Collection{Deployment: d, Owned: owned, Results: results, PodLimit: true})
		if !reflect.DeepEqual(got, want) {
			t.Errorf("another order of results gives\n%+v, want\n%+v", got, want)
		}
	}
}

// TestSnapshotValues: each value carries its Pod, source, window and read time, and stays per Pod.
func TestSnapshotValues(t *testing.T) {
	d := engineOf("vllm", RoleServer)
	d.Roles[0].Expected = 2
	var results []Result
	var owned []*Pod
	for i, name := range []string{"s-0", "s-1"} {
		p := podOf(name, "server")
		owned = append(owned, p)
		h := new(History)
		observe(t, h, d, p, windows, scrape{0, prefix(0, 0) + hist(ttftName, 0, 0)})
		results = append(results, observe(t, h, d, p, windows,
			scrape{time.Duration(20+i) * time.Second, prefix(i+1, 4) + hist(ttftName, 3, i+1)}))
	}
	s := collect(Collection{Deployment: d, Owned: owned, Results: results})
	at := func(seconds int) time.Time { return zero.Add(time.Duration(seconds) * time.Second) }
	if want := []CacheHit{
		{"s-0", LocalPrefix, "vllm:prefix_cache", "server", 1, 4, 0.25, 20 * time.Second, at(20)},
		{"s-1", LocalPrefix, "vllm:prefix_cache", "server", 2, 4, 0.5, 21 * time.Second, at(21)},
	}; !slices.Equal(s.Caches, want) {
		t.Errorf("caches are\n%+v, want\n%+v", s.Caches, want)
	}
	if want := []Sample{
		{TTFT, "s-0", ScopeEngine, "server", ttftName, 3, 1, 20 * time.Second, at(20)},
		{TTFT, "s-1", ScopeEngine, "server", ttftName, 1.5, 2, 21 * time.Second, at(21)},
	}; !slices.Equal(s.Samples, want) {
		t.Errorf("samples are\n%+v, want\n%+v", s.Samples, want)
	}
}

// TestExpected adds the managed roles' Pods and the router's.
func TestExpected(t *testing.T) {
	d := Deployment{Roles: []Role{{"a", RoleServer, true, 3}, {"b", RoleServer, false, 0}}}
	if got := d.Expected(); got != 3 {
		t.Errorf("without a router: %d, want 3", got)
	}
	d.Router = &Router{"vllm-router", 2}
	if got := d.Expected(); got != 5 {
		t.Errorf("with a router: %d, want 5", got)
	}
}
