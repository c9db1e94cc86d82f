package normalize

import (
	"slices"
	"time"
)

// The windows' defaults and the fraction of WindowConfig.Min that two held reads are apart.
const (
	DefaultWindowMaxAge = 5 * time.Minute
	DefaultWindowMin    = 10 * time.Second
	// heldPerMin bounds the reads held of a Pod, however many scrapers read it: that many within
	// Min, and behind them one a source at the most.
	heldPerMin = 15
)

// WindowConfig bounds the windows between two reads of a Pod.
type WindowConfig struct {
	// MaxAge is the age at which a read is no baseline any more.
	MaxAge time.Duration
	// Min is the age from which on the newest read is preferred to an older one. Zero is the plain
	// previous read.
	Min time.Duration
}

// read is one whole read of a Pod.
type read struct {
	at     time.Time
	values Values
}

// History holds the reads of one Pod that a later read may be measured against. Its zero value is
// ready. It is not safe for concurrent use.
type History struct {
	table *Table
	// held are in order of time.
	held []read
	// last is the newest read, where it came too soon after the last held to be held: no baseline,
	// yet what it shows of a reset counts.
	last *read
	// since are the instants of each row's last reset: what was read before is no baseline for it.
	since map[Field]time.Time
}

// Held is the number of reads held.
func (h *History) Held() int { return len(h.held) }

// window is what one source gained between a baseline and now.
type window struct {
	// base is the baseline's instant.
	base     time.Time
	duration time.Duration
	// deltas are in the order of the source's slots; none is negative.
	deltas []float64
}

// window measures a source against its baseline. The reason is FirstSample without one, CounterReset
// where a counter went backwards, and empty for a valid window. All the slots are present in now.
func (h *History) window(now read, source Field, slots []int, config WindowConfig) (window, Reason) {
	usable := func(r read) bool {
		return r.at.Before(now.at) && now.at.Sub(r.at) <= config.MaxAge &&
			!r.at.Before(h.since[source]) && r.values.have(slots)
	}
	var base *read
	reset := h.last != nil && usable(*h.last) && decreased(h.last.values, now.values, slots)
	for i := len(h.held) - 1; i >= 0 && !reset; i-- {
		if !usable(h.held[i]) {
			continue
		}
		// Older reads are tried only while none is Min old, so that the oldest stands in the end.
		base = &h.held[i]
		reset = decreased(base.values, now.values, slots)
		if now.at.Sub(base.at) >= config.Min {
			break
		}
	}
	switch {
	case reset:
		if h.since == nil {
			h.since = map[Field]time.Time{}
		}
		if now.at.After(h.since[source]) {
			h.since[source] = now.at
		}
		return window{}, CounterReset
	case base == nil:
		return window{}, FirstSample
	}
	w := window{base: base.at, duration: now.at.Sub(base.at), deltas: make([]float64, len(slots))}
	for i, slot := range slots {
		w.deltas[i] = now.values[slot] - base.values[slot]
	}
	return w, ""
}

// decreased reports whether any of the slots went backwards.
func decreased(from, to Values, slots []int) bool {
	return slices.ContainsFunc(slots, func(slot int) bool { return to[slot] < from[slot] })
}

// start drops everything where the Pod is read by another table than before: a deployment's engine,
// router or mode was edited.
func (h *History) start(t *Table) {
	if h.table != t {
		*h = History{table: t}
	}
}

// hold keeps the read for later windows, and drops the reads that no later one can need.
func (h *History) hold(now read, config WindowConfig) {
	if len(h.held) > 0 {
		apart := now.at.Sub(h.held[len(h.held)-1].at)
		if apart <= 0 {
			return
		}
		if apart < config.Min/heldPerMin {
			if h.last == nil || now.at.After(h.last.at) {
				h.last = &now
			}
			return
		}
	}
	h.last = nil
	h.held = append(h.held, now)
	h.prune(now.at, config)
}

// prune drops the reads that are too old, and those of which a newer read, itself at least Min old, has
// every source: a later read would take that one.
func (h *History) prune(now time.Time, config WindowConfig) {
	covered := make([]bool, len(h.table.rows))
	kept := len(h.held)
	for i := len(h.held) - 1; i >= 0; i-- {
		r, age := h.held[i], now.Sub(h.held[i].at)
		needed := false
		for n, row := range h.table.rows {
			if row.kind == gauge || row.kind == ratio || covered[n] || !r.values.have(row.slots) {
				continue
			}
			needed = true
			covered[n] = age >= config.Min
		}
		if needed && age <= config.MaxAge || i == len(h.held)-1 {
			kept--
			h.held[kept] = r
		}
	}
	h.held = slices.Delete(h.held, 0, kept)
}
