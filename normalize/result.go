package normalize

import (
	"time"
)

// Result is what one Pod contributed to a collection: the outcome of Observe, or of Failed.
type Result struct {
	Pod *Pod
	// Failure is why the Pod could not be read; empty for a Pod that was.
	Failure Reason
	// ObservedAt is when the body had been read; zero for a Pod that was not.
	ObservedAt time.Time

	gauges  []gaugeValue
	caches  []CacheHit
	samples []Sample
	missing []Missing
}

// gaugeValue is one Pod's part of a gauge.
type gaugeValue struct {
	row   *row
	value float64
}

// Failed is the result of a Pod that could not be read. Its windows are not touched: the next read is
// measured against the reads held before.
func Failed(p *Pod, reason Reason) Result {
	return Result{
		Pod:     p,
		Failure: reason,
		missing: []Missing{{Pod: p.Name, Scope: p.Scope, Role: p.Role, Source: "scrape", Reason: reason}},
	}
}

// Observe applies the Pod's table to what one read supplied: values are computed against the reads
// that the history holds, then the read itself is held. The values are those of the Pod's TableOf,
// which must not be nil, and observedAt is when the body had been read.
func (h *History) Observe(d *Deployment, p *Pod, values Values, observedAt time.Time, config WindowConfig) Result {
	t := TableOf(d, p)
	h.start(t)
	o := &observation{
		podContext: podContext{
			deployment: d, pod: p, kind: d.kind(p.Role), pair: d.Pair(), table: t, values: values,
		},
		history: h,
		now:     read{observedAt, values},
		config:  config,
		result:  Result{Pod: p, ObservedAt: observedAt, missing: make([]Missing, 0, len(t.rows))},
		windows: make([]*measured, len(t.rows)),
	}
	o.idle = o.isIdle()
	for i := range t.rows {
		if r := &t.rows[i]; o.on(r.on) {
			o.apply(r)
		}
	}
	h.hold(o.now, config)
	return o.result
}

// observation is one read while the table's rows are applied to it.
type observation struct {
	podContext
	history *History
	now     read
	config  WindowConfig
	result  Result
	// idle is true where the Pod is known to have served no request in its TTFT's window.
	idle bool
	// windows are those measured so far, in the order of the table's rows: each is measured once.
	windows []*measured
}

// measured is a source's window, or the reason why it has none.
type measured struct {
	window
	reason Reason
}

// window measures the row's source, which is in the read.
func (o *observation) window(r *row) *measured {
	if o.windows[r.index] == nil {
		w, reason := o.history.window(o.now, r.field, r.slots, o.config)
		o.windows[r.index] = &measured{w, reason}
	}
	return o.windows[r.index]
}

// isIdle tells by the Pod's TTFT, as the table reads it for this Pod, whether it served no request. An
// absent, first or reset TTFT, or one that is not read here, does not tell.
func (o *observation) isIdle() bool {
	ttft := o.table.row(TTFT)
	if ttft == nil || !o.on(ttft.on) || !o.values.have(ttft.slots) {
		return false
	}
	w := o.window(ttft)
	return w.reason == "" && w.deltas[1] == 0
}

// apply computes one row's value or its missing entry. Where several reasons hold, the first is given:
// unsupported, not yet exported or absent, first sample, reset, incompatible counters, idle window, no queries or
// no observations.
func (o *observation) apply(r *row) {
	if r.kind == ratio {
		o.applyRatio(r)
		return
	}
	if len(r.unless) > 0 && r.kind != gauge && o.values.have(r.slots) {
		o.window(r) // For its reset, which counts also where the source is unsupported in this read.
	}
	for _, u := range r.unless {
		if u.condition(&o.podContext) {
			o.missing(r, u.reason)
			return
		}
	}
	if !o.values.have(r.slots) {
		o.missing(r, o.absence(r))
		return
	}
	if r.kind == gauge {
		o.result.gauges = append(o.result.gauges, gaugeValue{r, o.values[r.slots[0]]})
		return
	}
	w := o.window(r)
	if w.reason != "" {
		o.missing(r, w.reason)
		return
	}
	switch r.kind {
	case counter:
		o.sample(r, w.window, w.deltas[0]/w.duration.Seconds(), w.deltas[0])
	case histogram:
		o.applyHistogram(r, w.window)
	case cache:
		o.applyCache(r, w.window)
	}
}

// absence is why a series is not in the exposition.
func (o *observation) absence(r *row) Reason {
	if pair := o.table.row(r.beside); pair != nil && o.values.have(pair.slots) {
		return NotYetExported
	}
	if r.onceStreaming && o.idle {
		return NotYetExported
	}
	return MetricAbsent
}

func (o *observation) applyHistogram(r *row, w window) {
	sum, count := w.deltas[0], w.deltas[1]
	switch {
	case count > 0:
		o.sample(r, w, sum/count, count)
	case o.idle && r.field.Info().Section != Transfer:
		o.missing(r, IdleWindow)
	default:
		o.missing(r, NoObservations)
	}
}

func (o *observation) applyCache(r *row, w window) {
	hits, queries := w.deltas[0], 0.0
	for _, delta := range w.deltas[1:] {
		queries += delta
	}
	switch {
	case hits > queries:
		o.missing(r, IncompatibleCounters)
	case queries > 0:
		o.result.caches = append(o.result.caches, CacheHit{
			Pod: o.pod.Name, Cache: r.field, Source: r.series, Role: o.pod.Role,
			Hits: hits, Queries: queries, Rate: hits / queries,
			Window: w.duration, ObservedAt: o.now.at,
		})
	case o.idle:
		o.missing(r, IdleWindow)
	default:
		o.missing(r, NoQueries)
	}
}

// applyRatio divides two counters of one window. Where either has none, its own entry says why.
func (o *observation) applyRatio(r *row) {
	errors := o.windows[o.table.row(r.errors).index]
	requests := o.windows[o.table.row(r.requests).index]
	if errors == nil || errors.reason != "" || requests == nil || requests.reason != "" {
		return
	}
	switch e, n := errors.deltas[0], requests.deltas[0]; {
	case !errors.base.Equal(requests.base):
		o.missing(r, WindowMismatch)
	case e > n:
		o.missing(r, IncompatibleCounters)
	case n == 0:
		o.missing(r, NoRequests)
	default:
		o.sample(r, requests.window, e/n, n)
	}
}

// sample adds a value of latency, traffic or transfer.
func (o *observation) sample(r *row, w window, value, samples float64) {
	o.result.samples = append(o.result.samples, Sample{
		Field: r.field, Pod: o.pod.Name, Scope: o.pod.Scope, Role: o.pod.Role, Source: r.series,
		Value: value, Samples: samples, Window: w.duration, ObservedAt: o.now.at,
	})
}

// missing adds an entry.
func (o *observation) missing(r *row, reason Reason) {
	o.result.missing = append(o.result.missing, Missing{
		Pod: o.pod.Name, Scope: o.pod.Scope, Role: o.pod.Role, Source: r.missingSource(), Reason: reason,
	})
}

// missingSource is how a missing entry names the row: a cache's scope, every other's series.
func (r *row) missingSource() string {
	if r.kind == cache {
		return string(r.field)
	}
	return r.series
}
