package collector

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
	"github.com/md-exporter/md-exporter/simulate"
)

// One scrape of 50 deployments of four Pods each over loopback, from the request to the last byte of the
// answer. The servers, in the same process, answer with a body of a well-known size at no cost of
// their own.
func BenchmarkScrape(b *testing.B) {
	for _, specimen := range simulate.Specimens() {
		if specimen.Engine == "" {
			continue
		}
		b.Run(fmt.Sprintf("%s/%dKB", specimen.Engine, len(specimen.Body)>>10), func(b *testing.B) {
			serve := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(specimen.Body) }
			var fleet []*discovery.Deployment
			for i := range 50 {
				var pods []discovery.Pod
				for p := range 4 {
					pods = append(pods, serverPod(fmt.Sprintf("m%02d-server-%d", i, p), endpoint(b, serve)))
				}
				d := vllmServing(fmt.Sprintf("m%02d", i), pods...)
				d.Engine = specimen.Engine
				fleet = append(fleet, d)
			}
			e := newExporter(b, settings{}, fleet...)
			if got := e.scrape(b, "/metrics"); len(got.find("modeldeployment_pod_read_timestamp_seconds")) != 200 {
				b.Fatal("not every Pod is read")
			}
			b.SetBytes(int64(200 * len(specimen.Body)))
			b.ReportAllocs()
			for b.Loop() {
				if w := e.ask(b, "/metrics"); w.Code != http.StatusOK {
					b.Fatal(w.Code)
				}
			}
		})
	}
}

// rendered collects snapshots that are there already.
type rendered []normalize.Snapshot

func (rendered) Describe(descs chan<- *prometheus.Desc) { (&Collector{}).Describe(descs) }

func (r rendered) Collect(metrics chan<- prometheus.Metric) {
	for i := range r {
		render(&r[i], func(s *Series, value float64, labels ...string) {
			metrics <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, value, labels...)
		})
	}
}

// Rendering 1,000 snapshots, each of two vLLM servers with every value, through a registry of its own.
func BenchmarkRender(b *testing.B) {
	snapshots := make(rendered, 1000)
	var histories [2]normalize.History
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range snapshots {
		d := vllmServing(fmt.Sprintf("m%03d", i), serverPod("server-0", ""), serverPod("server-1", ""))
		c := normalize.Collection{Deployment: &d.Deployment, At: at, Started: at}
		for p := range d.Pods {
			pod := &d.Pods[p].Pod
			values, err := normalize.TableOf(&d.Deployment, pod).Parse([]byte(vllmBody(i + 1)))
			if err != nil {
				b.Fatal(err)
			}
			c.Owned = append(c.Owned, pod)
			c.Results = append(c.Results, histories[p].Observe(&d.Deployment, pod, values, at.Add(time.Duration(i)*time.Second),
				normalize.WindowConfig{MaxAge: time.Minute}))
		}
		snapshots[i] = c.Snapshot()
	}
	b.ReportAllocs()
	for b.Loop() {
		registry := prometheus.NewRegistry()
		registry.MustRegister(snapshots)
		families, err := registry.Gather()
		if err != nil || len(families) < 20 {
			b.Fatalf("%d families, %v", len(families), err)
		}
	}
}
