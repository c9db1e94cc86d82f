package normalize

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A scenario is one Pod of one deployment, read at given times. What comes of it is written as lines,
// so that an expectation can be compared whole: nothing more, nothing less.

// zero is the instant that the times of a scenario count from.
var zero = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// windows are the defaults.
var windows = WindowConfig{MaxAge: DefaultWindowMaxAge, Min: DefaultWindowMin}

// scrape is one read of the Pod.
type scrape struct {
	at   time.Duration
	body string
}

// twice reads the Pod at 0 s and at 30 s.
func twice(first, second string) []scrape {
	return []scrape{{0, first}, {30 * time.Second, second}}
}

// engineOf is a deployment with one managed role a kind, named for it, each of one Pod.
func engineOf(engine string, kinds ...RoleKind) *Deployment {
	d := &Deployment{Namespace: "ns", Name: "model", UID: "d", Engine: engine}
	for _, k := range kinds {
		d.Roles = append(d.Roles, Role{Name: string(k), Kind: k, Managed: true, Expected: 1})
	}
	return d
}

// withPool attaches a KV cache pool.
func withPool(d *Deployment) *Deployment {
	d.KVCache = true
	return d
}

// withRouter puts a router of one Pod in front.
func withRouter(d *Deployment, name string) *Deployment {
	d.Router = &Router{Name: name, Expected: 1}
	return d
}

func enginePod(role RoleKind, arguments ...string) *Pod {
	return &Pod{Name: string(role) + "-0", UID: "p", Scope: ScopeEngine, Role: string(role), Arguments: arguments}
}

func routerPod() *Pod { return &Pod{Name: "router-0", UID: "p", Scope: ScopeRouter} }

// observe reads the Pod at each of the times and returns the last read's result.
func observe(t *testing.T, h *History, d *Deployment, p *Pod, config WindowConfig, scrapes ...scrape) Result {
	t.Helper()
	var r Result
	for _, s := range scrapes {
		values, err := TableOf(d, p).Parse([]byte(s.body))
		if err != nil {
			t.Fatalf("read at %v: %v", s.at, err)
		}
		r = h.Observe(d, p, values, zero.Add(s.at), config)
	}
	return r
}

// outcome is what one Pod, alone, gives after the reads, as sorted lines.
func outcome(t *testing.T, d *Deployment, p *Pod, scrapes ...scrape) []string {
	t.Helper()
	r := observe(t, new(History), d, p, windows, scrapes...)
	return linesOf(t, p, r)
}

// linesOf writes a result as sorted lines:
//
//	running = 3 requests of 1 (vllm:num_requests_running)
//	local-prefix = 30/40 tokens in 30s (vllm:prefix_cache)
//	ttft = 0.5 seconds of 4 in 30s (vllm:time_to_first_token_seconds)
//	- external-store: unsupported_not_store
//
// It checks on the way what is the same for every entry: the Pod, its scope and its role.
func linesOf(t *testing.T, p *Pod, r Result) []string {
	t.Helper()
	s := Collection{
		Deployment: &Deployment{Roles: []Role{{Name: p.Role, Managed: true, Expected: 1}}, Engine: "vllm"},
		Owned:      []*Pod{p}, Results: []Result{r}, At: r.ObservedAt, Started: r.ObservedAt,
	}.Snapshot()
	var lines []string
	own := func(pod string, scope Scope, role string, line string, args ...any) {
		line = fmt.Sprintf(line, args...)
		if pod != p.Name || scope != p.Scope || role != p.Role {
			t.Errorf("%s: is of Pod %q, scope %q, role %q; want %q, %q, %q", line, pod, scope, role, p.Name, p.Scope, p.Role)
		}
		lines = append(lines, line)
	}
	for _, g := range s.Gauges {
		own(p.Name, g.Scope, g.Role, "%s = %v %s of %d (%s)", g.Field, g.Value, g.Field.Info().Unit, g.PodCount, g.Source)
	}
	for _, c := range s.Caches {
		own(c.Pod, p.Scope, c.Role, "%s = %v/%v %s in %v (%s)", c.Cache, c.Hits, c.Queries, c.Cache.Info().Unit, c.Window, c.Source)
		if c.Rate != c.Hits/c.Queries {
			t.Errorf("%s: the rate is %v, want %v", c.Cache, c.Rate, c.Hits/c.Queries)
		}
	}
	for _, v := range s.Samples {
		own(v.Pod, v.Scope, v.Role, "%s = %v %s of %v in %v (%s)", v.Field, v.Value, v.Field.Info().Unit, v.Samples, v.Window, v.Source)
	}
	for _, m := range r.missing {
		own(m.Pod, m.Scope, m.Role, "- %s: %s", m.Source, m.Reason)
	}
	slices.Sort(lines)
	return lines
}

// compare compares two outcomes whole.
func compare(t *testing.T, got, want []string) {
	t.Helper()
	want = slices.Clone(want)
	slices.Sort(want)
	if slices.Equal(got, want) {
		return
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("too many: %s", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("lacking:  %s", line)
		}
	}
	if !t.Failed() {
		t.Errorf("a line is there a different number of times:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// only keeps the lines about one field or one source.
func only(lines []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			return strings.HasPrefix(line, name+" = ") || strings.HasPrefix(line, "- "+name+": ")
		})
	})
}

// sprint is fmt.Sprintf, for the tables.
func sprint(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// body joins lines as an exposition.
func body(lines ...string) string { return strings.Join(lines, "\n") + "\n" }
