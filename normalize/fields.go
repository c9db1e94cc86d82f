package normalize

// Field is a field's or a cache scope's name, as the specification writes it.
type Field string

// The gauges of processing[] and queueing[].
const (
	Running               Field = "running"
	Waiting               Field = "waiting"
	DecodeTransferWaiting Field = "decode-transfer-waiting"
	RouterRunning         Field = "router-running"
	RouterBackends        Field = "router-backends"
	RouterReportedWorkers Field = "router-reported-workers"
)

// The cache scopes of cacheHits[].
const (
	LocalPrefix   Field = "local-prefix"
	ExternalStore Field = "external-store"
	DevicePrefix  Field = "device-prefix"
	HostPrefix    Field = "host-prefix"
	StoragePrefix Field = "storage-prefix"
)

// The means of latency[].
const (
	TTFT Field = "ttft"
	TPOT Field = "tpot"
	ITL  Field = "itl"
)

// The rates of traffic[], and the one ratio.
const (
	Requests           Field = "requests"
	SuccessfulRequests Field = "successful-requests"
	PDRequests         Field = "pd-requests"
	RequestErrors      Field = "request-errors"
	Errors             Field = "errors"
	PDErrors           Field = "pd-errors"
	RetriesExhausted   Field = "retries-exhausted"
	ErrorRatio         Field = "error-ratio"
	HTTP5xxResponses   Field = "http-5xx-responses"
)

// The means and the rate of transfer[].
const (
	TransferLatency  Field = "transfer-latency"
	TransferSpeed    Field = "transfer-speed"
	TransferSize     Field = "transfer-size"
	TransferFailures Field = "transfer-failures"
)

// Section is the list of the document that a field stands in.
type Section string

// The sections.
const (
	Processing Section = "processing"
	Queueing   Section = "queueing"
	CacheHits  Section = "cacheHits"
	Latency    Section = "latency"
	Traffic    Section = "traffic"
	Transfer   Section = "transfer"
)

// FieldInfo is what a field is, whoever supplies it.
type FieldInfo struct {
	Field   Field
	Section Section
	// Unit is the unit of the field's Value: the engine's own.
	Unit string
}

var fields = []FieldInfo{
	{Running, Processing, "requests"},
	{RouterRunning, Processing, "requests"},
	{RouterBackends, Processing, "backends"},
	{RouterReportedWorkers, Processing, "workers"},

	{Waiting, Queueing, "requests"},
	{DecodeTransferWaiting, Queueing, "requests"},

	{LocalPrefix, CacheHits, "tokens"},
	{ExternalStore, CacheHits, "tokens"},
	{DevicePrefix, CacheHits, "tokens"},
	{HostPrefix, CacheHits, "tokens"},
	{StoragePrefix, CacheHits, "tokens"},

	{TTFT, Latency, "seconds"},
	{TPOT, Latency, "seconds"},
	{ITL, Latency, "seconds"},

	{Requests, Traffic, "requests/second"},
	{SuccessfulRequests, Traffic, "requests/second"},
	{PDRequests, Traffic, "requests/second"},
	{RequestErrors, Traffic, "errors/second"},
	{Errors, Traffic, "errors/second"},
	{PDErrors, Traffic, "errors/second"},
	{RetriesExhausted, Traffic, "events/second"},
	{ErrorRatio, Traffic, "fraction"},
	{HTTP5xxResponses, Traffic, "responses/second"},

	{TransferLatency, Transfer, "milliseconds"},
	{TransferSpeed, Transfer, "GB/second"},
	{TransferSize, Transfer, "MB"},
	{TransferFailures, Transfer, "errors/second"},
}

// Fields lists every field and cache scope.
func Fields() []FieldInfo {
	return append([]FieldInfo(nil), fields...)
}

// Info is what the field is. Its zero value stands for a field that no section has.
func (f Field) Info() FieldInfo {
	for _, info := range fields {
		if info.Field == f {
			return info
		}
	}
	return FieldInfo{}
}
