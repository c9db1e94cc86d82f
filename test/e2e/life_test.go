package e2e

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/md-exporter/md-exporter/simulate"
	"github.com/md-exporter/md-exporter/test/e2e/cluster"
)

// seconds is what "within seconds" means where a retry has to come first.
const seconds = 8 * time.Second

// TestLateCRD starts the exporter where nothing knows ModelDeployments.
func TestLateCRD(t *testing.T) {
	const resource = "modeldeployments.worker.gpustack.ai"
	c := cluster.Start(t)
	e := c.InstallExporter(t)
	notServed := regexp.MustCompile(`level=WARN .*does not serve ` + resource + `;.* verb=(list|watch) resource=` + resource)
	neverReady(t, e, notServed)
	expectServed(t, e, resource)
	// By now it has asked several times.
	if warnings := logged(t, e, "WARN"); len(warnings) != 1 || !notServed.MatchString(warnings[0]) {
		t.Errorf("warnings %q, want one", warnings)
	}
	if errors := logged(t, e, "ERROR"); len(errors) > 0 {
		t.Errorf("errors: %q", errors)
	}

	c.InstallCRD(t)
	c.CreateModelDeployment(t, "models", "llama", map[string]any{"engine": map[string]any{"name": "vllm"}})
	installed := time.Now()
	e.WaitReady(t, seconds)
	t.Logf("ready %s after the CRD was there", time.Since(installed).Round(time.Millisecond))
	expectServed(t, e, "")
	expectLines(t, e, 1, "modeldeployment_info", `modeldeployment="llama"`)
	if status, body := e.Get(t, "/sd"); status != http.StatusOK || !strings.Contains(body, `"models/llama"`) {
		t.Errorf("/sd: %d %s", status, body)
	}

	c.RemoveCRD(t)
	expectServed(t, e, resource)
	expectLines(t, e, 0, "modeldeployment_info")
	if status, _ := e.Get(t, "/-/ready"); status != http.StatusOK {
		t.Errorf("/-/ready is %d once the CRD was removed: it has synced before", status)
	}
	c.InstallCRD(t)
	c.CreateModelDeployment(t, "models", "qwen", map[string]any{"engine": map[string]any{"name": "vllm"}})
	again := time.Now()
	expectServed(t, e, "")
	expectLines(t, e, 1, "modeldeployment_info", `modeldeployment="qwen"`)
	t.Logf("caught up %s after the CRD was there again", time.Since(again).Round(time.Millisecond))
	if warnings := logged(t, e, "WARN"); len(warnings) != 2 {
		t.Errorf("warnings %q, want one each time", warnings)
	}
}

// live is a simulated deployment "qwen" of three servers behind a vLLM router in namespace "life", in
// the API server, with the exporter over it.
type live struct {
	c     *cluster.Cluster
	fleet *simulate.Fleet
	e     *cluster.Exporter
}

func startLive(t *testing.T, args ...string) live {
	t.Helper()
	c := cluster.Start(t)
	c.InstallCRD(t)
	l := live{c: c, fleet: cluster.StartFleet(t, lifeDeployment("qwen"))}
	c.Load(t, cluster.Manifests(t, l.fleet.Manifests()))
	if len(args) > 0 {
		l.e = cluster.StartExporter(t, args...)
	} else {
		l.e = c.InstallExporter(t)
	}
	l.e.WaitReady(t, ready)
	return l
}

func lifeDeployment(name string) simulate.Deployment {
	return simulate.Deployment{
		Namespace: "life", Name: name, Model: "Qwen/Qwen3-8B", Engine: simulate.VLLM, Router: simulate.VLLMRouter,
		Roles: []simulate.Role{{Name: "server", Replicas: 3}},
		Load:  simulate.Load{RequestsPerSecond: 30, PromptTokens: 300, OutputTokens: 20, PrefixShare: 0.3, ErrorRate: 0.05, StreamingShare: 0.9, Seed: 5},
	}
}

// ofKind are the fleet's manifests of a kind.
func (l live) ofKind(t *testing.T, kind string) []*unstructured.Unstructured {
	t.Helper()
	var found []*unstructured.Unstructured
	for _, o := range cluster.Manifests(t, l.fleet.Manifests()) {
		if o.GetKind() == kind {
			found = append(found, o)
		}
	}
	return found
}

// TestGoneIsGone deletes Pods and a deployment under the eyes of Prometheus.
func TestGoneIsGone(t *testing.T) {
	l := startLive(t)
	p := cluster.StartPrometheus(t, nil, cluster.StaticJob("md-exporter", true, l.e.Address))
	expectValue(t, p, `count(modeldeployment_window_seconds{pod="qwen-server-1",source="vllm:time_to_first_token_seconds"})`, 1)

	// stale waits until the selector finds nothing. A sample that is not marked stale is found for five
	// minutes.
	stale := func(t *testing.T, selector string, since time.Time) {
		t.Helper()
		cluster.Eventually(t, settled, selector+" is gone", func(ctx context.Context) error {
			vector, err := p.QueryAt(ctx, selector, time.Time{})
			if err == nil && len(vector) > 0 {
				err = fmt.Errorf("%d samples, such as %v", len(vector), vector[0])
			}
			return err
		})
		took := time.Since(since).Round(10 * time.Millisecond)
		t.Logf("%s: gone from Prometheus in %s", selector, took)
		if took > 4*time.Second {
			t.Errorf("%s was found for %s", selector, took)
		}
	}
	t.Run("a Pod", func(t *testing.T) {
		l.c.DeletePod(t, "life", "qwen-server-1")
		deleted := time.Now()
		cluster.Eventually(t, 2*time.Second, "the exporter has no series of the Pod", func(context.Context) error {
			for line := range strings.Lines(metrics(t, l.e)) {
				if strings.Contains(line, `pod="qwen-server-1"`) {
					return fmt.Errorf("%s", line)
				}
			}
			return nil
		})
		stale(t, `{__name__=~"modeldeployment_.*",pod="qwen-server-1"}`, deleted)
		expectValue(t, p, `modeldeployment_owned_pods{scope="engine"}`, 2)
		expectValue(t, p, `modeldeployment_missing_info{source="engine/server",reason="replicas_missing"}`, 1)
	})
	t.Run("a Pod that ends", func(t *testing.T) {
		l.c.SetPodStatus(t, "life", "qwen-server-2", "", corev1.PodFailed)
		stale(t, `{__name__=~"modeldeployment_.*",pod="qwen-server-2"}`, time.Now())
	})
	t.Run("the deployment", func(t *testing.T) {
		l.c.DeleteModelDeployment(t, "life", "qwen")
		deleted := time.Now()
		expectLines(t, l.e, 0, "modeldeployment_info")
		stale(t, `{__name__=~"modeldeployment_.*"}`, deleted)
		if status, _ := l.e.Get(t, "/probe?target=life/qwen"); status != http.StatusNotFound {
			t.Errorf("/probe of the deleted deployment is %d", status)
		}
	})
}

// TestRecreated makes a deployment and its Pods anew under the same names, at the same addresses, in
// processes whose counters go on: nothing may be told from the reads of the ones before.
func TestRecreated(t *testing.T) {
	for name, recreate := range map[string]func(*testing.T, live){
		"the deployment and its Pods": func(t *testing.T, l live) {
			for _, pod := range l.ofKind(t, "Pod") {
				l.c.DeletePod(t, "life", pod.GetName())
			}
			l.c.DeleteModelDeployment(t, "life", "qwen")
			for _, kind := range []string{"deployments", "replicasets"} {
				l.c.Kubectl(t, "delete", kind, "--all", "--namespace=life")
			}
			l.c.Load(t, cluster.Manifests(t, l.fleet.Manifests()))
		},
		"the Pods": func(t *testing.T, l live) {
			md, err := l.c.Dynamic.Resource(cluster.ModelDeployments).Namespace("life").Get(t.Context(), "qwen", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, pod := range l.ofKind(t, "Pod") {
				if pod.GetLabels()[cluster.LabelComponent] == "" {
					continue
				}
				l.c.DeletePod(t, "life", pod.GetName())
				pod.SetOwnerReferences([]metav1.OwnerReference{cluster.ControlledByModelDeployment(md)})
				l.c.Load(t, []*unstructured.Unstructured{pod})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := startLive(t)
			const pod, ttft = `pod="qwen-server-0"`, `source="vllm:time_to_first_token_seconds"`
			expectLines(t, l.e, 1, "modeldeployment_window_seconds", pod, ttft)
			before := time.Now()
			recreate(t, l)

			// The first scrape in which the new Pod is read: by its time, as the old one may be served until
			// the watch has told of the new.
			for range 200 {
				body := metrics(t, l.e)
				if len(lines(body, "modeldeployment_missing_info", pod, ttft, `reason="first_sample"`)) == 1 {
					if windows := lines(body, "modeldeployment_window_seconds", pod); len(windows) > 0 {
						t.Errorf("windows at the first read: %q", windows)
					}
					since := time.Now()
					expectLines(t, l.e, 1, "modeldeployment_window_seconds", pod, ttft)
					var length float64
					for _, line := range lines(metrics(t, l.e), "modeldeployment_window_seconds", pod, ttft) {
						if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &length); err != nil {
							t.Fatal(err)
						}
					}
					if limit := time.Since(since) + 2*time.Second; length > limit.Seconds() || length <= 0 {
						t.Errorf("a window of %v s, %s after the first read", length, time.Since(since))
					}
					return
				}
				if time.Since(before) > settled {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			t.Error("no scrape says first_sample of the new Pod")
		})
	}
}

// TestScaling scales a deployment up and down while Prometheus scrapes.
func TestScaling(t *testing.T) {
	l := startLive(t)
	p := cluster.StartPrometheus(t, nil, cluster.StaticJob("md-exporter", true, l.e.Address))
	expectValue(t, p, `modeldeployment_read_pods{scope="engine"}`, 3)
	began := time.Now()

	models := l.c.Dynamic.Resource(cluster.ModelDeployments).Namespace("life")
	scale := func(replicas int64) {
		md, err := models.Get(t.Context(), "qwen", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		roles := []any{map[string]any{"name": "server", "kind": "server", "replicas": replicas}}
		if err := unstructured.SetNestedSlice(md.Object, roles, "spec", "roles"); err != nil {
			t.Fatal(err)
		}
		if _, err := models.Update(t.Context(), md, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pods := func(n float64) {
		t.Helper()
		for _, series := range []string{"expected", "owned", "read"} {
			expectValue(t, p, `modeldeployment_`+series+`_pods{scope="engine",role="server"}`, n)
		}
		expectValue(t, p, `modeldeployment_source_pods{source="vllm:num_requests_running"}`, n)
		expectValue(t, p, `absent(modeldeployment_missing_info{source=~"engine/server|scrape"})`, 1)
	}
	scale(1)
	l.c.DeletePod(t, "life", "qwen-server-2")
	l.c.DeletePod(t, "life", "qwen-server-1")
	pods(1)
	scale(3)
	expectValue(t, p, `modeldeployment_missing_info{source="engine/server",reason="replicas_missing"}`, 1)
	md, err := models.Get(t.Context(), "qwen", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range l.ofKind(t, "Pod") {
		if name := pod.GetName(); name == "qwen-server-1" || name == "qwen-server-2" {
			pod.SetOwnerReferences([]metav1.OwnerReference{cluster.ControlledByModelDeployment(md)})
			l.c.Load(t, []*unstructured.Unstructured{pod})
		}
	}
	pods(3)

	// Nothing of it cost another series a sample.
	for _, selector := range []string{`up{job="md-exporter"}`, `modeldeployment_up`, `modeldeployment_running_requests`, `modeldeployment_pod_read_timestamp_seconds{pod="qwen-server-0"}`} {
		matrix := p.Range(t, selector, began, time.Now(), time.Second)
		if len(matrix) != 1 {
			t.Errorf("%s: %d series", selector, len(matrix))
			continue
		}
		if got, want := len(matrix[0].Values), int(time.Since(began)/time.Second); got < want-1 {
			t.Errorf("%s: %d values over %d seconds", selector, got, want)
		}
	}
	expectValue(t, p, fmt.Sprintf(`min_over_time(modeldeployment_up[%ds])`, int(time.Since(began).Seconds())), 1)
}

// TestAPIServerAway takes the API server away and brings it back, with its data and without.
func TestAPIServerAway(t *testing.T) {
	c := cluster.Start(t)
	c.InstallCRD(t)
	l := live{c: c, fleet: cluster.StartFleet(t, lifeDeployment("qwen"))}
	c.Load(t, cluster.Manifests(t, l.fleet.Manifests()))
	// The administrator's token outlives the storage, as no ServiceAccount's does.
	l.e = cluster.StartExporter(t, "--kubeconfig="+c.Kubeconfig)
	l.e.WaitReady(t, ready)
	p := cluster.StartPrometheus(t, nil, cluster.StaticJob("md-exporter", true, l.e.Address))
	expectValue(t, p, `modeldeployment_read_pods{scope="engine"}`, 3)
	began := time.Now()

	away := func(t *testing.T, read float64, stop, start func()) {
		t.Helper()
		warned := len(logged(t, l.e, "WARN"))
		stop()
		expectServed(t, l.e, "*")
		stopped := time.Now()
		expectValue(t, p, fmt.Sprintf(`count(modeldeployment_pod_read_timestamp_seconds > %d)`, stopped.Add(5*time.Second).Unix()), read)
		if status, _ := l.e.Get(t, "/-/ready"); status != http.StatusOK {
			t.Errorf("/-/ready is %d while the API server is away", status)
		}
		if warnings := logged(t, l.e, "WARN")[warned:]; len(warnings) != 4 {
			t.Errorf("warnings %q, want one a resource", warnings)
		}
		start()
		started := time.Now()
		expectServed(t, l.e, "")
		t.Logf("caught up %s after the API server was back", time.Since(started).Round(10*time.Millisecond))
	}
	change := func(t *testing.T, pods float64) {
		t.Helper()
		expectValue(t, p, `modeldeployment_owned_pods{scope="engine"}`, pods)
	}
	t.Run("stopped and back", func(t *testing.T) {
		away(t, 4, func() { c.API.Stop(t) }, func() { c.API.Start(t) })
		c.DeletePod(t, "life", "qwen-server-2")
		change(t, 2)
	})
	t.Run("killed and back", func(t *testing.T) {
		away(t, 3, c.API.Kill, func() { c.API.Start(t) })
		c.DeletePod(t, "life", "qwen-server-1")
		change(t, 1)
	})
	t.Run("restarted with its data", func(t *testing.T) {
		c.Restart(t)
		expectServed(t, l.e, "")
		c.SetPodStatus(t, "life", "qwen-server-0", "127.0.0.99", corev1.PodRunning)
		expectValue(t, p, `count(modeldeployment_missing_info{pod="qwen-server-0",reason="connection_failed"})`, 1)
	})
	// Until here no scrape lacked the deployment.
	expectValue(t, p, fmt.Sprintf(`min_over_time(up{job="md-exporter"}[%ds])`, int(time.Since(began).Seconds())), 1)
	matrix := p.Range(t, `modeldeployment_info`, began, time.Now(), time.Second)
	if len(matrix) != 1 || len(matrix[0].Values) < int(time.Since(began)/time.Second)-1 {
		t.Errorf("gaps in modeldeployment_info over %s: %v", time.Since(began), matrix)
	}

	t.Run("restarted without its data", func(t *testing.T) {
		// The old world's resource versions are far beyond those that the new one will have.
		for i := range 400 {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("filler-%d", i)}}
			if _, err := c.Kube.CoreV1().ConfigMaps("default").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		c.SetPodStatus(t, "life", "qwen-server-0", "127.0.0.98", corev1.PodRunning)
		old := resourceVersion(t, c)
		c.RestartEmpty(t)
		c.InstallCRD(t)
		restarted := time.Now()
		next := cluster.StartFleet(t, lifeDeployment("llama"))
		c.Load(t, cluster.Manifests(t, next.Manifests()))
		if now := resourceVersion(t, c); now >= old {
			t.Fatalf("resource version %d is not below the old world's %d", now, old)
		}
		expectValue(t, p, `modeldeployment_read_pods{modeldeployment="llama",scope="engine"}`, 3)
		expectValue(t, p, `absent(modeldeployment_info{modeldeployment="qwen"})`, 1)
		expectServed(t, l.e, "")
		t.Logf("in the new world %s after it was there", time.Since(restarted).Round(10*time.Millisecond))
		c.DeletePod(t, "life", "llama-server-0")
		expectValue(t, p, `modeldeployment_owned_pods{modeldeployment="llama",scope="engine"}`, 2)
	})
}

// resourceVersion is the present one of the API server's storage.
func resourceVersion(t *testing.T, c *cluster.Cluster) (version int) {
	t.Helper()
	list, err := c.Kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(list.ResourceVersion, &version); err != nil {
		t.Fatal(err)
	}
	return version
}
