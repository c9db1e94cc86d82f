package collector

import (
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// familyBuilder builds one metric family after the other in the same memory.
type familyBuilder struct {
	dto.MetricFamily

	series *Series
	// rows are all the rows built so far, of which the present family has the first.
	rows []*row
	// pairs are the label pairs so far: most values recur, in a family and from one to the next.
	pairs map[[2]string]*dto.LabelPair
}

// row is one gauge with its parts in one piece.
type row struct {
	metric dto.Metric
	gauge  dto.Gauge
	value  float64
	labels [8]*dto.LabelPair
}

// reset begins a family.
func (b *familyBuilder) reset(s *Series) {
	b.series = s
	b.Name, b.Help, b.Type = &s.Name, &s.Help, dto.MetricType_GAUGE.Enum()
	b.Metric = b.Metric[:0]
}

// add adds a value to the family, its labels sorted by name.
func (b *familyBuilder) add(value float64, labels ...string) {
	n := len(b.Metric)
	if n == len(b.rows) {
		r := &row{}
		r.gauge.Value = &r.value
		r.metric.Gauge = &r.gauge
		b.rows = append(b.rows, r)
	}
	r := b.rows[n]
	r.value = value
	r.metric.Label = r.labels[:0]
	for _, i := range b.series.sorted {
		r.metric.Label = append(r.metric.Label, b.pair(&b.series.Labels[i], labels[i]))
	}
	b.Metric = append(b.Metric, &r.metric)
}

// pair is the label pair of a name and a value.
func (b *familyBuilder) pair(name *string, value string) *dto.LabelPair {
	key := [2]string{*name, value}
	if p, known := b.pairs[key]; known {
		return p
	}
	if b.pairs == nil {
		b.pairs = map[[2]string]*dto.LabelPair{}
	}
	valid := strings.ToValidUTF8(value, "\uFFFD")
	p := &dto.LabelPair{Name: name, Value: &valid}
	b.pairs[key] = p
	return p
}
