package collector

import (
	"fmt"
	"testing"

	"github.com/md-exporter/md-exporter/discovery"
)

// Every deployment is in one shard, the same whatever else there is, and in its fleet's order.
func TestShard(t *testing.T) {
	var all []*discovery.Deployment
	for i := range 200 {
		all = append(all, vllmServing(fmt.Sprintf("m%03d", i)))
	}
	for total := uint(1); total <= 7; total++ {
		source := &givenSource{}
		source.fleet.Store(&discovery.Fleet{Deployments: all})
		owner := map[string]uint{}
		for index := range total {
			part := Shard(source, index, total)
			fleet := part.Fleet()
			if part.Fleet() != fleet {
				t.Errorf("shard %d of %d: the same fleet has two parts", index, total)
			}
			last := ""
			for _, d := range fleet.Deployments {
				if other, twice := owner[d.Name]; twice {
					t.Errorf("%s is in the shards %d and %d of %d", d.Name, other, index, total)
				}
				owner[d.Name] = index
				if d.Name <= last || fleet.Get("ns", d.Name) != d {
					t.Errorf("shard %d of %d: %s is out of order", index, total, d.Name)
				}
				last = d.Name
			}
			if n, share := uint(len(fleet.Deployments)), 200/total; n < share/2 || n > share*2 {
				t.Errorf("shard %d of %d has %d deployments", index, total, n)
			}
		}
		if len(owner) != len(all) {
			t.Errorf("%d of %d deployments are in the %d shards", len(owner), len(all), total)
		}

		// Half of the fleet is gone: the rest stays where it was.
		source.fleet.Store(&discovery.Fleet{Deployments: all[:100]})
		found := 0
		for index := range total {
			for _, d := range Shard(source, index, total).Fleet().Deployments {
				found++
				if owner[d.Name] != index {
					t.Errorf("%s has moved from the shard %d to %d of %d", d.Name, owner[d.Name], index, total)
				}
			}
		}
		if found != 100 {
			t.Errorf("%d of 100 deployments are in the %d shards", found, total)
		}
	}
}

// A shard follows its source.
func TestShardFollowsItsSource(t *testing.T) {
	source := &givenSource{unsynced: true}
	source.fleet.Store(&discovery.Fleet{Deployments: []*discovery.Deployment{vllmServing("a"), vllmServing("b"), vllmServing("c")}})
	parts := []Source{Shard(source, 0, 2), Shard(source, 1, 2)}
	count := func() int { return len(parts[0].Fleet().Deployments) + len(parts[1].Fleet().Deployments) }
	if n := count(); n != 3 || parts[0].Synced() {
		t.Errorf("%d deployments, synced %v", n, parts[0].Synced())
	}
	source.unsynced = false
	source.fleet.Store(&discovery.Fleet{})
	if n := count(); n != 0 || !parts[0].Synced() {
		t.Errorf("%d deployments, synced %v", n, parts[0].Synced())
	}
}
