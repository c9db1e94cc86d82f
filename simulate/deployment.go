package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The engines and routers, as a ModelDeployment spells them.
const (
	VLLM          = "vllm"
	SGLang        = "sglang"
	VLLMRouter    = "vllm-router"
	SGLangGateway = "sglang-gateway"
	LLMDRouter    = "llm-d-router"
)

// RoleKind is what a role's Pods do.
type RoleKind string

// The kinds. The empty kind is Unified; Router is a server's kind, not a role's.
const (
	Unified RoleKind = "server"
	Prefill RoleKind = "prefill"
	Decode  RoleKind = "decode"
	Router  RoleKind = "router"
)

// Deployment describes one ModelDeployment and the traffic that it serves.
type Deployment struct {
	Namespace, Name string
	// Model is the model's name, as every series carries it.
	Model string
	// Engine is VLLM or SGLang.
	Engine string
	Roles  []Role
	// Router is the router's name; empty where there is none.
	Router string
	// RouterReplicas is the number of its Pods; zero is one.
	RouterReplicas int
	// KVCache attaches a KV cache pool.
	KVCache bool
	Load    Load
}

// Role is one role of a Deployment.
type Role struct {
	Name string
	Kind RoleKind
	// Replicas is the number of Pods.
	Replicas int
	Ranks    Ranks
	// Idle, Refusing and Hanging are how many of the replicas, from the last one back, get no traffic,
	// refuse connections, or accept them and never answer.
	Idle, Refusing, Hanging int
	// Priorities are the values of SGLang's priority label; none is without the label.
	Priorities []string
	// Arguments come after those that the role's kind and the pool render. They are what the engine
	// builds its KV connector and cache tiers from.
	Arguments []string
	// Command is a command of the user's own: such a role has no Pods here.
	Command []string
}

// Ranks are an engine's parallel ranks; zero is one.
type Ranks struct{ Tensor, Data int }

// pair reports whether prefill and decode are apart.
func (d Deployment) pair() bool {
	has := func(k RoleKind) bool {
		return slices.ContainsFunc(d.Roles, func(r Role) bool { return r.Kind == k })
	}
	return has(Prefill) && has(Decode)
}

// check finds what a simulation cannot be made of.
func (d Deployment) check() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("simulate: deployment %s/%s: "+format, append([]any{d.Namespace, d.Name}, args...)...)
	}
	switch {
	case d.Namespace == "" || d.Name == "" || d.Model == "":
		return fail("namespace, name and model are required")
	case d.Engine != VLLM && d.Engine != SGLang:
		return fail("unknown engine %q", d.Engine)
	case d.Router != "" && profiles[d.Router] == nil || d.Router == VLLM || d.Router == SGLang:
		return fail("unknown router %q", d.Router)
	case d.Load.RequestsPerSecond < 0:
		return fail("negative load")
	}
	seen := map[string]bool{}
	for _, r := range d.Roles {
		switch {
		case r.Name == "" || seen[r.Name]:
			return fail("role %q: names are required and unique", r.Name)
		case !slices.Contains([]RoleKind{"", Unified, Prefill, Decode}, r.Kind):
			return fail("role %s: unknown kind %q", r.Name, r.Kind)
		case r.Replicas < 0 || min(r.Idle, r.Refusing, r.Hanging) < 0 || r.Idle+r.Refusing+r.Hanging > r.Replicas:
			return fail("role %s: %d idle, %d refusing and %d hanging of %d replicas", r.Name, r.Idle, r.Refusing, r.Hanging, r.Replicas)
		}
		seen[r.Name] = true
	}
	return nil
}

// arguments are those that a role's container is started with.
func (d Deployment) arguments(r Role) []string {
	var all []string
	add := func(more ...string) { all = append(all, more...) }
	switch d.Engine {
	case VLLM:
		add("--model="+d.Model, "--port=8000", fmt.Sprintf("--tensor-parallel-size=%d", r.Ranks.Tensor))
		if r.Ranks.Data > 1 {
			add(fmt.Sprintf("--data-parallel-size=%d", r.Ranks.Data))
		}
		switch {
		case d.pair() && d.KVCache && r.Kind != Decode:
			add("--kv-transfer-config", `{"kv_connector":"MultiConnector","kv_role":"kv_both"}`)
		case d.pair():
			add("--kv-transfer-config", `{"kv_connector":"NixlConnector","kv_role":"kv_both"}`)
		case d.KVCache:
			add("--kv-transfer-config", `{"kv_connector":"MooncakeStoreConnector","kv_role":"kv_both"}`)
		}
	case SGLang:
		add("--model-path="+d.Model, "--enable-metrics", "--tp", strconv.Itoa(r.Ranks.Tensor))
		if r.Ranks.Data > 1 {
			add("--dp", strconv.Itoa(r.Ranks.Data), "--enable-dp-attention")
		}
		if d.pair() && r.Kind != Unified {
			add("--disaggregation-mode", string(r.Kind))
		}
		if d.KVCache && r.Kind != Decode {
			add("--enable-hierarchical-cache", "--hicache-storage-backend", "mooncake")
		}
	}
	return append(all, r.Arguments...)
}

// hasFlag finds --name and --name=value.
func hasFlag(arguments []string, name string) bool {
	return slices.ContainsFunc(arguments, func(a string) bool { return a == name || strings.HasPrefix(a, name+"=") })
}

// profiles are the software by name.
var profiles map[string]*profile

func init() {
	profiles = map[string]*profile{
		VLLM: vllmProfile, SGLang: sglangProfile,
		VLLMRouter: vllmRouterProfile, SGLangGateway: smgProfile, LLMDRouter: llmdProfile,
	}
}

// Options are what a simulation takes from its owner. The zero value works.
type Options struct {
	// Start is when the processes started; zero is Now's time at the making, or a fixed day without it.
	Start time.Time
	// Now is the time that the journal writes beside an answer; nil is Start and the time advanced.
	Now func() time.Time
	// Address is where Fleet.Start listens for a Pod; nil is 127.0.0.1 and any free port.
	Address func(namespace, pod string) string
}

// fixedStart is the start of processes whose owner names none.
var fixedStart = time.Date(2026, time.March, 2, 8, 0, 0, 0, time.UTC)

func (s *Simulation) clock() time.Time {
	if s.options.Now != nil {
		return s.options.Now()
	}
	return s.options.Start.Add(s.now)
}

// New makes the simulation of one deployment, at its start: no time has passed and no request has come.
func New(d Deployment, o Options) (*Simulation, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	switch {
	case !o.Start.IsZero():
	case o.Now != nil:
		o.Start = o.Now()
	default:
		o.Start = fixedStart
	}
	d.Roles = slices.Clone(d.Roles)
	s := &Simulation{description: d, options: o, units: map[RoleKind][]*unit{}, turn: map[RoleKind]int{}}
	for i := range d.Roles {
		r := &d.Roles[i]
		if r.Kind == "" {
			r.Kind = Unified
		}
		r.Ranks = Ranks{Tensor: max(r.Ranks.Tensor, 1), Data: max(r.Ranks.Data, 1)}
		if len(r.Command) > 0 {
			continue
		}
		for replica := range r.Replicas {
			s.addEngine(*r, replica)
		}
	}
	if d.Router != "" {
		for replica := range max(d.RouterReplicas, 1) {
			router := &Server{simulation: s, profile: profiles[d.Router], software: d.Router, kind: Router,
				pod: fmt.Sprintf("%s-router-%s-%s", d.Name, suffix(d, "rs", 9), suffix(d, fmt.Sprint("router", replica), 5))}
			s.routers = append(s.routers, router)
			s.servers = append(s.servers, router)
		}
	}
	for _, server := range s.servers {
		server.boot()
	}
	s.setLoad(d.Load)
	return s, nil
}

func (s *Simulation) addEngine(r Role, replica int) {
	d := s.description
	server := &Server{
		simulation: s, profile: profiles[d.Engine], software: d.Engine, role: r.Name, kind: r.Kind,
		pod: fmt.Sprintf("%s-%s-%d", d.Name, r.Name, replica), ranks: r.Ranks, priorities: r.Priorities,
		arguments: d.arguments(r),
	}
	server.connector = d.Engine == VLLM && hasFlag(server.arguments, "--kv-transfer-config")
	server.store = server.connector && d.KVCache
	server.host = hasFlag(server.arguments, "--enable-hierarchical-cache")
	server.storage = hasFlag(server.arguments, "--hicache-storage-backend")
	switch last := r.Replicas - replica; {
	case last <= r.Hanging:
		server.hanging = true
	case last <= r.Hanging+r.Refusing:
		server.refusing = true
	case last <= r.Hanging+r.Refusing+r.Idle:
		server.idle = true
	}
	for rank := range r.Ranks.Data {
		u := &unit{server: server, rank: strconv.Itoa(rank)}
		server.units = append(server.units, u)
		s.units[r.Kind] = append(s.units[r.Kind], u)
	}
	s.servers = append(s.servers, server)
}

// suffix is a random-looking part of a Pod's name, always the same for the same deployment.
func suffix(d Deployment, salt string, n int) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	h := digest(d.Namespace, d.Name, salt)
	rng := rand.New(rand.NewPCG(uint64(h[0])<<8|uint64(h[1]), uint64(h[2])<<8|uint64(h[3])))
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[rng.IntN(len(letters))]
	}
	return string(b)
}
