package v1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/md-exporter/md-exporter/normalize"
)

// GroupName and Version are what the specification names.
const (
	GroupName = "worker.gpustack.ai"
	Version   = "v1"
	Kind      = "ModelDeploymentMetrics"
)

// OwnGroupName is the group that the document is served under where nothing says otherwise: the
// specification's belongs to the operator where one runs.
const OwnGroupName = "subresources." + GroupName

// FromSnapshot renders a snapshot. The lists are never nil.
func FromSnapshot(s *normalize.Snapshot) *ModelDeploymentMetrics {
	m := &ModelDeploymentMetrics{
		TypeMeta: metav1.TypeMeta{APIVersion: GroupName + "/" + Version, Kind: Kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Deployment.Namespace,
			Name:      s.Deployment.Name,
			UID:       types.UID(s.Deployment.UID),
		},
		Timestamp:  at(s.Timestamp),
		Processing: []Gauge{}, Queueing: []Gauge{}, CacheHits: []CacheHit{},
		Latency: []Sample{}, Traffic: []Sample{}, Transfer: []Sample{}, Missing: []Missing{},
		Partial: s.Partial,
	}
	for _, g := range s.Gauges {
		list := &m.Processing
		if g.Field.Info().Section == normalize.Queueing {
			list = &m.Queueing
		}
		*list = append(*list, Gauge{
			Name: g.Field, Source: g.Source, Scope: g.Scope, Role: g.Role, Unit: g.Field.Info().Unit,
			Value: g.Value, PodCount: int32(g.PodCount), ObservedAt: at(g.ObservedAt),
		})
	}
	for _, c := range s.Caches {
		m.CacheHits = append(m.CacheHits, CacheHit{
			Pod: c.Pod, Source: c.Source, Scope: c.Cache, Role: c.Role, Unit: c.Cache.Info().Unit,
			Hits: c.Hits, Queries: c.Queries, Rate: c.Rate,
			WindowSeconds: c.Window.Seconds(), ObservedAt: at(c.ObservedAt),
		})
	}
	sections := map[normalize.Section]*[]Sample{
		normalize.Latency: &m.Latency, normalize.Traffic: &m.Traffic, normalize.Transfer: &m.Transfer,
	}
	for _, v := range s.Samples {
		list := sections[v.Field.Info().Section]
		*list = append(*list, Sample{
			Name: v.Field, Pod: v.Pod, Source: v.Source, Scope: v.Scope, Role: v.Role, Unit: v.Field.Info().Unit,
			Value: v.Value, Samples: v.Samples, WindowSeconds: v.Window.Seconds(), ObservedAt: at(v.ObservedAt),
		})
	}
	for _, e := range s.Missing {
		m.Missing = append(m.Missing, Missing{
			Pod: e.Pod, Scope: e.Scope, Role: e.Role, Source: e.Source,
			Reason: e.Reason.Sentence(), Code: e.Reason, Partial: e.Reason.Partial(),
		})
	}
	return m
}

func at(t time.Time) metav1.MicroTime { return metav1.NewMicroTime(t) }
