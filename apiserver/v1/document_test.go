package v1

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/md-exporter/md-exporter/normalize"
)

// snapshot has an element of every list.
func snapshot() *normalize.Snapshot {
	at := time.Date(2026, 5, 1, 12, 0, 0, 250_000_000, time.UTC)
	window := 12500 * time.Millisecond
	return &normalize.Snapshot{
		Deployment: &normalize.Deployment{Namespace: "chat", Name: "qwen", UID: "0b2c", Engine: "sglang"},
		Up:         true, Partial: true,
		Timestamp: at.Add(time.Second), Duration: 2 * time.Second,
		Gauges: []normalize.Gauge{
			{Field: normalize.DecodeTransferWaiting, Scope: normalize.ScopeEngine, Role: "decode", Source: "sglang:num_decode_transfer_queue_reqs", PodCount: 1, ObservedAt: at},
			{Field: normalize.RouterBackends, Scope: normalize.ScopeRouter, Source: "smg_worker_pool_size", Value: 3, PodCount: 1, ObservedAt: at},
			{Field: normalize.Running, Scope: normalize.ScopeEngine, Role: "decode", Source: "sglang:num_running_reqs", Value: 7, PodCount: 2, ObservedAt: at},
		},
		Caches: []normalize.CacheHit{{
			Pod: "qwen-prefill-0", Cache: normalize.DevicePrefix, Source: "sglang:prefill_effective_tokens_total", Role: "prefill",
			Hits: 30, Queries: 120, Rate: 0.25, Window: window, ObservedAt: at,
		}},
		Samples: []normalize.Sample{
			{Field: normalize.TTFT, Pod: "qwen-decode-0", Scope: normalize.ScopeEngine, Role: "decode", Source: "sglang:time_to_first_token_seconds", Value: 0.5, Samples: 4, Window: window, ObservedAt: at},
			{Field: normalize.TransferSpeed, Pod: "qwen-prefill-0", Scope: normalize.ScopeEngine, Role: "prefill", Source: "sglang:kv_transfer_speed_gb_s", Value: 8, Samples: 2, Window: window, ObservedAt: at},
			{Field: normalize.Requests, Pod: "qwen-router-a", Scope: normalize.ScopeRouter, Source: "smg_router_requests_total", Value: 2, Samples: 25, Window: window, ObservedAt: at},
		},
		Missing: []normalize.Missing{
			{Scope: normalize.ScopeEngine, Role: "decode", Source: "engine/decode", Reason: normalize.ReplicasMissing},
			{Pod: "qwen-decode-0", Scope: normalize.ScopeEngine, Role: "decode", Source: "sglang:inter_token_latency_seconds", Reason: normalize.IdleWindow},
		},
	}
}

// The document is that of the design, with a measured zero as zero and nothing as an empty list.
func TestDocument(t *testing.T) {
	for name, s := range map[string]*normalize.Snapshot{
		"document": snapshot(),
		"empty": {
			Deployment: &normalize.Deployment{Namespace: "chat", Name: "idle", UID: "77"},
			Empty:      true, Timestamp: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.MarshalIndent(FromSnapshot(s), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join("testdata", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(append(got, '\n'), want) {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}

// Every field stands in its section, with the unit that the design gives it.
func TestUnits(t *testing.T) {
	units := map[string]string{
		"running": "requests", "waiting": "requests", "decode-transfer-waiting": "requests", "router-running": "requests",
		"router-backends": "backends", "router-reported-workers": "workers",
		"local-prefix": "tokens", "external-store": "tokens", "device-prefix": "tokens", "host-prefix": "tokens", "storage-prefix": "tokens",
		"ttft": "seconds", "tpot": "seconds", "itl": "seconds",
		"requests": "requests/second", "successful-requests": "requests/second", "pd-requests": "requests/second",
		"request-errors": "errors/second", "errors": "errors/second", "pd-errors": "errors/second", "transfer-failures": "errors/second",
		"retries-exhausted": "events/second", "http-5xx-responses": "responses/second", "error-ratio": "fraction",
		"transfer-latency": "milliseconds", "transfer-speed": "GB/second", "transfer-size": "MB",
	}
	s := snapshot()
	s.Gauges, s.Caches, s.Samples, s.Missing = nil, nil, nil, nil
	for _, info := range normalize.Fields() {
		switch info.Section {
		case normalize.Processing, normalize.Queueing:
			s.Gauges = append(s.Gauges, normalize.Gauge{Field: info.Field})
		case normalize.CacheHits:
			s.Caches = append(s.Caches, normalize.CacheHit{Cache: info.Field})
		default:
			s.Samples = append(s.Samples, normalize.Sample{Field: info.Field})
		}
	}
	text, err := json.Marshal(FromSnapshot(s))
	if err != nil {
		t.Fatal(err)
	}
	var sections map[string]json.RawMessage
	if err := json.Unmarshal(text, &sections); err != nil {
		t.Fatal(err)
	}
	for _, info := range normalize.Fields() {
		var elements []struct{ Name, Scope, Unit string }
		if err := json.Unmarshal(sections[string(info.Section)], &elements); err != nil {
			t.Fatal(err)
		}
		var found int
		for _, e := range elements {
			if e.Name == string(info.Field) || e.Scope == string(info.Field) {
				found++
				if e.Unit != units[string(info.Field)] {
					t.Errorf("%s is in %q, want %q", info.Field, e.Unit, units[string(info.Field)])
				}
			}
		}
		if found != 1 {
			t.Errorf("%s stands %d times in %s", info.Field, found, info.Section)
		}
	}
	if len(units) != len(normalize.Fields()) {
		t.Errorf("%d units of %d fields", len(units), len(normalize.Fields()))
	}
}

// A copy is equal and shares no list.
func TestDeepCopy(t *testing.T) {
	m := FromSnapshot(snapshot())
	c := m.DeepCopyObject().(*ModelDeploymentMetrics)
	if !reflect.DeepEqual(c, m) {
		t.Errorf("got %v, want %v", c, m)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeOf(*m)) {
		if field.Type.Kind() == reflect.Slice && len(field.Index) == 1 && !strings.HasPrefix(field.Name, "Type") {
			a, b := reflect.ValueOf(m).Elem().FieldByIndex(field.Index), reflect.ValueOf(c).Elem().FieldByIndex(field.Index)
			if a.Len() == 0 || a.Pointer() == b.Pointer() {
				t.Errorf("%s is empty or shared", field.Name)
			}
		}
	}
}
