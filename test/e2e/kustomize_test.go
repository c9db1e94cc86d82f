package e2e

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/md-exporter/md-exporter/test/e2e/cluster"
	"github.com/md-exporter/md-exporter/test/e2e/servers"
)

// Every folder under deploy that has a kustomization renders.
func TestKustomizations(t *testing.T) {
	root, err := servers.Root()
	if err != nil {
		t.Fatal(err)
	}
	rendered := 0
	err = filepath.WalkDir(filepath.Join(root, "deploy"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "kustomization.yaml" {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		if objects := cluster.Render(t, folder); len(objects) == 0 {
			t.Errorf("%s renders nothing", folder)
		}
		rendered++
		return nil
	})
	if err != nil || rendered < 10 {
		t.Errorf("%d folders rendered, error %v", rendered, err)
	}
}

// The API server takes the dashboards' ConfigMaps; those of the other folders that it knows are tested beside
// what they install.
func TestDashboardsAreTaken(t *testing.T) {
	c := cluster.Start(t)
	c.CreateNamespace(t, "monitoring")
	manifests := cluster.Render(t, "deploy/dashboards")
	out := c.Apply(t, manifests, "--dry-run=server")
	if n := strings.Count(out, "(server dry run)"); n != len(manifests) || n == 0 {
		t.Errorf("%d of %d objects were accepted:\n%s", n, len(manifests), out)
	}
}
