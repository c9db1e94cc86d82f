package collector

import (
	"hash/fnv"
	"sync"

	"github.com/md-exporter/md-exporter/discovery"
)

// Source is where deployments are discovered: manifest files, or a cluster.
type Source interface {
	// Fleet is what is known now. The same pointer is the same fleet, and within it the same
	// deployment.
	Fleet() *discovery.Fleet
	// Synced reports whether the fleet is known whole.
	Synced() bool
}

// Shard returns a source of the deployments that fall to one of total shards by their UID, and the
// source itself where there is one shard alone.
func Shard(source Source, index, total uint) Source {
	if total <= 1 {
		return source
	}
	return &shard{Source: source, index: uint64(index), total: uint64(total)}
}

type shard struct {
	Source
	index, total uint64

	mu sync.Mutex
	// whole is the fleet that part was taken from.
	whole, part *discovery.Fleet
}

// Fleet is the shard's part of the source's fleet, the same for the same fleet.
func (s *shard) Fleet() *discovery.Fleet {
	s.mu.Lock()
	defer s.mu.Unlock()
	whole := s.Source.Fleet()
	if s.whole == whole {
		return s.part
	}
	s.whole, s.part = whole, &discovery.Fleet{}
	for _, d := range whole.Deployments {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(d.UID)) // A hash never fails to write.
		if hash.Sum64()%s.total == s.index {
			s.part.Deployments = append(s.part.Deployments, d)
		}
	}
	return s.part
}
