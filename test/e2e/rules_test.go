package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/md-exporter/md-exporter/simulate"
	"github.com/md-exporter/md-exporter/test/e2e/cluster"
	"github.com/md-exporter/md-exporter/test/e2e/servers"
)

// alertSettled is how long an alert may take whose every duration is a minute for an hour.
const alertSettled = 60 * time.Second

// shortened is deploy/rules with a second in place of each minute, and a minute in place of each hour:
// the same rules on a faster clock.
func shortened(t *testing.T) []byte {
	t.Helper()
	root, err := servers.Root()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "deploy", "rules", "md-exporter.rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	duration := regexp.MustCompile(`(\[|: | offset )(\d+)(m|h)\b`)
	if n := len(duration.FindAll(content, -1)); n < 50 {
		t.Fatalf("only %d durations in the rules", n)
	}
	return duration.ReplaceAllFunc(content, func(match []byte) []byte {
		unit := map[byte]byte{'m': 's', 'h': 'm'}
		return append(match[:len(match)-1:len(match)-1], unit[match[len(match)-1]])
	})
}

// TestPartialCoverageAlert lets a Pod of a simulated fleet refuse connections and heal: the alert of
// unreadable Pods fires of its deployment, no other of coverage does, and it ends.
func TestPartialCoverageAlert(t *testing.T) {
	load := simulate.Load{RequestsPerSecond: 6, PromptTokens: 400, OutputTokens: 30, PrefixShare: 0.3, StreamingShare: 0.8, Seed: 1}
	deployment := func(name string) simulate.Deployment {
		return simulate.Deployment{
			Namespace: "alerts", Name: name, Model: "Qwen/Qwen3-8B", Engine: simulate.VLLM,
			Roles: []simulate.Role{{Name: "server", Replicas: 2}}, Router: simulate.VLLMRouter, Load: load,
		}
	}
	fleet := cluster.StartFleet(t, deployment("faulty"), deployment("sound"))
	manifests := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(manifests, fleet.Manifests(), 0o600); err != nil {
		t.Fatal(err)
	}
	exporter := cluster.StartExporter(t, "--manifests="+manifests, "--window.min=1s")
	exporter.WaitReady(t, ready)
	p := cluster.StartPrometheus(t, nil, cluster.StaticJob("md-exporter", true, exporter.Address))
	p.LoadRules(t, shortened(t))

	// The fleet is new for a quarter of an hour, which is a quarter of a minute here.
	cluster.Eventually(t, alertSettled, "the fleet is no rollout any more", func(ctx context.Context) error {
		v, err := p.Value(ctx, `sum(deployment:modeldeployment_rollout:bool{namespace="alerts"})`)
		if err == nil && v != 0 {
			err = fmt.Errorf("%v deployments are", v)
		}
		return err
	})
	firing := func(ctx context.Context) ([]model.LabelSet, error) { return p.Alerts(ctx, "firing") }
	if got, err := firing(t.Context()); err != nil || len(got) > 0 {
		t.Fatalf("alerts of a sound fleet: %v, %v", got, err)
	}

	broken := fleet.Server("alerts", "faulty-server-1")
	broken.Refuse()
	want := model.LabelSet{
		"alertname": "ModelDeploymentPodsUnreadable", "namespace": "alerts", "modeldeployment": "faulty",
		"class": "unreadable", "severity": "warning",
	}
	cluster.Eventually(t, alertSettled, "the alert fires", func(ctx context.Context) error {
		got, err := firing(ctx)
		if err != nil {
			return err
		}
		for _, a := range got {
			if a.Equal(want) {
				return nil
			}
		}
		return fmt.Errorf("firing are %v", got)
	})
	got, err := firing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range got {
		if a["modeldeployment"] != "faulty" || a["class"] != "" && !a.Equal(want) {
			t.Errorf("another alert fires: %v", a)
		}
	}

	if err := broken.Heal(); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, alertSettled, "the alert ends", func(ctx context.Context) error {
		got, err := firing(ctx)
		if err == nil && len(got) > 0 {
			err = fmt.Errorf("firing are %v", got)
		}
		return err
	})
}

// TestDemoAlerts looks at the rules over the fleet of the demo and over one that is never asked: of what is
// wrong alerts fire, of what is normal though partial none.
func TestDemoAlerts(t *testing.T) {
	unused := everyRouter("unused")
	for i := range unused {
		unused[i].Load = simulate.Load{}
	}
	fleet := cluster.StartFleet(t, append(simulate.Demo(1), unused...)...)
	manifests := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(manifests, fleet.Manifests(), 0o600); err != nil {
		t.Fatal(err)
	}
	exporter := cluster.StartExporter(t, "--manifests="+manifests, "--window.min=1s", "--scrape.timeout=200ms")
	exporter.WaitReady(t, ready)
	p := cluster.StartPrometheus(t, nil, cluster.StaticJob("md-exporter", true, exporter.Address))
	p.LoadRules(t, shortened(t))
	// Three quarters of an hour of the rules' clock: whatever fires would have.
	seen := map[string]bool{}
	until := time.Now().Add(45 * time.Second)
	cluster.Eventually(t, alertSettled, "the rules have had their time", func(ctx context.Context) error {
		got, err := p.Alerts(ctx, "firing")
		if err != nil {
			return err
		}
		for _, a := range got {
			seen[string(a["modeldeployment"]+" "+a["alertname"])] = true
		}
		if left := time.Until(until); left > 0 {
			return fmt.Errorf("%s are left", left)
		}
		return nil
	})
	partial, err := p.Value(t.Context(), `sum(modeldeployment_partial{namespace="unused"})`)
	if err != nil || partial == 0 {
		t.Errorf("of a fleet that is never asked %v deployments are partial, %v: there is nothing to exempt", partial, err)
	}
	t.Logf("firing: %v", slices.Sorted(maps.Keys(seen)))
	if !seen["llama-summarizer ModelDeploymentPodsUnreadable"] {
		t.Error("of the Pods that refuse and hang no alert fires")
	}
	for name := range seen {
		// What the demo does badly on purpose: Pods that refuse and hang, and requests and transfers that fail.
		switch name {
		case "llama-summarizer ModelDeploymentPodsUnreadable",
			"llama-summarizer ModelDeploymentRouter5xxHigh", "llama-summarizer ModelDeploymentRouterErrorRatioHigh",
			"deepseek-r1 ModelDeploymentRouter5xxHigh", "deepseek-r1 ModelDeploymentRouterErrorRatioHigh",
			"deepseek-r1 ModelDeploymentKVTransferFailing", "qwen3-8b ModelDeploymentRouterRetriesExhausted":
		default:
			t.Errorf("%s fires", name)
		}
	}
}
