package collector

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
	"github.com/md-exporter/md-exporter/scrape"
)

// gated is a server whose answers wait for the test.
type gated struct {
	url string
	// came has a value for each request that has come, and open one for each that may be answered.
	came, open chan struct{}
	requests   atomic.Int64
}

func newGated(t testing.TB) *gated {
	t.Helper()
	g := &gated{came: make(chan struct{}, 1000), open: make(chan struct{}, 1000)}
	g.url = endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		n := g.requests.Add(1)
		g.came <- struct{}{}
		select {
		case <-g.open:
			io.WriteString(w, vllmBody(int(n)))
		case <-r.Context().Done():
		}
	})
	return g
}

// watched is a context that tells when somebody has begun to wait for its end.
type watched struct {
	context.Context
	once    sync.Once
	waiting chan struct{}
}

func watch(ctx context.Context) *watched {
	return &watched{Context: ctx, waiting: make(chan struct{})}
}

func (w *watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.waiting) })
	return w.Context.Done()
}

// ended is a context that has.
func ended(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// start asks for a snapshot, and returns once the request waits for the deployment's flight.
func start(t testing.TB, e *exporter, ctx context.Context, d *discovery.Deployment) <-chan normalize.Snapshot {
	t.Helper()
	w := watch(ctx)
	snapshots := make(chan normalize.Snapshot, 1)
	go func() { snapshots <- e.reader.Snapshot(w, d) }()
	receive(t, w.waiting, "the request's waiting")
	return snapshots
}

// newest is the deployment's newest flight.
func (e *exporter) newest(d *discovery.Deployment) *flight {
	e.reader.mu.Lock()
	defer e.reader.mu.Unlock()
	if all := e.reader.flights[identity(d)]; all != nil {
		return all.newest
	}
	return nil
}

// age makes the deployment's newest flight so much older.
func (e *exporter) age(d *discovery.Deployment, by time.Duration) {
	e.reader.mu.Lock()
	defer e.reader.mu.Unlock()
	f := e.reader.flights[identity(d)].newest
	f.started = f.started.Add(-by)
}

// reasons are the snapshot's missing entries as "pod source reason".
func reasons(s normalize.Snapshot) []string {
	var all []string
	for _, m := range s.Missing {
		all = append(all, strings.TrimSpace(m.Pod+" "+m.Source+" "+string(m.Reason)))
	}
	return all
}

// has reports whether the snapshot has the entry.
func has(s normalize.Snapshot, entry string) bool { return slices.Contains(reasons(s), entry) }

func TestOverlappingRequestsShareARead(t *testing.T) {
	g := newGated(t)
	d := vllmServing("m", serverPod("a", g.url))
	e := newExporter(t, settings{}, d)
	var snapshots []<-chan normalize.Snapshot
	for range 5 {
		snapshots = append(snapshots, start(t, e, t.Context(), d))
	}
	g.open <- struct{}{}
	for _, c := range snapshots {
		s := receive(t, c, "a snapshot")
		if !s.Up || len(s.Gauges) != 2 || s.Gauges[0].Value != 1 {
			t.Errorf("snapshot: %+v", s)
		}
	}
	if n := g.requests.Load(); n != 1 {
		t.Errorf("%d requests came to the Pod, want one", n)
	}

	// What comes when the read has ended reads anew.
	g.open <- struct{}{}
	if s := e.reader.Snapshot(t.Context(), d); s.Gauges[0].Value != 2 || g.requests.Load() != 2 {
		t.Errorf("the next read has %v running, by request %d", s.Gauges[0].Value, g.requests.Load())
	}
}

func TestAnOldReadIsNotShared(t *testing.T) {
	g := newGated(t)
	d := vllmServing("m", serverPod("a", g.url))
	e := newExporter(t, settings{client: scrape.Config{Timeout: patience}, ReaderConfig: ReaderConfig{SnapshotTimeout: patience}}, d)
	old := start(t, e, t.Context(), d)
	e.age(d, shareFor/2)
	stillShared := start(t, e, t.Context(), d)
	receive(t, g.came, "the first request")
	e.age(d, shareFor)
	fresh := start(t, e, t.Context(), d)
	receive(t, g.came, "the second request")
	shared := start(t, e, t.Context(), d)
	if n := g.requests.Load(); n != 2 {
		t.Fatalf("%d requests came to the Pod, want two", n)
	}
	g.open <- struct{}{}
	g.open <- struct{}{}
	for _, c := range []<-chan normalize.Snapshot{old, stillShared, fresh, shared} {
		if s := receive(t, c, "a snapshot"); !s.Up {
			t.Errorf("not up: %q", reasons(s))
		}
	}
	if f := e.newest(d); f != nil {
		t.Error("a flight is left")
	}
}

// The fleet is a new one: what was read of the old one is not what is asked for.
func TestAChangedDeploymentIsReadAnew(t *testing.T) {
	g := newGated(t)
	before, after := vllmServing("m", serverPod("a", g.url)), vllmServing("m", serverPod("a", g.url))
	e := newExporter(t, settings{}, before)
	old, fresh := start(t, e, t.Context(), before), start(t, e, t.Context(), after)
	g.open <- struct{}{}
	g.open <- struct{}{}
	if s := receive(t, old, "the old snapshot"); s.Deployment != &before.Deployment {
		t.Error("the old request has the new deployment")
	}
	if s := receive(t, fresh, "the new snapshot"); s.Deployment != &after.Deployment {
		t.Error("the new request has the old deployment")
	}
}

// A request that ends takes nothing from another, and the flight goes on without it: its read is held.
func TestARequestsEndHarmsNoOther(t *testing.T) {
	g := newGated(t)
	d := vllmServing("m", serverPod("a", g.url))
	e := newExporter(t, settings{}, d)
	disconnecting, disconnect := context.WithCancel(t.Context())
	first := start(t, e, disconnecting, d)
	second := start(t, e, t.Context(), d)
	receive(t, g.came, "the request")

	if s := e.reader.Snapshot(ended(t), d); s.Up || !has(s, "a scrape scrape_deadline") {
		t.Errorf("a request without time has %q", reasons(s))
	}
	disconnect()
	if s := receive(t, first, "the snapshot of the client that left"); s.Up || !has(s, "a scrape scrape_deadline") || !s.Partial {
		t.Errorf("a request that ended has %q", reasons(s))
	}
	g.open <- struct{}{}
	if s := receive(t, second, "the other snapshot"); !s.Up || !has(s, "a vllm:time_to_first_token_seconds first_sample") {
		t.Errorf("the other request has %q", reasons(s))
	}

	// Nobody waits for this one.
	e.reader.Snapshot(ended(t), d)
	f := e.newest(d)
	receive(t, g.came, "the next request")
	g.open <- struct{}{}
	receive(t, f.done, "the flight's end")
	g.open <- struct{}{}
	s := e.reader.Snapshot(t.Context(), d)
	if len(s.Samples) != 3 || s.Samples[0].Field != normalize.ITL || s.Samples[0].Samples != 40 {
		t.Errorf("windows after the read that nobody waited for: %+v", s.Samples)
	}
}

// What is in at the deadline is served whole; the rest is named.
func TestDeadlineServesWhatIsIn(t *testing.T) {
	g := newGated(t)
	healthy := endpoint(t, busy())
	d := vllmServing("m", serverPod("a", healthy), serverPod("b", g.url), serverPod("c", healthy))
	// One after the other: b's request comes when a's result is in, and c is not begun.
	e := newExporter(t, settings{ReaderConfig: ReaderConfig{Concurrency: 1}}, d)
	ctx, cancel := context.WithCancel(t.Context())
	snapshot := start(t, e, ctx, d)
	receive(t, g.came, "the request to b")
	cancel()
	s := receive(t, snapshot, "the snapshot")
	if !s.Up || !s.Partial || len(s.Reads) != 1 || s.Reads[0].Pod != "a" || s.Coverage[0].Read != 1 {
		t.Errorf("read: %+v, covered: %+v", s.Reads, s.Coverage)
	}
	for _, pod := range []string{"b", "c"} {
		if !has(s, pod+" scrape scrape_deadline") {
			t.Errorf("%s is not missing by the deadline: %q", pod, reasons(s))
		}
	}
	if s.Gauges[0].PodCount != 1 {
		t.Errorf("gauge: %+v", s.Gauges[0])
	}
}

// The deployment's own deadline ends a read for which a request without one waits.
func TestSnapshotTimeout(t *testing.T) {
	d := vllmServing("m", serverPod("a", endpoint(t, hanging)), serverPod("b", ""))
	e := newExporter(t, settings{ReaderConfig: ReaderConfig{SnapshotTimeout: 50 * time.Millisecond}}, d)
	s := e.reader.Snapshot(t.Context(), d)
	if !has(s, "a scrape scrape_deadline") || !has(s, "b scrape not_advertised") {
		t.Errorf("missing: %q", reasons(s))
	}
}

func TestAHangingDeploymentCostsAnotherNothing(t *testing.T) {
	const limit = time.Second
	slow := vllmServing("slow", serverPod("a", endpoint(t, hanging)), serverPod("b", endpoint(t, hanging)))
	healthy := vllmServing("sound", serverPod("a", endpoint(t, busy())), serverPod("b", endpoint(t, busy())))
	e := newExporter(t, settings{client: scrape.Config{Timeout: limit}}, slow, healthy)
	got := e.scrape(t, "/metrics")
	duration := func(name string) time.Duration {
		return time.Duration(got.value(t, "modeldeployment_snapshot_duration_seconds", "modeldeployment", name) * float64(time.Second))
	}
	if d := duration("slow"); d < limit {
		t.Errorf("the hanging deployment took %v", d)
	}
	if d := duration("sound"); d >= limit {
		t.Errorf("the healthy deployment took %v", d)
	}
	if v := got.value(t, "modeldeployment_source_pods", "modeldeployment", "sound", "source", "vllm:num_requests_running"); v != 2 {
		t.Errorf("%v Pods of the healthy deployment", v)
	}
	if up := got.value(t, "modeldeployment_up", "modeldeployment", "slow"); up != 0 {
		t.Error("the hanging deployment is up")
	}
	if want := []string{"a scrape timeout", "b scrape timeout"}; !slices.Equal(got.missing("slow"), want) {
		t.Errorf("missing: %q, want %q", got.missing("slow"), want)
	}
	if n := len(got.find("modeldeployment_waiting_requests", "modeldeployment", "slow")); n != 0 {
		t.Error("an unavailable deployment has values")
	}
}

// crowd counts the requests at once over several servers, and holds each until it is released.
type crowd struct {
	mu            sync.Mutex
	now, most     int
	came, release chan struct{}
}

func newCrowd() *crowd {
	return &crowd{came: make(chan struct{}, 1000), release: make(chan struct{}, 1000)}
}

func (c *crowd) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	c.came <- struct{}{}
	select {
	case <-c.release:
	case <-r.Context().Done():
	}
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
	io.WriteString(w, vllmBody(1))
}

// pass lets n requests through, one when the one that takes its place has come.
func (c *crowd) pass(t testing.TB, n, atOnce int) {
	t.Helper()
	for range atOnce {
		receive(t, c.came, "a request")
	}
	letCome(t)
	for i := range n {
		c.release <- struct{}{}
		if i+atOnce < n {
			receive(t, c.came, "the next request")
		}
	}
}

// letCome gives what is on its way the time of many requests, one after the other: what is over a bound
// has come by then.
func letCome(t testing.TB) {
	t.Helper()
	url := endpoint(t, textBody(""))
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 50 {
		response, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
}

func TestFetchesAtOnce(t *testing.T) {
	patient := scrape.Config{Timeout: patience}
	pods := func(url string, n int) []discovery.Pod {
		var all []discovery.Pod
		for i := range n {
			all = append(all, serverPod(string(rune('a'+i)), url))
		}
		return all
	}
	t.Run("of a deployment", func(t *testing.T) {
		c := newCrowd()
		d := vllmServing("m", pods(endpoint(t, c.serve), 8)...)
		e := newExporter(t, settings{client: patient, ReaderConfig: ReaderConfig{Concurrency: 3, SnapshotTimeout: patience}}, d)
		snapshot := start(t, e, t.Context(), d)
		c.pass(t, 8, 3)
		if s := receive(t, snapshot, "the snapshot"); len(s.Reads) != 8 || c.most != 3 {
			t.Errorf("%d Pods read, %d at once, want 3", len(s.Reads), c.most)
		}
	})
	t.Run("of a deployment that is read twice at once", func(t *testing.T) {
		c := newCrowd()
		d := vllmServing("m", pods(endpoint(t, c.serve), 4)...)
		e := newExporter(t, settings{client: patient, ReaderConfig: ReaderConfig{Concurrency: 2, SnapshotTimeout: patience}}, d)
		first := start(t, e, t.Context(), d)
		receive(t, c.came, "a request")
		e.age(d, 2*shareFor)
		second := start(t, e, t.Context(), d)
		c.came <- struct{}{} // The one that was received already.
		c.pass(t, 8, 2)
		for _, snapshot := range []<-chan normalize.Snapshot{first, second} {
			if s := receive(t, snapshot, "a snapshot"); len(s.Reads) != 4 {
				t.Errorf("%d Pods read", len(s.Reads))
			}
		}
		if c.most != 2 {
			t.Errorf("%d at once, want 2", c.most)
		}
	})
	t.Run("of the process", func(t *testing.T) {
		c := newCrowd()
		url := endpoint(t, c.serve)
		var fleet []*discovery.Deployment
		for _, name := range []string{"k", "l", "m"} {
			fleet = append(fleet, vllmServing(name, pods(url, 3)...))
		}
		e := newExporter(t, settings{client: patient, ReaderConfig: ReaderConfig{MaxInflight: 4, SnapshotTimeout: patience}}, fleet...)
		var snapshots []<-chan normalize.Snapshot
		for _, d := range fleet {
			snapshots = append(snapshots, start(t, e, t.Context(), d))
		}
		c.pass(t, 9, 4)
		for _, snapshot := range snapshots {
			if s := receive(t, snapshot, "a snapshot"); len(s.Reads) != 3 {
				t.Errorf("%d Pods read", len(s.Reads))
			}
		}
		if c.most != 4 {
			t.Errorf("%d at once, want 4", c.most)
		}
	})
	t.Run("what waits for its deployment keeps no slot of the process", func(t *testing.T) {
		g := newGated(t)
		slow := vllmServing("slow", pods(g.url, 5)...)
		healthy := vllmServing("sound", serverPod("a", endpoint(t, busy())))
		e := newExporter(t, settings{client: patient, ReaderConfig: ReaderConfig{Concurrency: 1, MaxInflight: 2, SnapshotTimeout: patience}}, slow, healthy)
		snapshot := start(t, e, t.Context(), slow)
		receive(t, g.came, "the request to the slow deployment")
		letCome(t)
		ctx, cancel := context.WithTimeout(t.Context(), patience/2)
		defer cancel()
		if s := e.reader.Snapshot(ctx, healthy); !s.Up {
			t.Errorf("the other deployment has %q", reasons(s))
		}
		for range 5 {
			g.open <- struct{}{}
		}
		if s := receive(t, snapshot, "the slow snapshot"); len(s.Reads) != 5 {
			t.Errorf("%d Pods read", len(s.Reads))
		}
	})
}

// counting counts requests by Pod.
type counting struct {
	mu  sync.Mutex
	got []string
}

func (c *counting) pod(t testing.TB, name string) string {
	return endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		c.mu.Lock()
		c.got = append(c.got, name)
		c.mu.Unlock()
		io.WriteString(w, vllmBody(1))
	})
}

func (c *counting) sorted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.got))
}

// Which Pods are asked at all.
func TestPodsThatAreRead(t *testing.T) {
	type row struct {
		name   string
		config ReaderConfig
		build  func(c *counting) *discovery.Deployment
		asked  []string
		// missing are the entries that are not of a first read.
		missing []string
	}
	for _, row := range []row{
		{
			name: "all, the router too",
			build: func(c *counting) *discovery.Deployment {
				d := vllmServing("m", routerPod("z", c.pod(t, "z")), serverPod("a", c.pod(t, "a")))
				d.Router, d.Roles[0].Expected = &normalize.Router{Name: "vllm-router", Expected: 1}, 1
				return d
			},
			asked: []string{"a", "z"},
		},
		{
			name:   "over the limit: the router's first, then by name",
			config: ReaderConfig{MaxPods: 2},
			build: func(c *counting) *discovery.Deployment {
				d := vllmServing("m", routerPod("z", c.pod(t, "z")), serverPod("a", c.pod(t, "a")), serverPod("b", c.pod(t, "b")))
				d.Router, d.Roles[0].Expected = &normalize.Router{Name: "vllm-router", Expected: 1}, 2
				return d
			},
			asked:   []string{"a", "z"},
			missing: []string{"pod-discovery pod_limit"},
		},
		{
			name:   "at the limit",
			config: ReaderConfig{MaxPods: 2},
			build: func(c *counting) *discovery.Deployment {
				return vllmServing("m", serverPod("a", c.pod(t, "a")), serverPod("b", c.pod(t, "b")))
			},
			asked: []string{"a", "b"},
		},
		{
			name: "none without an endpoint",
			build: func(c *counting) *discovery.Deployment {
				return vllmServing("m", serverPod("a", ""), serverPod("b", c.pod(t, "b")))
			},
			asked:   []string{"b"},
			missing: []string{"a scrape not_advertised"},
		},
		{
			name: "none of an unknown engine",
			build: func(c *counting) *discovery.Deployment {
				d := vllmServing("m", routerPod("z", c.pod(t, "z")), serverPod("a", c.pod(t, "a")))
				d.Router, d.Roles[0].Expected, d.Engine = &normalize.Router{Name: "vllm-router", Expected: 1}, 1, "mystery"
				return d
			},
			asked:   []string{"z"},
			missing: []string{"engine/server unknown_engine"},
		},
		{
			name: "none of an unknown router",
			build: func(c *counting) *discovery.Deployment {
				d := vllmServing("m", routerPod("z", c.pod(t, "z")), serverPod("a", c.pod(t, "a")))
				d.Router, d.Roles[0].Expected = &normalize.Router{Name: "mystery", Expected: 1}, 1
				return d
			},
			asked:   []string{"a"},
			missing: []string{"router unknown_router"},
		},
		{
			name: "none of a deployment that expects none",
			build: func(c *counting) *discovery.Deployment {
				d := vllmServing("m", serverPod("a", c.pod(t, "a")))
				d.Roles[0].Expected = 0
				return d
			},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			var c counting
			d := row.build(&c)
			e := newExporter(t, settings{ReaderConfig: row.config}, d)
			s := e.reader.Snapshot(t.Context(), d)
			if got := c.sorted(); !slices.Equal(got, row.asked) {
				t.Errorf("%q were asked, want %q", got, row.asked)
			}
			var missing []string
			for _, m := range s.Missing {
				switch m.Reason {
				case normalize.FirstSample, normalize.MetricAbsent, normalize.UnsupportedNoKVConnector:
				default:
					missing = append(missing, strings.TrimSpace(m.Pod+" "+m.Source+" "+string(m.Reason)))
				}
			}
			if !slices.Equal(missing, row.missing) {
				t.Errorf("missing %q, want %q", missing, row.missing)
			}
		})
	}
}

const firstTTFT = "a vllm:time_to_first_token_seconds first_sample"

// A Pod or deployment that is gone takes its reads with it, and one of the same name starts anew.
func TestRetain(t *testing.T) {
	url := endpoint(t, busy())
	d := vllmServing("m", serverPod("a", url), serverPod("b", url))
	other := vllmServing("other", serverPod("a", url))
	e := newExporter(t, settings{}, d, other)
	held := func(want float64) {
		t.Helper()
		if got := e.scrape(t, "/metrics").value(t, "md_exporter_held_reads"); got != want {
			t.Errorf("%v reads held, want %v", got, want)
		}
	}
	held(3)
	if s := e.reader.Snapshot(t.Context(), d); has(s, firstTTFT) {
		t.Error("the second read is a first one")
	}

	// b is gone. With --window.min=0s one read a Pod is held, and a's outlives the change.
	smaller := vllmServing("m", serverPod("a", url))
	e.serve(smaller, other)
	if got := e.scrape(t, "/probe?target=ns/m"); slices.Contains(got.missing("m"), firstTTFT) {
		t.Errorf("a Pod that stays has lost its reads: %q", got.missing("m"))
	}
	held(2)

	// a is created again under its name.
	again := vllmServing("m", serverPod("a", url))
	again.Pods[0].UID = "uid-of-the-next-a"
	e.serve(again, other)
	if got := e.scrape(t, "/probe?target=ns/m"); !slices.Contains(got.missing("m"), firstTTFT) {
		t.Errorf("missing: %q", got.missing("m"))
	}
	held(2)

	// The deployment is created again under its name, with a Pod whose UID somebody wrote by hand.
	renewed := vllmServing("m", serverPod("a", url))
	renewed.UID, renewed.Pods[0].UID = "uid-of-the-next-m", "uid-of-the-next-a"
	e.serve(renewed, other)
	if got := e.scrape(t, "/probe?target=ns/m"); !slices.Contains(got.missing("m"), firstTTFT) {
		t.Errorf("missing: %q", got.missing("m"))
	}

	e.serve(other)
	held(1)
	e.serve()
	held(0)
}

// A read that ends when its Pod is gone is not held.
func TestRetainDuringAFlight(t *testing.T) {
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
	if held := e.reader.heldReads(); held != 0 {
		t.Errorf("%v reads held of a Pod that is gone", held)
	}

	// One of a Pod behind it in the queue is begun when the Pod is gone.
	d = vllmServing("m", serverPod("a", g.url), serverPod("b", g.url))
	e.reader.config.Concurrency = 1
	snapshot = start(t, e, t.Context(), d)
	receive(t, g.came, "the request to a")
	e.serve(vllmServing("n"))
	e.reader.Retain(e.source.Fleet())
	g.open <- struct{}{}
	g.open <- struct{}{}
	if s := receive(t, snapshot, "the snapshot"); len(s.Reads) != 2 {
		t.Errorf("read: %+v", s.Reads)
	}
	if held := e.reader.heldReads(); held != 0 {
		t.Errorf("%v reads held of Pods that are gone", held)
	}
}

// Two Pods of one UID, as a copied manifest has them, do not share windows.
func TestPodsOfOneUIDDoNotShareWindows(t *testing.T) {
	url := endpoint(t, busy())
	d := vllmServing("m", serverPod("a", url), serverPod("b", url))
	d.Pods[1].UID = d.Pods[0].UID
	e := newExporter(t, settings{}, d)
	e.reader.Snapshot(t.Context(), d)
	if held := e.reader.heldReads(); held != 2 {
		t.Errorf("%v reads held, want one a Pod", held)
	}
}

// Two deployments whose Pods have the same UIDs do not share windows.
func TestDeploymentsDoNotShareWindows(t *testing.T) {
	url := endpoint(t, busy())
	one, two := vllmServing("one", serverPod("a", url)), vllmServing("two", serverPod("a", url))
	one.UID, two.UID = "", ""
	e := newExporter(t, settings{}, one, two)
	if s := e.reader.Snapshot(t.Context(), one); !has(s, firstTTFT) {
		t.Errorf("one: %q", reasons(s))
	}
	if s := e.reader.Snapshot(t.Context(), two); !has(s, firstTTFT) {
		t.Errorf("two: %q", reasons(s))
	}
	if s := e.reader.Snapshot(t.Context(), one); has(s, firstTTFT) {
		t.Errorf("one, again: %q", reasons(s))
	}
}

// A failed read drops nothing: the next window starts where the last good read was.
func TestAFailedReadKeepsTheBaseline(t *testing.T) {
	var status atomic.Int64
	healthy := busy()
	url := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		if code := int(status.Load()); code != 0 {
			w.WriteHeader(code)
			return
		}
		healthy(w, r)
	})
	d := vllmServing("m", serverPod("a", url))
	e := newExporter(t, settings{}, d)
	first := e.reader.Snapshot(t.Context(), d)
	status.Store(http.StatusInternalServerError)
	if s := e.reader.Snapshot(t.Context(), d); s.Up || !has(s, "a scrape http_status") {
		t.Errorf("missing: %q", reasons(s))
	}
	status.Store(0)
	s := e.reader.Snapshot(t.Context(), d)
	if has(s, firstTTFT) || len(s.Samples) == 0 || s.Samples[0].Window != s.Reads[0].ObservedAt.Sub(first.Reads[0].ObservedAt) {
		t.Errorf("windows after a failed read: %+v", s.Samples)
	}
}

func TestCloseCutsFlights(t *testing.T) {
	came := make(chan struct{}, 10)
	url := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		hanging(w, r)
	})
	before := goleak.IgnoreCurrent()
	d := vllmServing("m", serverPod("a", url), serverPod("b", url), serverPod("c", url))
	e := newExporter(t, settings{
		client:       scrape.Config{Timeout: patience},
		ReaderConfig: ReaderConfig{Concurrency: 2, SnapshotTimeout: patience},
	}, d)
	snapshot := start(t, e, t.Context(), d)
	receive(t, came, "a request")
	receive(t, came, "a request")

	flying := make(chan bool)
	go func() {
		e.reader.Close()
		flying <- e.newest(d) != nil
	}()
	if receive(t, flying, "the closing") {
		t.Error("Close has left a flight")
	}
	for _, s := range []normalize.Snapshot{receive(t, snapshot, "the snapshot"), e.reader.Snapshot(t.Context(), d)} {
		if s.Up || !slices.Equal(reasons(s), []string{"a scrape scrape_deadline", "b scrape scrape_deadline", "c scrape scrape_deadline"}) {
			t.Errorf("cut off: %q", reasons(s))
		}
	}
	e.reader.Close() // Twice is once.
	if logs := e.logs.String(); logs != "" {
		t.Errorf("the shutdown is logged as Pods' failures: %s", logs)
	}
	goleak.VerifyNone(t, before)
}

// A Pod that stays broken is logged once, and once when it heals.
func TestLogsTransitions(t *testing.T) {
	answers := []struct {
		name   string
		answer http.HandlerFunc
		logged string
	}{
		{"healthy", textBody(vllmBody(1)), ""},
		{"an error", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "http_status"},
		{"the same again", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, ""},
		{"another status", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, ""},
		{"another failure", textBody("<html>"), "malformed_response"},
		{"the deadline", hanging, ""},
		{"still that failure", textBody("<html>"), ""},
		{"healed", textBody(vllmBody(2)), "Pod is read again"},
		{"healthy still", textBody(vllmBody(3)), ""},
		{"broken as before", textBody("{}"), "malformed_response"},
	}
	var now atomic.Int64
	d := vllmServing("m", serverPod("a", endpoint(t, func(w http.ResponseWriter, r *http.Request) { answers[now.Load()].answer(w, r) })))
	e := newExporter(t, settings{ReaderConfig: ReaderConfig{SnapshotTimeout: time.Second}}, d)
	seen := 0
	for i, row := range answers {
		now.Store(int64(i))
		e.reader.Snapshot(t.Context(), d)
		logs := e.logs.String()
		fresh := logs[seen:]
		seen = len(logs)
		switch lines := strings.Count(fresh, "\n"); {
		case row.logged == "" && lines != 0:
			t.Errorf("%s is logged: %s", row.name, fresh)
		case row.logged != "" && (lines != 1 || !strings.Contains(fresh, row.logged)):
			t.Errorf("%s: logged %q, want one line of %s", row.name, fresh, row.logged)
		case row.logged != "" && !strings.Contains(fresh, "namespace=ns modeldeployment=m pod=a url=http://127.0.0.1:"):
			t.Errorf("%s: logged %q, which names no Pod", row.name, fresh)
		}
	}
}

// What reading costs is counted.
func TestReadingIsCounted(t *testing.T) {
	d := vllmServing("m",
		serverPod("a", endpoint(t, textBody(vllmBody(1)))), serverPod("b", endpoint(t, textBody("<html>"))),
		serverPod("c", endpoint(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })), serverPod("d", ""))
	e := newExporter(t, settings{}, d, vllmServing("n"))
	got := e.scrape(t, "/metrics")
	for result, want := range map[string]float64{
		"success": 1, "malformed_response": 1, "http_status": 1,
		"timeout": 0, "connection_failed": 0, "scrape_deadline": 0, "tls_failed": 0, "response_too_large": 0,
	} {
		if v := got.value(t, "md_exporter_fetches_total", "result", result); v != want {
			t.Errorf("%v fetches with %s, want %v", v, result, want)
		}
	}
	if v := got.value(t, "md_exporter_read_bytes_total"); v != float64(len(vllmBody(1))+len("<html>")) {
		t.Errorf("%v bytes read", v)
	}
	if v := got.value(t, "md_exporter_fetches_in_flight"); v != 0 {
		t.Errorf("%v fetches in flight", v)
	}
	if v := got.value(t, "md_exporter_deployments"); v != 2 {
		t.Errorf("%v deployments", v)
	}
	// A deployment with nothing to read is no collection.
	for name, want := range map[string]uint64{"md_exporter_fetch_duration_seconds": 3, "md_exporter_collection_duration_seconds": 1} {
		if n := got[name].GetMetric()[0].GetHistogram().GetSampleCount(); n != want {
			t.Errorf("%s has %d observations, want %d", name, n, want)
		}
	}
}
