package normalize

import (
	"math"
	"slices"
)

// What a read looked at, for a person who doubts a number. The explanation is noted down by the code that
// computes the values, where it keeps or drops a sample; a read that nobody asks about notes nothing.

// Fate is what became of one sample of a series that the table reads.
type Fate string

// The fates. Every sample has one.
const (
	// Counted samples make up the series' value, with their spelling's other counted ones.
	Counted Fate = "counted"
	// Invalid samples are not finite, or negative.
	Invalid Fate = "invalid"
	// WrongType samples have a TYPE that the row does not take, such as a summary.
	WrongType Fate = "wrong_type"
	// OtherSpelling samples are of a name that stands for the series too, such as the one with _total: the
	// series is read by the name that comes first and has a sample, and never by both.
	OtherSpelling Fate = "other_spelling"
	// Repeated samples have a label set that has come before.
	Repeated Fate = "repeated"
	// PriorityTotalled samples are of one priority, beside the total of all.
	PriorityTotalled Fate = "priority_totalled"
	// RankFolded samples are of another rank of a scheduler, which sees the same requests; the largest stands.
	RankFolded Fate = "rank_folded"
	// PidFolded samples are of another process of a server; the largest stands.
	PidFolded Fate = "pid_folded"
	// Unmatched samples are a histogram's sum without its count, or the other way round.
	Unmatched Fate = "unmatched"
	// Unselected samples have none of the label's values that the fields read.
	Unselected Fate = "unselected"
)

var fates = []struct {
	fate     Fate
	sentence string
}{
	{Counted, "counted"},
	{Invalid, "not finite, or negative: no sample"},
	{WrongType, "the TYPE is not one that the field reads"},
	{OtherSpelling, "the series is read by another spelling of its name"},
	{Repeated, "the label set has come before: the first is counted once"},
	{PriorityTotalled, "one priority beside the total of all: the priorities are counted once, in the total"},
	{RankFolded, "another rank of the same scheduler: the ranks are counted once, by the largest"},
	{PidFolded, "another process of the same server: the processes are counted once, by the largest"},
	{Unmatched, "a sum without a count, or a count without a sum"},
	{Unselected, "no value of the label that a field reads"},
}

// Fates lists the closed set.
func Fates() []Fate {
	all := make([]Fate, len(fates))
	for i, f := range fates {
		all[i] = f.fate
	}
	return all
}

// Sentence says the fate in words.
func (f Fate) Sentence() string {
	for _, known := range fates {
		if known.fate == f {
			return known.sentence
		}
	}
	return ""
}

// Label is a label of a sample, as the body has it.
type Label struct{ Name, Value string }

// SampleRead is one sample of a series that a table reads, and what became of it.
type SampleRead struct {
	// Name is the sample's, such as the series' with _sum.
	Name   string
	Labels []Label
	// Value is as exported: it may be NaN, infinite or negative.
	Value float64
	Fate  Fate
}

// SeriesRead is one series of a table, and its samples in the body's order: none where the series is absent.
type SeriesRead struct {
	Series string
	// Type is what the body's TYPE line says of it, or of the spelling that its first sample has; empty
	// without one.
	Type    string
	Samples []SampleRead
}

// explanation notes what becomes of the samples of one read. A nil one notes nothing.
type explanation struct {
	samples []SampleRead
	// names are those of samples, in the same order.
	names []sampleName
}

// add notes a sample and returns its index. Until a reader marks it, it is one of a spelling that is not
// read.
func (e *explanation) add(name sampleName, line []byte, labels []label, value float64) int32 {
	if e == nil {
		return 0
	}
	a := SampleRead{Name: string(line[:nameEnd(line, 0)]), Value: value, Fate: OtherSpelling}
	for _, l := range labels {
		a.Labels = append(a.Labels, Label{string(l.name), string(l.value)})
	}
	if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
		a.Fate = Invalid
	}
	e.samples = append(e.samples, a)
	e.names = append(e.names, name)
	return int32(len(e.samples) - 1)
}

// mark sets the samples' fate.
func (e *explanation) mark(samples []sample, f Fate) {
	if e == nil {
		return
	}
	for _, a := range samples {
		e.samples[a.index].Fate = f
	}
}

// markOne sets one sample's fate.
func (e *explanation) markOne(a sample, f Fate) {
	if e != nil {
		e.samples[a.index].Fate = f
	}
}

// Explain reads like Parse, and says what became of every sample of the table's series, which come in the
// table's order.
func (t *Table) Explain(body []byte) (Values, []SeriesRead, error) {
	p := t.NewParser()
	e := &explanation{}
	p.explanation = e
	types := p.types
	p.scan(body, true)
	// Values hands the parser on, and with it the types.
	reads := make([]SeriesRead, len(t.series))
	for i, s := range t.series {
		reads[i] = SeriesRead{Series: s.name, Type: types[s.name]}
		if first := slices.IndexFunc(e.names, func(n sampleName) bool { return n.series == i }); first >= 0 {
			reads[i].Type = types[e.names[first].typeName]
		}
	}
	values, err := p.Values()
	if err != nil {
		return nil, nil, err
	}
	for i, a := range e.samples {
		read := &reads[e.names[i].series]
		read.Samples = append(read.Samples, a)
	}
	return values, reads, nil
}

// Input is one number that a field is computed from, as one body supplies it.
type Input struct {
	// Series is the series, with the part of a histogram or the label's value that is selected.
	Series string
	// Value is meaningless where the series is not Present.
	Value   float64
	Present bool
}

// Outcome is what became of one field of a table in one read. Exactly one of Gauge, Cache, Sample, Reason and
// Elsewhere is set.
type Outcome struct {
	Field Field
	// Source is the series as values and missing entries name it; Series are the names of those that are
	// decoded for it.
	Source string
	Series []string
	// Inputs are in the order of the field's series.
	Inputs []Input

	Gauge  *Gauge
	Cache  *CacheHit
	Sample *Sample
	// Reason is why the field is missing.
	Reason Reason
	// Elsewhere says why the field is not listed at all: which Pods it is read from instead, or which
	// entries say why it is missing.
	Elsewhere string
}

// Outcomes says what became of every field of the table that the Pod is read by, in the table's order. The
// result is what Observe made of the values.
func Outcomes(d *Deployment, values Values, r Result) []Outcome {
	t := TableOf(d, r.Pod)
	c := podContext{deployment: d, pod: r.Pod, kind: d.kind(r.Pod.Role), pair: d.Pair(), table: t, values: values}
	slots := t.slotSeries()
	outcomes := make([]Outcome, 0, len(t.rows))
	for i := range t.rows {
		row := &t.rows[i]
		o := Outcome{Field: row.field, Source: row.series}
		for _, slot := range row.slots {
			v, present := values.get(slot)
			o.Inputs = append(o.Inputs, Input{slots[slot].input, v, present})
			if name := slots[slot].series; !slices.Contains(o.Series, name) {
				o.Series = append(o.Series, name)
			}
		}
		if !c.on(row.on) {
			o.Elsewhere = row.on.sentence()
		} else {
			r.outcome(row, &o)
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}

// outcome finds what the result has of a row.
func (r *Result) outcome(row *row, o *Outcome) {
	for _, g := range r.gauges {
		if g.row == row {
			o.Gauge = &Gauge{
				Field: row.field, Scope: r.Pod.Scope, Role: r.Pod.Role, Source: row.series,
				Value: g.value, PodCount: 1, ObservedAt: r.ObservedAt,
			}
			return
		}
	}
	for i := range r.caches {
		if r.caches[i].Cache == row.field {
			o.Cache = &r.caches[i]
			return
		}
	}
	for i := range r.samples {
		if r.samples[i].Field == row.field {
			o.Sample = &r.samples[i]
			return
		}
	}
	for _, m := range r.missing {
		if m.Source == row.missingSource() {
			o.Reason = m.Reason
			return
		}
	}
	o.Elsewhere = "One of its two counters has no window: their entries say why."
}

// sentence says which Pods a row is read from.
func (w where) sentence() string {
	switch w {
	case butPrefillOfPair:
		return "Not read from a prefill role of a pair."
	case butDecodeOfPair:
		return "Not read from a decode role of a pair."
	case prefillOfPair:
		return "Read from a prefill role of a pair alone."
	case decodeOfPair:
		return "Read from a decode role of a pair alone."
	default:
		return ""
	}
}

// slotSeries names what each slot of a read holds: the series that is decoded, and the input.
func (t *Table) slotSeries() []struct{ series, input string } {
	slots := make([]struct{ series, input string }, t.slots)
	for _, s := range t.series {
		set := func(slot int, suffix string) {
			slots[slot].series, slots[slot].input = s.name, s.name+suffix
		}
		switch {
		case s.slot >= 0 && s.kind == histogram:
			set(s.slot, "_sum")
			set(s.slot+1, "_count")
		case s.slot >= 0:
			set(s.slot, "")
		}
		for _, sel := range s.selections {
			if sel.statusCode5xx {
				set(sel.slot, "{"+sel.label+`=~"5[0-9][0-9]"}`)
			} else {
				set(sel.slot, "{"+sel.label+`="`+sel.value+`"}`)
			}
		}
	}
	return slots
}
