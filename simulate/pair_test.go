package simulate

import (
	"testing"
	"time"
)

// drained stops the traffic and lets what is under way end.
func drained(t testing.TB, d Deployment) *Simulation {
	t.Helper()
	s := start(t, d)
	s.Advance(time.Minute)
	quiet := busy
	quiet.RequestsPerSecond = 0
	s.SetLoad(quiet)
	s.Advance(time.Minute)
	return s
}

func TestPairOfSGLang(t *testing.T) {
	s := drained(t, shapes()["SGLang pair behind its gateway"])
	body, prefill := find(t, s, "prefill").Exposition()
	_, decode := find(t, s, "decode").Exposition()
	families := parse(t, body)

	for _, field := range []Field{TTFT, ITL, TPOT} {
		if _, ok := prefill.Histograms[field]; ok {
			t.Errorf("the prefill half records %s", field)
		}
	}
	if decode.Histograms[TTFT].Count == 0 || decode.Histograms[ITL].Count == 0 {
		t.Errorf("the decode half records %+v", decode.Histograms)
	}
	if decode.Caches[DevicePrefix] != (Cache{}) || decode.Caches[StoragePrefix] != (Cache{}) {
		t.Errorf("the decode half prefills: %+v", decode.Caches)
	}
	for _, field := range []Field{DevicePrefix, HostPrefix, StoragePrefix} {
		if prefill.Caches[field].Hits == 0 {
			t.Errorf("the prefill half finds nothing: %s", field)
		}
	}
	// The warm-up is the one request of the decode half that was not sent to it.
	if sent, came := prefill.Histograms[TransferSize].Count, decode.Histograms[TTFT].Count-1; sent != 2*came {
		t.Errorf("two ranks sent %v, %v requests came", sent, came)
	}
	if prefill.Values[TransferFailures] == 0 {
		t.Error("no transfer ever failed")
	}
	if n := len(families["sglang:num_transfer_failed_reqs_total"].Metric); n != 2 {
		t.Errorf("%d ranks count failed transfers", n)
	}
	if _, ok := decode.Histograms[TransferSize]; ok {
		t.Error("the decode half records transfers")
	}
	requests, _ := seriesReader(families).value("sglang:num_requests_total")
	tokens, _ := seriesReader(families).value("sglang:generation_tokens_total")
	if tokens != requests-1+8 { // the warm-up alone puts out eight
		t.Errorf("%v requests of the prefill half put out %v tokens", requests, tokens)
	}
}

func TestPairOfVLLM(t *testing.T) {
	for name, pooled := range map[string]bool{"vLLM pair behind its router": false, "vLLM pair behind llm-d with a pool": true} {
		t.Run(name, func(t *testing.T) {
			s := drained(t, shapes()[name])
			_, prefill := find(t, s, "prefill").Exposition()
			_, decode := find(t, s, "decode").Exposition()
			if p, d := prefill.Histograms[TTFT].Count, decode.Histograms[TTFT].Count; p == 0 || p != d {
				t.Errorf("the halves count %v and %v requests", p, d)
			}
			if h := prefill.Histograms[TPOT]; h.Sum != 0 || h.Count != prefill.Histograms[TTFT].Count {
				t.Errorf("the prefill half's TPOT is %+v", h)
			}
			if n := prefill.Histograms[ITL].Count; n != 0 {
				t.Errorf("the prefill half records %v gaps", n)
			}
			if decode.Histograms[ITL].Count == 0 {
				t.Error("the decode half records no gap")
			}
			if c := decode.Caches[ExternalStore]; c.Queries == 0 || c.Hits != c.Queries {
				t.Errorf("the decode half's external cache is %+v", c)
			}
			if c := prefill.Caches[ExternalStore]; c.Queries == 0 || c.Hits > 0 != pooled {
				t.Errorf("the prefill half's external cache is %+v, pool: %v", c, pooled)
			}
		})
	}
	plain := drained(t, shapes()["vLLM behind its router"])
	if _, totals := find(t, plain, "server").Exposition(); totals.Caches[ExternalStore] != (Cache{}) || totals.Caches[LocalPrefix].Hits == 0 {
		t.Errorf("without a connector the caches are %+v", totals.Caches)
	}
}
