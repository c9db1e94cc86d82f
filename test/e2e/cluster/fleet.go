package cluster

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/md-exporter/md-exporter/simulate"
)

// fleetClose is how long answers under way have when a fleet ends.
const fleetClose = 2 * time.Second

var (
	fleetsMutex sync.Mutex
	// lastPod numbers the Pods' addresses over all fleets.
	lastPod int
)

// StartFleet starts simulated engines and routers that live in real time until the test ends. Each
// Pod has a loopback address of its own. The manifests of what was started are for Load.
func StartFleet(t testing.TB, deployments ...simulate.Deployment) *simulate.Fleet {
	t.Helper()
	fleet := StartStillFleet(t, deployments...)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { fleet.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return fleet
}

// StartStillFleet is StartFleet for a fleet in which time passes only by its Advance.
func StartStillFleet(t testing.TB, deployments ...simulate.Deployment) *simulate.Fleet {
	t.Helper()
	fleetsMutex.Lock()
	defer fleetsMutex.Unlock()
	fleet, err := simulate.NewFleet(simulate.Options{
		Start: time.Now(),
		Now:   time.Now,
		// Addresses are given one after the other, when the fleet starts.
		Address: func(string, string) string {
			lastPod++
			return fmt.Sprintf("127.1.%d.%d:0", lastPod/250%250, lastPod%250+1)
		},
	}, deployments...)
	if err != nil {
		t.Fatal(err)
	}
	if err := fleet.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		grace, end := context.WithTimeout(context.Background(), fleetClose)
		defer end()
		if err := fleet.Close(grace); err != nil {
			t.Errorf("end the simulated fleet: %v", err)
		}
	})
	return fleet
}

// completeTemplate gives a Deployment or ReplicaSet without a Pod template the least that an API
// server accepts. The exporter reads of both their metadata alone, and so may manifests hold no more.
func completeTemplate(object *unstructured.Unstructured) error {
	if kind := object.GetKind(); kind != "Deployment" && kind != "ReplicaSet" {
		return nil
	}
	containers, _, err := unstructured.NestedFieldNoCopy(object.Object, "spec", "template", "spec", "containers")
	if err != nil || containers != nil {
		return err
	}
	labels, _, err := unstructured.NestedStringMap(object.Object, "spec", "selector", "matchLabels")
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedStringMap(object.Object, labels, "spec", "template", "metadata", "labels"); err != nil {
		return err
	}
	container := map[string]any{"name": "main", "image": "example.invalid/main"}
	return unstructured.SetNestedSlice(object.Object, []any{container}, "spec", "template", "spec", "containers")
}
