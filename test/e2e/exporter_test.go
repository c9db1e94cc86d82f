package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/md-exporter/md-exporter/simulate"
	"github.com/md-exporter/md-exporter/test/e2e/cluster"
)

// TestExporterFromManifests goes the whole way once without the exporter's own eyes on the API: a
// simulated fleet, its objects in a real API server, what kubectl writes of them as the exporter's
// manifests, and Prometheus scraping both the exporter and the Pods.
func TestExporterFromManifests(t *testing.T) {
	c := cluster.Start(t)
	c.InstallCRD(t)
	fleet := cluster.StartFleet(t, simulate.Demo(1)...)
	c.Load(t, cluster.Manifests(t, fleet.Manifests()))

	manifests := filepath.Join(t.TempDir(), "fleet.yaml")
	written := c.Kubectl(t, "get", "modeldeployments,pods,replicasets,deployments", "--all-namespaces", "-o", "yaml")
	if err := os.WriteFile(manifests, []byte(written), 0o600); err != nil {
		t.Fatal(err)
	}
	exporter := cluster.StartExporter(t, "--manifests="+manifests)
	exporter.WaitReady(t, 10*time.Second)
	t.Logf("exporter ready with %d KiB resident", exporter.Memory(t).Now>>10)

	c.CreateServiceAccount(t, "chat", "prometheus")
	c.Grant(t, "chat", "prometheus", readPods)
	p := cluster.StartPrometheus(t, nil,
		cluster.StaticJob("md-exporter", true, exporter.Address),
		cluster.PodJob("pods", c.KubeconfigFor(t, "chat", "prometheus")))

	// Two of batch/llama-summarizer's Pods are faulty, which its other ones do not suffer from.
	for query, want := range map[string]float64{
		`sum(up{job="md-exporter"})`:                 1,
		`sum(modeldeployment_up)`:                    float64(len(fleet.Simulations())),
		`sum(modeldeployment_owned_pods)`:            float64(len(fleet.Servers())),
		`count(up{job="pods"})`:                      float64(len(fleet.Servers())),
		`count(up{job="pods"} == 0)`:                 2,
		`modeldeployment_partial{namespace="batch"}`: 1,
		`modeldeployment_source_pods{source="vllm:num_requests_running",namespace="chat"}`: 3,
	} {
		cluster.Eventually(t, settled, query, func(ctx context.Context) error {
			got, err := p.Value(ctx, query)
			if err == nil && got != want {
				err = fmt.Errorf("%v, want %v", got, want)
			}
			return err
		})
	}

	var names []string
	for name := range exporter.Scrape(t, "/probe?target=chat/qwen3-8b") {
		names = append(names, name)
	}
	if !slices.Contains(names, "modeldeployment_running_requests") {
		t.Errorf("/probe has no modeldeployment_running_requests but %v", names)
	}
	if err := exporter.Stop(); err != nil {
		t.Errorf("the exporter ended with %v\n%s", err, exporter.Output(t))
	}
	cluster.Eventually(t, settled, "the series of a stopped exporter are stale", func(ctx context.Context) error {
		vector, err := p.QueryAt(ctx, `modeldeployment_up`, time.Time{})
		if err == nil && len(vector) > 0 {
			err = fmt.Errorf("%v", vector)
		}
		return err
	})
}
