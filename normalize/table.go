package normalize

import (
	"slices"
	"strings"
)

// kind is how a row's series are read.
type kind uint8

const (
	// gauge is a value of the moment, summed by role over Pods.
	gauge kind = iota
	// counter is a rate: its delta over the window's seconds.
	counter
	// histogram is a mean: the delta of its sum over the delta of its count.
	histogram
	// cache is a hit ratio: the delta of its hits over the delta of its queries.
	cache
	// ratio is the quotient of two counter rows' deltas.
	ratio
)

// where says which Pods a row is read from.
type where uint8

const (
	everyRole where = iota
	butPrefillOfPair
	butDecodeOfPair
	prefillOfPair
	decodeOfPair
)

// row says which series one field reads. What it leaves out does not apply.
type row struct {
	field Field
	kind  kind
	// series is the exact name of the series, and the source of the value and of its missing
	// entries; a cache's missing entries name its scope instead.
	series string
	on     where
	// unless lists, in order, what makes the source unsupported on a Pod.
	unless []unless
	// beside is the pair of a labeled counter that exports nothing before its first increment: the
	// counter is not yet exported, rather than absent, while the same read has the pair.
	beside Field
	// onceStreaming marks a histogram that is exported once a request streams: it is not yet
	// exported, rather than absent, while the Pod's TTFT recorded nothing in the window.
	onceStreaming bool
	// statusCode5xx keeps the label sets with a status_code from 500 to 599.
	statusCode5xx bool
	// hits and queries are a cache's counters, each a name or a name with one label.
	hits    string
	queries []string
	// errors and requests are a ratio's numerator and denominator, rows of the same table.
	errors, requests Field

	// index is the row's place in its table.
	index int
	// slots are the values of a read that the row is computed from: a gauge's or counter's one, a
	// histogram's sum and count, a cache's hits and then its queries.
	slots []int
}

// unless makes a source unsupported where its condition holds. It is decided before presence.
type unless struct {
	condition func(*podContext) bool
	reason    Reason
}

// podContext is what a condition may look at.
type podContext struct {
	deployment *Deployment
	pod        *Pod
	kind       RoleKind
	pair       bool
	table      *Table
	values     Values
}

// Table is what is read of one engine's or router's Pods.
type Table struct {
	scope Scope
	rows  []row
	// series are the series decoded, slots what a read keeps of them.
	series []series
	slots  int
	// names finds a series by the name of a sample, types by the name in a TYPE line.
	names map[string]sampleName
	types map[string]struct{}
	// prefix is common to all names.
	prefix string
	folds  folds
}

// folds says which ranks' label sets of gauges and counters are one.
type folds uint8

const (
	// Everywhere: gauges that differ only in pid.
	_ folds = iota
	// foldRanks too: priority beside its total, and the ranks of one scheduler.
	foldRanks
)

// series is one family of the exposition that the table reads.
type series struct {
	name string
	kind kind // gauge, counter or histogram
	// slot is the value's, or the sum's with the count's behind it; -1 where only selections are kept.
	slot int
	// selections are values kept by a label: a mode, or the 5xx status codes.
	selections []selection
}

// selection keeps the label sets with one value of one label.
type selection struct {
	label, value string
	// statusCode5xx selects by the label status_code instead.
	statusCode5xx bool
	slot          int
}

// part is which of a family's samples a name stands for.
type part uint8

const (
	partValue part = iota
	partSum
	partCount
	parts = iota
)

// sampleName is what the name of a sample stands for.
type sampleName struct {
	series   int
	part     part
	spelling spelling
	// typeName is the name in the TYPE line that decides whether the sample counts.
	typeName string
}

// spelling is how a sample spells its series' name. The first spelling with a valid sample stands.
type spelling uint8

const (
	_ spelling = iota // as the table has it
	// escaped has "_" where the family's TYPE line has ":".
	escaped
	// otherTotal is a counter without the "_total" that the table has, or with the one that it has not.
	otherTotal
	escapedOtherTotal
	spellings = iota
)

// newTable compiles the rows. It panics on a row that names another that the table lacks: tables are
// written in the program's source.
func newTable(scope Scope, rows []row, f ...folds) *Table {
	t := &Table{scope: scope, rows: rows, names: map[string]sampleName{}, types: map[string]struct{}{}}
	for _, fold := range f {
		t.folds = fold
	}
	for i := range t.rows {
		r := &t.rows[i]
		r.index = i
		switch r.kind {
		case gauge, counter:
			if r.statusCode5xx {
				r.slots = []int{t.slot(r.series, selection{label: "status_code", statusCode5xx: true}, counter)}
			} else {
				r.slots = []int{t.slot(r.series, selection{}, r.kind)}
			}
		case histogram:
			sum := t.slot(r.series, selection{}, histogram)
			r.slots = []int{sum, sum + 1}
		case cache:
			for _, s := range append([]string{r.hits}, r.queries...) {
				name, sel := parseSelector(s)
				r.slots = append(r.slots, t.slot(name, sel, counter))
			}
		case ratio:
			r.slots = append(slices.Clone(t.row(r.errors).slots), t.row(r.requests).slots...)
		}
	}
	t.index()
	return t
}

// parseSelector splits name{label="value"}; the braces may be absent.
func parseSelector(s string) (string, selection) {
	name, labels, found := strings.Cut(s, "{")
	if !found {
		return name, selection{}
	}
	label, value, _ := strings.Cut(strings.TrimSuffix(labels, "}"), "=")
	return name, selection{label: label, value: strings.Trim(value, `"`)}
}

// row finds a row by its field; nil where the table has none.
func (t *Table) row(f Field) *row {
	for i := range t.rows {
		if t.rows[i].field == f {
			return &t.rows[i]
		}
	}
	return nil
}

// slot returns where a read keeps the selected value of a series, adding the series where it is new.
func (t *Table) slot(name string, sel selection, k kind) int {
	i := slices.IndexFunc(t.series, func(s series) bool { return s.name == name })
	if i < 0 {
		i = len(t.series)
		t.series = append(t.series, series{name: name, kind: k, slot: -1})
	}
	s := &t.series[i]
	if sel.label == "" {
		if s.slot < 0 {
			s.slot = t.slots
			t.slots++
			if k == histogram {
				t.slots++
			}
		}
		return s.slot
	}
	for _, known := range s.selections {
		sel.slot = known.slot
		if known == sel {
			return known.slot
		}
	}
	sel.slot = t.slots
	t.slots++
	s.selections = append(s.selections, sel)
	return sel.slot
}

// index fills names, types and prefix.
func (t *Table) index() {
	for i, s := range t.series {
		switch s.kind {
		case histogram:
			t.name(s.name+"_sum", sampleName{series: i, part: partSum, typeName: s.name})
			t.name(s.name+"_count", sampleName{series: i, part: partCount, typeName: s.name})
		case counter:
			other, total := strings.CutSuffix(s.name, "_total")
			if !total {
				other = s.name + "_total"
			}
			t.name(s.name, sampleName{series: i, typeName: s.name})
			t.name(other, sampleName{series: i, spelling: otherTotal, typeName: other})
		default:
			t.name(s.name, sampleName{series: i, typeName: s.name})
		}
	}
	for name := range t.names {
		if t.prefix == "" {
			t.prefix = name
		}
		for !strings.HasPrefix(name, t.prefix) {
			t.prefix = t.prefix[:len(t.prefix)-1]
		}
	}
}

// name adds a sample name and, where it has a colon, its escaped form.
func (t *Table) name(name string, n sampleName) {
	t.names[name] = n
	t.types[n.typeName] = struct{}{}
	if !strings.Contains(name, ":") {
		return
	}
	t.types[escape(n.typeName)] = struct{}{}
	t.types[trimTotal(n.typeName)] = struct{}{}
	n.spelling += escaped
	t.names[escape(name)] = n
}

// trimTotal is the name of the family whose counter the name is, in OpenMetrics.
func trimTotal(name string) string { return strings.TrimSuffix(name, "_total") }

// escape is the name as an exposition spells it whose names may have no colon.
func escape(name string) string { return strings.ReplaceAll(name, ":", "_") }

// TableOf is the table that a Pod of the deployment is read by: its engine's, or its router's in the
// deployment's mode. It is nil where no table knows the name.
func TableOf(d *Deployment, p *Pod) *Table {
	if p.Scope == ScopeEngine {
		return engines[d.Engine]
	}
	if d.Router == nil {
		return nil
	}
	r := routers[d.Router.Name]
	if d.Pair() {
		return r.pair
	}
	return r.serving
}

// on reports whether the row is read from the Pod.
func (c *podContext) on(w where) bool {
	switch w {
	case butPrefillOfPair:
		return !c.pair || c.kind != RolePrefill
	case butDecodeOfPair:
		return !c.pair || c.kind != RoleDecode
	case prefillOfPair:
		return c.pair && c.kind == RolePrefill
	case decodeOfPair:
		return c.pair && c.kind == RoleDecode
	default:
		return true
	}
}

// Source is one series that a field reads.
type Source struct {
	// Supplier is the engine's or router's name; a router's behind a pair where that differs.
	Supplier string
	Scope    Scope
	Field    Field
	// Series is the source as values and missing entries name it.
	Series string
}

// Sources lists what the tables read, by supplier, each in its table's order.
func Sources() []Source {
	var sources []Source
	add := func(supplier string, t *Table) {
		for _, r := range t.rows {
			sources = append(sources, Source{supplier, t.scope, r.field, r.series})
		}
	}
	for _, name := range Engines() {
		add(name, engines[name])
	}
	for _, name := range Routers() {
		r := routers[name]
		add(name, r.serving)
		if r.pair != r.serving {
			add(name+" (PD mode)", r.pair)
		}
	}
	return sources
}
