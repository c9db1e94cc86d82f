package normalize

import (
	"bytes"
	"math"
	"slices"
)

// Values are what one exposition supplies of a table's series, one a slot of the table; NaN where the
// series is absent. They are never changed once parsed.
type Values []float64

// get is a slot's value and whether the series is present.
func (v Values) get(slot int) (float64, bool) {
	return v[slot], !math.IsNaN(v[slot])
}

// have reports whether all the slots' series are present.
func (v Values) have(slots []int) bool {
	for _, slot := range slots {
		if math.IsNaN(v[slot]) {
			return false
		}
	}
	return true
}

// values reduces the selected samples to the table's values: for each series the first spelling that
// has a valid sample, what would be counted twice counted once, and the rest summed.
func (p *Parser) values() Values {
	values := make(Values, p.table.slots)
	for i := range values {
		values[i] = math.NaN()
	}
	// In order of series, spelling and part, each group of samples in the body's order.
	slices.SortStableFunc(p.samples, func(a, b sample) int { return a.group() - b.group() })
	for rest := p.samples; len(rest) > 0; {
		index := rest[0].name.series
		end := slices.IndexFunc(rest, func(a sample) bool { return a.name.series != index })
		if end < 0 {
			end = len(rest)
		}
		p.reduce(&p.table.series[index], rest[:end], values)
		rest = rest[end:]
	}
	return values
}

// group orders samples by series, then spelling, then part.
func (a sample) group() int {
	return (a.name.series*spellings+int(a.name.spelling))*parts + int(a.name.part)
}

// reduce computes one series' values from its samples.
func (p *Parser) reduce(series *series, samples []sample, values Values) {
	for len(samples) > 0 {
		spelling := samples[0].name.spelling
		end := slices.IndexFunc(samples, func(a sample) bool { return a.name.spelling != spelling })
		if end < 0 {
			end = len(samples)
		}
		if !p.counts(series, samples[0].name) {
			p.explanation.mark(samples[:end], WrongType)
		} else if p.sum(series, samples[:end], values) {
			return
		}
		samples = samples[end:]
	}
}

// counts reports whether samples of this name count by the family's TYPE.
func (p *Parser) counts(series *series, name sampleName) bool {
	metricType, typed := p.types[name.typeName]
	if name.spelling == escaped || name.spelling == escapedOtherTotal {
		// Only where the TYPE line has the colon that the samples lack.
		if _, own := p.types[escape(name.typeName)]; own {
			return false
		}
		if !typed {
			metricType, typed = p.types[trimTotal(name.typeName)]
		}
		if !typed {
			return false
		}
	}
	switch metricType {
	case "", "untyped", "unknown":
		return true
	case "gauge", "counter":
		return series.kind != histogram
	case "histogram":
		return series.kind == histogram
	default:
		return false
	}
}

// sum writes the series' values and reports whether there are any.
func (p *Parser) sum(series *series, samples []sample, values Values) bool {
	if series.kind == histogram {
		return p.sumHistogram(series, samples, values)
	}
	samples = p.countOnce(series, samples)
	if series.slot >= 0 {
		p.explanation.mark(samples, Counted)
		values[series.slot] = total(samples, func(sample) bool { return true })
	} else {
		p.explanation.mark(samples, Unselected)
	}
	for _, sel := range series.selections {
		if !sel.statusCode5xx {
			values[sel.slot] = p.selected(samples, func(a sample) bool {
				return string(p.label(a, sel.label)) == sel.value
			})
			continue
		}
		code := func(a sample, from byte) bool {
			c := p.label(a, sel.label)
			return len(c) == 3 && c[0] >= from && c[0] <= '5' && isDigit(c[1]) && isDigit(c[2])
		}
		if slices.ContainsFunc(samples, func(a sample) bool { return code(a, '1') }) {
			values[sel.slot] = 0
			if sum := p.selected(samples, func(a sample) bool { return code(a, '5') }); !math.IsNaN(sum) {
				values[sel.slot] = sum
			}
		}
	}
	return len(samples) > 0
}

// sumHistogram sums the label sets of which both the sum and the count are valid.
func (p *Parser) sumHistogram(series *series, samples []sample, values Values) bool {
	p.explanation.mark(samples, Unmatched)
	samples = p.once(samples, func(a sample) []byte { return p.key(a, byte(a.name.part)) }, first, Repeated)
	counts := slices.IndexFunc(samples, func(a sample) bool { return a.name.part == partCount })
	if counts <= 0 {
		return false
	}
	sums, countOf := samples[:counts], make(map[string]int, len(samples)-counts)
	for i := counts; i < len(samples); i++ {
		countOf[string(p.key(samples[i], 0))] = i
	}
	var matchedSums, matchedCounts []float64
	for i, a := range sums {
		if count, both := countOf[string(p.key(a, 0))]; both {
			matchedSums, matchedCounts = append(matchedSums, a.value), append(matchedCounts, samples[count].value)
			p.explanation.mark(samples[i:i+1], Counted)
			p.explanation.mark(samples[count:count+1], Counted)
		}
	}
	if len(matchedSums) == 0 {
		return false
	}
	values[series.slot], values[series.slot+1] = sumOf(matchedSums), sumOf(matchedCounts)
	return true
}

// countOnce drops what stands for the same requests as another sample, in this order: a label set that
// repeats, priorities beside their total, ranks of one scheduler, processes of one gauge.
func (p *Parser) countOnce(series *series, samples []sample) []sample {
	if len(samples) == 1 {
		return samples
	}
	samples = p.once(samples, func(a sample) []byte { return p.key(a, 0) }, first, Repeated)
	var folded []string
	if p.table.folds == foldRanks {
		samples = p.dropPriorities(samples)
		folded = append(folded, "tp_rank", "pp_rank", "moe_ep_rank")
		samples = p.once(samples, func(a sample) []byte { return p.key(a, 0, folded...) }, largest, RankFolded)
	}
	if series.kind == gauge {
		folded = append(folded, "pid")
		samples = p.once(samples, func(a sample) []byte { return p.key(a, 0, folded...) }, largest, PidFolded)
	}
	return samples
}

// dropPriorities drops the samples of one priority that stand beside their total, priority="".
func (p *Parser) dropPriorities(samples []sample) []sample {
	totals := map[string]struct{}{}
	for _, a := range samples {
		if len(p.label(a, "priority")) == 0 {
			totals[string(p.key(a, 0))] = struct{}{}
		}
	}
	return slices.DeleteFunc(samples, func(a sample) bool {
		if len(p.label(a, "priority")) == 0 {
			return false
		}
		_, totalled := totals[string(p.key(a, 0, "priority"))]
		if totalled {
			p.explanation.markOne(a, PriorityTotalled)
		}
		return totalled
	})
}

// first and largest say whether a later sample of a key takes the place of the one that stands.
func first(_, _ float64) bool        { return false }
func largest(stands, a float64) bool { return a > stands }

// once keeps one sample a key, in place and in the order of the keys' first appearance.
func (p *Parser) once(samples []sample, key func(sample) []byte, replaces func(stands, a float64) bool, dropped Fate) []sample {
	if len(samples) == 1 {
		return samples
	}
	seen := make(map[string]int, len(samples))
	kept := samples[:0]
	for _, a := range samples {
		k := key(a)
		if at, twice := seen[string(k)]; twice {
			if replaces(kept[at].value, a.value) {
				kept[at], a = a, kept[at]
			}
			p.explanation.markOne(a, dropped)
			continue
		}
		seen[string(k)] = len(kept)
		kept = append(kept, a)
	}
	return kept
}

// key is a sample's label set in one canonical form, without the labels left out. An empty label is
// an absent one. The key is valid until the next.
func (p *Parser) key(a sample, part byte, without ...string) []byte {
	p.set = append(p.set[:0], p.labels[a.first:a.last]...)
	slices.SortFunc(p.set, func(a, b label) int { return bytes.Compare(a.name, b.name) })
	key := p.buffer[:0]
	key = append(key, part)
	for _, l := range p.set {
		if len(l.value) == 0 || slices.Contains(without, string(l.name)) {
			continue
		}
		key = append(key, l.name...)
		key = append(key, 0xfe)
		key = append(key, l.value...)
		key = append(key, 0xff)
	}
	p.buffer = key
	return key
}

// label is the value of a sample's label, empty where it has none of the name.
func (p *Parser) label(a sample, name string) []byte {
	for _, l := range p.labels[a.first:a.last] {
		if string(l.name) == name {
			return l.value
		}
	}
	return nil
}

// selected is the total of what a selection keeps.
func (p *Parser) selected(samples []sample, selects func(sample) bool) float64 {
	return total(samples, func(a sample) bool {
		if !selects(a) {
			return false
		}
		p.explanation.markOne(a, Counted)
		return true
	})
}

// total sums the selected samples; NaN where there are none.
func total(samples []sample, selects func(sample) bool) float64 {
	var selected []float64
	for _, a := range samples {
		if selects(a) {
			selected = append(selected, a.value)
		}
	}
	return sumOf(selected)
}

// sumOf adds from the smallest up, so that the order of an exposition's lines, which may differ from
// read to read, never moves a sum: a sum that moved backwards would read as a reset. It is NaN for
// no value and for a sum that is not finite.
func sumOf(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	var sum float64
	for _, v := range values {
		sum += v
	}
	if math.IsInf(sum, 0) {
		return math.NaN()
	}
	return sum
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
