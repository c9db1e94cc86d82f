package discovery

import (
	"math"
	"reflect"
	"testing"

	"github.com/md-exporter/md-exporter/normalize"
)

// TestShape reads one spec a row, as a manifest has it.
func TestShape(t *testing.T) {
	const server = normalize.RoleServer
	type role = normalize.Role
	of := func(name string, kind normalize.RoleKind, managed bool, expected int) role {
		return role{Name: name, Kind: kind, Managed: managed, Expected: expected}
	}
	for _, tt := range []struct {
		name string
		spec string
		want normalize.Deployment
	}{
		{"empty", `{}`, normalize.Deployment{}},
		{"engine", `{engine: {name: sglang}}`, normalize.Deployment{Engine: "sglang"}},
		{"unknown engine", `{engine: {name: tgi}}`, normalize.Deployment{Engine: "tgi"}},

		{"replicas absent", `{roles: [{name: a}]}`, normalize.Deployment{Roles: []role{of("a", server, true, 1)}}},
		{"replicas null", `{roles: [{name: a, replicas: null}]}`, normalize.Deployment{Roles: []role{of("a", server, true, 1)}}},
		{"replicas zero", `{roles: [{name: a, replicas: 0}]}`, normalize.Deployment{Roles: []role{of("a", server, true, 0)}}},
		{"replicas negative", `{roles: [{name: a, replicas: -3, size: 2}]}`, normalize.Deployment{Roles: []role{of("a", server, true, 0)}}},
		{"size", `{roles: [{name: a, replicas: 3, size: 2}]}`, normalize.Deployment{Roles: []role{of("a", server, true, 6)}}},
		{"size alone", `{roles: [{name: a, size: 4}]}`, normalize.Deployment{Roles: []role{of("a", server, true, 4)}}},
		{"size zero", `{roles: [{name: a, replicas: 3, size: 0}]}`, normalize.Deployment{Roles: []role{of("a", server, true, 3)}}},
		{"size negative", `{roles: [{name: a, replicas: 3, size: -1}]}`, normalize.Deployment{Roles: []role{of("a", server, true, 3)}}},
		{"size with no replicas", `{roles: [{name: a, replicas: 0, size: 8}]}`, normalize.Deployment{Roles: []role{of("a", server, true, 0)}}},
		{"more than can be", `{roles: [{name: a, replicas: 9223372036854775807, size: 9223372036854775807}]}`,
			normalize.Deployment{Roles: []role{of("a", server, true, math.MaxInt32)}}},
		{"product more than can be", `{roles: [{name: a, replicas: 65536, size: 65536}]}`,
			normalize.Deployment{Roles: []role{of("a", server, true, math.MaxInt32)}}},

		{"kinds", `{roles: [{name: a, kind: prefill}, {name: b, kind: decode}, {name: c, kind: server}, {name: d, kind: ""}]}`,
			normalize.Deployment{Roles: []role{of("a", normalize.RolePrefill, true, 1), of("b", normalize.RoleDecode, true, 1), of("c", server, true, 1), of("d", server, true, 1)}}},
		{"unknown kind", `{roles: [{name: a, kind: Encode}]}`, normalize.Deployment{Roles: []role{of("a", "Encode", true, 1)}}},
		{"command", `{roles: [{name: a, replicas: 3, command: [serve]}]}`, normalize.Deployment{Roles: []role{of("a", server, false, 0)}}},
		{"empty command", `{roles: [{name: a, replicas: 3, command: []}]}`, normalize.Deployment{Roles: []role{of("a", server, true, 3)}}},
		{"two roles of one name", `{roles: [{name: a, replicas: 3}, {name: a, kind: decode, replicas: 5}]}`,
			normalize.Deployment{Roles: []role{of("a", server, true, 3)}}},

		{"router", `{router: {name: vllm-router}}`, normalize.Deployment{Router: &normalize.Router{Name: "vllm-router", Expected: 1}}},
		{"router replicas", `{router: {name: vllm-router, replicas: 2}}`, normalize.Deployment{Router: &normalize.Router{Name: "vllm-router", Expected: 2}}},
		{"router without replicas", `{router: {name: vllm-router, replicas: 0}}`, normalize.Deployment{Router: &normalize.Router{Name: "vllm-router"}}},
		{"router replicas negative", `{router: {name: vllm-router, replicas: -1}}`, normalize.Deployment{Router: &normalize.Router{Name: "vllm-router"}}},
		{"router empty", `{router: {}}`, normalize.Deployment{Router: &normalize.Router{Expected: 1}}},
		{"router null", `{router: null}`, normalize.Deployment{}},

		{"cache pool", `{kvCache: {size: 1Gi}}`, normalize.Deployment{KVCache: true}},
		{"cache pool empty", `{kvCache: {}}`, normalize.Deployment{KVCache: true}},
		{"cache pool null", `{kvCache: null}`, normalize.Deployment{}},
		{"field in another case", `{Router: {name: vllm-router}, kvcache: {}}`, normalize.Deployment{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, err := decode([]byte("{apiVersion: worker.gpustack.ai/v1alpha1, kind: ModelDeployment, metadata: {name: m, uid: u}, spec: " + tt.spec + "}"))
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Namespace, tt.want.Name, tt.want.UID = "default", "m", "u"
			if got := *o.modelDeployments[key{"default", "m"}]; !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
