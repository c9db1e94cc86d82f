package simulate

import (
	"bytes"
	"math"
	"reflect"
	"testing"
)

func TestSpecimens(t *testing.T) {
	again := Specimens()
	for i, s := range Specimens() {
		if off := math.Abs(float64(len(s.Body)-s.Size)) / float64(s.Size); off > 0.15 {
			t.Errorf("%s: %d bytes are %.0f %% off %d", s.Name, len(s.Body), 100*off, s.Size)
		}
		if !bytes.Equal(s.Body, again[i].Body) {
			t.Errorf("%s is not always the same", s.Name)
		}
		if got := stated(t, s.Engine+s.Router, s.Body); !reflect.DeepEqual(got, s.Totals) {
			t.Errorf("%s states %+v, its totals say %+v", s.Name, got, s.Totals)
		}
	}
}

// BenchmarkExposition is what a simulated server costs a benchmark that reads it over HTTP.
func BenchmarkExposition(b *testing.B) {
	s := start(b, shapes()["vLLM behind its router"])
	s.Advance(60e9)
	server := find(b, s, "server")
	b.ReportAllocs()
	for b.Loop() {
		server.Exposition()
	}
}
