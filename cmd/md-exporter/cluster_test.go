package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

// apiServer answers lists as an API server does, or refuses some.
type apiServer struct {
	*httptest.Server
	// objects are by the plural of their resource.
	objects map[string][]any
	// refuse is the status of an answer, by the plural of a resource.
	refuse map[string]int

	mu    sync.Mutex
	asked []string
}

// newAPIServer serves the objects of a manifest.
func newAPIServer(t *testing.T, manifest string) *apiServer {
	t.Helper()
	s := &apiServer{objects: map[string][]any{}, refuse: map[string]int{}}
	data, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.SplitSeq(string(data), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		plural := strings.ToLower(object["kind"].(string)) + "s"
		s.objects[plural] = append(s.objects[plural], object)
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := path.Base(r.URL.Path)
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.Path+" "+r.URL.Query().Get("watch"))
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer := map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "1"}, "items": s.objects[resource]}
	switch kind := map[string]string{"modeldeployments": "ModelDeploymentList", "pods": "PodList"}[resource]; kind {
	case "":
		answer["kind"], answer["apiVersion"], answer["items"] = "PartialObjectMetadataList", "meta.k8s.io/v1", []any{}
	case "ModelDeploymentList":
		answer["kind"], answer["apiVersion"] = kind, "worker.gpustack.ai/v1alpha1"
	default:
		answer["kind"] = kind
	}
	if status := s.refuse[resource]; status != 0 {
		reason := map[int]string{http.StatusForbidden: "Forbidden", http.StatusNotFound: "NotFound", http.StatusUnauthorized: "Unauthorized"}[status]
		w.WriteHeader(status)
		answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status,
			"message": resource + ` is refused to user "jane"`}
	}
	_ = json.NewEncoder(w).Encode(answer) // What the client does not take is its own affair.
}

// kubeconfig writes one for a server.
func kubeconfig(t *testing.T, url string) string {
	t.Helper()
	return write(t, "kubeconfig", `{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: "`+url+`"}}], users: [{name: c, user: {}}], contexts: [{name: c, context: {cluster: c, user: c}}]}`)
}

// A cluster is found as kubectl finds it, and asked for one namespace once.
func TestSnapshotOfACluster(t *testing.T) {
	for _, way := range []string{"--kubeconfig", "KUBECONFIG", "HOME"} {
		t.Run(way, func(t *testing.T) {
			server := newAPIServer(t, manifestOf(t, whole(t)))
			config, home := kubeconfig(t, server.URL), t.TempDir()
			args := []string{"snapshot", "chat/m", "--window=50ms"}
			env := []string{"HOME=" + home}
			switch way {
			case "--kubeconfig":
				args = append(args, "--kubeconfig="+config)
			case "KUBECONFIG":
				env = append(env, "KUBECONFIG="+config)
			case "HOME":
				if err := os.MkdirAll(home+"/.kube", 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(config, home+"/.kube/config"); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(binary, args...)
			cmd.Env = env
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), "chat/m: vllm\nComplete: ") {
				t.Errorf("%v: %s", err, out)
			}
			slices.Sort(server.asked)
			want := []string{
				"/api/v1/namespaces/chat/pods ", "/apis/apps/v1/namespaces/chat/deployments ", "/apis/apps/v1/namespaces/chat/replicasets ",
				"/apis/worker.gpustack.ai/v1alpha1/namespaces/chat/modeldeployments ",
			}
			if !slices.Equal(server.asked, want) {
				t.Errorf("asked for %q", server.asked)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		cmd := exec.Command(binary, "snapshot", "chat/m")
		cmd.Env = []string{"HOME=" + t.TempDir()}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--kubeconfig=FILE") || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// What the API server refuses is one line that names the verb and the resource.
func TestSnapshotRefused(t *testing.T) {
	for _, row := range []struct {
		name, resource string
		status         int
		says           string
	}{
		{"no permission for Pods", "pods", http.StatusForbidden, "list pods in namespace chat: pods is refused"},
		{"no permission for deployments", "modeldeployments", http.StatusForbidden, "list modeldeployments.worker.gpustack.ai in namespace chat: "},
		{"not logged in", "replicasets", http.StatusUnauthorized, "list replicasets.apps in namespace chat: "},
		{"no such resource", "modeldeployments", http.StatusNotFound, "list modeldeployments.worker.gpustack.ai in namespace chat: "},
	} {
		t.Run(row.name, func(t *testing.T) {
			server := newAPIServer(t, manifestOf(t, serving(t)))
			server.refuse[row.resource] = row.status
			got := runToEnd(t, "snapshot", "chat/m", "--kubeconfig="+kubeconfig(t, server.URL))
			if got.status != 1 || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 ||
				!strings.Contains(got.stderr, server.URL+": "+row.says) {
				t.Errorf("status %d, stdout %q, stderr %q; want %q", got.status, got.stdout, got.stderr, row.says)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		server.Close()
		got := runToEnd(t, "snapshot", "chat/m", "--kubeconfig="+kubeconfig(t, server.URL))
		if got.status != 1 || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "connection refused") {
			t.Errorf("status %d, stderr %q", got.status, got.stderr)
		}
	})
}
