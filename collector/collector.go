package collector

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
)

// Collector collects some deployments once, for one request: it reads them side by side and renders what
// is in when they are all read or the request's context ends. It lives as long as the request.
//
// Handler writes it by Encode. It is a prometheus.Collector, too, for a program that has a registry of its
// own; the two render the same rows.
type Collector struct {
	ctx         context.Context
	reader      *Reader
	deployments []*discovery.Deployment
}

// NewCollector binds a collection of the deployments to the request's context.
func NewCollector(ctx context.Context, reader *Reader, deployments []*discovery.Deployment) *Collector {
	return &Collector{ctx, reader, deployments}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, s := range all {
		descs <- s.desc
	}
}

// Collect implements prometheus.Collector. A label value that no exposition can carry costs its own
// series alone.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	snapshots := c.snapshots()
	for _, s := range all {
		for i := range snapshots {
			s.rows(&snapshots[i], func(value float64, labels ...string) {
				metric, err := prometheus.NewConstMetric(s.desc, prometheus.GaugeValue, value, labels...)
				if err != nil {
					metric = prometheus.NewInvalidMetric(s.desc, err)
				}
				metrics <- metric
			})
		}
	}
}

// Encode collects like Collect and writes the series family by family, sorted by name. A registry would
// hold every series of every deployment at once, which for a thousand deployments is a hundred
// megabytes.
func (c *Collector) Encode(to expfmt.Encoder) error {
	snapshots := c.snapshots()
	var family familyBuilder
	for _, s := range all {
		family.reset(s)
		for i := range snapshots {
			s.rows(&snapshots[i], family.add)
		}
		if len(family.Metric) == 0 {
			continue
		}
		if err := to.Encode(&family.MetricFamily); err != nil {
			return err
		}
	}
	return nil
}

// snapshots reads the deployments side by side, so that a slow one costs another nothing.
func (c *Collector) snapshots() []normalize.Snapshot {
	snapshots := make([]normalize.Snapshot, len(c.deployments))
	var wg sync.WaitGroup
	for i, d := range c.deployments {
		wg.Go(func() { snapshots[i] = c.reader.Snapshot(c.ctx, d) })
	}
	wg.Wait()
	return snapshots
}
