package simulate

import (
	"math/rand/v2"
	"time"
)

// Load is what the users of one deployment ask of it.
type Load struct {
	// RequestsPerSecond is the mean of a Poisson process; zero is no traffic.
	RequestsPerSecond float64
	// PromptTokens and OutputTokens are means; a request's own lie between half and one and a half of them.
	PromptTokens, OutputTokens int
	// PrefixShare of a prompt, in the mean, is found in the engine's own cache; from 0 to 1.
	PrefixShare float64
	// StoreShare of what is not found there is supplied by the KV cache pool where one is attached.
	StoreShare float64
	// ErrorRate of the requests fail at the router; from 0 to 1. Without a router it means nothing.
	ErrorRate float64
	// StreamingShare of the requests stream their answer.
	StreamingShare float64
	// Seed makes the traffic: the same seed, the same requests.
	Seed uint64
}

// block is the number of tokens that a cache keeps together: hits are multiples of it.
const block = 16

// failure is how a request fails at the router.
type failure int

const (
	succeeds failure = iota
	// rejected by the backend, in a way that the router counts as an error of its own.
	rejected
	// unserved: it is turned away before it counts as a request where the router tells the two apart.
	unserved
	// nowhere: no worker takes traffic.
	nowhere
)

// request is one request through the whole deployment. All that is random about it is drawn when it
// arrives, so that what happens to others never changes it.
type request struct {
	prompt, output        int
	local, host, store    int
	prefill, step         time.Duration
	transfer              time.Duration
	transferRetries       int
	streaming, stopped    bool
	flow, retries, ticket int
	failure               failure

	arrival time.Duration
	router  *Server
	epoch   int
	legs    []*leg
	done    bool
}

// state is where a leg is in its engine.
type state int

const (
	// arriving: its KV blocks are still on the way from the other half.
	arriving state = iota
	queued
	executing
	// sending: prefilled, its KV blocks are on the way to the other half.
	sending
)

// leg is a request's part in one engine. A pair's request has two.
type leg struct {
	request        *request
	unit           *unit
	state          state
	output         int
	emitted        int
	arrival, first time.Duration
	started        time.Duration
}

// unit is one scheduler of an engine: a data-parallel rank.
type unit struct {
	server *Server
	rank   string
	legs   []*leg
}

// slots is how many requests a scheduler executes at once.
const slots = 16

func (u *unit) count(in ...state) int {
	var n int
	for _, l := range u.legs {
		for _, s := range in {
			if l.state == s {
				n++
			}
		}
	}
	return n
}

// between draws evenly from half of the mean to one and a half of it.
func between(rng *rand.Rand, mean float64) float64 { return mean * (0.5 + rng.Float64()) }

// share draws a number of tokens, a whole number of blocks less than all.
func share(rng *rand.Rand, tokens int, mean float64) int {
	n := min(int(between(rng, float64(tokens)*mean)), tokens-1)
	return max(n, 0) / block * block
}

// draw makes the next request.
func (l Load) draw(rng *rand.Rand, ticket int) *request {
	r := &request{ticket: ticket}
	r.prompt = max(1, int(between(rng, float64(l.PromptTokens))))
	r.output = max(1, int(between(rng, float64(l.OutputTokens))))
	r.local = share(rng, r.prompt, l.PrefixShare)
	r.host = share(rng, r.prompt-r.local, 0.25*l.StoreShare)
	r.store = share(rng, r.prompt-r.local-r.host, l.StoreShare)
	computed := r.prompt - r.local - r.host - r.store
	r.prefill = 15*time.Millisecond + time.Duration(float64(computed)*between(rng, float64(60*time.Microsecond)))
	r.step = time.Duration(between(rng, float64(18*time.Millisecond)))
	r.transfer = time.Duration(between(rng, float64(12*time.Millisecond)))
	if rng.Float64() < l.ErrorRate/2 {
		r.transferRetries = 1
	}
	r.streaming = rng.Float64() < l.StreamingShare
	r.stopped = rng.Float64() < 0.8
	r.flow = rng.IntN(len(eppFlows))
	failed, kind := rng.Float64() < l.ErrorRate, rng.IntN(2)
	if failed {
		r.failure, r.retries = rejected+failure(kind), 2
	}
	return r
}

// emit records the tokens that a leg has put out by now.
func (l *leg) emit(now time.Duration) {
	if l.state != executing || l.first == 0 {
		return
	}
	n := min(int((now-l.first)/l.request.step), l.output-1) - l.emitted
	if n <= 0 {
		return
	}
	// Gaps are uneven and even out: three quarters, then five quarters of the step, in turn.
	var short int
	for i := range n {
		if (l.emitted+i)%2 == 0 {
			short++
		}
	}
	l.emitted += n
	l.unit.server.profile.tokens(l.unit.server, l, l.request.step*3/4, short)
	l.unit.server.profile.tokens(l.unit.server, l, l.request.step*5/4, n-short)
}
