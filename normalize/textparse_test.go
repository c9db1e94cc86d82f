package normalize

import (
	"errors"
	"io"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// parseTextparse reads the body with the parser that Prometheus scrapes with.
func parseTextparse(body string) ([]labeled, error) {
	p := textparse.NewPromParser([]byte(body), labels.NewSymbolTable(), false)
	var samples []labeled
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return samples, nil
		}
		if err != nil {
			return nil, err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var l labels.Labels
		p.Labels(&l)
		if l.Get(model.MetricNameLabel) != fuzzed {
			continue
		}
		_, _, value := p.Series()
		all := l.Map()
		delete(all, model.MetricNameLabel)
		samples = append(samples, labeled{all, value})
	}
}

// FuzzTextparse holds the line parser to Prometheus's own: what both accept has the same value.
func FuzzTextparse(f *testing.F) {
	for _, lines := range seedLines {
		f.Add(lines)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		body, ours := fuzzedBody(lines)
		if !ours {
			return
		}
		values, err := vllmRouter.Parse([]byte(body))
		samples, errTextparse := parseTextparse(body)
		if err != nil || errTextparse != nil {
			return
		}
		compareSum(t, body, values, samples)
	})
}

// TestTextparseAgrees: the seeds are not all refused by one or the other.
func TestTextparseAgrees(t *testing.T) {
	var both int
	for _, lines := range seedLines {
		body, _ := fuzzedBody(lines)
		_, err := vllmRouter.Parse([]byte(body))
		_, errTextparse := parseTextparse(body)
		if err == nil && errTextparse == nil {
			both++
		}
	}
	if both < 8 {
		t.Errorf("both accept only %d of %d seeds", both, len(seedLines))
	}
}
