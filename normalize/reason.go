package normalize

// Reason is why a source did not contribute: a code from a closed set (Reasons), the same in every
// label, document, log field and series of the exporter.
type Reason string

// The reasons: first those of a deployment, then of a read, of a source, and those that are no fault.
const (
	UnknownEngine            Reason = "unknown_engine"
	UnknownRouter            Reason = "unknown_router"
	NoPods                   Reason = "no_pods"
	ReplicasMissing          Reason = "replicas_missing"
	PodLimit                 Reason = "pod_limit"
	NotAdvertised            Reason = "not_advertised"
	ConnectionFailed         Reason = "connection_failed"
	Timeout                  Reason = "timeout"
	ScrapeDeadline           Reason = "scrape_deadline"
	TLSFailed                Reason = "tls_failed"
	HTTPStatus               Reason = "http_status"
	ResponseTooLarge         Reason = "response_too_large"
	MalformedResponse        Reason = "malformed_response"
	MetricAbsent             Reason = "metric_absent"
	FirstSample              Reason = "first_sample"
	CounterReset             Reason = "counter_reset"
	IncompatibleCounters     Reason = "incompatible_counters"
	WindowMismatch           Reason = "window_mismatch"
	NoRequests               Reason = "no_requests"
	NoQueries                Reason = "no_queries"
	NoObservations           Reason = "no_observations"
	NotYetExported           Reason = "not_yet_exported"
	UnsupportedPDRouterGauge Reason = "unsupported_pd_router_gauge"
	UnsupportedNoKVConnector Reason = "unsupported_no_kv_connector"
	UnsupportedNotStore      Reason = "unsupported_not_store"
	UnsupportedNoHostTier    Reason = "unsupported_no_host_tier"
	UnsupportedNoStorageTier Reason = "unsupported_no_storage_tier"
	IdleWindow               Reason = "idle_window"
)

// reasons is the closed set: whether the reason makes a snapshot partial, and its one sentence.
var reasons = []struct {
	reason   Reason
	partial  bool
	sentence string
}{
	{UnknownEngine, true, "The deployment names an engine that no source table knows; its Pods are not read."},
	{UnknownRouter, true, "The deployment names a router that no source table knows; its Pods are not read."},
	{NoPods, true, "Pods are expected and the deployment owns none."},
	{ReplicasMissing, true, "The deployment owns fewer Pods than it expects."},
	{PodLimit, true, "The deployment owns more Pods than one collection reads."},
	{NotAdvertised, true, "The Pod has no address or advertises no valid metrics endpoint."},
	{ConnectionFailed, true, "The connection to the Pod was refused, reset or closed early."},
	{Timeout, true, "The Pod did not answer within the limit of one read."},
	{ScrapeDeadline, true, "The collection's own deadline came before the Pod was read."},
	{TLSFailed, true, "TLS failed: the certificate, the handshake, or no TLS where https is advertised."},
	{HTTPStatus, true, "The Pod answered with a status other than 200."},
	{ResponseTooLarge, true, "The Pod's answer is over the size limit after decompression."},
	{MalformedResponse, true, "The Pod's answer is not an exposition that can be read whole."},
	{MetricAbsent, true, "A required series is not in the Pod's exposition."},
	{FirstSample, true, "There is no earlier read to measure a window against."},
	{CounterReset, true, "A counter went backwards since the earlier read."},
	{IncompatibleCounters, true, "Hits exceed queries, or errors exceed requests, in the same window."},
	{WindowMismatch, true, "The request and error counters have windows that start at different reads."},
	{NoRequests, true, "The window has no request to divide errors by."},
	{NoQueries, true, "The window has no cache query, and the Pod is not known to be idle."},
	{NoObservations, true, "The window has no new observation, and the Pod is not known to be idle."},
	{NotYetExported, false, "The series exports nothing before its first increment or observation."},
	{UnsupportedPDRouterGauge, false, "The vLLM router exports no such gauge in its prefill/decode mode."},
	{UnsupportedNoKVConnector, false, "The Pod renders no KV connector, and its external cache counter never moved."},
	{UnsupportedNotStore, false, "The external cache counters do not measure a store on this Pod."},
	{UnsupportedNoHostTier, false, "The Pod builds no host memory tier."},
	{UnsupportedNoStorageTier, false, "The Pod builds no storage tier."},
	{IdleWindow, false, "The Pod served no request in the window."},
}

// Reasons lists the closed set.
func Reasons() []Reason {
	all := make([]Reason, len(reasons))
	for i, r := range reasons {
		all[i] = r.reason
	}
	return all
}

// Partial reports whether an entry with this reason makes its deployment's snapshot partial. A code
// outside the closed set does.
func (r Reason) Partial() bool {
	for _, known := range reasons {
		if known.reason == r {
			return known.partial
		}
	}
	return true
}

// Sentence is the reason's one fixed English sentence, without figures or addresses.
func (r Reason) Sentence() string {
	for _, known := range reasons {
		if known.reason == r {
			return known.sentence
		}
	}
	return "Unknown reason."
}
