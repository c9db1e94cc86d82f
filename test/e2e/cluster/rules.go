package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"
)

// LoadRules makes Prometheus read a rule file, evaluated every ScrapeInterval, and waits until it has read it.
func (p *Prometheus) LoadRules(t testing.TB, rules []byte) {
	t.Helper()
	file := filepath.Join(filepath.Dir(p.config), "rules.yaml")
	if err := os.WriteFile(file, rules, 0o600); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(p.config)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	config["rule_files"] = []string{file}
	config["global"].(map[string]any)["evaluation_interval"] = ScrapeInterval
	if content, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.config, content, 0o600); err != nil {
		t.Fatal(err)
	}
	p.process.signal(syscall.SIGHUP)
	Eventually(t, prometheusReady, "the rules are loaded", func(ctx context.Context) error {
		loaded, err := p.API.Rules(ctx, nil)
		if err != nil {
			return err
		}
		if len(loaded.Groups) == 0 {
			return fmt.Errorf("no groups:\n%s", p.process.tail())
		}
		return nil
	})
}

// Alerts are the alerts in a state (firing or pending) that there are now, by their labels.
func (p *Prometheus) Alerts(ctx context.Context, state string) ([]model.LabelSet, error) {
	result, err := p.API.Alerts(ctx)
	if err != nil {
		return nil, err
	}
	var found []model.LabelSet
	for _, a := range result.Alerts {
		if string(a.State) == state {
			found = append(found, a.Labels)
		}
	}
	return found, nil
}

// RelabelConfigs are the relabelings of a monitor of prometheus-operator in Prometheus's own words, as
// the operator writes them.
func RelabelConfigs(t testing.TB, relabelings []any) []any {
	t.Helper()
	words := strings.NewReplacer("sourceLabels", "source_labels", "targetLabel", "target_label")
	var all []any
	for _, r := range relabelings {
		rule := map[string]any{}
		for key, value := range r.(map[string]any) {
			rule[words.Replace(key)] = value
		}
		all = append(all, rule)
	}
	return all
}
