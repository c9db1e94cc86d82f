package normalize

import (
	"strings"
)

// The conditions of the tables' unless clauses: what the deployment's shape and the Pod's arguments say, and for
// vLLM's connector whether its counter ever moved. Flags are known by their exact names, and the last of a
// name holds.

// always holds everywhere.
func always(*podContext) bool { return true }

// noKVConnector holds on a vLLM Pod whose arguments render no KV connector, while its external query
// counter has never moved.
func noKVConnector(c *podContext) bool {
	if rendersKVConnector(c.pod.Arguments) {
		return false
	}
	queries, present := c.values.get(c.table.row(ExternalStore).slots[1])
	return !present || queries == 0
}

// notStore holds where vLLM's external cache counters do not measure the store: without a pool, and on
// the decode half of a pair, whose connector supplies what the prefill half sends.
func notStore(c *podContext) bool {
	return !c.deployment.KVCache || c.pair && c.kind == RoleDecode
}

// noHostTier holds on an SGLang Pod whose arguments select no cache with a host memory tier.
func noHostTier(c *podContext) bool {
	for _, flag := range []string{"--enable-hierarchical-cache", "--enable-lmcache", "--enable-flexkv"} {
		if _, given := lastValue(c.pod.Arguments, flag); given {
			return false
		}
	}
	backend, _ := lastValue(c.pod.Arguments, "--radix-cache-backend")
	return backend != "flexkv"
}

// noStorageTier holds on an SGLang Pod whose arguments render no storage backend.
func noStorageTier(c *podContext) bool {
	_, given := lastValue(c.pod.Arguments, "--hicache-storage-backend")
	return !given
}

// rendersKVConnector reports whether vLLM's arguments configure a KV connector: vLLM reads "_" as "-"
// in a flag's name, and --flag.key=value as a key of the flag's JSON object.
func rendersKVConnector(arguments []string) bool {
	const flag = "--kv-transfer-config"
	for _, argument := range arguments {
		name, _, _ := strings.Cut(argument, "=")
		if !strings.HasPrefix(name, "--") {
			continue
		}
		name = strings.ReplaceAll(name, "_", "-")
		if name == flag || strings.HasPrefix(name, flag+".") {
			return true
		}
	}
	return false
}

// lastValue is the value of the last flag of exactly this name, as --flag=value or --flag value, and
// whether it was given at all.
func lastValue(arguments []string, flag string) (value string, given bool) {
	for i, argument := range arguments {
		name, v, inline := strings.Cut(argument, "=")
		if name != flag {
			continue
		}
		given = true
		if !inline && i+1 < len(arguments) {
			v = arguments[i+1]
		}
		value = v
	}
	return value, given
}
