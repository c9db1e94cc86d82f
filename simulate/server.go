package simulate

import (
	"compress/gzip"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is one simulated process, an engine or a router: an http.Handler for GET /metrics. It is
// safe for concurrent use.
type Server struct {
	simulation *Simulation
	profile    *profile
	software   string
	pod        string
	role       string
	kind       RoleKind
	idle       bool
	ranks      Ranks
	arguments  []string
	priorities []string
	// connector, store, host and storage are what the arguments build: vLLM's KV connector and the pool
	// behind it, SGLang's host tier and its storage tier.
	connector, store, host, storage bool

	// Guarded by the simulation's lock.
	registry *registry
	tally    Totals
	units    []*unit
	epoch    int
	logged   bool
	hung     int
	refusing bool
	hanging  bool
	answers  []Answer

	network  sync.Mutex
	address  string
	listener *listening
	held     *placeholder
}

// profile is how one piece of software differs from the others.
type profile struct {
	dialect     dialect
	contentType string
	// compresses is whether the real one answers Accept-Encoding: gzip.
	compresses bool
	// together is whether both halves of a pair get a request at once, the prefill half sending its
	// blocks when it is done; otherwise the decode half gets it when the prefill half has answered.
	together bool
	families func(*Server) []family
	// begin makes the series that a fresh process has, refresh sets the gauges.
	begin, refresh func(*Server)

	started, firstToken, finished, transferred, transferFailed func(*Server, *leg)
	// tokens records n tokens of a leg, each step after the one before it.
	tokens func(s *Server, l *leg, step time.Duration, n int)

	accepted, firstByte, completed, failed, failedInFlight, retried func(*Server, *request)
}

// Pod is the name of the Pod that the server stands for.
func (s *Server) Pod() string { return s.pod }

// Namespace is the Pod's namespace.
func (s *Server) Namespace() string { return s.simulation.description.Namespace }

// Role is the engine's role; empty for a router.
func (s *Server) Role() string { return s.role }

// Software is what the server plays: an engine's or router's name as a ModelDeployment spells it.
func (s *Server) Software() string { return s.software }

// Exposition is the body of this moment and what it states, taken together.
func (s *Server) Exposition() ([]byte, Totals) {
	s.simulation.mu.Lock()
	defer s.simulation.mu.Unlock()
	return s.exposition()
}

func (s *Server) exposition() ([]byte, Totals) {
	s.profile.refresh(s)
	return s.registry.append(make([]byte, 0, 32<<10)), s.tally.clone()
}

// Answers are the newest bodies sent over HTTP, oldest first.
func (s *Server) Answers() []Answer {
	s.simulation.mu.Lock()
	defer s.simulation.mu.Unlock()
	return slices.Clone(s.answers)
}

// Restart starts the process anew: its counters are back at zero, what it was doing is lost.
func (s *Server) Restart() {
	s.simulation.mu.Lock()
	defer s.simulation.mu.Unlock()
	s.simulation.drop(s)
	s.boot()
}

// boot gives the process the series of a fresh one.
func (s *Server) boot() {
	s.epoch++
	s.logged = false
	s.tally = newTotals()
	started := s.simulation.options.Start.Add(s.simulation.now)
	s.registry = newRegistry(s.profile.dialect, float64(started.UnixMicro())/1e6, s.profile.families(s))
	s.profile.begin(s)
}

// ServeHTTP answers /metrics; a refusing server drops the connection, a hanging one holds it until
// the client or the server goes away.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.simulation.mu.Lock()
	refusing, hanging := s.refusing, s.hanging
	s.simulation.mu.Unlock()
	switch {
	case hanging:
		s.hang(r.Context())
		panic(http.ErrAbortHandler)
	case refusing:
		panic(http.ErrAbortHandler)
	case r.URL.Path != "/metrics":
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	body := s.answer()
	w.Header().Set("Content-Type", s.profile.contentType)
	if s.profile.compresses && acceptsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(body) // a client that went away needs no answer
		_ = z.Close()
		return
	}
	_, _ = w.Write(body)
}

// hang holds a request until its context is done.
func (s *Server) hang(ctx context.Context) {
	count := func(n int) {
		s.simulation.mu.Lock()
		defer s.simulation.mu.Unlock()
		s.hung += n
	}
	count(1)
	defer count(-1)
	<-ctx.Done()
}

// Hung is the number of requests that the server holds without an answer.
func (s *Server) Hung() int {
	s.simulation.mu.Lock()
	defer s.simulation.mu.Unlock()
	return s.hung
}

// answer renders a body and writes it down in the journal.
func (s *Server) answer() []byte {
	s.simulation.mu.Lock()
	defer s.simulation.mu.Unlock()
	body, totals := s.exposition()
	s.answers = append(s.answers, Answer{At: s.simulation.clock(), Totals: totals})
	if len(s.answers) > journalLength {
		s.answers = slices.Delete(s.answers, 0, len(s.answers)-journalLength)
	}
	return body
}

// acceptsGzip reports whether the client names gzip with a weight above zero.
func acceptsGzip(r *http.Request) bool {
	for _, value := range r.Header.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(value, ",") {
			coding, parameter, _ := strings.Cut(strings.ReplaceAll(part, " ", ""), ";")
			weight, err := strconv.ParseFloat(strings.TrimPrefix(parameter, "q="), 64)
			if strings.EqualFold(coding, "gzip") && (err != nil || weight > 0) {
				return true
			}
		}
	}
	return false
}

// listening is one HTTP server at its address, until it is closed.
type listening struct {
	server *http.Server
	cancel context.CancelFunc
	done   chan struct{}
}

func (s *Server) listen(address string) error {
	base, cancel := context.WithCancel(context.Background())
	l, err := new(net.ListenConfig).Listen(base, "tcp", address)
	if err != nil {
		cancel()
		return err
	}
	on := &listening{
		server: &http.Server{
			Handler:           s,
			ReadHeaderTimeout: 10 * time.Second,
			BaseContext:       func(net.Listener) context.Context { return base },
		},
		cancel: cancel,
		done:   make(chan struct{}),
	}
	go func() {
		defer close(on.done)
		_ = on.server.Serve(l) // always ErrServerClosed, by stop
	}()
	s.address, s.listener = l.Addr().String(), on
	return nil
}

// stop ends the listening: gracefully until ctx is done, then at once.
func (l *listening) stop(ctx context.Context) error {
	l.cancel()
	err := l.server.Shutdown(ctx)
	if err != nil {
		_ = l.server.Close()
	}
	<-l.done
	return err
}

// Start listens on the address, such as 127.0.0.1:0. A refusing server holds the address instead, so
// that connections to it are refused and nobody else takes it.
func (s *Server) Start(address string) error {
	s.network.Lock()
	defer s.network.Unlock()
	if s.listener != nil || s.held != nil {
		return errors.New("simulate: " + s.pod + " is started already")
	}
	s.simulation.mu.Lock()
	refusing := s.refusing
	s.simulation.mu.Unlock()
	if !refusing {
		return s.listen(address)
	}
	held, err := hold(address)
	if err != nil {
		return err
	}
	s.held, s.address = held, held.address()
	return nil
}

// Close stops listening, ends hanging answers and returns when nothing of the server runs any more. It
// waits for other answers under way until ctx is done; then it cuts their connections, at which they
// end by themselves, and returns ctx's error.
func (s *Server) Close(ctx context.Context) error {
	s.network.Lock()
	defer s.network.Unlock()
	return s.unbind(ctx)
}

func (s *Server) unbind(ctx context.Context) error {
	var err error
	if s.listener != nil {
		err = s.listener.stop(ctx)
		s.listener = nil
	}
	if s.held != nil {
		s.held.release()
		s.held = nil
	}
	return err
}

// Address is the host and port that the server has had since Start; empty before.
func (s *Server) Address() string {
	s.network.Lock()
	defer s.network.Unlock()
	return s.address
}

// Refuse makes the server refuse connections, those that are open included, and get no more
// requests from its router. Heal mends it, at the same address.
func (s *Server) Refuse() {
	s.network.Lock()
	defer s.network.Unlock()
	s.fault(true, false)
	if s.listener == nil {
		return
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.unbind(now) // cut, not drained
	if held, err := hold(s.address); err == nil {
		s.held = held
	}
}

// Hang makes the server accept connections and never answer, until Heal or Close. Its router sends
// it no more requests.
func (s *Server) Hang() error {
	s.network.Lock()
	defer s.network.Unlock()
	s.fault(false, true)
	return s.rebind()
}

// Heal ends Refuse and Hang.
func (s *Server) Heal() error {
	s.network.Lock()
	defer s.network.Unlock()
	s.fault(false, false)
	return s.rebind()
}

func (s *Server) fault(refusing, hanging bool) {
	s.simulation.mu.Lock()
	defer s.simulation.mu.Unlock()
	s.refusing, s.hanging = refusing, hanging
}

// rebind listens again at the address that a refusing server had.
func (s *Server) rebind() error {
	if s.listener != nil || s.address == "" {
		return nil
	}
	_ = s.unbind(context.Background())
	return s.listen(s.address)
}
