package normalize_test

import (
	"fmt"
	"time"

	"github.com/md-exporter/md-exporter/normalize"
)

// Two reads of one vLLM Pod, half a minute apart, give the hit ratio of the window between them. What
// they cannot give is not a zero: it is a missing entry with a reason.
func Example() {
	deployment := &normalize.Deployment{
		Name:   "qwen",
		Engine: "vllm",
		Roles:  []normalize.Role{{Name: "server", Kind: normalize.RoleServer, Managed: true, Expected: 1}},
	}
	pod := &normalize.Pod{Name: "qwen-server-0", Scope: normalize.ScopeEngine, Role: "server"}
	bodies := []string{`
vllm:num_requests_running{engine="0"} 2
vllm:num_requests_waiting{engine="0"} 0
vllm:prefix_cache_hits_total{engine="0"} 1000
vllm:prefix_cache_queries_total{engine="0"} 4000
vllm:time_to_first_token_seconds_sum{engine="0"} 20
vllm:time_to_first_token_seconds_count{engine="0"} 100
vllm:request_time_per_output_token_seconds_sum{engine="0"} 1
vllm:request_time_per_output_token_seconds_count{engine="0"} 100
`, `
vllm:num_requests_running{engine="0"} 3
vllm:num_requests_waiting{engine="0"} 1
vllm:prefix_cache_hits_total{engine="0"} 1750
vllm:prefix_cache_queries_total{engine="0"} 5000
vllm:time_to_first_token_seconds_sum{engine="0"} 25
vllm:time_to_first_token_seconds_count{engine="0"} 120
vllm:request_time_per_output_token_seconds_sum{engine="0"} 1.5
vllm:request_time_per_output_token_seconds_count{engine="0"} 120
`}

	var history normalize.History
	var result normalize.Result
	config := normalize.WindowConfig{MaxAge: normalize.DefaultWindowMaxAge, Min: normalize.DefaultWindowMin}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, body := range bodies {
		values, err := normalize.TableOf(deployment, pod).Parse([]byte(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		now = now.Add(30 * time.Second)
		result = history.Observe(deployment, pod, values, now, config)
	}
	snapshot := normalize.Collection{
		Deployment: deployment,
		Owned:      []*normalize.Pod{pod},
		Results:    []normalize.Result{result},
		At:         now,
		Started:    now,
	}.Snapshot()

	for _, g := range snapshot.Gauges {
		fmt.Printf("%s: %v %s\n", g.Field, g.Value, g.Field.Info().Unit)
	}
	for _, c := range snapshot.Caches {
		fmt.Printf("%s: %v of %v %s, %.0f%% in %v\n", c.Cache, c.Hits, c.Queries, c.Cache.Info().Unit, 100*c.Rate, c.Window)
	}
	for _, s := range snapshot.Samples {
		fmt.Printf("%s: %v %s, the mean of %v in %v\n", s.Field, s.Value, s.Field.Info().Unit, s.Samples, s.Window)
	}
	for _, m := range snapshot.Missing {
		fmt.Printf("missing %s: %s (partial %v)\n", m.Source, m.Reason, m.Reason.Partial())
	}
	fmt.Println("partial:", snapshot.Partial)
	// Output:
	// running: 3 requests
	// waiting: 1 requests
	// local-prefix: 750 of 1000 tokens, 75% in 30s
	// tpot: 0.025 seconds, the mean of 20 in 30s
	// ttft: 0.25 seconds, the mean of 20 in 30s
	// missing external-store: unsupported_no_kv_connector (partial false)
	// missing vllm:inter_token_latency_seconds: metric_absent (partial true)
	// partial: true
}
