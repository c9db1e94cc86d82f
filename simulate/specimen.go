package simulate

import "time"

// Specimen is a body of a well-known size, for benchmarks.
type Specimen struct {
	// Name says what answered, Size about how many bytes there are.
	Name string
	Size int
	// Engine or Router is the one that Body is of; the other is empty.
	Engine, Router string
	Body           []byte
	Totals         Totals
}

// Specimens are a vLLM server's body of about 32 KB, an SGLang server's over four tensor-parallel
// ranks of about 120 KB and an llm-d router's of about 220 KB, each after ten minutes of traffic.
// They are always the same.
func Specimens() []Specimen {
	load := Load{RequestsPerSecond: 4, PromptTokens: 1200, OutputTokens: 150, PrefixShare: 0.3, ErrorRate: 0.02, StreamingShare: 0.6, Seed: 7}
	specimen := func(name string, size int, pod int, d Deployment) Specimen {
		d.Namespace, d.Name, d.Model, d.Load = "bench", "specimen", "Qwen/Qwen3-32B", load
		s, err := New(d, Options{})
		if err != nil {
			panic(err) // the descriptions are constants
		}
		s.Advance(10 * time.Minute)
		server := s.servers[pod]
		body, totals := server.Exposition()
		made := Specimen{Name: name, Size: size, Engine: server.software, Body: body, Totals: totals}
		if server.kind == Router {
			made.Engine, made.Router = "", server.software
		}
		return made
	}
	return []Specimen{
		specimen("vllm", 32_000, 0, Deployment{Engine: VLLM, Roles: []Role{{Name: "server", Replicas: 1}}}),
		specimen("sglang-tp4", 120_000, 0, Deployment{Engine: SGLang, Roles: []Role{{Name: "server", Replicas: 1, Ranks: Ranks{Tensor: 4}}}}),
		specimen("llm-d", 220_000, 1, Deployment{Engine: VLLM, Router: LLMDRouter, Roles: []Role{{Name: "server", Replicas: 1}}}),
	}
}
