package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// These tests run the command as a process, built as it is shipped but for the race detector, which is
// on where it is on in the tests.

// patience is how long a process may take for what is done at once on an idle machine.
const patience = time.Minute

var (
	buildFlags = []string{"-ldflags", "-X github.com/prometheus/common/version.Version=v1.2.3-test"}
	binary     string
)

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	folder, err := os.MkdirTemp("", "md-exporter-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	binary = filepath.Join(folder, "md-exporter")
	build := exec.Command("go", append(append([]string{"build", "-o", binary}, buildFlags...), ".")...)
	if output, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s\n", err, output)
		return 1
	}
	return m.Run()
}

// outcome is how a process ended.
type outcome struct {
	status         int
	stdout, stderr string
}

// runToEnd runs the command until it ends by itself.
func runToEnd(t *testing.T, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%q did not end within %v: %s", args, patience, stderr.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// process is one that serves.
type process struct {
	cmd    *exec.Cmd
	url    string
	stdout *output
	stderr *output
	ended  chan struct{}
}

// output keeps what a process writes, and tells of every write.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.written <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var listening = regexp.MustCompile(`msg="Listening on" address=(\S+)`)

// startProcess starts the command on a free port and returns when it listens. It is killed when the
// test ends and it has not.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{
		cmd:    exec.Command(binary, append(args, "--web.listen-address=127.0.0.1:0")...),
		stdout: &output{written: make(chan struct{}, 1)},
		stderr: &output{written: make(chan struct{}, 1)},
		ended:  make(chan struct{}),
	}
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	// What it leaves behind is found there.
	p.cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // The state says how it ended.
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // It fails where the process has ended.
		<-p.ended
	})
	deadline := time.After(patience)
	for {
		if m := listening.FindStringSubmatch(p.stderr.String()); m != nil {
			p.url = "http://" + m[1]
			return p
		}
		select {
		case <-p.stderr.written:
		case <-p.ended:
			t.Fatalf("%q ended: %s", args, p.stderr)
		case <-deadline:
			t.Fatalf("%q did not listen within %v: %s", args, patience, p.stderr)
		}
	}
}

// terminate sends SIGTERM.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// status waits for the end.
func (p *process) status(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("the process did not end within %v: %s", patience, p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// get answers one request with status 200.
func (p *process) get(t *testing.T, path string) string {
	t.Helper()
	body, err := p.ask(path)
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, p.stderr)
	}
	return body
}

func (p *process) ask(path string) (string, error) {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(p.url + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", response.StatusCode, body)
	}
	return string(body), err
}

// write makes a file of the test.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// series are the lines of an exposition that start with the prefix and have all the parts.
func series(body, prefix string, parts ...string) []string {
	var found []string
next:
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue next
			}
		}
		found = append(found, strings.TrimSpace(line))
	}
	return found
}
