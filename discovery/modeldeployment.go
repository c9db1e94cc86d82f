package discovery

import (
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/md-exporter/md-exporter/normalize"
)

// modelDeploymentGroup is the API group of ModelDeployment. Its fields used here are the same in
// every version.
const modelDeploymentGroup = "worker.gpustack.ai"

// modelDeployment is a ModelDeployment, cut to the fields that are used.
type modelDeployment struct {
	Metadata metav1.ObjectMeta   `json:"metadata"`
	Spec     modelDeploymentSpec `json:"spec"`
}

type modelDeploymentSpec struct {
	Engine struct {
		Name string `json:"name"`
	} `json:"engine"`
	Roles  []roleSpec  `json:"roles"`
	Router *routerSpec `json:"router"`
	// KVCache attaches a KV cache pool by being there.
	KVCache *struct{} `json:"kvCache"`
}

type roleSpec struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Replicas is one where it is absent; zero expects no Pod.
	Replicas *int64 `json:"replicas"`
	// Size is the number of Pods a replica has; one where it is absent.
	Size    int64    `json:"size"`
	Command []string `json:"command"`
}

type routerSpec struct {
	Name     string `json:"name"`
	Replicas *int64 `json:"replicas"`
}

// shape is all that the rules need to know of the object.
func (m *modelDeployment) shape() *normalize.Deployment {
	d := &normalize.Deployment{
		Namespace: m.Metadata.Namespace,
		Name:      m.Metadata.Name,
		UID:       string(m.Metadata.UID),
		Engine:    m.Spec.Engine.Name,
		KVCache:   m.Spec.KVCache != nil,
	}
	named := make(map[string]bool, len(m.Spec.Roles))
	for _, spec := range m.Spec.Roles {
		// The API refuses two roles of one name. A file may have them, and no series may come twice.
		if named[spec.Name] {
			continue
		}
		named[spec.Name] = true
		role := normalize.Role{
			Name:    spec.Name,
			Kind:    normalize.RoleKind(spec.Kind),
			Managed: len(spec.Command) == 0,
		}
		if role.Kind == "" {
			role.Kind = normalize.RoleServer
		}
		if role.Managed {
			role.Expected = expected(spec.Replicas, spec.Size)
		}
		d.Roles = append(d.Roles, role)
	}
	if m.Spec.Router != nil {
		d.Router = &normalize.Router{
			Name:     m.Spec.Router.Name,
			Expected: expected(m.Spec.Router.Replicas, 1),
		}
	}
	return d
}

// expected is replicas × max(size, 1), within 0 and MaxInt32 so that no sum of them overflows.
func expected(replicas *int64, size int64) int {
	n := int64(1)
	if replicas != nil {
		n = *replicas
	}
	n = min(max(n, 0), math.MaxInt32)
	size = min(max(size, 1), math.MaxInt32)
	return int(min(n*size, math.MaxInt32))
}
