package normalize

import (
	"fmt"
	"testing"
	"time"
)

// TestExternalStore: vLLM's external-store is read only where it measures the store. The Pod's arguments
// decide on the connector, and the deployment on the pool.
func TestExternalStore(t *testing.T) {
	const (
		moved  = "external-store = 1/10 tokens in 30s (vllm:external_prefix_cache)"
		noConn = "- external-store: unsupported_no_kv_connector"
		store  = "- external-store: unsupported_not_store"
		absent = "- external-store: metric_absent"
		noneIn = "- external-store: no_queries"
	)
	moving := twice(
		body(`vllm:external_prefix_cache_hits_total 5`, `vllm:external_prefix_cache_queries_total 50`),
		body(`vllm:external_prefix_cache_hits_total 6`, `vllm:external_prefix_cache_queries_total 60`))
	still := twice(
		body(`vllm:external_prefix_cache_hits_total 0`, `vllm:external_prefix_cache_queries_total 0`),
		body(`vllm:external_prefix_cache_hits_total 0`, `vllm:external_prefix_cache_queries_total 0`))
	nothing := twice("", "")
	pair := withPool(engineOf("vllm", RolePrefill, RoleDecode))
	alone, bare := withPool(engineOf("vllm", RoleServer)), engineOf("vllm", RoleServer)
	connector := []string{"--kv-transfer-config", "{}"}
	for _, c := range []struct {
		name      string
		d         *Deployment
		role      RoleKind
		arguments []string
		reads     []scrape
		want      string
	}{
		{"connector and pool, moving", alone, RoleServer, connector, moving, moved},
		{"connector and pool, still", alone, RoleServer, connector, still, noneIn},
		{"connector and pool, not exported", alone, RoleServer, connector, nothing, absent},
		{"no connector, still", alone, RoleServer, nil, still, noConn},
		{"no connector, not exported", alone, RoleServer, nil, nothing, noConn},
		{"no connector in sight, but moving", alone, RoleServer, nil, moving, moved},
		{"no pool, moving", bare, RoleServer, connector, moving, store},
		{"no pool, not exported", bare, RoleServer, connector, nothing, store},
		{"no pool and no connector, moving", bare, RoleServer, nil, moving, store},
		{"no pool and no connector, still", bare, RoleServer, nil, still, noConn},
		{"prefill of a pair, moving", pair, RolePrefill, connector, moving, moved},
		{"decode of a pair, moving", pair, RoleDecode, connector, moving, store},
		{"decode of a pair, not exported", pair, RoleDecode, connector, nothing, store},
		{"decode of a pair, no connector, still", pair, RoleDecode, nil, still, noConn},
		{"decode of no pair, moving", withPool(engineOf("vllm", RoleDecode)), RoleDecode, connector, moving, moved},

		{"with =", alone, RoleServer, []string{"--kv-transfer-config={}"}, nothing, absent},
		{"with _", alone, RoleServer, []string{"--kv_transfer_config", "{}"}, nothing, absent},
		{"with _ and =", alone, RoleServer, []string{"serve", "--kv_transfer-config={}"}, nothing, absent},
		{"dotted", alone, RoleServer, []string{"--kv-transfer-config.kv_connector=NixlConnector"}, nothing, absent},
		{"dotted, in two words", alone, RoleServer, []string{"--kv-transfer-config.kv_role", "kv_both"}, nothing, absent},
		{"dotted, with _", alone, RoleServer, []string{"--kv_transfer_config.kv_role=kv_both"}, nothing, absent},
		{"a longer name", alone, RoleServer, []string{"--kv-transfer-configuration={}"}, nothing, noConn},
		{"a shorter name", alone, RoleServer, []string{"--kv-transfer={}"}, nothing, noConn},
		{"no flag", alone, RoleServer, []string{"kv-transfer-config={}"}, nothing, noConn},
		{"in a flag's value", alone, RoleServer, []string{"--note=--kv-transfer-config"}, nothing, noConn},
	} {
		t.Run(c.name, func(t *testing.T) {
			compare(t, only(outcome(t, c.d, enginePod(c.role, c.arguments...), c.reads...), "external-store"), []string{c.want})
		})
	}
}

// TestTiers: SGLang's host-prefix and storage-prefix are read only where the Pod's arguments build the
// tier, exported or not.
func TestTiers(t *testing.T) {
	const (
		host      = "host-prefix = 20/100 tokens in 30s (sglang:prefill_effective_tokens_total)"
		storage   = "storage-prefix = 10/100 tokens in 30s (sglang:prefill_effective_tokens_total)"
		noHost    = "- host-prefix: unsupported_no_host_tier"
		noStorage = "- storage-prefix: unsupported_no_storage_tier"
	)
	for _, c := range []struct {
		name      string
		arguments []string
		host      string
		storage   string
	}{
		{"nothing", nil, noHost, noStorage},
		{"hierarchical cache", []string{"--enable-hierarchical-cache"}, host, noStorage},
		{"lmcache", []string{"--enable-lmcache"}, host, noStorage},
		{"flexkv", []string{"--enable-flexkv"}, host, noStorage},
		{"radix backend flexkv", []string{"--radix-cache-backend", "flexkv"}, host, noStorage},
		{"radix backend flexkv with =", []string{"--radix-cache-backend=flexkv"}, host, noStorage},
		{"another radix backend", []string{"--radix-cache-backend", "default"}, noHost, noStorage},
		{"the last radix backend wins", []string{"--radix-cache-backend=flexkv", "--radix-cache-backend", "default"}, noHost, noStorage},
		{"the last radix backend wins, flexkv", []string{"--radix-cache-backend", "default", "--radix-cache-backend=flexkv"}, host, noStorage},
		{"radix backend without a value", []string{"--radix-cache-backend"}, noHost, noStorage},
		{"storage backend alone", []string{"--hicache-storage-backend", "mooncake"}, noHost, storage},
		{"storage backend with =", []string{"--hicache-storage-backend=file"}, noHost, storage},
		{"both", []string{"--enable-hierarchical-cache", "--hicache-storage-backend=nixl"}, host, storage},
		{"no exact name", []string{"--enable-hierarchical-caches", "--hicache-storage-backend-extra=x", "enable-lmcache"}, noHost, noStorage},
	} {
		t.Run(c.name, func(t *testing.T) {
			// The Pod's arguments decide, pool or no pool.
			for _, d := range []*Deployment{engineOf("sglang", RoleServer), withPool(engineOf("sglang", RoleServer))} {
				p := enginePod(RoleServer, c.arguments...)
				got := outcome(t, d, p, twice(modes(100, 10, 20, 30), modes(140, 40, 40, 40))...)
				compare(t, only(got, "host-prefix", "storage-prefix"), []string{c.host, c.storage})

				// Unsupported is decided before presence.
				want := []string{c.host, c.storage}
				for i, name := range []string{"host-prefix", "storage-prefix"} {
					if want[i][0] != '-' {
						want[i] = "- " + name + ": metric_absent"
					}
				}
				compare(t, only(outcome(t, d, p, twice("", "")...), "host-prefix", "storage-prefix"), want)
			}
		})
	}
}

// TestResetWhileUnsupported: a reset counts although the source is unsupported in the read that shows it.
func TestResetWhileUnsupported(t *testing.T) {
	body := func(queries, hits int) string {
		return fmt.Sprintf("vllm:external_prefix_cache_queries_total %d\nvllm:external_prefix_cache_hits_total %d\n", queries, hits)
	}
	h := new(History)
	r := observe(t, h, withPool(engineOf("vllm", RoleServer)), enginePod(RoleServer), WindowConfig{MaxAge: DefaultWindowMaxAge},
		scrape{0, body(100, 50)}, scrape{10 * time.Second, body(200, 100)}, scrape{20 * time.Second, body(0, 0)}, scrape{30 * time.Second, body(500, 150)})
	if len(r.caches) != 1 || r.caches[0].Hits != 150 || r.caches[0].Queries != 500 {
		t.Errorf("got %+v", r.caches)
	}
}
