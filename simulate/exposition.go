package simulate

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// kind is a family's TYPE.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
	summary   kind = "summary"
)

// family describes one metric family: its facts as the real exporter has them, and a sentence of our own.
type family struct {
	name string
	kind kind
	help string
	// labels are the names whose values a series is addressed by, in the order that values are given.
	labels  []string
	buckets []float64
	// seed lists the values of the last label whose series exist from the start.
	seed []string
	// start is the value that a seeded series begins with.
	start float64
	// lazy families have no series before their first increment or observation.
	lazy bool
}

// dialect is how one client library writes the text format.
type dialect struct {
	// sorted writes labels by name, with le among them unless leLast.
	sorted, leLast bool
	help           bool
	// created writes a <name>_created gauge after each counter and histogram of the engine's own.
	created bool
	// order is how the parts of a histogram follow each other: s(um), b(uckets), c(ount).
	order string
	// blank writes an empty line after each family.
	blank bool
	// quantiles are those of a summary.
	quantiles []float64
	float     func([]byte, float64) []byte
}

var (
	// python is prometheus_client in one process (vLLM).
	python = dialect{sorted: true, help: true, created: true, order: "bcs", float: appendPythonFloat}
	// multiprocess is prometheus_client over its memory-mapped files (SGLang): no _created, sum first.
	multiprocess = dialect{sorted: true, help: true, order: "sbc", float: appendPythonFloat}
	// rust is the metrics crate's exporter (vllm-router, smg).
	rust = dialect{leLast: true, order: "bsc", blank: true, quantiles: []float64{0, 0.5, 0.9, 0.95, 0.99, 0.999, 1}, float: appendRustFloat}
	// golang is client_golang (llm-d).
	golang = dialect{sorted: true, leLast: true, help: true, order: "bsc", quantiles: []float64{0, 0.25, 0.5, 0.75, 1}, float: appendGoFloat}
)

// summaryWindow bounds the observations that a summary's quantiles are taken over.
const summaryWindow = 64

// series is one label set of a family.
type series struct {
	// head and tail are the labels before and after le, each with the comma that joins it.
	head, tail string
	value      float64
	counts     []uint64 // a bucket each, not cumulative; the last is above every bound
	count      uint64
	sum        float64
	recent     []float64
}

// metric is a family with its series.
type metric struct {
	family
	series []*series
	byKey  map[string]*series
}

// registry holds one process's families in the order that its body lists them.
type registry struct {
	dialect dialect
	metrics []*metric
	byName  map[string]*metric
	// started is the process's start in Unix seconds, as _created states it.
	started float64
}

func newRegistry(d dialect, started float64, families []family) *registry {
	r := &registry{dialect: d, started: started, byName: make(map[string]*metric, len(families))}
	for _, f := range families {
		m := &metric{family: f, byKey: map[string]*series{}}
		r.metrics = append(r.metrics, m)
		r.byName[f.name] = m
	}
	return r
}

// seed creates the series that exist from the start of every family whose labels are the base's
// names, or these and one more whose values the family lists.
func (r *registry) seed(base, values []string) {
	for _, m := range r.metrics {
		if m.lazy || len(m.labels) < len(base) || !slices.Equal(m.labels[:len(base)], base) {
			continue
		}
		switch {
		case len(m.labels) == len(base) && m.seed == nil:
			r.get(m.name, values).value = m.start
		case len(m.labels) == len(base)+1:
			for _, v := range m.seed {
				r.get(m.name, append(slices.Clone(values), v)).value = m.start
			}
		}
	}
}

// get returns the series with these label values, made where it is new.
func (r *registry) get(name string, values []string) *series {
	m := r.byName[name]
	if m == nil {
		panic("simulate: no family " + name)
	}
	if len(values) != len(m.labels) {
		panic("simulate: " + name + " takes " + strconv.Itoa(len(m.labels)) + " label values")
	}
	key := strings.Join(values, "\xff")
	s := m.byKey[key]
	if s == nil {
		s = &series{}
		s.head, s.tail = labelText(r.dialect, m.labels, values)
		if m.kind == histogram {
			s.counts = make([]uint64, len(m.buckets)+1)
		}
		m.byKey[key] = s
		m.series = append(m.series, s)
	}
	return s
}

// has reports whether the series exists.
func (r *registry) has(name string, values []string) bool {
	return r.byName[name].byKey[strings.Join(values, "\xff")] != nil
}

func (r *registry) add(name string, v float64, values ...string) { r.get(name, values).value += v }
func (r *registry) set(name string, v float64, values ...string) { r.get(name, values).value = v }

// observe records v, n times, in a histogram or summary.
func (r *registry) observe(name string, v float64, n int, values ...string) {
	if n <= 0 {
		return
	}
	s := r.get(name, values)
	s.count += uint64(n)
	s.sum += v * float64(n)
	if r.byName[name].kind == summary {
		s.recent = append(s.recent, v)
		if len(s.recent) > summaryWindow {
			s.recent = slices.Delete(s.recent, 0, len(s.recent)-summaryWindow)
		}
		return
	}
	i, _ := slices.BinarySearch(r.byName[name].buckets, v)
	s.counts[i] += uint64(n)
}

// labelText renders label pairs as the text before and after the place of le.
func labelText(d dialect, names, values []string) (head, tail string) {
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	if d.sorted {
		slices.SortFunc(order, func(a, b int) int { return strings.Compare(names[a], names[b]) })
	}
	var before, behind []string
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	for _, i := range order {
		pair := names[i] + `="` + escape.Replace(values[i]) + `"`
		if d.leLast || names[i] < "le" {
			before = append(before, pair+",")
		} else {
			behind = append(behind, ","+pair)
		}
	}
	return strings.Join(before, ""), strings.Join(behind, "")
}

// append renders every family that has a series.
func (r *registry) append(b []byte) []byte {
	for _, m := range r.metrics {
		if len(m.series) == 0 {
			continue
		}
		b = r.appendHeader(b, m.name, m.kind, m.help)
		for _, s := range m.series {
			switch m.kind {
			case histogram:
				b = r.appendHistogram(b, m, s)
			case summary:
				b = r.appendSummary(b, m, s)
			default:
				b = r.appendSample(b, m.name, "", s, "", s.value)
			}
		}
		if r.dialect.blank {
			b = append(b, '\n')
		}
		if r.dialect.created && strings.Contains(m.name, ":") && (m.kind == counter || m.kind == histogram) {
			name := m.name
			if m.kind == counter {
				name = strings.TrimSuffix(name, "_total")
			}
			b = r.appendHeader(b, name+"_created", gauge, m.help)
			for i, s := range m.series {
				b = r.appendSample(b, name, "_created", s, "", r.started+float64(i+1)/(1<<14))
			}
		}
	}
	return b
}

func (r *registry) appendHeader(b []byte, name string, k kind, help string) []byte {
	if r.dialect.help {
		b = append(b, "# HELP "...)
		b = append(b, name...)
		b = append(b, ' ')
		b = append(b, help...)
		b = append(b, '\n')
	}
	b = append(b, "# TYPE "...)
	b = append(b, name...)
	b = append(b, ' ')
	b = append(b, k...)
	return append(b, '\n')
}

// appendSample writes one line; extra is a pair such as le="0.5" that goes between head and tail.
func (r *registry) appendSample(b []byte, name, suffix string, s *series, extra string, v float64) []byte {
	b = append(b, name...)
	b = append(b, suffix...)
	if s.head != "" || s.tail != "" || extra != "" {
		b = append(b, '{')
		switch {
		case extra != "":
			b = append(b, s.head...)
			b = append(b, extra...)
			b = append(b, s.tail...)
		case s.tail != "" && s.head == "":
			b = append(b, s.tail[1:]...)
		case s.tail == "":
			b = append(b, s.head[:len(s.head)-1]...)
		default:
			b = append(b, s.head...)
			b = append(b, s.tail[1:]...)
		}
		b = append(b, '}')
	}
	b = append(b, ' ')
	b = r.dialect.float(b, v)
	return append(b, '\n')
}

func (r *registry) appendHistogram(b []byte, m *metric, s *series) []byte {
	for _, part := range r.dialect.order {
		switch part {
		case 's':
			b = r.appendSample(b, m.name, "_sum", s, "", s.sum)
		case 'c':
			b = r.appendSample(b, m.name, "_count", s, "", float64(s.count))
		case 'b':
			var cumulative uint64
			for i, n := range s.counts {
				cumulative += n
				bound := math.Inf(1)
				if i < len(m.buckets) {
					bound = m.buckets[i]
				}
				le := string(append(r.dialect.float([]byte(`le="`), bound), '"'))
				b = r.appendSample(b, m.name, "_bucket", s, le, float64(cumulative))
			}
		}
	}
	return b
}

func (r *registry) appendSummary(b []byte, m *metric, s *series) []byte {
	ordered := slices.Clone(s.recent)
	slices.Sort(ordered)
	for _, q := range r.dialect.quantiles {
		var v float64
		if len(ordered) > 0 {
			v = ordered[int(q*float64(len(ordered)-1)+0.5)]
		}
		label := string(append(r.dialect.float([]byte(`quantile="`), q), '"'))
		b = r.appendSample(b, m.name, "", s, label, v)
	}
	b = r.appendSample(b, m.name, "_sum", s, "", s.sum)
	return r.appendSample(b, m.name, "_count", s, "", float64(s.count))
}

// appendPythonFloat writes as Python's client does: repr, and an exponent from seven digits on,
// whose padding is one zero whatever the exponent's width.
func appendPythonFloat(b []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	case math.IsInf(v, -1):
		return append(b, "-Inf"...)
	case math.IsNaN(v):
		return append(b, "NaN"...)
	case v != 0 && math.Abs(v) < 1e-4 || math.Abs(v) >= 1e16:
		return strconv.AppendFloat(b, v, 'e', -1, 64)
	}
	text := strconv.FormatFloat(v, 'f', -1, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	if v > 0 && len(whole) > 6 {
		mantissa := strings.TrimRight(whole[:1]+"."+whole[1:]+fraction, "0.")
		b = append(b, mantissa...)
		b = append(b, "e+0"...)
		return strconv.AppendInt(b, int64(len(whole)-1), 10)
	}
	b = append(b, text...)
	if fraction == "" {
		b = append(b, ".0"...)
	}
	return b
}

// appendRustFloat writes digits only, never an exponent.
func appendRustFloat(b []byte, v float64) []byte {
	if math.IsInf(v, 1) {
		return append(b, "+Inf"...)
	}
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}

// appendGoFloat writes as client_golang does.
func appendGoFloat(b []byte, v float64) []byte {
	if math.IsInf(v, 1) {
		return append(b, "+Inf"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}
