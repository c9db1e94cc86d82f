package simulate

// Demo is the fleet that the demo command shows: each engine, each router, a pair of each engine, an
// idle Pod that is no fault, and a deployment with Pods that are.
func Demo(seed uint64) []Deployment {
	return []Deployment{
		{
			Namespace: "chat", Name: "qwen3-8b", Model: "Qwen/Qwen3-8B", Engine: VLLM,
			Roles:  []Role{{Name: "server", Replicas: 3, Idle: 1}},
			Router: VLLMRouter,
			Load:   Load{RequestsPerSecond: 9, PromptTokens: 900, OutputTokens: 180, PrefixShare: 0.35, ErrorRate: 0.02, StreamingShare: 0.8, Seed: seed},
		},
		{
			Namespace: "research", Name: "deepseek-r1", Model: "deepseek-ai/DeepSeek-R1", Engine: SGLang,
			Roles: []Role{
				{Name: "prefill", Kind: Prefill, Replicas: 1, Ranks: Ranks{Tensor: 2}},
				{Name: "decode", Kind: Decode, Replicas: 1, Ranks: Ranks{Tensor: 2}},
			},
			Router: SGLangGateway, KVCache: true,
			Load: Load{RequestsPerSecond: 2.5, PromptTokens: 2400, OutputTokens: 260, PrefixShare: 0.3, StoreShare: 0.3, ErrorRate: 0.03, StreamingShare: 0.7, Seed: seed + 1},
		},
		{
			Namespace: "agents", Name: "qwen3-coder", Model: "Qwen/Qwen3-Coder-30B-A3B-Instruct", Engine: VLLM,
			Roles: []Role{
				{Name: "prefill", Kind: Prefill, Replicas: 2},
				{Name: "decode", Kind: Decode, Replicas: 1, Ranks: Ranks{Data: 2}},
			},
			Router: LLMDRouter, KVCache: true,
			Load: Load{RequestsPerSecond: 3, PromptTokens: 3200, OutputTokens: 220, PrefixShare: 0.45, StoreShare: 0.4, ErrorRate: 0.02, StreamingShare: 0.9, Seed: seed + 2},
		},
		{
			Namespace: "batch", Name: "llama-summarizer", Model: "meta-llama/Llama-3.3-70B-Instruct", Engine: SGLang,
			Roles:  []Role{{Name: "server", Replicas: 3, Refusing: 1, Hanging: 1, Ranks: Ranks{Tensor: 4}}},
			Router: SGLangGateway,
			Load:   Load{RequestsPerSecond: 1.5, PromptTokens: 4000, OutputTokens: 120, PrefixShare: 0.1, ErrorRate: 0.01, StreamingShare: 0.2, Seed: seed + 3},
		},
	}
}
