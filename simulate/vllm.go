package simulate

import (
	"fmt"
	"time"
)

const pythonText = "text/plain; version=0.0.4; charset=utf-8"

// vllmProfile plays vLLM 0.15: one process, a label for each data-parallel rank.
var vllmProfile = &profile{
	dialect:     python,
	contentType: pythonText,
	compresses:  true,
	families:    func(*Server) []family { return append(append([]family{}, pythonFamilies...), vllmFamilies...) },
	begin:       vllmBegin,
	refresh:     vllmRefresh,
	started:     vllmStarted,
	firstToken:  vllmFirstToken,
	tokens:      vllmTokens,
	finished:    vllmFinished,
}

func (s *Server) model() string { return s.simulation.description.Model }

// vllmSet are the label values of one data-parallel rank.
func (u *unit) vllmSet() []string { return []string{u.rank, u.server.model()} }

func vllmBegin(s *Server) {
	s.registry.seed(nil, nil)
	s.registry.set("python_info", 1, "CPython", "3", "12", "11", "3.12.11")
	s.registry.set("process_start_time_seconds", s.registry.started)
	for _, u := range s.units {
		s.registry.seed(vllmBase, u.vllmSet())
		s.registry.set("vllm:engine_sleep_state", 1, append(u.vllmSet(), "awake")...)
		s.registry.set("vllm:cache_config_info", 1, "16", "auto", "True", u.rank, "0.9", "27826", "4294967296")
	}
	for _, f := range []Field{TTFT, TPOT, ITL} {
		s.tally.Histograms[f] = Sum{}
	}
	for _, f := range []Field{LocalPrefix, ExternalStore} {
		s.tally.Caches[f] = Cache{}
	}
}

func vllmRefresh(s *Server) {
	var running, waiting int
	for _, u := range s.units {
		r, w := u.count(executing), u.count(queued, arriving)
		running, waiting = running+r, waiting+w
		s.registry.set("vllm:num_requests_running", float64(r), u.vllmSet()...)
		s.registry.set("vllm:num_requests_waiting", float64(w), u.vllmSet()...)
		s.registry.set("vllm:kv_cache_usage_perc", u.usage(), u.vllmSet()...)
	}
	s.tally.Values[Running], s.tally.Values[Waiting] = float64(running), float64(waiting)
	s.registry.set("process_cpu_seconds_total", round(s.registry.byName["vllm:generation_tokens_total"].total()/4096+9.5))
	s.registry.set("process_open_fds", float64(57+running+waiting))
}

// usage is the share of a KV pool of 441792 tokens that the legs hold.
func (u *unit) usage() float64 {
	var tokens int
	for _, l := range u.legs {
		if l.state != queued {
			tokens += l.request.prompt + l.emitted
		}
	}
	return min(round(float64(tokens)/441792), 1)
}

// total is the sum of the family's values over its series.
func (m *metric) total() float64 {
	var t float64
	for _, s := range m.series {
		t += s.value
	}
	return t
}

func vllmStarted(s *Server, l *leg) {
	r, set := l.request, l.unit.vllmSet()
	now := s.simulation.now
	s.registry.observe("vllm:request_queue_time_seconds", seconds(now-l.arrival), 1, set...)
	s.registry.add("vllm:prefix_cache_queries_total", float64(r.prompt), set...)
	s.registry.add("vllm:prefix_cache_hits_total", float64(r.local), set...)
	s.tally.cache(LocalPrefix, r.local, r.prompt)
	queries, hits := s.external(r)
	s.registry.add("vllm:external_prefix_cache_queries_total", float64(queries), set...)
	s.registry.add("vllm:external_prefix_cache_hits_total", float64(hits), set...)
	s.tally.cache(ExternalStore, hits, queries)
}

// external is what the KV connector is asked for and supplies: nothing without one, all on a decode
// half, whose prefill half sends it, and the store's share elsewhere.
func (s *Server) external(r *request) (queries, hits int) {
	switch missing := r.prompt - r.local; {
	case !s.connector:
		return 0, 0
	case s.kind == Decode:
		return missing, missing
	case s.store:
		return missing, r.host + r.store
	default:
		return missing, 0
	}
}

func vllmFirstToken(s *Server, l *leg) {
	r, set := l.request, l.unit.vllmSet()
	now := s.simulation.now
	ttft := seconds(now - l.arrival)
	s.registry.observe("vllm:time_to_first_token_seconds", ttft, 1, set...)
	s.tally.observe(TTFT, ttft, 1)
	_, external := s.external(r)
	s.registry.add("vllm:prompt_tokens_total", float64(r.prompt), set...)
	s.registry.add("vllm:prompt_tokens_by_source_total", float64(r.prompt-r.local-external), append(set, "local_compute")...)
	s.registry.add("vllm:prompt_tokens_by_source_total", float64(r.local), append(set, "local_cache_hit")...)
	s.registry.add("vllm:prompt_tokens_by_source_total", float64(external), append(set, "external_kv_transfer")...)
	s.registry.add("vllm:generation_tokens_total", 1, set...)
	s.registry.observe("vllm:iteration_tokens_total", float64(max(1, r.prompt-r.local-external)), 1, set...)
}

func vllmTokens(s *Server, l *leg, step time.Duration, n int) {
	set := l.unit.vllmSet()
	s.registry.observe("vllm:inter_token_latency_seconds", seconds(step), n, set...)
	s.tally.observe(ITL, seconds(step), n)
	s.registry.add("vllm:generation_tokens_total", float64(n), set...)
	s.registry.observe("vllm:iteration_tokens_total", 1, n, set...)
}

func vllmFinished(s *Server, l *leg) {
	r, set := l.request, l.unit.vllmSet()
	now := s.simulation.now
	reason := "length"
	if r.stopped && s.kind != Prefill {
		reason = "stop"
	}
	s.registry.add("vllm:request_success_total", 1, append(set, reason)...)
	// A request of one token has no time between tokens: it counts, as zero.
	var tpot float64
	if l.output > 1 {
		tpot = round((now - l.first).Seconds() / float64(l.output-1))
	}
	s.registry.observe("vllm:request_time_per_output_token_seconds", tpot, 1, set...)
	s.tally.observe(TPOT, tpot, 1)
	s.registry.observe("vllm:request_prompt_tokens", float64(r.prompt), 1, set...)
	s.registry.observe("vllm:request_generation_tokens", float64(l.output), 1, set...)
	s.registry.observe("vllm:request_params_n", 1, 1, set...)
	s.registry.observe("vllm:e2e_request_latency_seconds", seconds(now-l.arrival), 1, set...)
	s.registry.observe("vllm:request_prefill_time_seconds", seconds(l.first-l.started), 1, set...)
	s.registry.add("http_requests_total", 1, "/v1/chat/completions", "POST", "2xx")
}

// worker is the address by which a router names an engine.
func (s *Server) worker() string { return fmt.Sprintf("http://%s.%s:8000", s.pod, s.Namespace()) }
