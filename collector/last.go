package collector

import (
	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
)

// Last is the deployment's last collection as it was when it ended, or nil where none has. Asking for it
// reads no Pod. It is shared with whoever else asks, and is not to be changed.
//
// A request whose own deadline came before the collection's end was served less than this.
func (r *Reader) Last(d *discovery.Deployment) *normalize.Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[identity(d)]
}

// keep keeps the snapshot of a flight that ended, unless a flight that took off later ended before it.
// The lock is held.
func (r *Reader) keep(key string, f *flight) {
	if last := r.last[key]; last == nil || !last.Timestamp.Add(-last.Duration).After(f.started) {
		r.last[key] = f.ended
	}
}

// end assembles the snapshot that every request shares from now on.
func (f *flight) end() {
	snapshot := f.snapshot()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = &snapshot
}
