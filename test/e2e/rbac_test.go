package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/md-exporter/md-exporter/test/e2e/cluster"
	"github.com/md-exporter/md-exporter/test/e2e/servers"
)

// variants are the two ways to deploy the exporter, with the flags that each sets.
var variants = []struct {
	folder string
	// namespace is where the exporter's own objects are, and all that the namespaced variant sees.
	namespace string
	args      []string
}{
	{cluster.ClusterWide, "md-exporter", nil},
	{cluster.Namespaced, "default", []string{"--namespace=default"}},
}

// TestLeastPrivilege runs the exporter with what deploy/exporter grants and nothing more, and then with
// each rule taken away.
func TestLeastPrivilege(t *testing.T) {
	for _, v := range variants {
		t.Run(filepath.Base(v.folder), func(t *testing.T) {
			c := cluster.Start(t)
			c.InstallCRD(t)
			engine := serve(t, "127.0.0.1", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprintln(w, "vllm:num_requests_running 3")
			})
			for _, namespace := range []string{"default", "elsewhere"} {
				h := byHand{t: t, c: c, namespace: namespace, engine: engine, router: engine}
				md := h.model("llama", 1, map[string]any{"router": map[string]any{"name": "vllm-router"}})
				h.pod(md, "server", "0", nil)
				h.routerPod(c.CreateRouterChain(t, md, "vllm-router", 1), "0", nil)
			}

			manifests := cluster.Render(t, v.folder)
			t.Run("server-side dry run", func(t *testing.T) {
				if v.namespace != "default" {
					c.CreateNamespace(t, v.namespace)
				}
				out := c.Apply(t, manifests, "--dry-run=server")
				if n := strings.Count(out, "(server dry run)"); n != len(manifests) {
					t.Errorf("%d of %d objects were accepted:\n%s", n, len(manifests), out)
				}
			})

			kubeconfig := c.InstallRBAC(t, manifests)
			t.Run("the rights are enough", func(t *testing.T) {
				e := cluster.StartExporter(t, append([]string{"--kubeconfig=" + kubeconfig}, v.args...)...)
				e.WaitReady(t, ready)
				families := e.Scrape(t, "/metrics")
				var owned []string
				for _, m := range families["modeldeployment_owned_pods"].GetMetric() {
					labels := map[string]string{}
					for _, l := range m.GetLabel() {
						labels[l.GetName()] = l.GetValue()
					}
					owned = append(owned, fmt.Sprintf("%s/%s %s %v", labels["namespace"], labels["modeldeployment"], labels["scope"], m.GetGauge().GetValue()))
				}
				slices.Sort(owned)
				want := []string{"default/llama engine 1", "default/llama router 1"}
				if len(v.args) == 0 {
					want = append(want, "elsewhere/llama engine 1", "elsewhere/llama router 1")
				}
				if !slices.Equal(owned, want) {
					t.Errorf("owned %q, want %q", owned, want)
				}
				if err := e.Stop(); err != nil {
					t.Error(err)
				}
				if log := e.Output(t); strings.Contains(log, "level=ERROR") || strings.Contains(log, "level=WARN") {
					t.Errorf("trouble in the log:\n%s", log)
				}
			})

			t.Run("auth can-i --list", func(t *testing.T) {
				c.CreateServiceAccount(t, v.namespace, "nobody")
				everybody := canI(t, c.KubeconfigFor(t, v.namespace, "nobody"), "default")
				var beyond []string
				for _, line := range canI(t, kubeconfig, "default") {
					if !slices.Contains(everybody, line) {
						beyond = append(beyond, line)
					}
				}
				documented := documentedRights(t)
				if !slices.Equal(beyond, documented) {
					t.Errorf("the account may do %q, the README says %q", beyond, documented)
				}
				abroad := canI(t, kubeconfig, "elsewhere")
				if got := len(abroad) > len(everybody); got != (len(v.args) == 0) {
					t.Errorf("rights in another namespace: %q", abroad)
				}
			})

			if len(v.args) > 0 {
				t.Run("every namespace with a role of one", func(t *testing.T) {
					e := cluster.StartExporter(t, "--kubeconfig="+kubeconfig)
					neverReady(t, e, regexp.MustCompile(`level=ERROR .*forbids to (list|watch) pods`))
				})
			}
			rules := cluster.Rules(t, manifests)
			t.Run("a list that this server streams is a watch", func(t *testing.T) {
				manifests := cluster.Render(t, v.folder)
				streaming := cluster.Rules(t, manifests)
				for _, rule := range streaming {
					rule.(map[string]any)["verbs"] = []any{"watch"}
				}
				cluster.SetRules(t, manifests, streaming)
				kubeconfig := c.InstallRBAC(t, manifests)
				denied(t, kubeconfig, "pods", "list")
				e := cluster.StartExporter(t, append([]string{"--kubeconfig=" + kubeconfig}, v.args...)...)
				e.WaitReady(t, ready)
				if log := e.Output(t); strings.Contains(log, "level=ERROR") {
					t.Errorf("it asked for a list:\n%s", log)
				}
				c.InstallRBAC(t, cluster.Render(t, v.folder))
			})
			for i, rule := range rules {
				resource := rule.(map[string]any)["resources"].([]any)[0].(string)
				t.Run("without "+resource, func(t *testing.T) {
					left := slices.Delete(slices.Clone(rules), i, i+1)
					manifests := cluster.Render(t, v.folder)
					cluster.SetRules(t, manifests, left)
					without := c.InstallRBAC(t, manifests)
					denied(t, without, resource, "list", "watch")
					e := cluster.StartExporter(t, append([]string{"--kubeconfig=" + without}, v.args...)...)
					neverReady(t, e, regexp.MustCompile(`level=ERROR .*forbids to (list|watch) `+resource+`\b.* verb=(list|watch) resource=`+resource+`\b`))

					c.InstallRBAC(t, cluster.Render(t, v.folder))
					e.WaitReady(t, settled)
					if n := strings.Count(e.Output(t), "level=ERROR"); n != 1 {
						t.Errorf("%d lines of errors, want one:\n%s", n, e.Output(t))
					}
				})
			}
		})
	}
}

// neverReady waits for the line in the log and looks that the exporter is not ready for some time after
// it: its series then still say what it waits for.
func neverReady(t *testing.T, e *cluster.Exporter, line *regexp.Regexp) {
	t.Helper()
	cluster.Eventually(t, settled, "the log has "+line.String(), func(context.Context) error {
		if log := e.Output(t); !line.MatchString(log) {
			return fmt.Errorf("it is:\n%s", log)
		}
		return nil
	})
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		if status, body := e.Get(t, "/-/ready"); status != http.StatusServiceUnavailable {
			t.Fatalf("/-/ready is %d %s", status, body)
		}
	}
	if status, _ := e.Get(t, "/sd"); status != http.StatusServiceUnavailable {
		t.Errorf("/sd is %d", status)
	}
	synced := discoverySynced(t, e)
	if len(synced) != 4 || !slices.Contains(slices.Collect(maps.Values(synced)), "0") {
		t.Errorf("md_exporter_discovery_synced is %v", synced)
	}
}

// discoverySynced is md_exporter_discovery_synced by resource.
func discoverySynced(t *testing.T, e *cluster.Exporter) map[string]string {
	t.Helper()
	synced := map[string]string{}
	for _, m := range e.Scrape(t, "/metrics")["md_exporter_discovery_synced"].GetMetric() {
		synced[m.GetLabel()[0].GetValue()] = fmt.Sprint(m.GetGauge().GetValue())
	}
	return synced
}

// denied waits until the account may do nothing of the verbs with the resource any more.
func denied(t *testing.T, kubeconfig, resource string, verbs ...string) {
	t.Helper()
	for _, verb := range verbs {
		cluster.Eventually(t, settled, "no right to "+verb+" "+resource, func(context.Context) error {
			out, err := cluster.Kubectl(t, kubeconfig, "auth", "can-i", verb, resource, "--namespace=default")
			if strings.TrimSpace(out) != "no" {
				return fmt.Errorf("can-i says %q, %v", out, err)
			}
			return nil
		})
	}
}

// canI is what kubectl auth can-i --list says of an account in a namespace, a right a line.
func canI(t *testing.T, kubeconfig, namespace string) []string {
	t.Helper()
	out, err := cluster.Kubectl(t, kubeconfig, "auth", "can-i", "--list", "--no-headers", "--namespace="+namespace)
	if err != nil {
		t.Fatal(err)
	}
	var rights []string
	for line := range strings.Lines(out) {
		rights = append(rights, strings.Join(strings.Fields(line), " "))
	}
	slices.Sort(rights)
	return rights
}

// documentedRights are the rows of the README's table of rights, as kubectl auth can-i --list words them.
func documentedRights(t *testing.T) []string {
	t.Helper()
	root, err := servers.Root()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(readme), "| Resource | Verbs |")
	if !found {
		t.Fatal("the README has no table of rights")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var rights []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z.]+)` \\| ([a-z, ]+) \\|").FindAllStringSubmatch(table, -1) {
		rights = append(rights, fmt.Sprintf("%s [] [] [%s]", row[1], strings.ReplaceAll(row[2], ",", "")))
	}
	slices.Sort(rights)
	return rights
}

// TestDeployedPod looks at what cannot be run here: that the Pod of each variant is as restricted as the
// namespace's policy wants it, and is told what its role lets it see.
func TestDeployedPod(t *testing.T) {
	c := cluster.Start(t)
	for _, v := range variants {
		t.Run(filepath.Base(v.folder), func(t *testing.T) {
			c.CreateNamespace(t, v.namespace)
			c.Apply(t, cluster.Render(t, v.folder))
			d, err := c.Kube.AppsV1().Deployments(v.namespace).Get(t.Context(), "md-exporter", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if *d.Spec.Replicas != 1 {
				t.Errorf("%d replicas", *d.Spec.Replicas)
			}
			service, err := c.Kube.CoreV1().Services(v.namespace).Get(t.Context(), "md-exporter", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for key, value := range service.Spec.Selector {
				if d.Spec.Template.Labels[key] != value {
					t.Errorf("the Service selects %s=%s, the Pods have %v", key, value, d.Spec.Template.Labels)
				}
			}
			if len(service.Spec.Selector) == 0 {
				t.Error("the Service selects nothing")
			}
			args := d.Spec.Template.Spec.Containers[0].Args
			if got := slices.Contains(args, "--namespace=$(NAMESPACE)"); got != (len(v.args) > 0) {
				t.Errorf("arguments %q", args)
			}
			// The API server's own admission judges a Pod of the template.
			restricted := "restricted-" + v.namespace
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: restricted, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
			if _, err := c.Kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "md-exporter"}, Spec: *d.Spec.Template.Spec.DeepCopy()}
			if _, err := c.Kube.CoreV1().Pods(restricted).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Errorf("a restricted namespace refuses the Pod: %v", err)
			}
			security := pod.Spec.Containers[0].SecurityContext
			if security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem {
				t.Error("the root filesystem is writable")
			}
			pod.Name, security.AllowPrivilegeEscalation = "escalating", nil
			if _, err := c.Kube.CoreV1().Pods(restricted).Create(t.Context(), pod, metav1.CreateOptions{}); err == nil {
				t.Error("the namespace is not restricted: it takes any Pod")
			}
		})
	}
}

// TestEmptyNamespace holds that a namespace that was not filled in is not every namespace.
func TestEmptyNamespace(t *testing.T) {
	c := cluster.Start(t)
	e := cluster.StartExporter(t, "--kubeconfig="+c.Kubeconfig, "--namespace=")
	select {
	case <-e.Done():
	case <-time.After(ready):
		t.Fatal("the exporter runs")
	}
	if _, err := e.Ended(); err == nil || strings.Count(e.Output(t), "\n") != 1 || !strings.Contains(e.Output(t), "--namespace") {
		t.Errorf("it ended with %v and said %q", err, e.Output(t))
	}
}
