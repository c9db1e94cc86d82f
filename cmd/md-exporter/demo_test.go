package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/md-exporter/md-exporter/simulate"
)

// The demo shows values of each deployment, and its faults as what they are.
func TestDemo(t *testing.T) {
	p := startProcess(t, "demo", "--window.min=0s")
	out := p.stdout.String()
	for _, part := range []string{"chat/qwen3-8b", "/metrics", "1 idle", "1 refusing connections, 1 hanging", "curl"} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in what the demo says: %s", part, out)
		}
	}
	first := p.get(t, "/metrics")
	for _, d := range simulate.Demo(1) {
		of := []string{`namespace="` + d.Namespace + `"`, `modeldeployment="` + d.Name + `"`}
		if !strings.Contains(out, d.Namespace+"/"+d.Name) {
			t.Errorf("%s is not in what the demo says", d.Name)
		}
		if n := len(series(first, "modeldeployment_up{", append(of, "} 1")...)); n != 1 {
			t.Errorf("%s is not up at the first read", d.Name)
		}
		for _, name := range []string{"info{", "running_requests{", "router_running_requests{"} {
			if len(series(first, "modeldeployment_"+name, of...)) == 0 {
				t.Errorf("%s has no %s at the first read", d.Name, name)
			}
		}
	}

	second := p.get(t, "/metrics")
	for _, d := range simulate.Demo(1) {
		of := []string{`namespace="` + d.Namespace + `"`, `modeldeployment="` + d.Name + `"`}
		for _, name := range []string{"window_seconds{", "source_pods{", "read_pods{"} {
			if len(series(second, "modeldeployment_"+name, of...)) == 0 {
				t.Errorf("%s has no %s at the second read", d.Name, name)
			}
		}
		if n := len(series(second, "modeldeployment_missing_info{", append(of, `reason="first_sample"`)...)); n != 0 {
			t.Errorf("%s has %d first samples at the second read", d.Name, n)
		}
	}
	for _, fault := range [][]string{
		{`modeldeployment="llama-summarizer"`, `reason="connection_failed"`, `source="scrape"`, `partial="true"`},
		{`modeldeployment="llama-summarizer"`, `reason="timeout"`, `source="scrape"`, `partial="true"`},
		{`modeldeployment="qwen3-8b"`, `reason="idle_window"`, `source="vllm:time_to_first_token_seconds"`, `partial="false"`},
	} {
		if n := len(series(second, "modeldeployment_missing_info{", fault...)); n == 0 {
			t.Errorf("no entry with %q", fault)
		}
	}
	if n := len(series(second, "modeldeployment_partial{", `modeldeployment="llama-summarizer"`, "} 1")); n != 1 {
		t.Error("the deployment with faults is not partial")
	}
	documented(t, second)

	p.terminate(t)
	if status := p.status(t); status != 0 {
		t.Errorf("status %d: %s", status, p.stderr)
	}
	for _, variable := range p.cmd.Env {
		if folder, isTemp := strings.CutPrefix(variable, "TMPDIR="); isTemp && folder != os.Getenv("TMPDIR") {
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		}
	}
}

// documented reports the series that the page does not have.
func documented(t *testing.T, body string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(body) {
		fields := strings.Fields(line)
		if len(fields) == 4 && fields[1] == "TYPE" {
			names = append(names, fields[2])
			ours := strings.HasPrefix(fields[2], "md_exporter_") || strings.HasPrefix(fields[2], "modeldeployment_")
			if ours && !strings.Contains(string(page), "\n| `"+fields[2]+"` | "+fields[3]+" |") {
				t.Errorf("%s, a %s, is not in docs/metrics.md", fields[2], fields[3])
			}
		}
	}
	for _, name := range []string{"modeldeployment_info", "md_exporter_build_info", "go_goroutines"} {
		if !slices.Contains(names, name) {
			t.Errorf("no %s in the answer", name)
		}
	}
}
