package e2e

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"

	"github.com/md-exporter/md-exporter/test/e2e/cluster"
	"github.com/md-exporter/md-exporter/test/e2e/servers"
)

// monitor reads a monitor of deploy/podmonitor and its only endpoint.
func monitor(t *testing.T, path, endpoints string) (spec, endpoint map[string]any) {
	t.Helper()
	root, err := servers.Root()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "deploy", "podmonitor", path))
	if err != nil {
		t.Fatal(err)
	}
	var object unstructured.Unstructured
	if err := yaml.Unmarshal(content, &object.Object); err != nil {
		t.Fatal(err)
	}
	list, _, err := unstructured.NestedSlice(object.Object, "spec", endpoints)
	if err != nil || len(list) != 1 {
		t.Fatalf("%s: %d %s, %v", path, len(list), endpoints, err)
	}
	return object.Object["spec"].(map[string]any), list[0].(map[string]any)
}

// podMonitorJob is what prometheus-operator makes of a PodMonitor: the selector and the target labels
// before the monitor's own relabelings.
func podMonitorJob(t *testing.T, name, path, kubeconfig, ca string) cluster.Job {
	t.Helper()
	spec, endpoint := monitor(t, path, "podMetricsEndpoints")
	selector, _, err := unstructured.NestedStringMap(spec, "selector", "matchLabels")
	if err != nil || len(selector) != 1 {
		t.Fatalf("%s selects %v, %v", path, selector, err)
	}
	label := func(target, source string) any {
		return map[string]any{"source_labels": []string{source}, "target_label": target}
	}
	relabel := []any{
		map[string]any{
			"action": "keep", "source_labels": []string{"__meta_kubernetes_pod_label_app_kubernetes_io_name"},
			"regex": selector["app.kubernetes.io/name"],
		},
		label("namespace", "__meta_kubernetes_namespace"),
		label("container", "__meta_kubernetes_pod_container_name"),
		label("pod", "__meta_kubernetes_pod_name"),
	}
	job := cluster.Job{
		"job_name":              name,
		"kubernetes_sd_configs": []any{map[string]any{"role": "pod", "kubeconfig_file": kubeconfig}},
		"relabel_configs":       append(relabel, cluster.RelabelConfigs(t, endpoint["relabelings"].([]any))...),
	}
	if scheme, ok := endpoint["scheme"]; ok {
		job["scheme"] = scheme
		job["tls_config"] = map[string]any{"ca_file": ca}
	}
	return job
}

// TestPodMonitor finds the Pods through the API server by the relabelings of deploy/podmonitor.
func TestPodMonitor(t *testing.T) {
	c := cluster.Start(t)
	c.CreateNamespace(t, "models")
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.crt")
	answer := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics" && r.URL.Path != "/own" {
				http.NotFound(w, r)
				return
			}
			_, _ = fmt.Fprintf(w, "served_by{name=%q,path=%q} 1\n", name, r.URL.Path)
		}
	}
	pod := func(name string, listening net.Addr, scheme string, change func(*cluster.Pod)) {
		ip, port := cluster.HostPort(t, listening)
		p := cluster.Pod{
			Namespace: "models", Name: name, IP: ip, Phase: corev1.PodRunning,
			Labels: cluster.EngineLabels("llama", "server"), Annotations: cluster.Advertise(port, scheme),
			// The annotated one is neither the first nor the last.
			Ports: []int{port - 1, port, port + 1},
		}
		if change != nil {
			change(&p)
		}
		c.CreatePod(t, p)
	}
	plain := func(name, ip string, change func(*cluster.Pod)) {
		pod(name, serve(t, ip, answer(name)), "http", change)
	}
	plain("engine", "127.0.0.61", nil)
	plain("router", "127.0.0.62", func(p *cluster.Pod) {
		p.Labels = cluster.RouterLabels("llama", "vllm-router")
		p.Annotations["prometheus.io/path"] = "/own"
	})
	plain("silent", "127.0.0.63", func(p *cluster.Pod) { p.Annotations = nil })
	plain("declines", "127.0.0.64", func(p *cluster.Pod) { p.Annotations["prometheus.io/scrape"] = "false" })
	plain("done", "127.0.0.65", func(p *cluster.Pod) { p.Phase = corev1.PodSucceeded })
	plain("undeclared", "127.0.0.66", func(p *cluster.Pod) { p.Ports = p.Ports[:1] })
	plain("other", "127.0.0.67", func(p *cluster.Pod) { p.Labels = map[string]string{"app.kubernetes.io/name": "web"} })
	want := []string{"engine /metrics llama server", "router /own llama "}
	if canListen("::1") {
		plain("engine6", "::1", nil)
		want = append(want, "engine6 /metrics llama server")
	}
	pod("secure", serveTLS(t, "127.0.0.68", ca, answer("secure")), "https", nil)
	want = append(want, "secure /metrics llama server")
	slices.Sort(want)

	c.CreateServiceAccount(t, "models", "prometheus")
	c.Grant(t, "models", "prometheus", readPods)
	kubeconfig := c.KubeconfigFor(t, "models", "prometheus")
	// Of the namespace alone: Grant gives rights in one.
	jobs := []cluster.Job{
		podMonitorJob(t, "pods", filepath.Join("base", "podmonitor.yaml"), kubeconfig, ""),
		podMonitorJob(t, "pods-tls", filepath.Join("tls", "podmonitor.yaml"), kubeconfig, ca),
	}
	for _, job := range jobs {
		job["kubernetes_sd_configs"].([]any)[0].(map[string]any)["namespaces"] = map[string]any{"names": []string{"models"}}
	}
	p := cluster.StartPrometheus(t, nil, jobs...)
	cluster.Eventually(t, settled, "one target a Pod that advertises itself, and all answer", func(ctx context.Context) error {
		vector, err := p.QueryAt(ctx, "served_by", time.Time{})
		if err != nil {
			return err
		}
		targets, err := p.API.Targets(ctx)
		if err != nil {
			return err
		}
		var got, found []string
		for _, s := range vector {
			if s.Metric["name"] != s.Metric["pod"] || s.Metric["namespace"] != "models" || s.Metric["container"] != "" {
				return fmt.Errorf("labels of another target: %v", s)
			}
			got = append(got, fmt.Sprintf("%s %s %s %s", s.Metric["pod"], s.Metric["path"], s.Metric["modeldeployment"], s.Metric["role"]))
		}
		for _, target := range targets.Active {
			found = append(found, string(target.Labels["pod"]))
		}
		slices.Sort(got)
		if !reflect.DeepEqual(got, want) || len(found) != len(want) {
			return fmt.Errorf("targets %v, samples of %q, want %q", found, got, want)
		}
		return nil
	})
}

// serveTLS answers HTTPS with a certificate for the address, and writes what signed it to a file.
func serveTLS(t *testing.T, ip, ca string, handler http.HandlerFunc) net.Addr {
	t.Helper()
	crt, key, err := cert.GenerateSelfSignedCertKey(ip, []net.IP{net.ParseIP(ip)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(crt, key)
	if err != nil {
		t.Fatal(err)
	}
	// The server's own comes first, then its CA's.
	if _, rest := pem.Decode(crt); len(rest) > 0 {
		crt = rest
	}
	if err := os.WriteFile(ca, crt, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	server.Listener = listener
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return listener.Addr()
}

// TestServiceMonitor scrapes the exporter by deploy/podmonitor's ServiceMonitor: the target's labels fill
// in nothing, and the deployments' namespace and pod stand.
func TestServiceMonitor(t *testing.T) {
	_, endpoint := monitor(t, filepath.Join("base", "servicemonitor.yaml"), "endpoints")
	target := serve(t, "127.0.0.1", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "modeldeployment_up{namespace=\"chat\",modeldeployment=\"m\",pod=\"\"} 1\n"+
			"modeldeployment_pod_read_timestamp_seconds{namespace=\"chat\",modeldeployment=\"m\",pod=\"m-0\"} 1\n"+
			"md_exporter_deployments 1\n")
	})
	// What prometheus-operator sets before the monitor's own relabelings.
	set := map[string]string{
		"job": "md-exporter", "namespace": "monitoring", "service": "md-exporter", "pod": "md-exporter-0", "container": "md-exporter", "endpoint": "metrics",
	}
	var relabel []any
	for _, label := range slices.Sorted(maps.Keys(set)) {
		relabel = append(relabel, map[string]any{"target_label": label, "replacement": set[label]})
	}
	job := cluster.StaticJob("md-exporter", endpoint["honorLabels"] == true, target.String())
	job["relabel_configs"] = append(relabel, cluster.RelabelConfigs(t, endpoint["relabelings"].([]any))...)
	p := cluster.StartPrometheus(t, nil, job)
	instance := fmt.Sprintf("instance=%q", target)
	for query, labels := range map[string]string{
		"modeldeployment_up":                         `namespace="chat", modeldeployment="m"`,
		"modeldeployment_pod_read_timestamp_seconds": `namespace="chat", modeldeployment="m", pod="m-0"`,
		"md_exporter_deployments":                    `namespace="monitoring"`,
	} {
		expectValue(t, p, fmt.Sprintf(`%s{%s, %s, job="md-exporter"}`, query, labels, instance), 1)
		expectValue(t, p, fmt.Sprintf(`count(%s{service="", container="", endpoint="", exported_namespace="", exported_pod=""})`, query), 1)
	}
	expectValue(t, p, `count(modeldeployment_up{pod=""})`, 1)
}
