package simulate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// ours are families that the simulation has and the capture's build has not.
var ours = []string{"vllm:request_prefill_time_seconds", "vllm:request_prefill_time_seconds_created", "http_requests_total",
	"sglang:time_to_first_token_seconds", "sglang:kv_transfer_total_mb"}

// A body has the families, label names and bucket bounds of a real one of its kind.
func TestShapeOfRealBodies(t *testing.T) {
	for _, c := range []struct {
		capture, shape, role string
	}{
		{"gen-vllm-single.prom", "vLLM behind its router", "server"},
		{"gen-vllm-dp2.prom", "vLLM with data-parallel ranks", "server"},
		{"gen-sglang-tp4-default.prom", "SGLang with tensor-parallel ranks", "server"},
		{"gen-sglang-hicache-tiers.prom", "SGLang with a pool", "server"},
		{"gen-sglang-priority-label.prom", "SGLang with priorities", "server"},
		{"gen-sglang-pd-prefill-tp2.prom", "SGLang pair behind its gateway", "prefill"},
		{"gen-sglang-pd-decode-tp2.prom", "SGLang pair behind its gateway", "decode"},
		{"epp-real-registry-busy.prom", "vLLM pair behind llm-d with a pool", ""},
	} {
		t.Run(c.capture, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", "shared", "captures", c.capture))
			if err != nil {
				t.Skip("the capture is not here")
			}
			s := start(t, shapes()[c.shape])
			s.Advance(time.Minute)
			body, _ := find(t, s, c.role).Exposition()
			real, got := parse(t, text), parse(t, body)
			for name, want := range real {
				if name == "sglang:num_bootstrap_failed_reqs_total" {
					continue // no load makes the two halves miss each other
				}
				f := got[name]
				if f == nil {
					t.Errorf("%s is missing", name)
					continue
				}
				if f.GetType() != want.GetType() {
					t.Errorf("%s is a %v, the real one a %v", name, f.GetType(), want.GetType())
				}
				if g, w := labelNames(f), labelNames(want); g != w {
					t.Errorf("%s has the labels %s, the real one %s", name, g, w)
				}
				if g, w := bounds(f), bounds(want); !slices.Equal(g, w) && !runtimeOwn(name) {
					t.Errorf("%s has the bounds %v, the real one %v", name, g, w)
				}
			}
			for name := range got {
				if real[name] == nil && !slices.Contains(ours, name) {
					t.Errorf("%s is not in a real body", name)
				}
			}
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(line, "# HELP ") && strings.Contains(string(body), line) {
					t.Errorf("copied: %s", line)
				}
			}
		})
	}
}

// runtimeOwn are families whose bounds depend on the Go release.
func runtimeOwn(name string) bool { return strings.HasPrefix(name, "go_") }

func labelNames(f *dto.MetricFamily) string {
	var names []string
	for _, l := range f.Metric[0].Label {
		names = append(names, l.GetName())
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

func bounds(f *dto.MetricFamily) []float64 {
	var all []float64
	for _, b := range f.Metric[0].GetHistogram().GetBucket() {
		all = append(all, b.GetUpperBound())
	}
	return all
}
