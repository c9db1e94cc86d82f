package collector

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
	"github.com/md-exporter/md-exporter/scrape"
)

// The bounds of reading, by default. Two rounds of fetches fit in half of a deployment's
// limit, so that Pods queued behind hanging ones are still read.
const (
	DefaultMaxPods         = 64
	DefaultConcurrency     = 32
	DefaultMaxInflight     = 2048
	DefaultSnapshotTimeout = 8 * time.Second
	// A fetch is taken to be waiting once it has lasted busyFor; at most busyFetches are not. A fleet
	// that answers is read as fast by some hundred fetches at once as by thousands, in a fraction of the
	// memory, and Pods that hang do not hold the rest up for long.
	busyFetches = 512
	busyFor     = 100 * time.Millisecond
	// shareFor is how old a deployment's read in flight may be for a request to share it.
	shareFor = 2 * time.Second
)

// ReaderConfig bounds a Reader. Every field must be positive, Window.Min alone may be zero.
type ReaderConfig struct {
	// MaxPods is the number of Pods read of one deployment.
	MaxPods int
	// Concurrency is the number of fetches at once for one deployment.
	Concurrency int
	// MaxInflight is the number of fetches at once in the process.
	MaxInflight int
	// SnapshotTimeout is a deployment's own deadline.
	SnapshotTimeout time.Duration
	// Window chooses the baselines.
	Window normalize.WindowConfig
}

// Reader reads deployments: each Pod once a collection, in parallel within its bounds, on a context
// that no request owns. Requests that overlap share the read of a deployment in flight. It holds the
// reads that windows are measured against and each deployment's last snapshot, and is safe for concurrent
// use.
type Reader struct {
	client  *scrape.Client
	config  ReaderConfig
	metrics *Metrics
	logger  *slog.Logger

	// ctx is the process's: it ends with Close.
	ctx    context.Context
	cancel context.CancelFunc
	// slots bounds the fetches of the process, busy those that have just begun.
	slots, busy *semaphore.Weighted

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	flights map[string]*flights
	pods    map[podKey]*podState
	// last are the snapshots of the last flights that ended, by the deployment's identity.
	last     map[string]*normalize.Snapshot
	retained *discovery.Fleet
}

// flights are the reads in flight of one deployment, which share its bound.
type flights struct {
	newest *flight
	flying int
	// slots bounds the fetches at once.
	slots *semaphore.Weighted
}

// podKey is a Pod of a deployment: a Pod or a deployment that is created again under its name has
// another UID, and no window across the two. The name is there for manifests that copy a UID.
type podKey struct{ deployment, name, uid string }

// podState is what is kept of a Pod between reads.
type podState struct {
	mu      sync.Mutex
	history normalize.History
	// failure is the reason of the last read, for logging what changed.
	failure normalize.Reason
}

// NewReader returns a Reader that fetches through the client and counts in metrics.
func NewReader(client *scrape.Client, config ReaderConfig, metrics *Metrics, logger *slog.Logger) *Reader {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Reader{
		client:  client,
		config:  config,
		metrics: metrics,
		logger:  logger,
		ctx:     ctx,
		cancel:  cancel,
		slots:   semaphore.NewWeighted(int64(config.MaxInflight)),
		busy:    semaphore.NewWeighted(busyFetches),
		flights: map[string]*flights{},
		pods:    map[podKey]*podState{},
		last:    map[string]*normalize.Snapshot{},
	}
	metrics.heldReads = r.heldReads
	return r
}

// Close cuts what is being read and waits for it. Snapshots after Close have nothing read.
func (r *Reader) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.running.Wait()
}

// Retain drops what is kept of Pods and deployments that the fleet does not have.
func (r *Reader) Retain(fleet *discovery.Fleet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retained == fleet {
		return
	}
	r.retained = fleet
	r.prune()
}

// prune drops what is kept of Pods and deployments that the retained fleet does not have. The lock is
// held.
func (r *Reader) prune() {
	pods := make(map[podKey]*podState, len(r.pods))
	last := make(map[string]*normalize.Snapshot, len(r.last))
	for _, d := range r.retained.Deployments {
		id := identity(d)
		if snapshot, known := r.last[id]; known {
			last[id] = snapshot
		}
		for i := range d.Pods {
			key := podKey{id, d.Pods[i].Name, d.Pods[i].UID}
			if state, known := r.pods[key]; known {
				pods[key] = state
			}
		}
	}
	r.pods, r.last = pods, last
}

// heldReads is the number of reads held for windows, over all Pods.
func (r *Reader) heldReads() float64 {
	r.mu.Lock()
	states := make([]*podState, 0, len(r.pods))
	for _, state := range r.pods {
		states = append(states, state)
	}
	r.mu.Unlock()
	var held int
	for _, state := range states {
		state.mu.Lock()
		held += state.history.Held()
		state.mu.Unlock()
	}
	return float64(held)
}

// identity tells deployments apart, those without a UID too.
func identity(d *discovery.Deployment) string {
	return d.Namespace + "/" + d.Name + "/" + d.UID
}

// state is what is kept of the Pod.
func (r *Reader) state(d *discovery.Deployment, p *discovery.Pod) *podState {
	key := podKey{identity(d), p.Name, p.UID}
	r.mu.Lock()
	defer r.mu.Unlock()
	state, known := r.pods[key]
	if !known {
		state = &podState{}
		r.pods[key] = state
	}
	return state
}

// deadlineSlack is what reads that were cut at their deployment's deadline have to come in.
const deadlineSlack = 250 * time.Millisecond

// Snapshot reads the deployment, or shares its read in flight, and assembles what is in when the
// read has ended, or ctx or the deployment's own deadline has come, whichever is first. What is not read
// by then is ScrapeDeadline.
func (r *Reader) Snapshot(ctx context.Context, d *discovery.Deployment) normalize.Snapshot {
	f := r.join(d)
	ctx, cancel := context.WithDeadline(ctx, f.started.Add(r.config.SnapshotTimeout+deadlineSlack))
	defer cancel()
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	return f.snapshot()
}

// flight is one read of a deployment.
type flight struct {
	deployment *discovery.Deployment
	owned      []*normalize.Pod
	// toRead are the Pods of deployment.Pods to read: within the limit, and of a known table.
	toRead []*discovery.Pod
	// limited is true where the deployment owns more Pods than are read.
	limited bool
	started time.Time
	done    chan struct{}

	mu sync.Mutex
	// results are in toRead's order; one whose Pod is nil is not in yet.
	results []normalize.Result
	// ended is the snapshot of a flight that has ended; nil before.
	ended *normalize.Snapshot
}

// join returns the deployment's flight, a new one where none is fresh enough to share.
func (r *Reader) join(d *discovery.Deployment) *flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	key := identity(d)
	all, flying := r.flights[key]
	if flying && all.newest.deployment == d && now.Sub(all.newest.started) <= shareFor {
		return all.newest
	}
	f := r.newFlight(d, now)
	if r.closed {
		close(f.done)
		return f
	}
	if !flying {
		all = &flights{slots: semaphore.NewWeighted(int64(r.config.Concurrency))}
		r.flights[key] = all
	}
	all.newest = f
	all.flying++
	fleet := r.retained
	r.running.Go(func() {
		r.fly(f, all.slots)
		f.end()
		r.land(key, f, all, fleet)
		close(f.done)
	})
	return f
}

// land ends a flight that took off when the fleet was the retained one.
func (r *Reader) land(key string, f *flight, all *flights, fleet *discovery.Fleet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(key, f)
	if all.flying--; all.flying == 0 {
		delete(r.flights, key)
	}
	if r.retained != fleet {
		// The flight may have read Pods that are gone since.
		r.prune()
	}
}

func (r *Reader) newFlight(d *discovery.Deployment, now time.Time) *flight {
	f := &flight{deployment: d, started: now, done: make(chan struct{}), limited: len(d.Pods) > r.config.MaxPods}
	for i := range d.Pods {
		p := &d.Pods[i]
		f.owned = append(f.owned, &p.Pod)
		if i < r.config.MaxPods && normalize.TableOf(&d.Deployment, &p.Pod) != nil {
			f.toRead = append(f.toRead, p)
		}
	}
	if d.Expected() == 0 {
		f.toRead = nil
	}
	f.results = make([]normalize.Result, len(f.toRead))
	for i, p := range f.toRead {
		if p.URL == "" {
			f.results[i] = normalize.Failed(&p.Pod, normalize.NotAdvertised)
		}
	}
	return f
}

// fly reads the flight's Pods. A read takes its slots, the deployment's and then the process's, before
// it takes a goroutine, so that what waits costs next to nothing and keeps no slot from another
// deployment.
func (r *Reader) fly(f *flight, slots *semaphore.Weighted) {
	ctx, cancel := context.WithTimeout(r.ctx, r.config.SnapshotTimeout)
	defer cancel()
	var reads sync.WaitGroup
	for i, p := range f.toRead {
		if p.URL == "" {
			continue
		}
		if slots.Acquire(ctx, 1) != nil {
			break // The deadline: what is not read is assembled as such.
		}
		if r.acquire(ctx) != nil {
			slots.Release(1)
			break
		}
		reads.Go(func() {
			defer slots.Release(1)
			defer r.begin()()
			f.set(i, r.read(ctx, f.deployment, p))
		})
	}
	reads.Wait()
	if len(f.toRead) > 0 {
		r.metrics.collectionDuration.Observe(time.Since(f.started).Seconds())
	}
}

// acquire waits for what a fetch needs of the process.
func (r *Reader) acquire(ctx context.Context) error {
	if err := r.busy.Acquire(ctx, 1); err != nil {
		return err
	}
	if err := r.slots.Acquire(ctx, 1); err != nil {
		r.busy.Release(1)
		return err
	}
	return nil
}

// begin starts a fetch that has acquired, which is busy for a while, and returns what ends it.
func (r *Reader) begin() func() {
	waits := sync.OnceFunc(func() { r.busy.Release(1) })
	timer := time.AfterFunc(busyFor, waits)
	return func() {
		timer.Stop()
		waits()
		r.slots.Release(1)
	}
}

func (f *flight) set(i int, result normalize.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.results[i] = result
}

// read reads one Pod and measures it against the reads held of it.
func (r *Reader) read(ctx context.Context, d *discovery.Deployment, p *discovery.Pod) normalize.Result {
	state := r.state(d, p)
	values, err := r.fetch(ctx, d, p)
	observedAt := time.Now()
	reason := scrape.ReasonOf(err)

	state.mu.Lock()
	defer state.mu.Unlock()
	if reason != state.failure && reason != normalize.ScrapeDeadline {
		r.logChange(d, p, state.failure, reason, err)
		state.failure = reason
	}
	if reason != "" {
		return normalize.Failed(&p.Pod, reason)
	}
	return state.history.Observe(&d.Deployment, &p.Pod, values, observedAt, r.config.Window)
}

// fetch gets one Pod's values.
func (r *Reader) fetch(ctx context.Context, d *discovery.Deployment, p *discovery.Pod) (normalize.Values, error) {
	r.metrics.inflight.Inc()
	defer r.metrics.inflight.Dec()
	body := &body{table: normalize.TableOf(&d.Deployment, &p.Pod)}
	started := time.Now()
	err := r.client.Get(ctx, p.URL, body)
	r.metrics.fetchDuration.Observe(time.Since(started).Seconds())
	r.metrics.readBytes.Add(float64(body.bytes))
	values, malformed := body.values()
	if err == nil && malformed != nil {
		err = &scrape.Error{Reason: normalize.MalformedResponse, Err: malformed}
	}
	r.metrics.fetches.WithLabelValues(result(scrape.ReasonOf(err))).Inc()
	return values, err
}

// body parses an exposition as it is written. The parser is taken with the first byte: most of a fetch is
// waiting for that.
type body struct {
	table  *normalize.Table
	parser *normalize.Parser
	bytes  int
}

// Write implements io.Writer. It never fails.
func (b *body) Write(part []byte) (int, error) {
	if b.parser == nil {
		b.parser = b.table.NewParser()
	}
	b.bytes += len(part)
	return b.parser.Write(part)
}

// values ends the body.
func (b *body) values() (normalize.Values, error) {
	if b.parser == nil {
		return b.table.Parse(nil)
	}
	return b.parser.Values()
}

// logChange logs a Pod that broke, broke in another way, or healed: one line a change, not one a read.
func (r *Reader) logChange(d *discovery.Deployment, p *discovery.Pod, before, reason normalize.Reason, err error) {
	logger := r.logger.With("namespace", d.Namespace, "modeldeployment", d.Name, "pod", p.Name, "url", p.URL)
	if reason == "" {
		logger.Info("Pod is read again", "was", before)
		return
	}
	logger.Warn("Pod cannot be read", "reason", reason, "err", err)
}

// snapshot assembles what is in, and is the same for every request once the flight has ended.
func (f *flight) snapshot() normalize.Snapshot {
	f.mu.Lock()
	if f.ended != nil {
		defer f.mu.Unlock()
		return *f.ended
	}
	results := slices.Clone(f.results)
	f.mu.Unlock()
	for i := range results {
		if results[i].Pod == nil {
			results[i] = normalize.Failed(&f.toRead[i].Pod, normalize.ScrapeDeadline)
		}
	}
	return normalize.Collection{
		Deployment: &f.deployment.Deployment,
		Owned:      f.owned,
		PodLimit:   f.limited,
		Results:    results,
		At:         time.Now(),
		Started:    f.started,
	}.Snapshot()
}
