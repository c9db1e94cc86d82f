package normalize

import (
	"cmp"
	"slices"
	"time"
)

// Mode tells ordinary serving from a prefill/decode pair.
type Mode string

// The two modes.
const (
	ModeServing       Mode = "serving"
	ModePrefillDecode Mode = "prefill-decode"
)

// Snapshot is everything one collection says of one deployment. The series and the JSON document are
// two renderings of it. Lists are sorted by Pod, then name or cache scope, then role.
type Snapshot struct {
	Deployment *Deployment
	Mode       Mode
	// Empty is true for a deployment that expects no Pod: there is nothing to read.
	Empty bool
	// Up is true where at least one owned Pod was read. Otherwise there are no values.
	Up bool
	// Partial is true where a required source did not contribute.
	Partial bool
	// Timestamp is when the snapshot was assembled, Duration how long the collection had taken by then.
	Timestamp time.Time
	Duration  time.Duration

	Coverage []Coverage
	Reads    []PodRead
	Gauges   []Gauge
	Caches   []CacheHit
	Samples  []Sample
	Missing  []Missing
}

// Coverage counts the Pods of one role or of the router.
type Coverage struct {
	Scope Scope
	// Role is the role's name; empty for the router.
	Role                  string
	Expected, Owned, Read int
}

// PodRead is one Pod that was read.
type PodRead struct {
	Pod        string
	Scope      Scope
	Role       string
	ObservedAt time.Time
}

// Gauge is a value of the moment, summed by role and source over the Pods that supplied it.
type Gauge struct {
	Field  Field
	Scope  Scope
	Role   string
	Source string
	// Value is in the field's unit.
	Value float64
	// PodCount is the number of Pods that contributed.
	PodCount int
	// ObservedAt is the newest of their reads.
	ObservedAt time.Time
}

// CacheHit is the hit ratio of one cache scope of one engine Pod over a window.
type CacheHit struct {
	Pod    string
	Cache  Field
	Source string
	Role   string
	// Hits and Queries are tokens gained in the window; Queries is positive.
	Hits, Queries float64
	// Rate is Hits / Queries, from 0 to 1.
	Rate       float64
	Window     time.Duration
	ObservedAt time.Time
}

// Sample is a mean, a rate or a ratio of one Pod over a window.
type Sample struct {
	Field  Field
	Pod    string
	Scope  Scope
	Role   string
	Source string
	// Value is in the field's unit, the engine's own.
	Value float64
	// Samples is the number of observations, events or, for a ratio, requests in the window.
	Samples    float64
	Window     time.Duration
	ObservedAt time.Time
}

// Missing is one source that did not contribute, and why.
type Missing struct {
	// Pod is empty for a deployment's entry.
	Pod    string
	Scope  Scope
	Role   string
	Source string
	Reason Reason
}

// Collection is what a snapshot is assembled from.
type Collection struct {
	Deployment *Deployment
	// Owned are all the Pods that the deployment owns.
	Owned []*Pod
	// PodLimit is true where not all of them were to be read.
	PodLimit bool
	// Results are those of the Pods that were to be read. A Pod of an engine or a router that no table
	// knows has none.
	Results []Result
	// At is now, Started when the collection began.
	At, Started time.Time
}

// Snapshot assembles one deployment's snapshot.
func (c Collection) Snapshot() Snapshot {
	d := c.Deployment
	s := Snapshot{
		Deployment: d,
		Mode:       ModeServing,
		Timestamp:  c.At,
		Duration:   c.At.Sub(c.Started),
	}
	if d.Pair() {
		s.Mode = ModePrefillDecode
	}
	if d.Expected() == 0 {
		s.Empty = true
		return s
	}
	c.cover(&s)
	if c.PodLimit {
		s.Missing = append(s.Missing, Missing{Source: "pod-discovery", Reason: PodLimit})
	}
	s.grow(c.Results)
	for _, r := range c.Results {
		s.Missing = append(s.Missing, r.missing...)
		if r.Failure == "" {
			s.add(r)
		}
	}
	s.Up = len(s.Reads) > 0
	s.Partial = !s.Up || slices.ContainsFunc(s.Missing, func(m Missing) bool { return m.Reason.Partial() })
	s.sort()
	return s
}

// cover counts the Pods of every managed role and of the router, and names what they lack.
func (c Collection) cover(s *Snapshot) {
	type group struct {
		scope Scope
		role  string
	}
	owned, read := map[group]int{}, map[group]int{}
	for _, p := range c.Owned {
		owned[group{p.Scope, p.Role}]++
	}
	for _, r := range c.Results {
		if r.Failure == "" {
			read[group{r.Pod.Scope, r.Pod.Role}]++
		}
	}
	add := func(g group, source string, expected int, known bool, unknown Reason) {
		s.Coverage = append(s.Coverage, Coverage{g.scope, g.role, expected, owned[g], read[g]})
		missing := func(reason Reason) {
			s.Missing = append(s.Missing, Missing{Scope: g.scope, Role: g.role, Source: source, Reason: reason})
		}
		if !known && expected+owned[g] > 0 {
			missing(unknown)
		}
		switch {
		case expected > 0 && owned[g] == 0:
			missing(NoPods)
		case owned[g] < expected:
			missing(ReplicasMissing)
		}
	}
	d := c.Deployment
	for _, r := range d.Roles {
		if r.Managed {
			add(group{ScopeEngine, r.Name}, "engine/"+r.Name, r.Expected, engines[d.Engine] != nil, UnknownEngine)
		}
	}
	if d.Router != nil {
		_, known := routers[d.Router.Name]
		add(group{ScopeRouter, ""}, "router", d.Router.Expected, known, UnknownRouter)
	}
}

// grow makes room for what the results have.
func (s *Snapshot) grow(results []Result) {
	var reads, caches, samples, missing int
	for _, r := range results {
		if r.Failure == "" {
			reads++
		}
		caches, samples, missing = caches+len(r.caches), samples+len(r.samples), missing+len(r.missing)
	}
	s.Reads = slices.Grow(s.Reads, reads)
	s.Caches = slices.Grow(s.Caches, caches)
	s.Samples = slices.Grow(s.Samples, samples)
	s.Missing = slices.Grow(s.Missing, missing)
}

// add merges what one readable Pod supplied.
func (s *Snapshot) add(r Result) {
	s.Reads = append(s.Reads, PodRead{r.Pod.Name, r.Pod.Scope, r.Pod.Role, r.ObservedAt})
	s.Caches = append(s.Caches, r.caches...)
	s.Samples = append(s.Samples, r.samples...)
	for _, g := range r.gauges {
		i := slices.IndexFunc(s.Gauges, func(sum Gauge) bool {
			return sum.Role == r.Pod.Role && sum.Scope == r.Pod.Scope && sum.Source == g.row.series
		})
		if i < 0 {
			i = len(s.Gauges)
			s.Gauges = append(s.Gauges, Gauge{
				Field: g.row.field, Scope: r.Pod.Scope, Role: r.Pod.Role, Source: g.row.series,
			})
		}
		sum := &s.Gauges[i]
		sum.Value += g.value
		sum.PodCount++
		if r.ObservedAt.After(sum.ObservedAt) {
			sum.ObservedAt = r.ObservedAt
		}
	}
}

func (s *Snapshot) sort() {
	slices.SortStableFunc(s.Reads, func(a, b PodRead) int { return cmp.Compare(a.Pod, b.Pod) })
	slices.SortStableFunc(s.Gauges, func(a, b Gauge) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Role, b.Role))
	})
	slices.SortStableFunc(s.Caches, func(a, b CacheHit) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Cache, b.Cache))
	})
	slices.SortStableFunc(s.Samples, func(a, b Sample) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Field, b.Field))
	})
	slices.SortStableFunc(s.Missing, func(a, b Missing) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Role, b.Role), cmp.Compare(a.Reason, b.Reason))
	})
}
