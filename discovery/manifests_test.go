package discovery

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// The five objects of one deployment with a router, as kubectl writes them, each without its list's
// indentation.
const (
	deploymentYAML = `apiVersion: worker.gpustack.ai/v1alpha1
kind: ModelDeployment
metadata:
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: |
      {"apiVersion":"worker.gpustack.ai/v1alpha1","kind":"ModelDeployment","metadata":{"name":"other"}}
      ---
  creationTimestamp: "2026-05-04T03:02:01Z"
  generation: 3
  managedFields:
  - apiVersion: worker.gpustack.ai/v1alpha1
    fieldsType: FieldsV1
    fieldsV1:
      f:spec:
        .: {}
        f:engine:
          f:name: {}
    manager: kubectl
    operation: Update
    time: "2026-05-04T03:02:01Z"
  name: chat
  namespace: ai
  resourceVersion: "8812"
  uid: 6a1f
spec:
  engine:
    name: vllm
    version: 0.11.0
  roles:
  - name: server
    replicas: 2
  router:
    name: vllm-router
status:
  phase: Ready
`
	appsDeploymentYAML = `apiVersion: apps/v1
kind: Deployment
metadata:
  labels:
    app.kubernetes.io/instance: chat
    app.kubernetes.io/name: model-deployment
    modeldeployment.gpustack.ai/router: vllm-router
  name: chat-router
  namespace: ai
  ownerReferences:
  - apiVersion: worker.gpustack.ai/v1alpha1
    controller: true
    kind: ModelDeployment
    name: chat
    uid: 6a1f
  uid: 7b2e
spec:
  replicas: 1
`
	replicaSetYAML = `apiVersion: apps/v1
kind: ReplicaSet
metadata:
  labels:
    app.kubernetes.io/instance: chat
    app.kubernetes.io/name: model-deployment
    modeldeployment.gpustack.ai/router: vllm-router
  name: chat-router-59
  namespace: ai
  ownerReferences:
  - apiVersion: apps/v1
    controller: true
    kind: Deployment
    name: chat-router
    uid: 7b2e
  uid: 8c3d
`
	routerPodYAML = `apiVersion: v1
kind: Pod
metadata:
  annotations:
    prometheus.io/path: /metrics
    prometheus.io/port: "29000"
    prometheus.io/scrape: "true"
  labels:
    app.kubernetes.io/instance: chat
    app.kubernetes.io/name: model-deployment
    modeldeployment.gpustack.ai/router: vllm-router
  name: chat-router-59-k2
  namespace: ai
  ownerReferences:
  - apiVersion: apps/v1
    controller: true
    kind: ReplicaSet
    name: chat-router-59
    uid: 8c3d
  uid: 9d4c
spec:
  containers:
  - name: router
    ports:
    - containerPort: 29000
status:
  phase: Running
  podIP: 10.0.0.9
`
	enginePodYAML = `apiVersion: v1
kind: Pod
metadata:
  annotations:
    prometheus.io/path: /metrics
    prometheus.io/port: "8000"
    prometheus.io/scheme: https
    prometheus.io/scrape: "true"
  labels:
    app.kubernetes.io/component: server
    app.kubernetes.io/instance: chat
    app.kubernetes.io/name: model-deployment
  name: chat-server-0
  namespace: ai
  ownerReferences:
  - apiVersion: worker.gpustack.ai/v1alpha1
    controller: true
    kind: ModelDeployment
    name: chat
    uid: 6a1f
  uid: ae5b
spec:
  containers:
  - name: engine
    command: [vllm, serve]
    args: [--port, "8000"]
    ports:
    - containerPort: 8000
      protocol: TCP
    resources:
      limits:
        nvidia.com/gpu: "1"
status:
  phase: Running
  podIP: fd00::7
`
	// whole is what the five make.
	whole = "ai/chat vllm 6a1f: router chat-router-59-k2 http://10.0.0.9:29000/metrics; engine chat-server-0 https://[fd00::7]:8000/metrics"
)

var all = []string{deploymentYAML, appsDeploymentYAML, replicaSetYAML, routerPodYAML, enginePodYAML}

// describe writes a fleet in one line.
func describe(f *Fleet) string {
	var out []string
	for _, d := range f.Deployments {
		var pods []string
		for _, p := range d.Pods {
			pods = append(pods, strings.TrimSpace(string(p.Scope)+" "+p.Name+" "+p.URL))
		}
		out = append(out, strings.TrimSpace(d.Namespace+"/"+d.Name+" "+d.Engine+" "+d.UID+": "+strings.Join(pods, "; ")))
	}
	return strings.Join(out, " | ")
}

// list makes a kubectl List of YAML objects.
func list(head string, objects ...string) string {
	var b strings.Builder
	b.WriteString(head + "items:\n")
	for _, o := range objects {
		b.WriteString("- " + strings.ReplaceAll(strings.TrimSuffix(o, "\n"), "\n", "\n  ") + "\n")
	}
	return b.String()
}

func toJSON(t testing.TB, text string) string {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "    "); err != nil {
		t.Fatal(err)
	}
	return b.String() + "\n"
}

func without(text string, lines ...string) string {
	for _, l := range lines {
		text = strings.Replace(text, l+"\n", "", 1)
	}
	return text
}

// write makes the files of a folder, and the folders that they are in.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForms writes the same five objects in every form.
func TestForms(t *testing.T) {
	reversed := slices.Clone(all)
	slices.Reverse(reversed)
	const listHead = "apiVersion: v1\nkind: List\nmetadata:\n  resourceVersion: \"\"\n"
	documents := strings.Join(all, "---\n")
	var jsonObjects []string
	for _, o := range all {
		jsonObjects = append(jsonObjects, toJSON(t, o))
	}
	other := "apiVersion: v1\nkind: Service\nmetadata:\n  name: chat\nspec: [of, another, shape]\n"
	podList := list("apiVersion: v1\nkind: PodList\n",
		without(routerPodYAML, "apiVersion: v1", "kind: Pod"), without(enginePodYAML, "apiVersion: v1", "kind: Pod"))

	for name, files := range map[string]map[string]string{
		"a List":                   {"all.yaml": list(listHead, all...)},
		"a List, reversed":         {"all.yaml": list(listHead, reversed...)},
		"a List in JSON":           {"all.json": toJSON(t, list(listHead, all...))},
		"a List of Lists":          {"all.yaml": list(listHead, list(listHead, all[:3]...), list(listHead, all[3:]...))},
		"documents":                {"all.yaml": documents},
		"documents, reversed":      {"all.yml": strings.Join(reversed, "---\n")},
		"JSON documents":           {"all.json": strings.Join(jsonObjects, "")},
		"JSON between markers":     {"all.json": strings.Join(jsonObjects, "---\n")},
		"JSON in a YAML file":      {"all.yaml": list(listHead, jsonObjects...)},
		"flow after the marker":    {"all.yaml": "--- " + strings.Join(strings.Fields(jsonObjects[0]), " ") + "\n---\n" + strings.Join(all[1:], "---\n")},
		"Windows line ends":        {"all.yaml": strings.ReplaceAll("---\n"+documents, "\n", "\r\n")},
		"byte order mark":          {"all.yaml": "\ufeff" + documents},
		"byte order mark and JSON": {"all.json": "\ufeff" + toJSON(t, list(listHead, all...))},
		"directives and comments": {"all.yaml": "# objects\n%YAML 1.1\n--- # the first\n" +
			strings.Join(all, "...\n# the next\n%YAML 1.1\n---\n# here\n\n") + "...\n"},
		"empty documents":   {"all.yaml": "---\n---\n# nothing\n---\n\n" + strings.Join(all, "---\n---\n  \n---\nnull\n---\n") + "---\n"},
		"no last line end":  {"all.yaml": strings.TrimSuffix(documents, "\n")},
		"among other kinds": {"all.yaml": list(listHead, append([]string{other}, all...)...), "x.yaml": other, "y.yaml": "kind: AllowList\napiVersion: policy/v1\nitems: 3\n"},
		"typed lists": {
			"md.yaml":   list("apiVersion: worker.gpustack.ai/v1alpha1\nkind: ModelDeploymentList\n", deploymentYAML),
			"pods.yaml": podList,
			"rs.yaml":   list("apiVersion: apps/v1\nkind: ReplicaSetList\n", without(replicaSetYAML, "apiVersion: apps/v1", "kind: ReplicaSet")),
			"dep.yaml":  list("apiVersion: apps/v1\nkind: DeploymentList\n", without(appsDeploymentYAML, "apiVersion: apps/v1", "kind: Deployment")),
		},
		"another version": {"all.yaml": strings.ReplaceAll(documents, "worker.gpustack.ai/v1alpha1", "worker.gpustack.ai/v1")},
		"files":           {"1.yaml": all[4], "2.yml": all[2], "3.json": jsonObjects[0], "4.yaml": all[1], "5.yaml": all[3]},
		"folders":         {"a/b/1.yaml": all[4], "a/2.yml": all[2], "c/3.yaml": all[0], "c/d/4.yaml": all[1] + "---\n" + all[3]},
		"among what is not read": {"all.yaml": documents, "README.md": "{", ".hidden.yaml": "{", ".git/x.yaml": "{",
			"empty.yaml": "", "comment.yaml": "# nothing\n", "kustomization.yaml": "resources: [all.yaml]\n"},
		"the last one stands": {
			"1.yaml": strings.ReplaceAll(documents, "10.0.0.9", "10.9.9.9") + "---\n" + strings.Replace(deploymentYAML, "vllm", "sglang", 1),
			"2.yaml": routerPodYAML, "3/a.yaml": deploymentYAML},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, files)
			m, err := NewManifests([]string{dir}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(m.Fleet()); got != whole {
				t.Errorf("got  %s\nwant %s", got, whole)
			}
			d := m.Fleet().Get("ai", "chat")
			if want := []string{"vllm", "serve", "--port", "8000"}; len(d.Pods) == 2 && !slices.Equal(d.Pods[1].Arguments, want) {
				t.Errorf("arguments %q, want %q", d.Pods[1].Arguments, want)
			}
			if d.Expected() != 3 || !m.Synced() {
				t.Errorf("%d Pods expected, synced %v", d.Expected(), m.Synced())
			}
		})
	}
}

// TestPaths names files and folders in several ways.
func TestPaths(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"named.txt":            deploymentYAML,
		".hidden/a.yaml":       appsDeploymentYAML,
		"real/..data/rest.yml": strings.Join(all[2:], "---\n"),
		"empty/.keep":          "",
	})
	link := func(to, name string) {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..data/rest.yml", "real/rest.yml") // as a ConfigMap is mounted
	link("..", "real/loop.yaml")             // a link to a folder is left out
	link("real", "folder")
	paths := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, filepath.Join(dir, n))
		}
		return out
	}
	for _, tt := range []struct {
		name  string
		paths []string
		want  string
	}{
		{"files by name, folders by link", paths("named.txt", ".hidden", "folder"), whole},
		{"one file twice", paths("named.txt", "named.txt", ".hidden", "real", "folder"), whole},
		{"a folder without manifests", paths("empty"), ""},
	} {
		m, err := NewManifests(tt.paths, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if got := describe(m.Fleet()); got != tt.want {
			t.Errorf("%s: got  %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// TestDefaults reads objects that say no more than they must.
func TestDefaults(t *testing.T) {
	o, err := decode([]byte(`
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata: {name: m, uid: u}
spec: {engine: {name: vllm}, roles: [{name: r}]}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: &first
    name: one
    labels: {app.kubernetes.io/name: model-deployment, app.kubernetes.io/instance: m, app.kubernetes.io/component: r}
    ownerReferences: [{kind: ModelDeployment, uid: u, controller: true}]
- apiVersion: v1
  kind: Pod
  metadata: {<<: *first, name: two}
`))
	if err != nil {
		t.Fatal(err)
	}
	f := o.fleet()
	if got, want := describe(f), "default/m vllm u: engine one; engine two"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if pods := f.Deployments[0].Pods; pods[0].UID == pods[1].UID {
		t.Errorf("two Pods share the UID %q", pods[0].UID)
	}
}

// TestErrors wants one line that names the file, the document and the object.
func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"YAML", "a: 1\n---\nb: [\n", []string{"document 1", "kind is missing"}},
		{"line of the file", deploymentYAML + "---\nkind: Pod\nmetadata:\n\tname: a\n", []string{"document 2", "line 39"}},
		{"JSON", `{"kind": "Pod", `, []string{"document 1", "line 1"}},
		{"object in JSON", `{"apiVersion": "v1", "kind": "Pod", "metadata": {}}`, []string{"document 1", "Pod metadata.name is missing"}},
		{"text", "just words\n", []string{"document 1", "not a Kubernetes object"}},
		{"list", "- a\n- b\n", []string{"document 1", "not a Kubernetes object"}},
		{"kind is no text", "kind: [a]\n", []string{"document 1", "kind"}},
		{"replicas are text", strings.Replace(deploymentYAML, "replicas: 2", "replicas: two", 1), []string{"ModelDeployment ai/chat", "spec.roles.replicas"}},
		{"annotation is no text", strings.Replace(enginePodYAML, `scrape: "true"`, "scrape: true", 1), []string{"Pod", "metadata.annotations", "bool"}},
		{"item", list("apiVersion: v1\nkind: List\n", deploymentYAML, "apiVersion: v1\nkind: Pod\nmetadata: {}\n"), []string{"document 1", "item 2", "Pod metadata.name is missing"}},
		{"item of no kind", list("apiVersion: v1\nkind: List\n", "metadata: {name: a}\n"), []string{"item 1", "kind is missing"}},
		{"items are no list", "apiVersion: v1\nkind: PodList\nitems: 3\n", []string{"PodList", "items"}},
		{"lists without end", strings.Repeat("{apiVersion: v1, kind: List, items: [", 100) + strings.Repeat("]}", 100), []string{"more than 8 lists"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{"a.yaml": deploymentYAML, "b.yaml": tt.text})
			_, err := NewManifests([]string{dir}, nil, nil)
			checkLine(t, err, append(tt.want, filepath.Join(dir, "b.yaml"))...)
		})
	}

	dir := t.TempDir()
	write(t, dir, map[string]string{"a.yaml": deploymentYAML})
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling.yaml")); err != nil {
		t.Fatal(err)
	}
	_, err := NewManifests([]string{dir}, nil, nil)
	checkLine(t, err, "dangling.yaml")
	_, err = NewManifests([]string{filepath.Join(dir, "missing")}, nil, nil)
	checkLine(t, err, filepath.Join(dir, "missing"))
	_, err = NewManifests([]string{os.DevNull}, nil, nil)
	checkLine(t, err, os.DevNull, "neither a file nor a folder")
	_, err = NewManifests(nil, nil, nil)
	checkLine(t, err, "no path")

	reg := prometheus.NewRegistry()
	for _, want := range []string{"", "duplicate"} {
		_, err := NewManifests([]string{filepath.Join(dir, "a.yaml")}, nil, reg)
		if want == "" && err != nil {
			t.Error(err)
		} else if want != "" {
			checkLine(t, err, want)
		}
	}
}

func checkLine(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not name %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error of several lines: %q", err)
	}
}

// watched is a folder under watch, and the lines that were logged.
type watched struct {
	*testing.T
	*Manifests
	dir string
	log *bytes.Buffer
	reg *prometheus.Registry
}

func watch(t *testing.T, files map[string]string) *watched {
	w := &watched{T: t, dir: t.TempDir(), log: new(bytes.Buffer), reg: prometheus.NewRegistry()}
	write(t, w.dir, files)
	var err error
	w.Manifests, err = NewManifests([]string{w.dir}, slog.New(slog.NewTextHandler(w.log, nil)), w.reg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// expect looks several times, and wants the fleet, the series and the number of lines logged since.
func (w *watched) expect(when, fleet string, success float64, lines int) {
	w.Helper()
	w.log.Reset()
	for range 3 {
		w.reload()
	}
	if got := describe(w.Fleet()); got != fleet {
		w.Errorf("%s: got  %s\nwant %s", when, got, fleet)
	}
	if got := testutil.ToFloat64(w.success); got != success {
		w.Errorf("%s: reload_success is %v, want %v", when, got, success)
	}
	if got := strings.Count(w.log.String(), "\n"); got != lines {
		w.Errorf("%s: %d lines logged, want %d:\n%s", when, got, lines, w.log)
	}
}

func TestReload(t *testing.T) {
	one := func(name, engine string) string {
		return "apiVersion: worker.gpustack.ai/v1\nkind: ModelDeployment\nmetadata: {name: " + name + ", uid: u-" + name + "}\nspec: {engine: {name: " + engine + "}}\n"
	}
	w := watch(t, map[string]string{"a.yaml": one("a", "vllm"), "b.yaml": one("b", "vllm")})
	a, b, c := "default/a vllm u-a:", "default/b vllm u-b:", "default/c vllm u-c:"
	both := a + " | " + b

	first := w.Fleet()
	w.expect("unchanged", both, 1, 0)
	if w.Fleet() != first {
		t.Error("a new fleet without a change")
	}

	write(t, w.dir, map[string]string{"sub/c.yaml": one("c", "vllm")})
	w.expect("a new file in a new folder", both+" | "+c, 1, 0)
	if w.Fleet() == first || describe(first) != both {
		t.Error("the published fleet was changed")
	}

	os.RemoveAll(filepath.Join(w.dir, "sub"))
	w.expect("a file removed", both, 1, 0)

	write(t, w.dir, map[string]string{"a.yaml": one("a", "sglang")})
	w.expect("an edit", "default/a sglang u-a: | "+b, 1, 0)
	write(t, w.dir, map[string]string{"a.yaml": one("a", "vllm")})
	w.expect("the edit undone", both, 1, 0)

	last := w.Fleet()
	write(t, w.dir, map[string]string{"a.yaml": one("a", "vllm")[:60], "b.yaml": one("b", "sglang")})
	w.expect("half of a file, beside an edit", both, 0, 1)
	if !strings.Contains(w.log.String(), "a.yaml") {
		t.Errorf("the line does not name the file: %s", w.log)
	}
	write(t, w.dir, map[string]string{"a.yaml": one("a", "[")})
	w.expect("another failure", both, 0, 1)
	if w.Fleet() != last {
		t.Error("a new fleet from broken files")
	}
	write(t, w.dir, map[string]string{"a.yaml": one("a", "vllm"), "b.yaml": one("b", "vllm")})
	w.expect("healed", both, 1, 1)

	if err := os.Rename(w.dir, w.dir+"-away"); err != nil {
		t.Fatal(err)
	}
	last = w.Fleet()
	w.expect("the folder gone", both, 0, 1)
	if err := os.Rename(w.dir+"-away", w.dir); err != nil {
		t.Fatal(err)
	}
	w.expect("the folder back as it was", both, 1, 1)
	if w.Fleet() != last {
		t.Error("a new fleet of the same files")
	}

	dangling := filepath.Join(w.dir, "z.yaml")
	if err := os.Symlink("nowhere", dangling); err != nil {
		t.Fatal(err)
	}
	w.expect("a link to nothing", both, 0, 1)
	os.Remove(dangling)
	w.expect("the link removed", both, 1, 1)

	// A ConfigMap's update: the link's target is another file of the same size and time.
	path := filepath.Join(w.dir, "a.yaml")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, w.dir, map[string]string{".new": one("x", "vllm")})
	if err := os.Chtimes(filepath.Join(w.dir, ".new"), info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(w.dir, ".new"), path); err != nil {
		t.Fatal(err)
	}
	w.expect("another file in its place", b+" | default/x vllm u-x:", 1, 0)

	os.Remove(path)
	os.Remove(filepath.Join(w.dir, "b.yaml"))
	w.expect("every file removed", "", 1, 0)
}

// TestWrittenSlowly follows a file that a program empties and then writes over several looks, as a shell's
// redirection does.
func TestWrittenSlowly(t *testing.T) {
	w := watch(t, map[string]string{"fleet.yaml": strings.Join(all, "---\n")})
	for i := range all {
		write(t, w.dir, map[string]string{"fleet.yaml": strings.Join(all[:i], "---\n")})
		w.log.Reset()
		w.reload()
		if got := describe(w.Fleet()); got != whole || w.log.Len() > 0 {
			t.Errorf("after %d objects: %s\n%s", i, got, w.log)
		}
	}
	write(t, w.dir, map[string]string{"fleet.yaml": deploymentYAML})
	w.expect("written", "ai/chat vllm 6a1f:", 1, 0)
	write(t, w.dir, map[string]string{"fleet.yaml": "# nothing yet\n"})
	w.expect("left empty", "ai/chat vllm 6a1f:", 0, 1)
	write(t, w.dir, map[string]string{"fleet.yaml": "apiVersion: v1\nkind: List\nitems: []\n"})
	w.expect("an empty list", "", 1, 1)
}

// TestUnreadable holds that a file which is listed but cannot be read is tried again at the next look,
// since what heals it, a permission or a disk, need not change the file.
func TestUnreadable(t *testing.T) {
	w := watch(t, map[string]string{"a.yaml": enginePodYAML})
	path := filepath.Join(w.dir, "a.yaml")
	write(t, w.dir, map[string]string{"a.yaml": deploymentYAML})
	found, err := find([]string{w.dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.seen = found
	if _, err := w.decode(found); err == nil || w.seen != nil {
		t.Errorf("error %v, and the attempt would not be repeated", err)
	}
	write(t, w.dir, map[string]string{"a.yaml": deploymentYAML})
	w.expect("readable", "ai/chat vllm 6a1f:", 1, 0)
}

// TestRecreated follows a deployment that is deleted and created anew: the old Pods are not the new one's.
func TestRecreated(t *testing.T) {
	w := watch(t, map[string]string{"md.yaml": deploymentYAML, "rest.yaml": strings.Join(all[1:], "---\n")})
	w.expect("before", whole, 1, 0)
	write(t, w.dir, map[string]string{"md.yaml": strings.Replace(deploymentYAML, "6a1f", "6a1f-new", 1)})
	w.expect("after", "ai/chat vllm 6a1f-new:", 1, 0)
}

// TestRun watches on a clock of its own: a change is read at the second look that finds it, and the end is
// the context's.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, map[string]string{"md.yaml": deploymentYAML})
		start := time.Now()
		const series = "md_exporter_manifests_last_reload_success_timestamp_seconds"
		if n, err := testutil.GatherAndCount(w.reg, series, "md_exporter_manifests_reload_success"); n != 2 || err != nil {
			t.Errorf("%d series, error %v", n, err)
		}
		if problems, err := testutil.GatherAndLint(w.reg); err != nil || len(problems) > 0 {
			t.Errorf("%v, error %v", problems, err)
		}
		seconds := func(at time.Time) float64 { return float64(at.UnixNano()) / 1e9 }
		if got := testutil.ToFloat64(w.successTime); got != seconds(start) {
			t.Errorf("read at %v, want %v", got, seconds(start))
		}

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Manifests.Run(ctx) }()
		// Between two looks: at the instant of one, it could see the file half written.
		time.Sleep(10*time.Second + pollInterval/2)
		write(t, w.dir, map[string]string{"rest.yaml": strings.Join(all[1:], "---\n")})
		time.Sleep(2 * pollInterval)
		synctest.Wait()
		if got := describe(w.Fleet()); got != whole {
			t.Errorf("got  %s\nwant %s", got, whole)
		}
		if got, want := testutil.ToFloat64(w.successTime), seconds(start.Add(12*time.Second)); got != want {
			t.Errorf("read at %v, want %v", got, want)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// FuzzDecode holds that any bytes are an error or a fleet whose names are sorted and unique.
func FuzzDecode(f *testing.F) {
	for _, o := range all {
		f.Add([]byte(o))
	}
	f.Add([]byte(strings.Join(all, "---\n")))
	f.Add([]byte(list("apiVersion: v1\nkind: List\n", all...)))
	f.Add([]byte(toJSON(f, list("apiVersion: v1\nkind: List\n", all...))))
	f.Add([]byte("\ufeff%YAML 1.1\r\n--- {kind: PodList, apiVersion: v1, items: [{metadata: {name: a}}]}\r\n...\r\n"))
	f.Add([]byte("a: &a [*a]\n--- &b {<<: *b}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := decode(data)
		if err != nil {
			return
		}
		fleet := o.fleet()
		for i, d := range fleet.Deployments {
			if d.Name == "" || d.Namespace == "" || fleet.Get(d.Namespace, d.Name) != d {
				t.Errorf("deployment %d is not found by its name %s/%s", i, d.Namespace, d.Name)
			}
			if d.Expected() < 0 {
				t.Errorf("%d Pods expected", d.Expected())
			}
			roles := map[string]bool{}
			for _, r := range d.Roles {
				if roles[r.Name] {
					t.Errorf("role %q twice", r.Name)
				}
				roles[r.Name] = true
			}
			pods := map[string]bool{}
			for _, p := range d.Pods {
				if pods[p.Name] {
					t.Errorf("Pod %q twice", p.Name)
				}
				pods[p.Name] = true
			}
		}
	})
}

// BenchmarkDecode reads 1,000 Pods as kubectl writes them.
func BenchmarkDecode(b *testing.B) {
	text := list("apiVersion: v1\nkind: List\n", slices.Repeat([]string{enginePodYAML}, 1000)...)
	for _, form := range []struct{ name, text string }{{"yaml", text}, {"json", toJSON(b, text)}} {
		b.Run(form.name, func(b *testing.B) {
			b.SetBytes(int64(len(form.text)))
			for b.Loop() {
				if _, err := decode([]byte(form.text)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
