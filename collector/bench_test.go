package collector

import (
	"fmt"
	"net/http"
	"testing"
	"time"

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

// Rendering 1,000 snapshots, each of two vLLM servers with every value, through a registry: what is read
// is there already.
func BenchmarkRender(b *testing.B) {
	var fleet []*discovery.Deployment
	for i := range 1000 {
		fleet = append(fleet, vllmServing(fmt.Sprintf("m%03d", i), serverPod("server-0", "http://127.0.0.1"), serverPod("server-1", "http://127.0.0.1")))
	}
	e := newExporter(b, settings{}, fleet...)
	at := time.Now()
	config := normalize.WindowConfig{MaxAge: time.Minute}
	for i, d := range fleet {
		f := e.reader.newFlight(d, at.Add(time.Hour)) // It stays one to share.
		for p := range d.Pods {
			pod := &d.Pods[p].Pod
			var history normalize.History
			for n := 1; n <= 2; n++ {
				values, err := normalize.TableOf(&d.Deployment, pod).Parse([]byte(vllmBody((i + 1) * n)))
				if err != nil {
					b.Fatal(err)
				}
				f.set(p, history.Observe(&d.Deployment, pod, values, at.Add(time.Duration(n)*time.Second), config))
			}
		}
		close(f.done)
		e.reader.flights[identity(d)] = &flights{newest: f}
	}
	b.ReportAllocs()
	for b.Loop() {
		families, err := e.gatherer(b, fleet).Gather()
		if err != nil || len(families) < 20 {
			b.Fatalf("%d families, %v", len(families), err)
		}
	}
}
