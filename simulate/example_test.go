package simulate_test

import (
	"fmt"
	"time"

	"github.com/md-exporter/md-exporter/simulate"
)

// A deployment is described, moved on, and its bodies are held against what they are known to state.
func Example() {
	sim, err := simulate.New(simulate.Deployment{
		Namespace: "chat", Name: "qwen3-8b", Model: "Qwen/Qwen3-8B",
		Engine: simulate.VLLM,
		Roles:  []simulate.Role{{Name: "server", Replicas: 2}},
		Router: simulate.VLLMRouter,
		Load:   simulate.Load{RequestsPerSecond: 4, PromptTokens: 800, OutputTokens: 100, PrefixShare: 0.4, StreamingShare: 1, Seed: 1},
	}, simulate.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sim.Advance(time.Minute)
	for _, server := range sim.Servers() {
		body, totals := server.Exposition()
		fmt.Println(server.Software(), "answers a body:", len(body) > 0)
		if ttft, ok := totals.Histograms[simulate.TTFT]; ok {
			fmt.Println("  it served requests:", ttft.Count > 50)
		}
		if served, ok := totals.Values[simulate.SuccessfulRequests]; ok {
			fmt.Println("  it counts them:", served > 100)
		}
	}
	// Output:
	// vllm answers a body: true
	//   it served requests: true
	// vllm answers a body: true
	//   it served requests: true
	// vllm-router answers a body: true
	//   it counts them: true
}
