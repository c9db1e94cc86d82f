package simulate

import "strconv"

// llmdProfile plays the llm-d router's endpoint picker.
var llmdProfile = &profile{
	dialect: golang, contentType: "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", compresses: true,
	families: func(*Server) []family { return eppFamilies() },
	begin:    llmdBegin, refresh: llmdRefresh,
	accepted: llmdAccepted, firstByte: llmdFirstByte, completed: llmdCompleted,
	failed: llmdFailed, failedInFlight: llmdFailedInFlight, retried: nothing,
}

// eppFlows are the tenants and priorities that requests come with, and what each adds to the model's name.
var eppFlows = []struct{ fairness, priority, adapter string }{
	{"default-flow", "-1", "-lora"},
	{"default-flow", "0", ""},
	{"tenant-a", "10", ""},
}

// flowSet are the label values of a request's flow.
func (s *Server) flowSet(flow int) []string {
	f := eppFlows[flow]
	return []string{f.fairness, s.model() + f.adapter, f.priority, s.model() + f.adapter}
}

// streamSet are those with the streaming flag among them.
func (s *Server) streamSet(r *request) []string {
	set := s.flowSet(r.flow)
	return append(set[:3:3], strconv.FormatBool(r.streaming), set[3])
}

// legacySet are the label values of the former names.
func (s *Server) legacySet(r *request) []string {
	set := s.flowSet(r.flow)
	return []string{set[1], set[3]}
}

// inferencePool is the name of the pool of endpoints.
func (s *Server) inferencePool() string { return s.simulation.description.Name + "-pool" }

func llmdBegin(s *Server) {
	s.registry.seed(nil, nil)
	s.registry.set("process_start_time_seconds", s.registry.started)
	s.registry.set("llm_d_epp_info", 1, "main", "7d1c2ab")
	s.registry.set("inference_extension_info", 1, "main", "7d1c2ab")
}

func llmdRefresh(s *Server) {
	pool := s.inferencePool()
	var ready, queue, running, usage, units float64
	for _, kind := range []RoleKind{Unified, Prefill, Decode} {
		for _, u := range s.simulation.units[kind] {
			units++
			queue += float64(u.count(queued, arriving))
			running += float64(u.count(executing, sending))
			usage += u.usage()
		}
	}
	for _, w := range s.workers() {
		ready += w.healthy()
	}
	for _, g := range []struct {
		former, name string
		value        float64
	}{
		{"inference_pool_ready_pods", "llm_d_epp_ready_endpoints", ready},
		{"inference_pool_average_queue_size", "llm_d_epp_average_queue_size", queue / max(units, 1)},
		{"inference_pool_average_running_requests", "llm_d_epp_average_running_requests", running / max(units, 1)},
		{"inference_pool_average_kv_cache_utilization", "llm_d_epp_average_kv_cache_utilization", usage / max(units, 1)},
	} {
		s.registry.set(g.former, g.value, pool)
		s.registry.set(g.name, g.value, pool)
	}
	s.tally.Values[RouterBackends] = ready
	for _, stage := range []string{"decode", "effective", "prefill"} {
		full := round(running / max(units*slots, 1))
		s.registry.set("inference_extension_flow_control_pool_saturation", full, pool, stage)
		s.registry.set("llm_d_epp_flow_control_pool_saturation", full, pool, stage)
	}
	// A flow has its gauge from its first request on.
	seen := s.registry.byName["llm_d_epp_request_total"]
	if len(seen.series) == 0 {
		return
	}
	inFlight := make([]float64, len(eppFlows))
	former := map[string]float64{}
	var all float64
	for _, r := range s.simulation.live {
		if r.router == s && r.epoch == s.epoch {
			inFlight[r.flow]++
			former[s.flowSet(r.flow)[1]]++
			all++
		}
	}
	for flow, n := range inFlight {
		set := s.flowSet(flow)
		if s.registry.has("llm_d_epp_request_total", set) {
			s.registry.set("llm_d_epp_request_running", n, set...)
			s.registry.set("inference_objective_running_requests", former[set[1]], set[1])
			queue := []string{set[0], pool, set[1], set[2], set[3]}
			s.registry.set("inference_extension_flow_control_queue_size", 0, queue...)
			s.registry.set("llm_d_epp_flow_control_queue_size", 0, queue...)
		}
	}
	s.tally.Values[RouterRunning] = all
}

// llmdCounted counts a request.
func llmdCounted(s *Server, r *request) {
	set := s.flowSet(r.flow)
	s.registry.add("llm_d_epp_request_total", 1, set...)
	s.registry.add("inference_objective_request_total", 1, set[1], set[2], set[3])
	s.tally.Values[Requests]++
	bytes := float64(200 + 4*r.prompt)
	s.registry.observe("llm_d_epp_request_size_bytes", bytes, 1, set...)
	s.registry.observe("inference_objective_request_sizes", bytes, 1, s.legacySet(r)...)
}

func llmdAccepted(s *Server, r *request) {
	llmdCounted(s, r)
	set := s.flowSet(r.flow)
	const placing = 311.0 / grain // about 0.3 ms
	s.registry.observe("llm_d_epp_scheduler_e2e_duration_seconds", placing, 1)
	s.registry.observe("inference_extension_scheduler_e2e_duration_seconds", placing, 1)
	for _, plugin := range []string{"queue", "prefix-cache", "kv-cache-utilization"} {
		labels := []string{"Scorer", plugin, plugin + "-scorer"}
		s.registry.observe("llm_d_epp_plugin_duration_seconds", placing/8, 1, labels...)
		s.registry.observe("inference_extension_plugin_duration_seconds", placing/8, 1, labels...)
	}
	for _, l := range r.legs {
		w := l.unit.server
		s.registry.add("llm_d_epp_scheduler_attempts_total", 1, w.pod, w.Namespace(), "8000", "success", set[3])
		s.registry.add("inference_extension_scheduler_attempts_total", 1, w.Namespace(), w.pod, "8000", "success", set[3])
	}
	s.registry.add("llm_d_epp_flow_control_requests_total", 1, s.inferencePool(), "Dispatched", set[2])
}

func llmdFirstByte(s *Server, r *request) {
	// The router's own time begins at its door: it holds more of the path than an engine's.
	ttft := seconds(s.simulation.now - r.arrival)
	s.registry.observe("llm_d_epp_request_ttft_seconds", ttft, 1, s.streamSet(r)...)
	s.tally.observe(TTFT, ttft, 1)
}

func llmdCompleted(s *Server, r *request) {
	set, former := s.flowSet(r.flow), s.legacySet(r)
	took := s.simulation.now - r.arrival
	perToken := round(took.Seconds() / float64(r.output))
	for _, h := range []struct {
		former, name string
		value        float64
	}{
		{"inference_objective_request_duration_seconds", "llm_d_epp_request_duration_seconds", seconds(took)},
		{"inference_objective_input_tokens", "llm_d_epp_request_input_tokens", float64(r.prompt)},
		{"inference_objective_output_tokens", "llm_d_epp_request_output_tokens", float64(r.output)},
		{"inference_objective_prompt_cached_tokens", "llm_d_epp_request_cached_tokens", float64(r.local)},
		{"inference_objective_response_sizes", "llm_d_epp_response_size_bytes", float64(300 + 5*r.output)},
		{"inference_objective_normalized_time_per_output_token_seconds", "llm_d_epp_request_ntpot_seconds", perToken},
	} {
		s.registry.observe(h.former, h.value, 1, former...)
		s.registry.observe(h.name, h.value, 1, set...)
	}
	if r.streaming && r.output > 1 {
		s.registry.observe("llm_d_epp_request_streaming_itl_seconds", seconds(r.step), r.output-1, set...)
		s.registry.observe("llm_d_epp_request_streaming_tpot_seconds", seconds(r.step), 1, set...)
		s.tally.observe(TPOT, seconds(r.step), 1)
	}
}

func llmdError(s *Server, r *request, code string) {
	set := s.flowSet(r.flow)
	if code == "BadRequest" {
		set[1], set[3] = "", "" // it names no model
	}
	s.registry.add("llm_d_epp_request_error_total", 1, append([]string{code}, set...)...)
	s.registry.add("inference_objective_request_error_total", 1, code, set[1], set[3])
	s.tally.Values[RequestErrors]++
}

// llmdFailed counts an error, and a request too unless it was turned away before it became one.
func llmdFailed(s *Server, r *request) {
	switch r.failure {
	case unserved:
		llmdError(s, r, "BadRequest")
	case nowhere:
		llmdCounted(s, r)
		llmdError(s, r, "InferencePoolResourceExhausted")
	default:
		llmdCounted(s, r)
		llmdFailedInFlight(s, r)
	}
}

func llmdFailedInFlight(s *Server, r *request) { llmdError(s, r, "ServiceUnavailable") }
