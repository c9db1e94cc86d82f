// Package podmonitor tests the monitors of this folder against prometheus-operator's own types.
package podmonitor

import (
	"os"
	"testing"

	"github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/relabel"
	"sigs.k8s.io/yaml"
)

// decode reads a manifest into prometheus-operator's type; a field that the type lacks fails.
func decode(t *testing.T, path string, into any) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(content, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// valid fails where Prometheus would not take a rule of relabelling.
func valid(t *testing.T, path string, rules []monitoringv1.RelabelConfig) {
	t.Helper()
	if len(rules) == 0 {
		t.Errorf("%s: no relabelling", path)
	}
	for i, r := range rules {
		c := relabel.DefaultRelabelConfig
		c.TargetLabel, c.Action = r.TargetLabel, relabel.Action(r.Action)
		for _, l := range r.SourceLabels {
			c.SourceLabels = append(c.SourceLabels, model.LabelName(l))
		}
		if r.Regex != "" {
			regex, err := relabel.NewRegexp(r.Regex)
			if err != nil {
				t.Errorf("%s, rule %d: %v", path, i, err)
				continue
			}
			c.Regex = regex
		}
		if err := c.Validate(model.UTF8Validation); err != nil {
			t.Errorf("%s, rule %d: %v", path, i, err)
		}
	}
}

func TestPodMonitors(t *testing.T) {
	for path, secure := range map[string]bool{"base/podmonitor.yaml": false, "tls/podmonitor.yaml": true} {
		var m monitoringv1.PodMonitor
		decode(t, path, &m)
		if m.APIVersion != monitoring.GroupName+"/"+monitoringv1.Version || m.Kind != monitoringv1.PodMonitorsKind {
			t.Errorf("%s is a %s %s", path, m.APIVersion, m.Kind)
		}
		if got := m.Spec.Selector.MatchLabels; len(got) != 1 || got["app.kubernetes.io/name"] != "model-deployment" {
			t.Errorf("%s selects %v", path, got)
		}
		if len(m.Spec.PodMetricsEndpoints) != 1 {
			t.Fatalf("%s has %d endpoints, want 1: each is a target a Pod", path, len(m.Spec.PodMetricsEndpoints))
		}
		e := m.Spec.PodMetricsEndpoints[0]
		if e.Port != nil || e.PortNumber != nil || e.HonorLabels {
			t.Errorf("%s: the port is the annotation's, and a Pod's labels its target's", path)
		}
		tls := e.TLSConfig
		if tls != nil && tls.InsecureSkipVerify != nil && *tls.InsecureSkipVerify {
			t.Errorf("%s does not verify certificates", path)
		}
		if hasCA := tls != nil && tls.CA.Secret != nil && tls.CA.Secret.Key == "ca.crt"; hasCA != secure {
			t.Errorf("%s has a CA: %v, want %v", path, hasCA, secure)
		}
		if isHTTPS := e.Scheme != nil && e.Scheme.String() == "https"; isHTTPS != secure {
			t.Errorf("%s asks by https: %v, want %v", path, isHTTPS, secure)
		}
		valid(t, path, e.RelabelConfigs)
	}
}

func TestServiceMonitor(t *testing.T) {
	var m monitoringv1.ServiceMonitor
	decode(t, "base/servicemonitor.yaml", &m)
	if m.APIVersion != monitoring.GroupName+"/"+monitoringv1.Version || m.Kind != monitoringv1.ServiceMonitorsKind {
		t.Errorf("it is a %s %s", m.APIVersion, m.Kind)
	}
	if m.Spec.JobLabel != "app.kubernetes.io/name" {
		t.Errorf("the job is %q: the rules expect md-exporter", m.Spec.JobLabel)
	}
	if len(m.Spec.Endpoints) != 1 {
		t.Fatalf("%d endpoints, want 1", len(m.Spec.Endpoints))
	}
	e := m.Spec.Endpoints[0]
	if !e.HonorLabels {
		t.Error("the exporter's namespace and pod would stand in place of the deployments'")
	}
	valid(t, "base/servicemonitor.yaml", e.RelabelConfigs)
	dropped, err := relabel.NewRegexp(e.RelabelConfigs[0].Regex)
	if err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]bool{"pod": true, "container": true, "service": true, "endpoint": true, "namespace": false, "job": false, "instance": false} {
		if got := dropped.MatchString(label); got != want {
			t.Errorf("label %s of the target is dropped: %v, want %v", label, got, want)
		}
	}
	// The port and the label are those of deploy/exporter's Service.
	var service struct {
		Spec struct {
			Ports []struct {
				Name string `json:"name"`
			} `json:"ports"`
		} `json:"spec"`
	}
	content, err := os.ReadFile("../exporter/base/service.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, &service); err != nil {
		t.Fatal(err)
	}
	if len(service.Spec.Ports) != 1 || service.Spec.Ports[0].Name != e.Port {
		t.Errorf("the Service has the ports %v, the monitor asks for %s", service.Spec.Ports, e.Port)
	}
}
