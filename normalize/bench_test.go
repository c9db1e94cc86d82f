package normalize_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/md-exporter/md-exporter/normalize"
	"github.com/md-exporter/md-exporter/simulate"
)

// BenchmarkRead measures reading a body here beside its peers, on the same bodies in the same run:
// expfmt on the whole body, and Prometheus's own parser over all its series.
func BenchmarkRead(b *testing.B) {
	for _, s := range simulate.Specimens() {
		table := tableOf(s.Engine, s.Router)
		b.Run(fmt.Sprintf("%s/%dKB", s.Name, len(s.Body)/1000), func(b *testing.B) {
			b.Run("md-exporter", func(b *testing.B) {
				measure(b, s.Body, func() error {
					_, err := table.Parse(s.Body)
					return err
				})
			})
			b.Run("expfmt", func(b *testing.B) {
				measure(b, s.Body, func() error {
					parser := expfmt.NewTextParser(model.LegacyValidation)
					_, err := parser.TextToMetricFamilies(bytes.NewReader(s.Body))
					return err
				})
			})
			b.Run("textparse", func(b *testing.B) {
				measure(b, s.Body, func() error { return parseAll(s.Body) })
			})
		})
	}
}

func measure(b *testing.B, body []byte, read func() error) {
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := read(); err != nil {
			b.Fatal(err)
		}
	}
}

// parseAll reads every series with its labels and value, as a scrape of Prometheus does.
func parseAll(body []byte) error {
	parser := textparse.NewPromParser(body, labels.NewSymbolTable(), false)
	var set labels.Labels
	for {
		entry, err := parser.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case entry == textparse.EntrySeries:
			parser.Series()
			parser.Labels(&set)
		}
	}
}

// tableOf is the table of an engine, or of a router where there is no engine.
func tableOf(engine, router string) *normalize.Table {
	d := &normalize.Deployment{Engine: engine, Router: &normalize.Router{Name: router}}
	p := &normalize.Pod{Scope: normalize.ScopeEngine}
	if engine == "" {
		p.Scope = normalize.ScopeRouter
	}
	return normalize.TableOf(d, p)
}
