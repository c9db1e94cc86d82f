package simulate

import (
	"bytes"
	"maps"
	"reflect"
	"testing"
	"time"
)

var busy = Load{RequestsPerSecond: 5, PromptTokens: 1500, OutputTokens: 120, PrefixShare: 0.3, StoreShare: 0.3, ErrorRate: 0.1, StreamingShare: 0.6, Seed: 11}

func pairOf(tensor int) []Role {
	return []Role{
		{Name: "prefill", Kind: Prefill, Replicas: 1, Ranks: Ranks{Tensor: tensor}},
		{Name: "decode", Kind: Decode, Replicas: 1, Ranks: Ranks{Tensor: tensor}},
	}
}

// shapes are every engine and router in every mode.
func shapes() map[string]Deployment {
	server := []Role{{Name: "server", Replicas: 2}}
	all := map[string]Deployment{
		"vLLM behind its router":                 {Engine: VLLM, Roles: server, Router: VLLMRouter},
		"vLLM without a router":                  {Engine: VLLM, Roles: server},
		"vLLM with a pool":                       {Engine: VLLM, Roles: server, Router: LLMDRouter, KVCache: true},
		"vLLM with data-parallel ranks":          {Engine: VLLM, Roles: []Role{{Name: "server", Replicas: 1, Ranks: Ranks{Data: 2}}}, Router: VLLMRouter},
		"vLLM pair behind its router":            {Engine: VLLM, Roles: pairOf(1), Router: VLLMRouter},
		"vLLM pair behind llm-d with a pool":     {Engine: VLLM, Roles: pairOf(1), Router: LLMDRouter, KVCache: true},
		"two llm-d routers":                      {Engine: VLLM, Roles: server, Router: LLMDRouter, RouterReplicas: 2},
		"SGLang behind its gateway":              {Engine: SGLang, Roles: server, Router: SGLangGateway},
		"SGLang with a pool":                     {Engine: SGLang, Roles: server, Router: SGLangGateway, KVCache: true},
		"SGLang with tensor-parallel ranks":      {Engine: SGLang, Roles: []Role{{Name: "server", Replicas: 1, Ranks: Ranks{Tensor: 4}}}},
		"SGLang with data-parallel ranks":        {Engine: SGLang, Roles: []Role{{Name: "server", Replicas: 1, Ranks: Ranks{Tensor: 2, Data: 2}}}},
		"SGLang with priorities":                 {Engine: SGLang, Roles: []Role{{Name: "server", Replicas: 1, Priorities: []string{"0", "10"}}}},
		"SGLang pair behind its gateway":         {Engine: SGLang, Roles: pairOf(2), Router: SGLangGateway, KVCache: true},
		"vLLM servers that are idle and refuse":  {Engine: VLLM, Roles: []Role{{Name: "server", Replicas: 3, Idle: 1, Refusing: 1}}, Router: VLLMRouter},
		"SGLang all of whose servers are broken": {Engine: SGLang, Roles: []Role{{Name: "server", Replicas: 2, Refusing: 2}}, Router: SGLangGateway},
	}
	for name, d := range all {
		d.Namespace, d.Name, d.Model, d.Load = "test", "shape", "Qwen/Qwen3-8B", busy
		all[name] = d
	}
	return all
}

func start(t testing.TB, d Deployment) *Simulation {
	t.Helper()
	if d.Namespace == "" {
		d.Namespace, d.Name, d.Model = "test", "sim", "Qwen/Qwen3-8B"
	}
	s, err := New(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// find returns the first server of the role, or the first router for an empty one.
func find(t testing.TB, s *Simulation, role string) *Server {
	t.Helper()
	for _, server := range s.Servers() {
		if server.Role() == role {
			return server
		}
	}
	t.Fatalf("no server of role %q", role)
	return nil
}

// Every body states exactly what the journal says, at the start and at every step.
func TestJournalAgreesWithBody(t *testing.T) {
	for name, d := range shapes() {
		t.Run(name, func(t *testing.T) {
			s := start(t, d)
			for _, step := range []time.Duration{0, 400 * time.Millisecond, time.Second, 10 * time.Second, 7 * time.Millisecond, time.Minute} {
				s.Advance(step)
				for _, server := range s.Servers() {
					body, want := server.Exposition()
					if got := stated(t, server.Software(), body); !reflect.DeepEqual(got, want) {
						t.Errorf("after another %v %s states %+v, its journal says %+v", step, server.Pod(), got, want)
					}
				}
			}
		})
	}
}

// Counters only grow, hits stay within queries and means are of a believable size.
func TestTotalsArePlausible(t *testing.T) {
	means := map[Field][2]float64{TTFT: {0.01, 3}, ITL: {0.005, 0.05}, TPOT: {0, 0.05}, TransferLatency: {1, 50}, TransferSpeed: {0.1, 400}, TransferSize: {1, 1000}}
	gauges := map[Field]bool{Running: true, Waiting: true, DecodeTransferWaiting: true, RouterRunning: true, RouterBackends: true, RouterReportedWorkers: true}
	for name, d := range shapes() {
		t.Run(name, func(t *testing.T) {
			s := start(t, d)
			s.Advance(20 * time.Second)
			for _, server := range s.Servers() {
				_, before := server.Exposition()
				s.Advance(30 * time.Second)
				_, after := server.Exposition()
				for field, v := range before.Values {
					if now, ok := after.Values[field]; !ok || !gauges[field] && now < v {
						t.Errorf("%s: %s went from %v to %v", server.Pod(), field, v, now)
					}
				}
				for field, c := range after.Caches {
					if was := before.Caches[field]; c.Hits > c.Queries || c.Hits < was.Hits || c.Queries < was.Queries || c.Hits-was.Hits > c.Queries-was.Queries {
						t.Errorf("%s: %s went from %+v to %+v", server.Pod(), field, was, c)
					}
				}
				for field, h := range after.Histograms {
					was := before.Histograms[field]
					if h.Count < was.Count || h.Sum < was.Sum {
						t.Errorf("%s: %s went from %+v to %+v", server.Pod(), field, was, h)
					}
					if n := h.Count - was.Count; n > 0 {
						if mean := (h.Sum - was.Sum) / n; mean < means[field][0] || mean > means[field][1] {
							t.Errorf("%s: the mean %s is %v", server.Pod(), field, mean)
						}
					}
				}
			}
		})
	}
}

// The same seed is the same traffic, however its time is cut; another seed is not.
func TestDeterminism(t *testing.T) {
	for name, d := range shapes() {
		t.Run(name, func(t *testing.T) {
			whole, cut := start(t, d), start(t, d)
			whole.Advance(20 * time.Second)
			for range 500 {
				cut.Advance(40 * time.Millisecond)
			}
			d.Load.Seed++
			other := start(t, d)
			other.Advance(20 * time.Second)
			differs := false
			for i, server := range whole.Servers() {
				want, _ := server.Exposition()
				got, _ := cut.Servers()[i].Exposition()
				if !bytes.Equal(got, want) {
					t.Errorf("%s answers otherwise in one step than in many", server.Pod())
				}
				strange, _ := other.Servers()[i].Exposition()
				differs = differs || !bytes.Equal(strange, want)
			}
			if !differs && name != "SGLang all of whose servers are broken" {
				t.Error("another seed answers the same")
			}
		})
	}
}

func TestRouterCountsWhatEnginesServe(t *testing.T) {
	for name, d := range shapes() {
		if d.Router == "" || name == "SGLang all of whose servers are broken" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := drained(t, d)
			var served, expected float64
			for _, server := range s.Servers() {
				_, totals := server.Exposition()
				v := totals.Values
				switch {
				case server.Software() == VLLMRouter && d.pair():
					expected += v[PDRequests]
				case server.Software() == VLLMRouter:
					expected += v[SuccessfulRequests]
				case server.Software() == SGLangGateway:
					expected += v[Requests] - v[HTTP5xxResponses]
				case server.Software() == LLMDRouter:
					expected += totals.Histograms[TTFT].Count
				case server.kind != Prefill:
					served += totals.Histograms[TTFT].Count
					if d.Engine == SGLang {
						served-- // the warm-up comes past the router
					}
				}
				if v[Running] != 0 || v[Waiting] != 0 || v[RouterRunning] != 0 || v[DecodeTransferWaiting] != 0 {
					t.Errorf("%s has something to do: %v", server.Pod(), v)
				}
			}
			if d.Router == VLLMRouter && d.pair() {
				// Requests that failed count as requests of a pair's router, too.
				if served == 0 || served > expected {
					t.Errorf("the engines served %v, the router counts %v", served, expected)
				}
				return
			}
			if served == 0 || served != expected {
				t.Errorf("the engines served %v, the router counts %v", served, expected)
			}
		})
	}
}

// In flight, the gateway's view is the engines' view.
func TestRouterRunningIsWhatEnginesHold(t *testing.T) {
	for _, name := range []string{"vLLM behind its router", "SGLang behind its gateway", "SGLang pair behind its gateway", "vLLM with a pool"} {
		t.Run(name, func(t *testing.T) {
			s := start(t, shapes()[name])
			var seen bool
			for range 20 {
				s.Advance(2 * time.Second)
				var router, engines float64
				for _, server := range s.Servers() {
					_, totals := server.Exposition()
					v := totals.Values
					router += v[RouterRunning]
					engines += v[Running] + v[Waiting] + v[DecodeTransferWaiting]
					for _, u := range server.units {
						engines += float64(u.count(sending)) // in no queue that is exported
					}
				}
				seen = seen || engines > 0
				if router != engines {
					t.Fatalf("the router has %v requests in flight, the engines %v", router, engines)
				}
			}
			if !seen {
				t.Error("no request was ever in flight")
			}
		})
	}
}

// What a fresh process does not export yet.
func TestNotYetExported(t *testing.T) {
	answered := busy
	answered.StreamingShare, answered.ErrorRate = 0, 0
	d := shapes()["SGLang behind its gateway"]
	d.Load = answered
	s := start(t, d)
	engine, router := find(t, s, "server"), find(t, s, "")
	absent := func(server *Server, names ...string) {
		t.Helper()
		body, _ := server.Exposition()
		families := parse(t, body)
		for _, n := range names {
			if families[n] != nil {
				t.Errorf("%s exports %s", server.Pod(), n)
			}
		}
	}
	present := func(server *Server, names ...string) {
		t.Helper()
		body, _ := server.Exposition()
		families := parse(t, body)
		for _, n := range names {
			if families[n] == nil {
				t.Errorf("%s does not export %s", server.Pod(), n)
			}
		}
	}
	present(engine, "sglang:prefill_effective_tokens_total", "sglang:max_total_num_tokens")
	absent(engine, "sglang:num_running_reqs", "sglang:time_to_first_token_seconds")
	absent(router, "smg_router_requests_total", "smg_router_request_errors_total")
	s.Advance(30 * time.Second)
	present(engine, "sglang:num_running_reqs", "sglang:time_to_first_token_seconds")
	absent(engine, "sglang:inter_token_latency_seconds", "sglang:kv_transfer_total_mb")
	absent(router, "smg_router_request_errors_total")
	s.SetLoad(busy)
	s.Advance(30 * time.Second)
	present(engine, "sglang:inter_token_latency_seconds")
	present(router, "smg_router_request_errors_total", "smg_http_responses_total")

	pair := start(t, shapes()["vLLM pair behind its router"])
	pair.Advance(30 * time.Second)
	absent(find(t, pair, ""), "vllm_router_running_requests", "vllm_router_active_workers", "vllm_router_requests_total")
	present(find(t, pair, ""), "vllm_router_pd_requests_total", "vllm_router_pd_errors_total")
}

func TestIdleServer(t *testing.T) {
	s := start(t, shapes()["vLLM servers that are idle and refuse"])
	s.Advance(time.Minute)
	for i, requests := range []bool{true, false, false} {
		_, totals := s.Servers()[i].Exposition()
		if got := totals.Histograms[TTFT].Count > 0; got != requests {
			t.Errorf("server %d served requests: %v", i, got)
		}
	}
	_, router := find(t, s, "").Exposition()
	if router.Values[RouterReportedWorkers] != 2 {
		t.Errorf("the router reports %v workers, one of three refuses", router.Values[RouterReportedWorkers])
	}
}

// A restarted process is a fresh one; what it was doing is lost, and the router says so.
func TestRestart(t *testing.T) {
	for name, d := range shapes() {
		t.Run(name, func(t *testing.T) {
			s := start(t, d)
			s.Advance(time.Minute)
			for _, server := range s.Servers() {
				s.Advance(5 * time.Second)
				server.Restart()
				body, totals := server.Exposition()
				if got := stated(t, server.Software(), body); !reflect.DeepEqual(got, totals) {
					t.Errorf("%s states %+v, its journal says %+v", server.Pod(), got, totals)
				}
				for field, h := range totals.Histograms {
					if h != (Sum{}) {
						t.Errorf("%s kept %s: %+v", server.Pod(), field, h)
					}
				}
				for _, field := range counters {
					if v := totals.Values[field]; v != 0 {
						t.Errorf("%s kept %s: %v", server.Pod(), field, v)
					}
				}
			}
			s.Advance(time.Minute)
			for _, server := range s.Servers() {
				body, totals := server.Exposition()
				if got := stated(t, server.Software(), body); !reflect.DeepEqual(got, totals) {
					t.Errorf("a minute later %s states %+v, its journal says %+v", server.Pod(), got, totals)
				}
			}
		})
	}
}

var counters = []Field{TransferFailures, Requests, SuccessfulRequests, PDRequests, RequestErrors, Errors, PDErrors, RetriesExhausted, HTTP5xxResponses}

// The totals handed out are the caller's own.
func TestTotalsAreCopies(t *testing.T) {
	s := start(t, shapes()["vLLM behind its router"])
	s.Advance(10 * time.Second)
	server := find(t, s, "server")
	_, first := server.Exposition()
	kept := maps.Clone(first.Histograms)
	s.Advance(10 * time.Second)
	server.Exposition()
	if !maps.Equal(first.Histograms, kept) {
		t.Error("totals moved on in the caller's hands")
	}
}

func TestDescriptionsThatCannotBe(t *testing.T) {
	good := shapes()["vLLM behind its router"]
	for name, change := range map[string]func(*Deployment){
		"no name":                  func(d *Deployment) { d.Name = "" },
		"unknown engine":           func(d *Deployment) { d.Engine = "llamacpp" },
		"unknown router":           func(d *Deployment) { d.Router = "nginx" },
		"an engine as router":      func(d *Deployment) { d.Router = VLLM },
		"negative load":            func(d *Deployment) { d.Load.RequestsPerSecond = -1 },
		"a role twice":             func(d *Deployment) { d.Roles = append(d.Roles, d.Roles...) },
		"unknown kind":             func(d *Deployment) { d.Roles = []Role{{Name: "r", Kind: "draft"}} },
		"more idle than there are": func(d *Deployment) { d.Roles = []Role{{Name: "r", Replicas: 1, Idle: 2}} },
	} {
		d := good
		d.Roles = append([]Role{}, good.Roles...)
		change(&d)
		if _, err := New(d, Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
