package simulate

import (
	"maps"
	"math"
	"time"
)

// Field names one thing that a body states, by the name that the exporter's specification gives it.
type Field string

// The gauges.
const (
	Running               Field = "running"
	Waiting               Field = "waiting"
	DecodeTransferWaiting Field = "decode-transfer-waiting"
	RouterRunning         Field = "router-running"
	RouterBackends        Field = "router-backends"
	RouterReportedWorkers Field = "router-reported-workers"
)

// The caches.
const (
	LocalPrefix   Field = "local-prefix"
	ExternalStore Field = "external-store"
	DevicePrefix  Field = "device-prefix"
	HostPrefix    Field = "host-prefix"
	StoragePrefix Field = "storage-prefix"
)

// The histograms. TransferLatency is in milliseconds, TransferSpeed in GB/s, TransferSize in MB, the
// others in seconds.
const (
	TTFT            Field = "ttft"
	TPOT            Field = "tpot"
	ITL             Field = "itl"
	TransferLatency Field = "transfer-latency"
	TransferSpeed   Field = "transfer-speed"
	TransferSize    Field = "transfer-size"
)

// The counters.
const (
	TransferFailures   Field = "transfer-failures"
	Requests           Field = "requests"
	SuccessfulRequests Field = "successful-requests"
	PDRequests         Field = "pd-requests"
	RequestErrors      Field = "request-errors"
	Errors             Field = "errors"
	PDErrors           Field = "pd-errors"
	RetriesExhausted   Field = "retries-exhausted"
	HTTP5xxResponses   Field = "http-5xx-responses"
)

// Totals are what one body states: a field that the body has no sample of has no entry. Counters and
// histograms are totals since the process started. What tensor-parallel ranks each state of the same
// requests is counted once, data-parallel ranks and all other label sets are added, and each rank's
// observations count in a histogram.
type Totals struct {
	Values     map[Field]float64
	Histograms map[Field]Sum
	Caches     map[Field]Cache
}

// Sum is a histogram's sum and count over all label sets.
type Sum struct {
	Sum   float64
	Count float64
}

// Cache is a cache's counters, in tokens. SGLang's queries are the sum of its four modes.
type Cache struct {
	Hits    float64
	Queries float64
}

func newTotals() Totals {
	return Totals{Values: map[Field]float64{}, Histograms: map[Field]Sum{}, Caches: map[Field]Cache{}}
}

func (t Totals) clone() Totals {
	return Totals{Values: maps.Clone(t.Values), Histograms: maps.Clone(t.Histograms), Caches: maps.Clone(t.Caches)}
}

func (t Totals) observe(f Field, v float64, n int) {
	if n <= 0 {
		return
	}
	h := t.Histograms[f]
	h.Sum += v * float64(n)
	h.Count += float64(n)
	t.Histograms[f] = h
}

func (t Totals) cache(f Field, hits, queries int) {
	c := t.Caches[f]
	c.Hits += float64(hits)
	c.Queries += float64(queries)
	t.Caches[f] = c
}

// Answer is one body that a server sent over HTTP.
type Answer struct {
	// At is when the body was rendered, by the owner's time.
	At     time.Time
	Totals Totals
}

// journalLength bounds the answers that a server keeps: a scrape every second for eight minutes,
// longer than any window of the exporter.
const journalLength = 512

// grain is the resolution of observed values: sums of multiples of a power of two are exact.
const grain = 1 << 20

func seconds(d time.Duration) float64 { return round(d.Seconds()) }

func round(v float64) float64 { return math.Round(v*grain) / grain }
