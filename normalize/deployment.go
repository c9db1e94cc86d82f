package normalize

// Scope tells whose view a value is: the engine's or the router's. The two are never added.
type Scope string

// The two scopes.
const (
	ScopeEngine Scope = "engine"
	ScopeRouter Scope = "router"
)

// RoleKind is what a role's Pods do (spec.roles[].kind).
type RoleKind string

// The role kinds. An absent kind is RoleServer.
const (
	RoleServer  RoleKind = "server"
	RolePrefill RoleKind = "prefill"
	RoleDecode  RoleKind = "decode"
)

// Deployment is the shape of one ModelDeployment: all that the rules need to know of its spec.
type Deployment struct {
	Namespace string
	Name      string
	UID       string
	// Engine is spec.engine.name as written; a name that no table knows is a missing entry.
	Engine string
	Roles  []Role
	// Router is nil where the deployment has none.
	Router *Router
	// KVCache is true where a KV cache pool is attached (spec.kvCache is present).
	KVCache bool
}

// Role is one element of spec.roles.
type Role struct {
	Name string
	Kind RoleKind
	// Managed is false for a role with a command of its own: its Pods are neither expected nor read.
	Managed bool
	// Expected is the number of Pods: replicas × max(size, 1), zero where the role is not managed.
	Expected int
}

// Router is spec.router.
type Router struct {
	// Name is spec.router.name as written; a name that no table knows is a missing entry.
	Name string
	// Expected is the number of router Pods: its replicas.
	Expected int
}

// Pod is one Pod that a deployment owns.
type Pod struct {
	Name string
	UID  string
	// Scope is ScopeEngine for a role's Pod, ScopeRouter for a router's.
	Scope Scope
	// Role is the role's name; empty for a router's Pod.
	Role string
	// Arguments are the elements of command and args of every container, in order.
	Arguments []string
}

// Pair reports whether the deployment is a prefill/decode pair: at least one role of each kind,
// whoever owns their commands.
func (d *Deployment) Pair() bool {
	var prefill, decode bool
	for _, r := range d.Roles {
		prefill = prefill || r.Kind == RolePrefill
		decode = decode || r.Kind == RoleDecode
	}
	return prefill && decode
}

// Expected is the number of Pods that the deployment's managed roles and its router should have.
func (d *Deployment) Expected() int {
	var n int
	for _, r := range d.Roles {
		n += r.Expected
	}
	if d.Router != nil {
		n += d.Router.Expected
	}
	return n
}

// kind is the kind of the named role, RoleServer where there is none.
func (d *Deployment) kind(role string) RoleKind {
	for _, r := range d.Roles {
		if r.Name == role {
			return r.Kind
		}
	}
	return RoleServer
}
