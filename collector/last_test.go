package collector

import (
	"reflect"
	"testing"
	"time"

	"github.com/md-exporter/md-exporter/normalize"
)

// What is kept is the collection as it ended, whatever the requests had that did not wait for that.
func TestLast(t *testing.T) {
	g := newGated(t)
	d := vllmServing("m", serverPod("a", g.url))
	e := newExporter(t, settings{}, d)
	if s := e.reader.Last(d); s != nil {
		t.Errorf("before any collection there is %v", s)
	}
	patient := start(t, e, t.Context(), d)
	receive(t, g.came, "the request")
	if s := e.reader.Snapshot(ended(t), d); !has(s, "a scrape scrape_deadline") {
		t.Errorf("a request that does not wait has %q", reasons(s))
	}
	if s := e.reader.Last(d); s != nil {
		t.Errorf("before the collection's end there is %v", s)
	}
	g.open <- struct{}{}
	got := receive(t, patient, "the snapshot")
	last := e.reader.Last(d)
	if last == nil || !reflect.DeepEqual(*last, got) {
		t.Fatalf("the last is %v, the request had %v", last, got)
	}
	if !last.Up || has(*last, "a scrape scrape_deadline") {
		t.Errorf("the last one is up=%v and has %q", last.Up, reasons(*last))
	}
	if &last.Reads[0] != &got.Reads[0] {
		t.Error("there are two copies of one snapshot")
	}
	if n := g.requests.Load(); n != 1 {
		t.Errorf("%d reads, want one: asking for the last snapshot reads nothing", n)
	}
}

func TestLastIsDroppedWithItsDeployment(t *testing.T) {
	url := endpoint(t, busy())
	d, other := vllmServing("m", serverPod("a", url)), vllmServing("other", serverPod("a", url))
	e := newExporter(t, settings{}, d, other)
	e.scrape(t, "/metrics")
	if e.reader.Last(d) == nil || e.reader.Last(other) == nil {
		t.Fatal("a collection is not kept")
	}

	// A deployment that changed keeps its last collection, one created again under its name does not.
	changed := vllmServing("m", serverPod("a", url), serverPod("b", url))
	e.serve(changed, other)
	e.reader.Retain(e.source.Fleet())
	if e.reader.Last(changed) == nil {
		t.Error("a deployment that changed has lost its last collection")
	}
	again := vllmServing("m", serverPod("a", url))
	again.UID = "uid-of-the-next-m"
	e.serve(again, other)
	e.reader.Retain(e.source.Fleet())
	if e.reader.Last(again) != nil {
		t.Error("a deployment has another one's collection")
	}
	if n := len(e.reader.last); n != 1 {
		t.Errorf("%d snapshots kept, want one", n)
	}
	e.serve()
	e.scrape(t, "/metrics")
	if n := len(e.reader.last); n != 0 {
		t.Errorf("%d snapshots kept of an empty fleet", n)
	}
}

// A collection that ends when its deployment is gone is not kept.
func TestLastOfADeploymentGoneDuringItsFlight(t *testing.T) {
	g := newGated(t)
	d := vllmServing("m", serverPod("a", g.url))
	e := newExporter(t, settings{}, d)
	e.reader.Retain(e.source.Fleet())
	snapshot := start(t, e, t.Context(), d)
	receive(t, g.came, "the request")
	e.serve()
	e.reader.Retain(e.source.Fleet())
	g.open <- struct{}{}
	receive(t, snapshot, "the snapshot")
	if n := len(e.reader.last); n != 0 {
		t.Errorf("%d snapshots kept of a deployment that is gone", n)
	}
}

// A collection that hung and ends after a later one is not the last.
func TestLastIsTheOneThatBeganLast(t *testing.T) {
	d := vllmServing("m")
	e := newExporter(t, settings{}, d)
	at := time.Now()
	of := func(started, ended time.Duration) *flight {
		return &flight{started: at.Add(started), ended: &normalize.Snapshot{
			Deployment: &d.Deployment, Timestamp: at.Add(ended), Duration: ended - started,
		}}
	}
	for _, row := range []struct {
		name string
		f    *flight
		kept bool
	}{
		{"the first", of(2*time.Second, 3*time.Second), true},
		{"one that began before it", of(0, 8*time.Second), false},
		{"one that began after it", of(3*time.Second, 4*time.Second), true},
	} {
		e.reader.keep(identity(d), row.f)
		if kept := e.reader.Last(d) == row.f.ended; kept != row.kept {
			t.Errorf("%s is kept: %v, want %v", row.name, kept, row.kept)
		}
	}
}
