package collector

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
)

// apart is the time between the two reads of a golden exposition.
const apart = 30 * time.Second

// stages serves bodies, one a stage; next is the stage that every server of the test is in.
type stages struct{ now atomic.Int64 }

func (s *stages) serve(t testing.TB, bodies ...string) string {
	t.Helper()
	return endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		// A connection that is kept would keep the test's time from passing.
		w.Header().Set("Connection", "close")
		textBody(bodies[s.now.Load()])(w, r)
	})
}

// files serves testdata/FOLDER/POD.first.prom and then POD.second.prom.
func (s *stages) files(t testing.TB, folder, pod string) string {
	t.Helper()
	var bodies []string
	for _, stage := range []string{"first", "second"} {
		body, err := os.ReadFile(filepath.Join("testdata", folder, pod+"."+stage+".prom"))
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, string(body))
	}
	return s.serve(t, bodies...)
}

// bubble runs the test with a time of its own, that of 2000-01-01T00:00:00Z, which stands still while
// Pods are read. The servers are outside.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// The whole exposition of a deployment of each kind, at the second of two reads thirty seconds apart.
func TestGolden(t *testing.T) {
	pair := func(engine, router string) *discovery.Deployment {
		return &discovery.Deployment{Deployment: normalize.Deployment{
			Namespace: "ns", UID: "uid", Engine: engine, KVCache: true,
			Roles: []normalize.Role{
				{Name: "prefill", Kind: normalize.RolePrefill, Managed: true, Expected: 1},
				{Name: "decode", Kind: normalize.RoleDecode, Managed: true, Expected: 1},
			},
			Router: &normalize.Router{Name: router, Expected: 1},
		}}
	}
	connector := []string{"--kv-transfer-config", `{"kv_connector":"MultiConnector"}`}
	for name, build := range map[string]func(t *testing.T, s *stages) *discovery.Deployment{
		"vllm": func(t *testing.T, s *stages) *discovery.Deployment {
			d := vllmServing("", serverPod("server-0", s.files(t, "vllm", "server-0")), serverPod("server-1", s.files(t, "vllm", "server-1")))
			d.Router = &normalize.Router{Name: "vllm-router", Expected: 1}
			d.Pods = append([]discovery.Pod{routerPod("router-0", s.files(t, "vllm", "router-0"))}, d.Pods...)
			return d
		},
		"sglang-pair": func(t *testing.T, s *stages) *discovery.Deployment {
			d := pair("sglang", "sglang-gateway")
			d.Pods = []discovery.Pod{
				routerPod("router-0", s.files(t, "sglang-pair", "router-0")),
				enginePod("decode", "decode-0", s.files(t, "sglang-pair", "decode-0")),
				enginePod("prefill", "prefill-0", s.files(t, "sglang-pair", "prefill-0"),
					"--enable-hierarchical-cache", "--hicache-storage-backend", "mooncake"),
			}
			return d
		},
		"vllm-pair": func(t *testing.T, s *stages) *discovery.Deployment {
			d := pair("vllm", "llm-d-router")
			d.Pods = []discovery.Pod{
				routerPod("router-0", s.files(t, "vllm-pair", "router-0")),
				enginePod("decode", "decode-0", s.files(t, "vllm-pair", "decode-0"), connector...),
				enginePod("prefill", "prefill-0", s.files(t, "vllm-pair", "prefill-0"), connector...),
			}
			return d
		},
		"unavailable": func(t *testing.T, s *stages) *discovery.Deployment {
			d := pair("sglang", "sglang-gateway")
			d.Pods = []discovery.Pod{
				enginePod("decode", "decode-0", s.serve(t, "<html>Bad gateway</html>", "<html>Bad gateway</html>")),
				enginePod("prefill", "prefill-0", ""),
			}
			return d
		},
		"empty": func(*testing.T, *stages) *discovery.Deployment {
			d := vllmServing("")
			d.Roles[0].Managed = false
			return d
		},
	} {
		for by, gather := range map[string]func(*testing.T, *exporter, *discovery.Deployment) prometheus.Gatherer{
			"a registry": func(t *testing.T, e *exporter, d *discovery.Deployment) prometheus.Gatherer {
				registry := prometheus.NewPedanticRegistry()
				registry.MustRegister(NewCollector(t.Context(), e.reader, []*discovery.Deployment{d}))
				return registry
			},
			"a request": func(t *testing.T, e *exporter, _ *discovery.Deployment) prometheus.Gatherer {
				return prometheus.Gatherers{prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
					return slices.Collect(maps.Values(e.scrape(t, "/probe?target=ns/"+name))), nil
				})}
			},
		} {
			t.Run(name+" through "+by, func(t *testing.T) {
				var s stages
				d := build(t, &s)
				d.Name = name
				bubble(t, func(t *testing.T) {
					e := newExporter(t, settings{}, d)
					first, err := testutil.GatherAndCount(gather(t, e, d))
					if err != nil || first == 0 {
						t.Fatalf("first read: %d series, %v", first, err)
					}
					s.now.Store(1)
					time.Sleep(apart)
					want, err := os.Open(filepath.Join("testdata", name, "want.prom"))
					if err != nil {
						t.Fatal(err)
					}
					defer want.Close()
					if err := testutil.GatherAndCompare(gather(t, e, d), want); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// A label value that cannot be in an exposition costs itself, not the scrape.
func TestInvalidSeries(t *testing.T) {
	d := vllmServing("broken", serverPod("a", endpoint(t, busy())), serverPod("\xff", endpoint(t, busy())))
	e := newExporter(t, settings{}, d)
	got := e.scrape(t, "/metrics")
	if n := len(got.find("modeldeployment_pod_read_timestamp_seconds", "pod", "a")); n != 1 {
		t.Errorf("the healthy Pod has %d timestamps", n)
	}
	if v := got.value(t, "modeldeployment_read_pods"); v != 2 {
		t.Errorf("%v Pods read, want both", v)
	}
	if n := len(got.find("modeldeployment_pod_read_timestamp_seconds", "pod", "\uFFFD")); n != 1 {
		t.Errorf("the Pod whose name is no text has %d timestamps", n)
	}
	if got["md_exporter_fetches_total"] == nil {
		t.Error("the exporter's own series are lost")
	}
}

// Two scrapers do not shorten each other's windows, and none sees a window of zero.
func TestScrapersShareBaselines(t *testing.T) {
	var s stages
	bodies := make([]string, 8)
	for i := range bodies {
		bodies[i] = vllmBody(i + 1)
	}
	url := s.serve(t, bodies...)
	bubble(t, func(t *testing.T) {
		d := vllmServing("m", serverPod("a", url))
		e := newExporter(t, settings{ReaderConfig: ReaderConfig{Window: normalize.WindowConfig{Min: 10 * time.Second}}}, d)
		windows := []string{}
		for i := range bodies {
			s.now.Store(int64(i))
			target := "/metrics"
			if i%2 == 1 {
				target = "/probe?target=ns/m"
			}
			got := e.scrape(t, target)
			window := "none"
			if found := got.find("modeldeployment_window_seconds", "source", "vllm:time_to_first_token_seconds"); len(found) == 1 {
				window = fmt.Sprint(valueOf(found[0]))
			}
			windows = append(windows, window)
			// The probe comes a second after the scrape, the next scrape fourteen after that.
			if i%2 == 0 {
				time.Sleep(time.Second)
			} else {
				time.Sleep(14 * time.Second)
			}
		}
		if got, want := strings.Join(windows, " "), "none 1 14 15 14 15 14 15"; got != want {
			t.Errorf("windows are %s, want %s", got, want)
		}
	})
}
