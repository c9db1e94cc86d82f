package collector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/md-exporter/md-exporter/normalize"
)

// Metrics are the exporter's own series of what reading costs and how it ends, md_exporter_*.
type Metrics struct {
	collectionDuration prometheus.Histogram
	fetchDuration      prometheus.Histogram
	fetches            *prometheus.CounterVec
	inflight           prometheus.Gauge
	readBytes          prometheus.Counter

	// heldReads is the Reader's, once there is one.
	heldReads func() float64
}

// success is the result label of a fetch without a reason; every other result is a reason code.
const success = "success"

// result is a fetch's result label.
func result(reason normalize.Reason) string {
	if reason == "" {
		return success
	}
	return string(reason)
}

// fetchResults are the ways in which a fetch ends.
var fetchResults = []string{
	success,
	string(normalize.ConnectionFailed), string(normalize.Timeout), string(normalize.ScrapeDeadline),
	string(normalize.TLSFailed), string(normalize.HTTPStatus), string(normalize.ResponseTooLarge),
	string(normalize.MalformedResponse),
}

// NewMetrics registers the series.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		collectionDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "md_exporter_collection_duration_seconds",
			Help: "How long the reading of one deployment's Pods took, shared or not.",
			// Around the limits: one fetch (2 s), two rounds of hanging ones (4 s), a deployment (8 s).
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 1.9, 2.1, 3.9, 4.2, 6, 7.9, 8.2},
		}),
		fetchDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "md_exporter_fetch_duration_seconds",
			Help:    "How long the fetch of one Pod's exposition took, whatever its result.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 1.5, 1.9, 2.1},
		}),
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "md_exporter_fetches_total",
			Help: "Fetches of Pods' expositions by result: success, or the code of the reason why not.",
		}, []string{"result"}),
		inflight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "md_exporter_fetches_in_flight",
			Help: "Fetches of Pods' expositions in flight.",
		}),
		readBytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "md_exporter_read_bytes_total",
			Help: "Bytes of Pods' expositions read, after decompression.",
		}),
		heldReads: func() float64 { return 0 },
	}
	for _, r := range fetchResults {
		m.fetches.WithLabelValues(r)
	}
	reg.MustRegister(m.collectionDuration, m.fetchDuration, m.fetches, m.inflight, m.readBytes,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "md_exporter_held_reads",
			Help: "Reads of Pods held for later windows to start from.",
		}, func() float64 { return m.heldReads() }))
	return m
}
