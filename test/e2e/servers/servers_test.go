package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// Kubernetes is one version: v1.X.Y of k8s.io/kubernetes belongs to v0.X.Y of every staging module.
func TestStagingModules(t *testing.T) {
	const file = "kubernetes/go.mod"
	version, err := requiredVersion(file, "k8s.io/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	want := "v0." + strings.TrimPrefix(version, "v1.")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := modfile.Parse(file, content, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(parsed.Replace) == 0 {
		t.Fatal("no module is replaced")
	}
	for _, r := range parsed.Replace {
		if r.New.Path != r.Old.Path || r.New.Version != want {
			t.Errorf("%s => %s %s, want %s itself at %s", r.Old.Path, r.New.Path, r.New.Version, r.Old.Path, want)
		}
	}
}

// A program is taken for what it says of itself, not for its name.
func TestCurrent(t *testing.T) {
	test, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"nothing":         filepath.Join(t.TempDir(), "etcd-v3.7.3"),
		"no program":      "kubernetes/go.mod",
		"another program": test,
	} {
		for _, p := range Programs {
			if p.current(path, "v1.0.0", p.ldflags) {
				t.Errorf("%s is taken for %s", name, p.Name)
			}
		}
	}
	bin := t.TempDir()
	p := Program{Name: "mod", folder: "servers", module: "golang.org/x/mod"}
	if _, err := p.build(t.Context(), t.TempDir(), bin, os.Stderr); err == nil {
		t.Error("a program is built without a go.mod that pins it")
	}
}
