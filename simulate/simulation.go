package simulate

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Simulation is one deployment at work: its engines and routers under one load, so that their
// numbers agree. It is safe for concurrent use.
type Simulation struct {
	mu          sync.Mutex
	description Deployment
	options     Options
	load        Load
	rng         *rand.Rand
	now         time.Duration
	next        time.Duration // the next arrival; negative where there is none
	events      eventQueue
	serial      int
	tickets     int
	live        []*request
	servers     []*Server
	routers     []*Server
	units       map[RoleKind][]*unit
	turn        map[RoleKind]int
}

// event is something due: a leg's next step, or a server's warm-up.
type event struct {
	at     time.Duration
	serial int
	leg    *leg
	server *Server
	epoch  int
	do     func(*event)
}

// eventQueue is a heap by time, then by the order of scheduling.
type eventQueue []*event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].serial < q[j].serial
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *eventQueue) Push(e any) { *q = append(*q, e.(*event)) }

// Pop implements heap.Interface.
func (q *eventQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// Servers are the deployment's processes: engines by role, then routers.
func (s *Simulation) Servers() []*Server { return slices.Clone(s.servers) }

// Deployment is the description that the simulation was made from.
func (s *Simulation) Deployment() Deployment { return s.description }

// SetLoad changes the traffic from now on, drawn from the beginning of the load's seed; requests under
// way are not touched.
func (s *Simulation) SetLoad(l Load) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLoad(l)
}

func (s *Simulation) setLoad(l Load) {
	s.load = l
	s.rng = rand.New(rand.NewPCG(l.Seed, 0x6d642d6578706f72))
	s.next = -1
	s.scheduleArrival(s.now)
}

// Advance moves the deployment on by dt. How the time is cut into steps changes nothing.
func (s *Simulation) Advance(dt time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := s.now + dt
	for {
		switch due := len(s.events) > 0 && s.events[0].at <= until; {
		case s.next >= 0 && s.next <= until && (!due || s.next < s.events[0].at):
			s.now = s.next
			s.arrive(s.load.draw(s.rng, s.tickets))
			s.tickets++
			s.scheduleArrival(s.now)
		case due:
			e := heap.Pop(&s.events).(*event)
			s.now = e.at
			if e.leg != nil && e.leg.request.done || e.server != nil && e.server.epoch != e.epoch {
				continue
			}
			e.do(e)
		default:
			s.now = until
			for _, r := range s.live {
				for _, l := range r.legs {
					l.emit(s.now)
				}
			}
			return
		}
	}
}

func (s *Simulation) scheduleArrival(from time.Duration) {
	if s.load.RequestsPerSecond > 0 {
		s.next = from + time.Duration(s.rng.ExpFloat64()/s.load.RequestsPerSecond*float64(time.Second))
	}
}

func (s *Simulation) schedule(after time.Duration, e *event) {
	e.at, e.serial = s.now+after, s.serial
	s.serial++
	heap.Push(&s.events, e)
}

// pick returns the next scheduler of the kind that takes traffic, in turn, or nil.
func (s *Simulation) pick(kind RoleKind) *unit {
	all := s.units[kind]
	for range all {
		u := all[s.turn[kind]%len(all)]
		s.turn[kind]++
		if !u.server.refusing && !u.server.hanging && !u.server.idle {
			return u
		}
	}
	return nil
}

// arrive takes a request in at the router and hands it to the engines.
func (s *Simulation) arrive(r *request) {
	r.arrival = s.now
	if len(s.routers) > 0 {
		r.router = s.routers[r.ticket%len(s.routers)]
		r.epoch = r.router.epoch
	} else {
		r.failure = succeeds
	}
	if r.failure != succeeds {
		r.router.profile.failed(r.router, r)
		return
	}
	pair := s.description.pair()
	kind := Unified
	if pair {
		kind = Prefill
	}
	u := s.pick(kind)
	var other *unit
	if pair {
		other = s.pick(Decode)
	}
	if u == nil || pair && other == nil {
		if r.failure = nowhere; r.router != nil {
			r.router.profile.failed(r.router, r)
		}
		return
	}
	s.live = append(s.live, r)
	l := s.join(r, u, queued)
	switch {
	case !pair:
		l.output = r.output
	case u.server.profile.together:
		// The gateway sends both halves at once; the decode half waits for the blocks.
		s.join(r, other, arriving)
	default:
		// The decode half comes to know of the request when the prefill half has answered.
		r.legs = append(r.legs, &leg{request: r, unit: other, output: r.output})
	}
	r.notify(func(router *Server) { router.profile.accepted(router, r) })
	s.start(u)
}

// notify calls do with the request's router, unless that has been started anew since.
func (r *request) notify(do func(*Server)) {
	if r.router != nil && r.router.epoch == r.epoch {
		do(r.router)
	}
}

// join makes a leg of the request in a scheduler.
func (s *Simulation) join(r *request, u *unit, in state) *leg {
	l := &leg{request: r, unit: u, state: in, arrival: s.now, output: 1}
	if u.server.kind == Decode {
		l.output = r.output
	}
	r.legs = append(r.legs, l)
	u.legs = append(u.legs, l)
	return l
}

// start moves queued legs into the batch while it has room.
func (s *Simulation) start(u *unit) {
	room := slots - u.count(executing)
	for _, l := range u.legs {
		if room == 0 {
			return
		}
		if l.state != queued {
			continue
		}
		room--
		l.state, l.started = executing, s.now
		u.server.profile.started(u.server, l)
		after := l.request.prefill
		if u.server.kind == Decode {
			after = l.request.step
		}
		s.schedule(after, &event{leg: l, do: s.firstToken})
	}
}

// leave takes a leg out of its scheduler, whose next one may start.
func (s *Simulation) leave(l *leg) {
	l.unit.legs = slices.DeleteFunc(l.unit.legs, func(other *leg) bool { return other == l })
	s.start(l.unit)
}

func (s *Simulation) firstToken(e *event) {
	l, r := e.leg, e.leg.request
	l.first = s.now
	l.unit.server.profile.firstToken(l.unit.server, l)
	if l.unit.server.kind != Prefill {
		r.notify(func(router *Server) { router.profile.firstByte(router, r) })
		s.schedule(time.Duration(l.output-1)*r.step, &event{leg: l, do: s.finish})
		return
	}
	other := r.legs[1]
	if l.unit.server.profile.together {
		l.state = sending
	} else {
		l.unit.server.profile.finished(l.unit.server, l)
		s.leave(l)
		other.arrival, other.state = s.now, arriving
		other.unit.legs = append(other.unit.legs, other)
	}
	s.schedule(r.transfer, &event{leg: other, do: s.transferred})
}

// transferred is when a request's KV blocks have come to the decode half, or have failed to.
func (s *Simulation) transferred(e *event) {
	l, r := e.leg, e.leg.request
	sender := r.legs[0].unit.server
	if sender.profile.together {
		if r.transferRetries > 0 {
			r.transferRetries--
			sender.profile.transferFailed(sender, r.legs[0])
			r.notify(func(router *Server) { router.profile.retried(router, r) })
			s.schedule(r.transfer, e)
			return
		}
		sender.profile.transferred(sender, r.legs[0])
		sender.profile.finished(sender, r.legs[0])
		s.leave(r.legs[0])
	}
	l.state = queued
	s.start(l.unit)
}

func (s *Simulation) finish(e *event) {
	l, r := e.leg, e.leg.request
	l.emit(s.now)
	l.unit.server.profile.finished(l.unit.server, l)
	s.leave(l)
	s.end(r)
	r.notify(func(router *Server) { router.profile.completed(router, r) })
}

func (s *Simulation) end(r *request) {
	r.done = true
	s.live = slices.DeleteFunc(s.live, func(other *request) bool { return other == r })
}

// drop loses every request that has a leg in the server: its process is gone.
func (s *Simulation) drop(server *Server) {
	for _, r := range slices.Clone(s.live) {
		if !slices.ContainsFunc(r.legs, func(l *leg) bool { return l.unit.server == server && slices.Contains(l.unit.legs, l) }) {
			continue
		}
		s.end(r)
		for _, l := range r.legs {
			l.unit.legs = slices.DeleteFunc(l.unit.legs, func(other *leg) bool { return other == l })
		}
		r.failure = rejected
		r.notify(func(router *Server) { router.profile.failedInFlight(router, r) })
	}
	for _, kind := range []RoleKind{Unified, Prefill, Decode} {
		for _, u := range s.units[kind] {
			s.start(u)
		}
	}
}
