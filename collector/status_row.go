package collector

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
)

// statusRow is one deployment on the status page: what it is by its fleet, and what its last collection
// said. Its methods are what the template asks for; what stands in a row that is not opened costs nothing.
type statusRow struct {
	*discovery.Deployment
	// Last is the last collection; nil where there was none.
	Last *normalize.Snapshot

	now        time.Time
	staleAfter time.Duration
}

// words are what the filter's text is looked for in.
func (r *statusRow) words() []string {
	words := []string{r.Namespace + "/" + r.Name, r.Engine, r.RouterName(), r.Mode()}
	for i := range r.Pods {
		words = append(words, r.Pods[i].Name)
	}
	if r.Last != nil {
		for _, m := range r.Last.Missing {
			words = append(words, string(m.Reason))
		}
	}
	return words
}

// entries is how many lines the row's details have.
func (r *statusRow) entries() int {
	n := len(r.Pods)
	if s := r.Last; s != nil {
		n += len(s.Gauges) + len(s.Caches) + len(s.Samples) + len(s.Missing)
	}
	return n
}

// parameter names the deployment in a link.
func (r *statusRow) parameter(name string) string {
	return "?" + url.Values{name: {r.Namespace + "/" + r.Name}}.Encode()
}

// Link is the page of this deployment alone, opened.
func (r *statusRow) Link() string { return r.parameter("deployment") }

// Probe is the endpoint that reads this deployment.
func (r *statusRow) Probe() string { return "probe" + r.parameter("target") }

// RouterName is the router's name, empty where the deployment has none.
func (r *statusRow) RouterName() string {
	if r.Router == nil {
		return ""
	}
	return r.Router.Name
}

// Mode tells a pair from ordinary serving.
func (r *statusRow) Mode() string {
	if r.Pair() {
		return string(normalize.ModePrefillDecode)
	}
	return string(normalize.ModeServing)
}

// MissingRequired counts the entries that make the deployment partial.
func (r *statusRow) MissingRequired() int {
	var n int
	for _, m := range r.Last.Missing {
		if m.Reason.Partial() {
			n++
		}
	}
	return n
}

// Coverage is how many Pods there are in all: those of the last collection, or without one those that are
// known.
func (r *statusRow) Coverage() normalize.Coverage {
	if r.Last == nil {
		return normalize.Coverage{Expected: r.Expected(), Owned: len(r.Pods)}
	}
	var all normalize.Coverage
	for _, c := range r.Last.Coverage {
		all.Expected += c.Expected
		all.Owned += c.Owned
		all.Read += c.Read
	}
	return all
}

// roleGauges are the gauges of one role or of the router.
type roleGauges struct {
	Scope  normalize.Scope
	Role   string
	Gauges []namedGauge
}

// namedGauge is a gauge under a name that does not repeat whose it is.
type namedGauge struct {
	Name  string
	Value float64
}

// Now are the last collection's gauges by role, the router's last, in the order of the fields' own list.
func (r *statusRow) Now() []roleGauges {
	if r.Last == nil {
		return nil
	}
	var groups []roleGauges
	for _, info := range normalize.Fields() {
		for _, g := range r.Last.Gauges {
			if g.Field != info.Field {
				continue
			}
			i := slices.IndexFunc(groups, func(of roleGauges) bool { return of.Scope == g.Scope && of.Role == g.Role })
			if i < 0 {
				i = len(groups)
				groups = append(groups, roleGauges{Scope: g.Scope, Role: g.Role})
			}
			name := strings.TrimPrefix(string(g.Field), string(g.Scope)+"-")
			groups[i].Gauges = append(groups[i].Gauges, namedGauge{name, g.Value})
		}
	}
	slices.SortStableFunc(groups, func(a, b roleGauges) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Role, b.Role))
	})
	return groups
}

// Age is how long ago the last collection ended.
func (r *statusRow) Age() string { return ago(r.now, r.Last.Timestamp) }

// Stale reports whether the last collection is so old that its values are no baseline any more.
func (r *statusRow) Stale() bool { return r.now.Sub(r.Last.Timestamp) > r.staleAfter }

// reasonGroup is the missing entries of one reason.
type reasonGroup struct {
	normalize.Reason
	Entries []normalize.Missing
}

// MissingByReason are the missing entries, those that make the deployment partial first, and otherwise in
// the order of the reasons' own list.
func (r *statusRow) MissingByReason() []reasonGroup {
	entries := map[normalize.Reason][]normalize.Missing{}
	for _, m := range r.Last.Missing {
		entries[m.Reason] = append(entries[m.Reason], m)
	}
	var groups []reasonGroup
	for _, reason := range normalize.Reasons() {
		if of := entries[reason]; of != nil {
			groups = append(groups, reasonGroup{reason, of})
		}
	}
	rank := func(g reasonGroup) int {
		if g.Partial() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(groups, func(a, b reasonGroup) int { return cmp.Compare(rank(a), rank(b)) })
	return groups
}

// windowRow is one value measured over a window.
type windowRow struct {
	Pod, Role     string
	Scope         normalize.Scope
	Field         normalize.Field
	Value, Unit   string
	WindowSeconds float64
	// Samples are observations, events, requests or, for a cache, queried tokens.
	Samples float64
	Source  string
}

// Windows are the cache hits, means and rates of the last collection, Pod by Pod.
func (r *statusRow) Windows() []windowRow {
	var rows []windowRow
	for _, c := range r.Last.Caches {
		rows = append(rows, windowRow{
			Pod: c.Pod, Role: c.Role, Scope: normalize.ScopeEngine, Field: c.Cache,
			Value: figure(100*c.Rate) + " %", Unit: "of tokens queried",
			WindowSeconds: c.Window.Seconds(), Samples: c.Queries, Source: c.Source,
		})
	}
	for _, s := range r.Last.Samples {
		rows = append(rows, windowRow{
			Pod: s.Pod, Role: s.Role, Scope: s.Scope, Field: s.Field,
			Value: figure(s.Value), Unit: s.Field.Info().Unit,
			WindowSeconds: s.Window.Seconds(), Samples: s.Samples, Source: s.Source,
		})
	}
	slices.SortStableFunc(rows, func(a, b windowRow) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Pod, b.Pod))
	})
	return rows
}

// podRow is one Pod: when it was read, or why not.
type podRow struct {
	Name, Role string
	Scope      normalize.Scope
	// Read is the age of what was read; empty for a Pod that was not.
	Read string
	// Reason is why it was not; empty for a Pod that Note tells of.
	Reason normalize.Reason
	Note   string
}

// PodRows are the deployment's Pods in the order they are read, and then those of the last collection that
// are gone since.
func (r *statusRow) PodRows() []podRow {
	read := map[string]normalize.PodRead{}
	failed := map[string]normalize.Reason{}
	// unread is why a whole role's or router's Pods are not read.
	type group struct {
		scope normalize.Scope
		role  string
	}
	unread := map[group]normalize.Reason{}
	var limited bool
	if r.Last != nil {
		for _, p := range r.Last.Reads {
			read[p.Pod] = p
		}
		for _, m := range r.Last.Missing {
			switch {
			case m.Pod != "" && m.Source == "scrape":
				failed[m.Pod] = m.Reason
			case m.Reason == normalize.UnknownEngine || m.Reason == normalize.UnknownRouter:
				unread[group{m.Scope, m.Role}] = m.Reason
			case m.Reason == normalize.PodLimit:
				limited = true
			}
		}
	}
	var rows []podRow
	for i := range r.Pods {
		p := &r.Pods[i]
		row := podRow{Name: p.Name, Role: p.Role, Scope: p.Scope}
		was, known := read[p.Name]
		delete(read, p.Name)
		switch {
		case r.Last == nil:
			row.Note = "not collected yet"
		case r.Last.Empty:
			row.Note = "not expected, and not read"
		case known:
			row.Read = ago(r.now, was.ObservedAt)
		case failed[p.Name] != "":
			row.Reason = failed[p.Name]
		case unread[group{p.Scope, p.Role}] != "":
			row.Reason = unread[group{p.Scope, p.Role}]
		case limited:
			row.Reason = normalize.PodLimit
		default:
			row.Note = "new since the last collection"
		}
		rows = append(rows, row)
	}
	if r.Last != nil {
		for _, p := range r.Last.Reads {
			if _, gone := read[p.Pod]; gone {
				rows = append(rows, podRow{Name: p.Pod, Role: p.Role, Scope: p.Scope, Read: ago(r.now, p.ObservedAt), Note: "gone since"})
			}
		}
	}
	return rows
}

// figure is a number as a person reads it: whole, or of four digits.
func figure(v float64) string {
	switch size := math.Abs(v); {
	case size >= 1e15:
		return strconv.FormatFloat(v, 'g', 4, 64)
	case v == math.Trunc(v) || size >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	default:
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
}

// plural is the noun for a number of them, an int or a float64.
func plural(n any, noun string) string {
	if n == 1 || n == 1.0 {
		return noun
	}
	return noun + "s"
}

// took is a duration as a person reads it.
func took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "<1 ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	default:
		return figure(math.Round(d.Seconds()*100)/100) + " s"
	}
}

// ago is how long before now the time was, in its largest unit.
func ago(now, t time.Time) string {
	d := now.Sub(t)
	whole := func(unit time.Duration) string { return strconv.FormatInt(int64(d/unit), 10) }
	switch {
	case d < time.Second:
		return "just now"
	case d < 2*time.Minute:
		return whole(time.Second) + " s ago"
	case d < 2*time.Hour:
		return whole(time.Minute) + " min ago"
	case d < 48*time.Hour:
		return whole(time.Hour) + " h ago"
	default:
		return whole(24*time.Hour) + " days ago"
	}
}
