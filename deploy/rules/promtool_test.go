package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// requirePromtool, when set, is what `make e2e` sets: promtool is built there, and no test may skip.
const requirePromtool = "REQUIRE_PROMTOOL"

// promtool is the newest that the end-to-end tests have built.
func promtool(t *testing.T) string {
	t.Helper()
	built, err := filepath.Glob(filepath.Join("..", "..", ".cache", "bin", "promtool-v*"))
	if err != nil {
		t.Fatal(err)
	}
	var path string
	for _, b := range built {
		if filepath.Ext(b) != ".partial" {
			path = b
		}
	}
	if path == "" {
		if os.Getenv(requirePromtool) != "" {
			t.Fatal("promtool is not built: no .cache/bin/promtool-v*")
		}
		t.Skip("SKIPPED: promtool is not built, so the rules are not tested by it; `make e2e` builds it")
	}
	path, err = filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t *testing.T, path string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

func TestPromtoolCheck(t *testing.T) {
	run(t, promtool(t), "check", "rules", "--lint=all", "--lint-fatal", "md-exporter.rules.yaml")
}

func TestPromtool(t *testing.T) {
	path := promtool(t)
	files, err := filepath.Glob(filepath.Join("tests", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			run(t, path, "test", "rules", file)
		})
	}
}

// prometheus-operator's own type takes the PrometheusRule, and nothing in it is unknown to it.
func TestPrometheusRule(t *testing.T) {
	content, err := os.ReadFile("prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var object monitoringv1.PrometheusRule
	if err := yaml.UnmarshalStrict(content, &object); err != nil {
		t.Fatal(err)
	}
	if object.APIVersion != monitoring.GroupName+"/"+monitoringv1.Version || object.Kind != monitoringv1.PrometheusRuleKind {
		t.Errorf("it is a %s %s", object.APIVersion, object.Kind)
	}
	groups := readGroups(t)
	if len(object.Spec.Groups) != len(groups) {
		t.Fatalf("%d groups, want %d", len(object.Spec.Groups), len(groups))
	}
	for i, g := range object.Spec.Groups {
		if g.Name != groups[i].Name || len(g.Rules) != len(groups[i].Rules) {
			t.Errorf("group %s has %d rules, want %s with %d", g.Name, len(g.Rules), groups[i].Name, len(groups[i].Rules))
		}
		for j, r := range g.Rules {
			if want := groups[i].Rules[j]; r.Expr.String() != want.Expr || r.Alert != want.Alert || r.Record != want.Record {
				t.Errorf("rule %d of %s is %s%s, want %s%s", j, g.Name, r.Alert, r.Record, want.Alert, want.Record)
			}
		}
	}
}
