package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Generating again changes nothing.
func TestGenerated(t *testing.T) {
	source := filepath.Join("..", "md-exporter.rules.yaml")
	to := filepath.Join(t.TempDir(), "prometheusrule.yaml")
	if err := generate(source, to); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("..", "prometheusrule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("prometheusrule.yaml is not what md-exporter.rules.yaml gives: run make generate")
	}
}

func TestPrometheusRule(t *testing.T) {
	got := string(prometheusRule("a.yaml", []byte("# Why.\ngroups:\n  - name: x\n\n    rules: []\n")))
	want := "  # Why.\n  groups:\n    - name: x\n\n      rules: []\n"
	if len(got) < len(want) || got[len(got)-len(want):] != want {
		t.Errorf("below spec is\n%s", got)
	}
}
