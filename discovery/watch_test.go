package discovery

import (
	"net/http"
	"testing"
	"time"
)

func TestClusterForbidden(t *testing.T) {
	for _, resource := range []string{"modeldeployments", "pods", "replicasets", "deployments"} {
		t.Run(resource, func(t *testing.T) {
			both(t, nil, func(s *apiServer) {
				s.apply(all...)
				s.set(http.StatusForbidden, "list "+resource, "watch "+resource)
			}, func(d *discoverer) {
				time.Sleep(time.Minute)
				full := resource + map[string]string{"modeldeployments": ".worker.gpustack.ai", "pods": ""}[resource]
				if resource == "replicasets" || resource == "deployments" {
					full = resource + ".apps"
				}
				d.expectSynced("forbidden", false)
				d.expectServed("forbidden", full)
				d.expectLog("forbidden", "ERROR", 1, "forbids to ", full, "verb=", "resource="+full, "deploy/exporter")
				d.server.set(0, "list "+resource, "watch "+resource)
				time.Sleep(retried)
				d.expectSynced("granted", true)
				d.expectServed("granted")
				d.expect("granted", whole)
				d.expectLog("granted", "INFO", 1, "resource="+full, "was=forbidden")
				d.expectLog("granted", "", 2)
			})
		})
	}
	t.Run("watch alone", func(t *testing.T) {
		both(t, nil, func(s *apiServer) {
			s.apply(all...)
			s.set(http.StatusForbidden, "watch pods")
		}, func(d *discoverer) {
			time.Sleep(time.Minute)
			d.expectSynced("listed", true)
			d.expectServed("not watched", "pods")
			d.expectLog("not watched", "", 1, "level=ERROR", "verb=watch", "resource=pods")
			d.server.remove("pods/ai/chat-server-0")
			time.Sleep(retried)
			d.expect("listed again and again", "ai/chat vllm 6a1f: router chat-router-59-k2 http://10.0.0.9:29000/metrics")
			d.server.set(0, "watch pods")
			time.Sleep(retried)
			d.expectServed("granted")
			d.server.apply(enginePodYAML)
			d.expect("watched", whole)
			d.expectLog("granted", "", 2)
		})
	})
	t.Run("list alone, where watches stream it", func(t *testing.T) {
		inCluster(t, true, nil, func(s *apiServer) {
			s.apply(all...)
			s.set(http.StatusForbidden, "list pods")
		}, func(d *discoverer) {
			d.expectSynced("streamed", true)
			d.expect("streamed", whole)
			d.expectLog("streamed", "", 0)
		})
	})
	t.Run("later", func(t *testing.T) {
		both(t, nil, whole5, func(d *discoverer) {
			d.server.set(http.StatusForbidden, "list pods", "watch pods")
			time.Sleep(time.Minute)
			d.expect("what is known stands", whole)
			d.expectSynced("it was listed once", true)
			d.expectServed("no longer allowed", "pods")
			d.expectLog("no longer allowed", "", 1, "level=ERROR", "resource=pods")
		})
	})
}

func TestClusterNotServed(t *testing.T) {
	calls := []string{"list modeldeployments", "watch modeldeployments"}
	const resource = "modeldeployments.worker.gpustack.ai"
	both(t, nil, func(s *apiServer) {
		s.apply(all[1:]...)
		s.set(http.StatusNotFound, calls...)
	}, func(d *discoverer) {
		time.Sleep(time.Hour)
		d.expectSynced("no CRD", false)
		d.expectServed("no CRD", resource)
		d.expectLog("no CRD", "", 1, "level=WARN", "does not serve "+resource, "CustomResourceDefinition", "verb=")
		d.server.set(0, calls...)
		d.server.apply(deploymentYAML)
		time.Sleep(retried)
		d.expectSynced("installed", true)
		d.expectServed("installed")
		d.expect("installed", whole)
		d.expectLog("installed", "", 2)

		// A CRD's objects go first.
		d.server.remove("modeldeployments/ai/chat")
		d.expect("being removed", "")
		d.server.set(http.StatusNotFound, calls...)
		time.Sleep(time.Minute)
		d.expectServed("removed", resource)
		d.expectSynced("removed", true)
		d.expectLog("removed", "WARN", 2, "does not serve "+resource)
		d.server.apply(deploymentYAML)
		d.server.set(0, calls...)
		time.Sleep(retried)
		d.expectServed("installed again")
		d.expect("installed again", whole)
	})
}

func TestClusterAway(t *testing.T) {
	everything := []string{"deployments.apps", "modeldeployments.worker.gpustack.ai", "pods", "replicasets.apps"}
	both(t, nil, whole5, func(d *discoverer) {
		known := d.Fleet()
		d.server.setAway(true)
		time.Sleep(time.Hour)
		d.expect("away", whole)
		if d.Fleet() != known {
			d.t.Error("a fleet that stands is another one")
		}
		d.expectSynced("away", true)
		d.expectServed("away", everything...)
		d.expectLog("away", "", 4, "level=WARN", "cannot be asked", "verb=watch")
		d.server.setAway(false)
		time.Sleep(retried)
		d.expectServed("back")
		d.expect("back", whole)
		if d.Fleet() != known {
			d.t.Error("back with the same objects, the fleet is another one")
		}
		d.expectLog("back", "INFO", 4, "serves the resource again", "was=unreachable")
		d.server.remove("pods/ai/chat-server-0")
		d.expect("watched again", "ai/chat vllm 6a1f: router chat-router-59-k2 http://10.0.0.9:29000/metrics")

		// Back with an older world: other objects, and resource versions below those that are known.
		d.server.setAway(true)
		time.Sleep(time.Minute)
		d.server.wipe(3)
		d.server.apply(named(deploymentYAML, "ai", "code"), named(enginePodYAML, "ai", "code"))
		d.server.setAway(false)
		time.Sleep(retried)
		d.expectServed("an older world")
		d.expect("an older world", "ai/code vllm 6a1f: engine code-server-0 https://[fd00::7]:8000/metrics")
		d.server.remove("pods/ai/code-server-0")
		d.expect("watched in the older world", "ai/code vllm 6a1f:")
		d.expectLog("an older world", "WARN", 8)
		d.expectLog("an older world", "INFO", 8)
	})
	t.Run("from the start", func(t *testing.T) {
		inCluster(t, true, nil, func(s *apiServer) { s.apply(all...); s.setAway(true) }, func(d *discoverer) {
			time.Sleep(time.Minute)
			d.expectSynced("away", false)
			d.expectServed("away", everything...)
			d.server.setAway(false)
			time.Sleep(retried)
			d.expectSynced("there", true)
			d.expect("there", whole)
		})
	})
}
