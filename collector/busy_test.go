package collector

import (
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
)

// Fetches that have just begun are bounded; one that lasts makes room for another, and its own end none twice.
func TestBusyFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Reader{slots: semaphore.NewWeighted(DefaultMaxInflight), busy: semaphore.NewWeighted(busyFetches)}
		var ends []func()
		begin := func() {
			t.Helper()
			if err := r.acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			ends = append(ends, r.begin())
		}
		began := time.Now()
		for range busyFetches {
			begin()
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the first %d waited %s", busyFetches, waited)
		}
		begin()
		if waited := time.Since(began); waited != busyFor {
			t.Errorf("one more waited %s, want %s: the others have lasted then", waited, busyFor)
		}
		// One that ends early makes room at once.
		for range busyFetches - 1 {
			begin()
		}
		ends[len(ends)-1]()
		ends = ends[:len(ends)-1]
		before := time.Now()
		begin()
		if waited := time.Since(before); waited != 0 {
			t.Errorf("behind one that ended early: %s", waited)
		}
		for _, end := range ends {
			end()
		}
		time.Sleep(2 * busyFor)
		if !r.busy.TryAcquire(busyFetches) || !r.slots.TryAcquire(DefaultMaxInflight) {
			t.Error("what fetches had is not all given back")
		}
	})
}
