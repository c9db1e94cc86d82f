package cluster

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"
)

const (
	// phaseTries bounds the servers that StartPrometheusBetween tries: three in ten fit, so that
	// one run in a thousand finds none.
	phaseTries = 20
	// phaseKnown is how long a server may take until its first scrape is to be queried.
	phaseKnown = 10 * time.Second
	// phaseTolerance is how far from the middle the second server may scrape, in intervals.
	phaseTolerance = 0.15
)

// Phase is where within its interval the server scrapes the one target that the selector finds, such
// as up{job="md-exporter"}: from 0 to 1.
func (p *Prometheus) Phase(t testing.TB, selector string) float64 {
	t.Helper()
	interval, err := time.ParseDuration(ScrapeInterval)
	if err != nil {
		t.Fatal(err)
	}
	var phase float64
	Eventually(t, phaseKnown, "a scrape of "+selector, func(ctx context.Context) error {
		at, err := p.Value(ctx, "timestamp("+selector+")")
		_, phase = math.Modf(at / interval.Seconds())
		return err
	})
	return phase
}

// StartPrometheusBetween starts a second Prometheus that scrapes the target half an interval apart
// from the first. A server's moment follows from its external labels by a hash, so servers with other labels
// are tried until one fits.
func StartPrometheusBetween(t testing.TB, first *Prometheus, selector string, jobs ...Job) *Prometheus {
	t.Helper()
	reference := first.Phase(t, selector)
	for try := range phaseTries {
		p := StartPrometheus(t, map[string]string{"replica": fmt.Sprintf("between-%d", try)}, jobs...)
		if apart := p.Phase(t, selector) - reference; math.Abs(math.Abs(apart)-0.5) <= phaseTolerance {
			t.Logf("the %d. server fits", try+1)
			return p
		}
		p.process.Kill()
	}
	t.Fatalf("none of %d Prometheus servers scrapes %s between the scrapes of the first", phaseTries, selector)
	return nil
}
