package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/md-exporter/md-exporter/test/e2e/servers"
)

// answerTimeout bounds one request to the exporter.
const answerTimeout = 30 * time.Second

// Exporter is the exporter as a process.
type Exporter struct {
	*Process
	// Address is its host and port.
	Address string
}

// exporterBinary builds the exporter, as the image has it, once a test process.
var exporterBinary = sync.OnceValues(func() (string, error) {
	root, err := servers.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, ".cache", "bin", "md-exporter")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-race=false", "-tags=slim", "-o", path, "./cmd/md-exporter")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the exporter: %w\n%s", err, out)
	}
	return path, nil
})

// StartExporter starts the exporter, built from this repository, with the arguments and a listen
// address of its own. It does not wait: see WaitReady.
func StartExporter(t testing.TB, args ...string) *Exporter {
	t.Helper()
	path, err := exporterBinary()
	if err != nil {
		t.Fatal(err)
	}
	return startExporter(t, command{path: path, args: args})
}

func startExporter(t testing.TB, c command) *Exporter {
	t.Helper()
	address := loopback(FreePort(t))
	c.name, c.log = "md-exporter", logFile(t, "md-exporter")
	c.args = append(c.args, "--web.listen-address="+address)
	return &Exporter{Process: start(t, c), Address: address}
}

// WaitReady waits until /-/ready answers 200, and fails the test at once if the exporter ends before.
func (e *Exporter) WaitReady(t testing.TB, within time.Duration) {
	t.Helper()
	e.waitReady(t, within, func(ctx context.Context) error {
		return get(ctx, http.DefaultClient, e.URL("/-/ready"))
	})
}

// URL is the address of a path.
func (e *Exporter) URL(path string) string { return "http://" + e.Address + path }

// Get asks for a path and returns the status and the body.
func (e *Exporter) Get(t testing.TB, path string) (status int, body string) {
	t.Helper()
	status, body, err := e.get(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

// Scrape reads /metrics, or another path of the exporter, as Prometheus's text format.
func (e *Exporter) Scrape(t testing.TB, path string) map[string]*dto.MetricFamily {
	t.Helper()
	status, body := e.Get(t, path)
	if status != http.StatusOK {
		t.Fatalf("%s: status %d: %s", path, status, body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return families
}

func (e *Exporter) get(ctx context.Context, path string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL(path), nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// Memory is a process's resident set, in bytes.
type Memory struct {
	// Now is the present size, Peak the largest since the start.
	Now, Peak int64
}

// Memory reads the process's resident set from the kernel.
func (p *Process) Memory(t testing.TB) Memory {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		t.Fatal(err)
	}
	var m Memory
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		switch {
		case fields[0] == "VmRSS:" && err == nil:
			m.Now = kib << 10
		case fields[0] == "VmHWM:" && err == nil:
			m.Peak = kib << 10
		}
	}
	if m.Now == 0 || m.Peak == 0 {
		t.Fatalf("no resident set of %s in:\n%s", p.Name, content)
	}
	return m
}
