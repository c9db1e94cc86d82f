package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	v1 "github.com/md-exporter/md-exporter/apiserver/v1"
	"github.com/md-exporter/md-exporter/normalize"
)

// TestPrintSnapshot is a snapshot with something in every section, as a person reads it.
func TestPrintSnapshot(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := normalize.Snapshot{
		Deployment: &normalize.Deployment{Namespace: "chat", Name: "qwen", Engine: "sglang", Router: &normalize.Router{Name: "sglang-gateway"}, KVCache: true},
		Mode:       normalize.ModePrefillDecode, Up: true, Partial: true, Timestamp: at, Duration: 12*time.Millisecond + 345,
		Coverage: []normalize.Coverage{{Scope: normalize.ScopeEngine, Role: "prefill", Expected: 2, Owned: 1, Read: 1}, {Scope: normalize.ScopeRouter, Expected: 1, Owned: 1, Read: 1}},
		Gauges: []normalize.Gauge{
			{Field: normalize.RouterRunning, Scope: normalize.ScopeRouter, Source: "smg_worker_requests_active", Value: 12, PodCount: 1, ObservedAt: at},
			{Field: normalize.Waiting, Scope: normalize.ScopeEngine, Role: "prefill", Source: "sglang:num_queue_reqs", Value: 0, PodCount: 1, ObservedAt: at},
		},
		Caches: []normalize.CacheHit{{Pod: "qwen-0", Cache: normalize.HostPrefix, Source: "sglang:prefill_effective_tokens_total", Role: "prefill", Hits: 25, Queries: 1e6, Rate: 25e-6, Window: 5 * time.Second, ObservedAt: at}},
		Samples: []normalize.Sample{
			{Field: normalize.TTFT, Pod: "qwen-0", Scope: normalize.ScopeEngine, Role: "prefill", Source: "sglang:time_to_first_token_seconds", Value: 1.0 / 3, Samples: 3, Window: 5*time.Second + time.Millisecond/3, ObservedAt: at},
			{Field: normalize.Requests, Pod: "qwen-router", Scope: normalize.ScopeRouter, Source: "smg_router_requests_total", Value: 12345.678, Samples: 61728, Window: 5 * time.Second, ObservedAt: at},
			{Field: normalize.TransferSize, Pod: "qwen-0", Scope: normalize.ScopeEngine, Role: "prefill", Source: "sglang:kv_transfer_total_mb", Value: 1.5, Samples: 2, Window: 5 * time.Second, ObservedAt: at},
		},
		Missing: []normalize.Missing{
			{Source: "pod-discovery", Reason: normalize.PodLimit},
			{Pod: "qwen-0", Scope: normalize.ScopeEngine, Role: "prefill", Source: "storage-prefix", Reason: normalize.UnsupportedNoStorageTier},
			{Pod: "qwen\x1b-router", Scope: normalize.ScopeRouter, Source: "smg_worker_pool_size", Reason: normalize.MetricAbsent},
		},
	}
	var got bytes.Buffer
	printSnapshot(&got, &s, v1.FromSnapshot(&s))
	golden(t, got.String(), `
chat/qwen: sglang as a prefill/decode pair behind sglang-gateway, with a KV cache pool
Partial: 2 required sources did not contribute.

PODS
  ROLE     EXPECTED  OWNED  READ
  prefill  2         1      1
  router   1         1      1

PROCESSING
  FIELD           ROLE    VALUE  UNIT      PODS  SOURCE
  router-running  router  12     requests  1     smg_worker_requests_active

QUEUEING
  FIELD    ROLE     VALUE  UNIT      PODS  SOURCE
  waiting  prefill  0      requests  1     sglang:num_queue_reqs

CACHE HITS
  POD     CACHE        ROLE     RATE   HITS  QUERIES  UNIT    WINDOW  SOURCE
  qwen-0  host-prefix  prefill  0.0 %  25    1000000  tokens  5s      sglang:prefill_effective_tokens_total

LATENCY
  POD     FIELD  ROLE     VALUE   UNIT     SAMPLES  WINDOW  SOURCE
  qwen-0  ttft   prefill  0.3333  seconds  3        5s      sglang:time_to_first_token_seconds

TRAFFIC
  POD          FIELD     ROLE    VALUE  UNIT             SAMPLES  WINDOW  SOURCE
  qwen-router  requests  router  12346  requests/second  61728    5s      smg_router_requests_total

TRANSFER
  POD     FIELD          ROLE     VALUE  UNIT  SAMPLES  WINDOW  SOURCE
  qwen-0  transfer-size  prefill  1.5    MB    2        5s      sglang:kv_transfer_total_mb

MISSING
  POD           ROLE     SOURCE                REQUIRED  CODE                         REASON
  -             -        pod-discovery         yes       pod_limit                    The deployment owns more Pods than one collection reads.
  qwen�-router  router   smg_worker_pool_size  yes       metric_absent                A required series is not in the Pod's exposition.
  qwen-0        prefill  storage-prefix        no        unsupported_no_storage_tier  The Pod builds no storage tier.

chat/qwen was read at 2026-01-02T03:04:05Z in 12ms.
`)
}

// TestPrintExplanation is what inspect says of two reads of a body with something of every kind.
func TestPrintExplanation(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	bodies := []exposition{
		{"first.prom", []byte("smg_router_requests_total 39999970\n"), at},
		{stdin, []byte(`# TYPE smg_worker_pool_size gauge
smg_worker_pool_size{pid="1",a="x"} 2
smg_worker_pool_size{pid="2",a="x"} 3
smg_worker_pool_size{pid="1",a="y"} NaN
# TYPE smg_worker_requests_active summary
smg_worker_requests_active 1
smg_router_requests 7
smg_router_requests_total{route="\n"} 40000000
smg_router_requests_total{route="\n"} 90
smg_http_responses_total{status_code="200"} 9
smg_http_responses_total{status_code="503"} 2
`), at.Add(30 * time.Second)},
	}
	var f inspectFlags
	shape, guess, err := f.shape(bodies)
	if err != nil {
		t.Fatal(err)
	}
	e, err := f.explain(shape, bodies)
	if err != nil {
		t.Fatal(err)
	}
	e.guess = guess
	var got bytes.Buffer
	e.print(&got)
	golden(t, got.String(), `
first.prom and standard input: sglang-gateway in ordinary serving
Guessed from the families: --router=sglang-gateway.
Two expositions, 30s apart: values are those of the second, windows those between them.

FIELDS
  FIELD               VALUE              SOURCE                                                     WHY
  router-running      missing            smg_worker_requests_active                                 metric_absent: A required series is not in the Pod's exposition.
  router-backends     3 backends         smg_worker_pool_size                                       now
  requests            1 requests/second  smg_router_requests_total                                  30 samples in 30s
  errors              missing            smg_router_request_errors_total                            not_yet_exported: The series exports nothing before its first increment or observation.
  error-ratio         not read           smg_router_requests_total+smg_router_request_errors_total  One of its two counters has no window: their entries say why.
  http-5xx-responses  missing            smg_http_responses_total                                   first_sample: There is no earlier read to measure a window against.

SERIES
  smg_worker_requests_active: for router-running; TYPE summary; 0 of 1 samples counted
    the TYPE is not one that the field reads:
      {} 1
  smg_worker_pool_size: for router-backends; TYPE gauge; 1 of 3 samples counted
    = 3, absent before
    counted:
      {pid="2",a="x"} 3
    not finite, or negative: no sample:
      {pid="1",a="y"} NaN
    another process of the same server: the processes are counted once, by the largest:
      {pid="1",a="x"} 2
  smg_router_requests_total: for requests, error-ratio (not read); 1 of 3 samples counted
    = 40000000, before 39999970
    counted:
      {route="\n"} 40000000
    the series is read by another spelling of its name:
      smg_router_requests 7
    the label set has come before: the first is counted once:
      {route="\n"} 90
  smg_router_request_errors_total: for errors, error-ratio (not read); not in the exposition
  smg_http_responses_total: for http-5xx-responses; 1 of 2 samples counted
    {status_code=~"5[0-9][0-9]"} = 2, absent before
    counted:
      {status_code="503"} 2
    no value of the label that a field reads:
      {status_code="200"} 9
`)
}

// Of many samples the first are written out.
func TestPrintManySamples(t *testing.T) {
	var body strings.Builder
	for i := range 20 {
		body.WriteString("vllm:num_requests_running{model=\"m\",e=\"" + string(rune('a'+i)) + "\"} 1\n")
	}
	var f inspectFlags
	e, err := f.explain(f.engineShape("vllm"), []exposition{{"a", []byte(body.String()), time.Now()}})
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	e.print(&got)
	for _, part := range []string{"20 of 20 samples counted", "\n    every sample has {model=\"m\"}\n", "\n      {e=\"l\"} 1\n      and 8 more\n"} {
		if !strings.Contains(got.String(), part) {
			t.Errorf("no %q in %s", part, got.String())
		}
	}
}

// The line of progress is for a terminal alone.
func TestProgress(t *testing.T) {
	var buffer bytes.Buffer
	newProgress(&buffer).say("reading")
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	newProgress(file).say("reading")
	if info, err := file.Stat(); err != nil || info.Size() != 0 || buffer.Len() != 0 {
		t.Errorf("written to what is no terminal: %v, %q", info, buffer.String())
	}
	p := &progress{&buffer}
	p.say("reading %s", "a\nb")
	p.clear()
	if want := eraseLine + "reading a�b" + eraseLine; buffer.String() != want {
		t.Errorf("got %q, want %q", buffer.String(), want)
	}
}

// golden compares texts line by line; want begins with a line break.
func golden(t *testing.T, got, want string) {
	t.Helper()
	want = strings.TrimPrefix(want, "\n")
	if got == want {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		var g, w string
		if i < len(gotLines) {
			g = gotLines[i]
		}
		if i < len(wantLines) {
			w = wantLines[i]
		}
		if g != w {
			t.Errorf("line %d:\n got %q\nwant %q", i+1, g, w)
		}
	}
}
