package simulate

import (
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"time"
)

// sglangProfile plays SGLang of 2026: a front process and a scheduler for each tensor-parallel rank,
// whose counters and histograms meet in one directory.
var sglangProfile = &profile{
	dialect:        multiprocess,
	contentType:    pythonText,
	compresses:     true,
	together:       true,
	families:       func(s *Server) []family { return sglangFamilies(s.sglangLabels()) },
	begin:          sglangBegin,
	refresh:        sglangRefresh,
	started:        sglangStarted,
	firstToken:     sglangFirstToken,
	tokens:         sglangTokens,
	finished:       sglangFinished,
	transferred:    sglangTransferred,
	transferFailed: sglangTransferFailed,
}

// warmup is when a fresh SGLang server sends itself its first request, and how long that takes;
// warmupTokens is that request's prompt.
const (
	warmup       = 500 * time.Millisecond
	warmupTokens = 22
)

func (s *Server) engineType() string {
	if s.kind == Unified {
		return "unified"
	}
	return string(s.kind)
}

// front are the label values of the front process.
func (s *Server) front() []string { return []string{s.engineType(), s.model()} }

// sglangLabels are the label names of a scheduler.
func (s *Server) sglangLabels() []string {
	labels := slices.Clone(sglangRank)
	if s.ranks.Data > 1 {
		labels = append(labels, "dp_rank")
	}
	if len(s.priorities) > 0 {
		labels = append(labels, "priority")
	}
	return labels
}

// scheduler are the label values of one tensor-parallel rank, with more values after them.
func (u *unit) scheduler(tensor int, more ...string) []string {
	return u.prioritised(tensor, "", more...)
}

func (u *unit) prioritised(tensor int, priority string, more ...string) []string {
	s := u.server
	set := []string{s.engineType(), s.model(), "0", "0", strconv.Itoa(tensor)}
	if s.ranks.Data > 1 {
		set = append(set, u.rank)
	}
	if len(s.priorities) > 0 {
		set = append(set, priority)
	}
	return append(set, more...)
}

// each calls do for each tensor-parallel rank.
func (s *Server) each(do func(tensor int)) {
	for tensor := range s.ranks.Tensor {
		do(tensor)
	}
}

// pid is the process id that a gauge of the scheduler carries.
func (s *Server) pid() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.pod))
	return strconv.Itoa(int(h.Sum32()%20000) + 10000 + s.epoch)
}

func sglangBegin(s *Server) {
	for _, u := range s.units {
		s.each(func(tensor int) { s.registry.seed(s.sglangLabels(), u.scheduler(tensor)) })
	}
	s.registry.set("sglang:http_requests_active", 1, "/metrics", "GET")
	for _, f := range []Field{DevicePrefix, HostPrefix, StoragePrefix} {
		s.tally.Caches[f] = Cache{}
	}
	s.simulation.schedule(warmup, &event{server: s, epoch: s.epoch, do: func(*event) { sglangWarmup(s) }})
}

// sglangWarmup is the one request that every fresh server answers before it says that it is ready.
func sglangWarmup(s *Server) {
	s.logged = true
	for _, u := range s.units {
		s.prefilled(u, warmupTokens, 0, 0, 0)
	}
	s.count(warmupTokens, 8, false)
	s.registry.observe("sglang:e2e_request_latency_seconds", seconds(warmup), 1, append(s.front(), "false")...)
	s.ttft(warmup, false)
}

// sglangLogged are the gauges that the stats log writes: absent until it first does.
var sglangLogged = []struct {
	name  string
	value func(*unit) float64
}{
	{"sglang:token_usage", (*unit).usage},
	{"sglang:cache_hit_rate", func(*unit) float64 { return 0 }},
	{"sglang:gen_throughput", (*unit).throughput},
	{"sglang:fwd_occupancy", func(*unit) float64 { return math.NaN() }},
	{"sglang:num_prefill_bootstrap_queue_reqs", func(*unit) float64 { return 0 }},
	{"sglang:num_prefill_inflight_queue_reqs", func(u *unit) float64 { return float64(u.count(sending)) }},
	{"sglang:num_decode_prealloc_queue_reqs", func(*unit) float64 { return 0 }},
	{"sglang:num_decode_transfer_queue_reqs", func(u *unit) float64 { return float64(u.count(arriving)) }},
}

// throughput is the tokens a second that the running batch puts out.
func (u *unit) throughput() float64 {
	var t float64
	for _, l := range u.legs {
		if l.state == executing {
			t += 1 / l.request.step.Seconds()
		}
	}
	return round(t)
}

func sglangRefresh(s *Server) {
	if !s.logged {
		return
	}
	var running, waiting, arrivals int
	for _, u := range s.units {
		r, w := u.count(executing), u.count(queued)
		running, waiting, arrivals = running+r, waiting+w, arrivals+u.count(arriving)
		// The first rank of each scheduler logs, for all of them.
		s.registry.set("sglang:num_running_reqs", float64(r), u.scheduler(0)...)
		s.registry.set("sglang:num_queue_reqs", float64(w), u.scheduler(0)...)
		for i, p := range s.priorities {
			s.registry.set("sglang:num_running_reqs", float64(u.share(executing, i)), u.prioritised(0, p)...)
			s.registry.set("sglang:num_queue_reqs", float64(u.share(queued, i)), u.prioritised(0, p)...)
		}
		for _, g := range sglangLogged {
			s.registry.set(g.name, g.value(u), u.scheduler(0)...)
		}
		s.registry.set("sglang:num_retracted_reqs", 0, u.scheduler(0, s.pid())...)
		s.registry.set("sglang:num_paused_reqs", 0, u.scheduler(0, s.pid())...)
		gt := "0"
		for _, le := range []string{"1", "2", "3", "5", "7", "10", "20", "50", "100", "200", "+Inf"} {
			s.registry.set("sglang:routing_key_running_req_count", 0, u.scheduler(0, gt, le)...)
			gt = le
		}
	}
	s.tally.Values[Running], s.tally.Values[Waiting] = float64(running), float64(waiting)
	s.tally.Values[DecodeTransferWaiting] = float64(arrivals)
}

// share is how many legs in the state have the i-th priority.
func (u *unit) share(in state, i int) int {
	var n int
	for _, l := range u.legs {
		if l.state == in && l.request.ticket%len(u.server.priorities) == i {
			n++
		}
	}
	return n
}

// stage records how long one stage of a request took, on every rank.
func (s *Server) stage(l *leg, name string, took time.Duration) {
	s.each(func(tensor int) {
		s.registry.observe("sglang:per_stage_req_latency_seconds", seconds(took), 1, l.unit.scheduler(tensor, name)...)
	})
}

func sglangStarted(s *Server, l *leg) {
	s.logged = true
	waited := s.simulation.now - l.arrival
	s.each(func(tensor int) {
		s.registry.observe("sglang:queue_time_seconds", seconds(waited), 1, l.unit.scheduler(tensor)...)
	})
	stages := sglangStages[s.engineType()]
	s.stage(l, stages[0], waited)
	if s.kind == Decode {
		s.stage(l, stages[1], l.request.transfer)
	}
}

// prefilled counts prompt tokens by mode. The first rank counts, the others keep their zeros; a
// decode half prefills nothing.
func (s *Server) prefilled(u *unit, input, device, host, storage int) {
	if s.kind == Decode {
		return
	}
	for i, tokens := range []int{input, device, host, storage} {
		s.registry.add("sglang:prefill_effective_tokens_total", float64(tokens), u.scheduler(0, sglangModes[i])...)
	}
	queries := input + device + host + storage
	s.tally.cache(DevicePrefix, device, queries)
	s.tally.cache(HostPrefix, host, queries)
	s.tally.cache(StoragePrefix, storage, queries)
	s.registry.add("sglang:realtime_tokens_total", float64(input), u.scheduler(0, "prefill_compute")...)
	s.registry.add("sglang:realtime_tokens_total", float64(device+host+storage), u.scheduler(0, "prefill_cache")...)
}

// ttft records a time to first token, which a prefill half does not.
func (s *Server) ttft(took time.Duration, streaming bool) {
	if s.kind == Prefill {
		return
	}
	s.registry.observe("sglang:time_to_first_token_seconds", seconds(took), 1, append(s.front(), strconv.FormatBool(streaming))...)
	s.tally.observe(TTFT, seconds(took), 1)
}

// count counts a request that ended.
func (s *Server) count(prompt, output int, streaming bool) {
	set := append(s.front(), strconv.FormatBool(streaming))
	s.registry.add("sglang:prompt_tokens_total", float64(prompt), set...)
	s.registry.add("sglang:generation_tokens_total", float64(output), set...)
	s.registry.add("sglang:num_requests_total", 1, set...)
	s.registry.add("sglang:http_requests_total", 1, "/v1/chat/completions", "POST")
}

func sglangFirstToken(s *Server, l *leg) {
	r := l.request
	host, storage := 0, 0
	if s.host {
		host = r.host
	}
	if s.storage {
		storage = r.store
	}
	s.prefilled(l.unit, r.prompt-r.local-host-storage, r.local, host, storage)
	if s.kind != Decode {
		s.stage(l, "prefill_forward", s.simulation.now-l.started)
	}
	s.ttft(s.simulation.now-l.arrival, r.streaming)
}

func sglangTokens(s *Server, l *leg, step time.Duration, n int) {
	if n <= 0 {
		return
	}
	s.registry.add("sglang:realtime_tokens_total", float64(n), l.unit.scheduler(0, "decode")...)
	// A request that is answered whole has no gaps to time.
	if l.request.streaming {
		s.registry.observe("sglang:inter_token_latency_seconds", seconds(step), n, s.front()...)
		s.tally.observe(ITL, seconds(step), n)
	}
}

func sglangFinished(s *Server, l *leg) {
	r, now := l.request, s.simulation.now
	s.count(r.prompt, l.output, r.streaming)
	s.registry.observe("sglang:e2e_request_latency_seconds", seconds(now-l.arrival), 1, append(s.front(), strconv.FormatBool(r.streaming))...)
	switch s.kind {
	case Prefill:
		s.stage(l, "prefill_transfer_kv_cache", now-l.first)
	case Decode:
		s.stage(l, "decode_waiting", l.started-l.arrival)
	default:
		s.stage(l, "decode_loop", now-l.first)
	}
}

// sglangTransferred records a sent request once for each rank, which sends its own part.
func sglangTransferred(s *Server, l *leg) {
	r := l.request
	megabytes := round(float64(r.prompt) * 0.13 / float64(s.ranks.Tensor))
	milliseconds := round(r.transfer.Seconds() * 1e3)
	speed := round(megabytes / milliseconds)
	s.each(func(tensor int) {
		set := l.unit.scheduler(tensor)
		s.registry.observe("sglang:kv_transfer_latency_ms", milliseconds, 1, set...)
		s.registry.observe("sglang:kv_transfer_speed_gb_s", speed, 1, set...)
		s.registry.observe("sglang:kv_transfer_total_mb", megabytes, 1, set...)
	})
	s.tally.observe(TransferLatency, milliseconds, s.ranks.Tensor)
	s.tally.observe(TransferSpeed, speed, s.ranks.Tensor)
	s.tally.observe(TransferSize, megabytes, s.ranks.Tensor)
}

// sglangTransferFailed counts on every rank, which all see the same request fail.
func sglangTransferFailed(s *Server, l *leg) {
	s.each(func(tensor int) {
		s.registry.add("sglang:num_transfer_failed_reqs_total", 1, l.unit.scheduler(tensor)...)
	})
	s.tally.Values[TransferFailures]++
}
