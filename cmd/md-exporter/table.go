package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	v1 "github.com/md-exporter/md-exporter/apiserver/v1"
	"github.com/md-exporter/md-exporter/normalize"
)

// table is a section that a person reads: a title, the columns' names and the rows.
type table struct {
	title   string
	columns []string
	rows    [][]string
}

func newTable(title string, columns ...string) *table { return &table{title: title, columns: columns} }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// print writes the section in aligned columns behind a blank line, and nothing where it has no row.
func (t *table) print(w io.Writer) {
	if len(t.rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", t.title)
	aligned := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.columns}, t.rows...) {
		for i, cell := range row {
			if row[i] = plain(cell); row[i] == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintf(aligned, "  %s\n", strings.Join(row, "\t"))
	}
	_ = aligned.Flush() // Its error is w's, which is a buffer.
}

// plain is the text without what would move a terminal's cursor or break a line.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// number writes a count and whatever is large whole, and anything else with four digits.
func number(v float64) string {
	if size := math.Abs(v); (v == math.Trunc(v) || size >= 1000) && size < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func percent(rate float64) string { return strconv.FormatFloat(100*rate, 'f', 1, 64) + " %" }

// length is a duration to the millisecond.
func length(d time.Duration) string { return d.Round(time.Millisecond).String() }

func seconds(s float64) string { return length(time.Duration(s * float64(time.Second))) }

// roleOf names a role; a router's Pods have none.
func roleOf(scope normalize.Scope, role string) string {
	if scope == normalize.ScopeRouter {
		return string(scope)
	}
	return role
}

// printSnapshot writes the snapshot and its document as sections.
func printSnapshot(w io.Writer, s *normalize.Snapshot, m *v1.ModelDeploymentMetrics) {
	d := s.Deployment
	fmt.Fprintf(w, "%s\n%s\n", plain(title(s)), verdict(s))
	pods := newTable("PODS", "ROLE", "EXPECTED", "OWNED", "READ")
	for _, c := range s.Coverage {
		pods.add(roleOf(c.Scope, c.Role), strconv.Itoa(c.Expected), strconv.Itoa(c.Owned), strconv.Itoa(c.Read))
	}
	pods.print(w)
	if s.Empty {
		return
	}
	printGauges(w, "PROCESSING", m.Processing)
	printGauges(w, "QUEUEING", m.Queueing)
	hits := newTable("CACHE HITS", "POD", "CACHE", "ROLE", "RATE", "HITS", "QUERIES", "UNIT", "WINDOW", "SOURCE")
	for _, c := range m.CacheHits {
		hits.add(c.Pod, string(c.Scope), c.Role, percent(c.Rate), number(c.Hits), number(c.Queries), c.Unit, seconds(c.WindowSeconds), c.Source)
	}
	hits.print(w)
	printSamples(w, "LATENCY", m.Latency)
	printSamples(w, "TRAFFIC", m.Traffic)
	printSamples(w, "TRANSFER", m.Transfer)
	missing := newTable("MISSING", "POD", "ROLE", "SOURCE", "REQUIRED", "CODE", "REASON")
	// What makes the snapshot partial comes first.
	entries := slices.Clone(m.Missing)
	slices.SortStableFunc(entries, func(a, b v1.Missing) int {
		switch {
		case a.Partial == b.Partial:
			return 0
		case a.Partial:
			return -1
		}
		return 1
	})
	for _, e := range entries {
		required := "no"
		if e.Partial {
			required = "yes"
		}
		missing.add(e.Pod, roleOf(e.Scope, e.Role), e.Source, required, string(e.Code), e.Reason)
	}
	missing.print(w)
	fmt.Fprintf(w, "\n%s/%s was read at %s in %s.\n", plain(d.Namespace), plain(d.Name), s.Timestamp.UTC().Format(time.RFC3339), length(s.Duration))
}

// title says what the deployment is.
func title(s *normalize.Snapshot) string {
	d := s.Deployment
	text := d.Namespace + "/" + d.Name + ": " + d.Engine
	if s.Mode == normalize.ModePrefillDecode {
		text += " as a prefill/decode pair"
	}
	if d.Router != nil {
		text += " behind " + d.Router.Name
	}
	if d.KVCache {
		text += ", with a KV cache pool"
	}
	return text
}

// verdict says in one line whether the snapshot is whole.
func verdict(s *normalize.Snapshot) string {
	required := 0
	for _, e := range s.Missing {
		if e.Reason.Partial() {
			required++
		}
	}
	switch {
	case s.Empty:
		return "Nothing to read: the deployment expects no Pod."
	case !s.Up:
		return "Unavailable: none of its Pods could be read."
	case required == 1:
		return "Partial: 1 required source did not contribute."
	case s.Partial:
		return fmt.Sprintf("Partial: %d required sources did not contribute.", required)
	}
	return "Complete: every required source contributed."
}

func printGauges(w io.Writer, title string, gauges []v1.Gauge) {
	t := newTable(title, "FIELD", "ROLE", "VALUE", "UNIT", "PODS", "SOURCE")
	for _, g := range gauges {
		t.add(string(g.Name), roleOf(g.Scope, g.Role), number(g.Value), g.Unit, strconv.Itoa(int(g.PodCount)), g.Source)
	}
	t.print(w)
}

func printSamples(w io.Writer, title string, samples []v1.Sample) {
	t := newTable(title, "POD", "FIELD", "ROLE", "VALUE", "UNIT", "SAMPLES", "WINDOW", "SOURCE")
	for _, v := range samples {
		t.add(v.Pod, string(v.Name), roleOf(v.Scope, v.Role), number(v.Value), v.Unit, number(v.Samples), seconds(v.WindowSeconds), v.Source)
	}
	t.print(w)
}
