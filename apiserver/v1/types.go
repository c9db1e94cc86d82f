package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/md-exporter/md-exporter/normalize"
)

// ModelDeploymentMetrics is what one read of a ModelDeployment's engine and router Pods says. Lists are
// sorted by Pod, then name or cache scope, then role.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ModelDeploymentMetrics struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata: the ModelDeployment's namespace, name and UID.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// When the document was assembled.
	Timestamp metav1.MicroTime `json:"timestamp"`
	// What engines and routers are working on.
	// +listType=atomic
	Processing []Gauge `json:"processing"`
	// What waits for an engine.
	// +listType=atomic
	Queueing []Gauge `json:"queueing"`
	// Hit ratios by Pod and cache scope.
	// +listType=atomic
	CacheHits []CacheHit `json:"cacheHits"`
	// Mean times to first token, per output token and between tokens.
	// +listType=atomic
	Latency []Sample `json:"latency"`
	// Requests and errors a second, and their ratio where the two are of the same requests.
	// +listType=atomic
	Traffic []Sample `json:"traffic"`
	// KV cache transfers of an SGLang pair.
	// +listType=atomic
	Transfer []Sample `json:"transfer"`
	// What did not contribute, and why.
	// +listType=atomic
	Missing []Missing `json:"missing"`
	// Whether a required source did not contribute.
	Partial bool `json:"partial"`
}

// Gauge is a value of the moment, summed by role and source over Pods.
type Gauge struct {
	// The field, such as running.
	Name normalize.Field `json:"name"`
	// The series that the value comes from.
	Source string `json:"source"`
	// Whose view it is: engine or router.
	Scope normalize.Scope `json:"scope"`
	// The role's name; empty for the router.
	Role string `json:"role"`
	// What the value counts.
	Unit string `json:"unit"`
	// The sum over the Pods.
	Value float64 `json:"value"`
	// The number of Pods that contributed.
	PodCount int32 `json:"podCount"`
	// When the newest of their expositions had been read.
	ObservedAt metav1.MicroTime `json:"observedAt"`
}

// CacheHit is the hit ratio of one cache scope of one Pod over a window.
type CacheHit struct {
	// The engine's Pod.
	Pod string `json:"pod"`
	// The counters that the ratio comes from.
	Source string `json:"source"`
	// The cache scope, such as local-prefix.
	Scope normalize.Field `json:"scope"`
	// The role's name.
	Role string `json:"role"`
	// What hits and queries count.
	Unit string `json:"unit"`
	// What was found during the window.
	Hits float64 `json:"hits"`
	// What was looked up during the window.
	Queries float64 `json:"queries"`
	// Hits over queries, from 0 to 1.
	Rate float64 `json:"rate"`
	// The window's length.
	WindowSeconds float64 `json:"windowSeconds"`
	// When the Pod's exposition had been read: the window's end.
	ObservedAt metav1.MicroTime `json:"observedAt"`
}

// Sample is a mean, a rate or a ratio of one Pod over a window.
type Sample struct {
	// The field, such as ttft.
	Name normalize.Field `json:"name"`
	// The Pod that it was measured at.
	Pod string `json:"pod"`
	// The series that the value comes from.
	Source string `json:"source"`
	// Whose view it is: engine or router.
	Scope normalize.Scope `json:"scope"`
	// The role's name; empty for the router.
	Role string `json:"role"`
	// The value's unit.
	Unit string `json:"unit"`
	// The mean, rate or ratio.
	Value float64 `json:"value"`
	// Observations, events or requests during the window.
	Samples float64 `json:"samples"`
	// The window's length.
	WindowSeconds float64 `json:"windowSeconds"`
	// When the Pod's exposition had been read: the window's end.
	ObservedAt metav1.MicroTime `json:"observedAt"`
}

// Missing is one source that did not contribute.
type Missing struct {
	// The Pod; empty for an entry of the deployment.
	Pod string `json:"pod"`
	// Whose source it is: engine or router; empty for the Pod limit.
	Scope normalize.Scope `json:"scope"`
	// The role's name; empty for the router.
	Role string `json:"role"`
	// The series, cache scope or group of Pods.
	Source string `json:"source"`
	// One sentence that says why.
	Reason string `json:"reason"`
	// The reason's code, of a closed set.
	Code normalize.Reason `json:"code"`
	// Whether it makes the document partial.
	Partial bool `json:"partial"`
}
