package simulate

import (
	"slices"
	"strconv"
)

// nothing is for what a router does not record.
func nothing(*Server, *request) {}

const rustText = "text/plain; charset=utf-8"

// vllmRouterProfile plays vllm-router in both of its modes.
var vllmRouterProfile = &profile{
	dialect: rust, contentType: rustText,
	families: func(*Server) []family { return vllmRouterFamilies },
	begin:    func(*Server) {}, refresh: vllmRouterRefresh,
	accepted: vllmRouterAccepted, firstByte: nothing, completed: vllmRouterCompleted,
	failed: vllmRouterFailed, failedInFlight: vllmRouterFailedInFlight, retried: nothing,
}

// smgProfile plays sglang-gateway's HTTP router.
var smgProfile = &profile{
	dialect: rust, contentType: rustText,
	families: func(*Server) []family { return smgFamilies },
	begin:    smgBegin, refresh: smgRefresh,
	accepted: smgAccepted, firstByte: nothing, completed: smgCompleted,
	failed: smgFailed, failedInFlight: smgFailedInFlight, retried: smgRetried,
}

// route is the path that a request came by.
func (r *request) route() string {
	if r.ticket%8 == 7 {
		return "/v1/completions"
	}
	return "/v1/chat/completions"
}

// inFlight counts the requests that a worker has from this router; a nil worker counts each request once.
func (s *Server) inFlight(worker *Server) int {
	var n int
	for _, r := range s.simulation.live {
		if r.router != s || r.epoch != s.epoch {
			continue
		}
		if worker == nil || slices.ContainsFunc(r.legs, func(l *leg) bool {
			return l.unit.server == worker && slices.Contains(l.unit.legs, l)
		}) {
			n++
		}
	}
	return n
}

// workers are the engines that the router knows.
func (s *Server) workers() []*Server {
	return slices.DeleteFunc(slices.Clone(s.simulation.servers), func(w *Server) bool { return w.kind == Router })
}

func (s *Server) healthy() float64 {
	if s.refusing || s.hanging {
		return 0
	}
	return 1
}

func vllmRouterRefresh(s *Server) {
	if s.simulation.description.pair() {
		return // this mode exports none of these gauges
	}
	var active, running float64
	for _, w := range s.workers() {
		n := float64(s.inFlight(w))
		active, running = active+w.healthy(), running+n
		s.registry.set("vllm_router_running_requests", n, w.worker())
		s.registry.set("vllm_router_worker_health", w.healthy(), w.worker())
		s.registry.set("vllm_router_cb_state", 1-w.healthy(), w.worker())
	}
	s.registry.set("vllm_router_active_workers", active)
	s.tally.Values[RouterRunning], s.tally.Values[RouterReportedWorkers] = running, active
}

func vllmRouterAccepted(s *Server, r *request) {
	for _, l := range r.legs {
		worker := l.unit.server.worker()
		s.registry.add("vllm_router_policy_decisions_total", 1, "cache_aware", worker)
		s.registry.add("vllm_router_processed_requests_total", 1, worker)
	}
	if len(r.legs) == 2 {
		s.registry.add("vllm_router_pd_requests_total", 1, r.route())
		s.tally.Values[PDRequests]++
		s.registry.add("vllm_router_pd_prefill_requests_total", 1, r.legs[0].unit.server.worker())
		s.registry.add("vllm_router_pd_decode_requests_total", 1, r.legs[1].unit.server.worker())
	}
}

func vllmRouterCompleted(s *Server, r *request) {
	took := seconds(s.simulation.now - r.arrival)
	s.registry.observe("vllm_tokenizer_tokens_per_encode", float64(r.prompt), 1)
	if len(r.legs) == 2 {
		s.registry.observe("vllm_router_pd_request_duration_seconds", took, 1, r.route())
		return
	}
	s.registry.add("vllm_router_requests_total", 1, r.route())
	s.tally.Values[SuccessfulRequests]++
	s.registry.observe("vllm_router_request_duration_seconds", took, 1, r.route())
	s.registry.observe("vllm_router_generate_duration_seconds", took, 1)
}

// vllmRouterFailed counts in a pair's mode a refusal that never was a request, or a request and its error.
func vllmRouterFailed(s *Server, r *request) {
	if s.simulation.description.pair() {
		kind := "no_workers_available"
		if r.failure == rejected {
			kind = "server_error"
			s.registry.add("vllm_router_pd_requests_total", 1, r.route())
			s.tally.Values[PDRequests]++
		}
		s.registry.add("vllm_router_pd_errors_total", 1, kind)
		s.tally.Values[PDErrors]++
		return
	}
	if r.failure == rejected {
		s.registry.add("vllm_router_request_errors_total", 1, r.route(), "non_retryable_error")
		s.tally.Values[Errors]++
		return
	}
	for i := range r.retries {
		s.registry.add("vllm_router_retries_total", 1, r.route())
		s.registry.observe("vllm_router_retry_backoff_duration_seconds", round(0.05*float64(int(1)<<i)), 1, strconv.Itoa(i+1))
	}
	s.registry.add("vllm_router_retries_exhausted_total", 1, r.route())
	s.tally.Values[RetriesExhausted]++
}

func vllmRouterFailedInFlight(s *Server, r *request) {
	if s.simulation.description.pair() {
		s.registry.add("vllm_router_pd_errors_total", 1, "server_error")
		s.tally.Values[PDErrors]++
		return
	}
	s.registry.add("vllm_router_retries_exhausted_total", 1, r.route())
	s.tally.Values[RetriesExhausted]++
}

// endpoint is smg's word for the path that a request came by.
func (r *request) endpoint() string {
	if r.route() == "/v1/completions" {
		return "completions"
	}
	return "chat"
}

// smgBackend are the label values that smg's request families begin with.
func (s *Server) smgBackend(r *request) []string {
	backend := "regular"
	if s.simulation.description.pair() {
		backend = "pd"
	}
	return []string{"http", backend, "http", s.model(), r.endpoint()}
}

// smgWorkerType is smg's word for an engine's kind.
func smgWorkerType(k RoleKind) string {
	if k == Unified {
		return "regular"
	}
	return string(k)
}

func smgBegin(s *Server) {
	s.registry.set("smg_discovery_workers_discovered", float64(len(s.workers())), "kubernetes")
}

func smgRefresh(s *Server) {
	var running, pool float64
	size := map[string]float64{}
	for _, w := range s.workers() {
		n := float64(s.inFlight(w))
		running, pool = running+n, pool+1
		kind := smgWorkerType(w.kind)
		size[kind]++
		s.registry.set("smg_worker_pool_size", size[kind], kind, "http", s.model())
		s.registry.set("smg_worker_requests_active", n, w.worker())
		s.registry.set("smg_worker_health", w.healthy(), w.worker())
		s.registry.set("smg_worker_cb_state", 1-w.healthy(), w.worker())
	}
	s.registry.set("smg_http_inflight_request_age_count", float64(s.inFlight(nil)), "0", "30")
	s.registry.set("smg_http_inflight_request_age_count", 0, "30", "60")
	s.registry.set("smg_http_inflight_request_age_count", 0, "60", "+Inf")
	s.tally.Values[RouterRunning], s.tally.Values[RouterBackends] = running, pool
}

// taken counts a request at its arrival, whatever becomes of it.
func smgTaken(s *Server, r *request) {
	s.registry.add("smg_http_requests_total", 1, "POST", r.route())
	s.registry.add("smg_router_requests_total", 1, append(s.smgBackend(r), strconv.FormatBool(r.streaming))...)
	s.tally.Values[Requests]++
}

func smgAccepted(s *Server, r *request) {
	smgTaken(s, r)
	for _, l := range r.legs {
		s.registry.add("smg_worker_selection_total", 1, smgWorkerType(l.unit.server.kind), "http", s.model(), "cache_aware")
	}
}

// smgResponse counts an answer. The family's presence alone states a count of 5xx, which may be zero.
func smgResponse(s *Server, r *request, status int, code string) {
	s.registry.add("smg_http_responses_total", 1, strconv.Itoa(status), code)
	var failures float64
	if status >= 500 {
		failures = 1
	}
	s.tally.Values[HTTP5xxResponses] += failures
	s.registry.observe("smg_http_request_duration_seconds", seconds(s.simulation.now-r.arrival), 1, "POST", r.route())
}

func smgCompleted(s *Server, r *request) {
	smgResponse(s, r, 200, "")
	took := seconds(s.simulation.now - r.arrival)
	s.registry.observe("smg_router_request_duration_seconds", took, 1, s.smgBackend(r)...)
	s.registry.observe("smg_router_stage_duration_seconds", took, 1, "http", "dispatch")
}

// smgFailed answers 503 without an error of the router's own where no worker was found.
func smgFailed(s *Server, r *request) {
	smgTaken(s, r)
	if r.failure != rejected {
		smgResponse(s, r, 503, "no_available_workers")
		return
	}
	smgFailedInFlight(s, r)
}

func smgFailedInFlight(s *Server, r *request) {
	s.registry.add("smg_router_request_errors_total", 1, append(s.smgBackend(r), "backend_error")...)
	s.tally.Values[Errors]++
	smgResponse(s, r, 502, "backend_error")
}

func smgRetried(s *Server, r *request) {
	s.registry.add("smg_worker_retries_total", 1, "prefill", r.endpoint())
}
