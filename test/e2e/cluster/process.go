package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/md-exporter/md-exporter/test/e2e/servers"
)

const (
	// stopGrace is how long a program has to end after SIGTERM before it is killed.
	stopGrace = 20 * time.Second
	// logTail is how much of a program's log a failed test shows.
	logTail = 4 << 10
	// pollInterval is the time between two looks at a condition.
	pollInterval = 50 * time.Millisecond
)

// Process is a program that was started for a test.
type Process struct {
	// Name is what the test calls it.
	Name string
	// Log is the file that holds its standard output and standard error.
	Log string

	pid  int
	done chan struct{}
	err  error // how it ended; valid once done is closed
}

// command is what to start.
type command struct {
	name string
	path string
	args []string
	env  []string // beside the test's own environment
	log  string
	// owner is the test with whose end the program ends, where that is not the one that starts it:
	// a subtest may restart its parent's server.
	owner testing.TB
}

// start starts a program that ends with the test, or with its owner.
func start(t testing.TB, c command) *Process {
	t.Helper()
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatalf("start %s: %v", c.name, err)
	}
	// No context ends it, but its owner's cleanup: a test's context ends before its cleanups run.
	cmd := exec.CommandContext(context.Background(), c.path, c.args...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	p := &Process{Name: c.name, Log: c.log, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel sends Pdeathsig when the thread that started the program ends, so that
		// thread waits for it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			err = cmd.Wait()
		}
		p.err = errors.Join(err, log.Close())
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", c.name, err)
	}
	owner := c.owner
	if owner == nil {
		owner = t
	}
	owner.Cleanup(func() {
		p.Kill()
		if owner.Failed() {
			owner.Logf("%s", p.tail())
		}
	})
	return p
}

// PID is the program's process id.
func (p *Process) PID() int { return p.pid }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether the program has ended, and how: nil is exit status 0.
func (p *Process) Ended() (bool, error) {
	select {
	case <-p.done:
		return true, p.err
	default:
		return false, nil
	}
}

// Stop asks the program to end with SIGTERM and says how it did: nil is exit status 0. One that does
// not end in time is killed.
func (p *Process) Stop() error {
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.err
	case <-timer.C:
		p.Kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM", p.Name, stopGrace)
	}
}

// Kill ends the program and its children at once and waits until it is gone.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// Output is all that the program has written until now.
func (p *Process) Output(t testing.TB) string {
	t.Helper()
	content, err := os.ReadFile(p.Log)
	if err != nil {
		t.Fatalf("log of %s: %v", p.Name, err)
	}
	return string(content)
}

// signal sends a signal to the program's group unless it has ended: its id may then be another's.
func (p *Process) signal(s syscall.Signal) {
	if ended, _ := p.Ended(); !ended {
		_ = syscall.Kill(-p.pid, s)
	}
}

// tail is the end of the program's log under a line that names it.
func (p *Process) tail() string {
	content, err := os.ReadFile(p.Log)
	if err != nil {
		return fmt.Sprintf("log of %s: %v", p.Name, err)
	}
	if len(content) > logTail {
		content = content[len(content)-logTail:]
		content = content[bytes.IndexByte(content, '\n')+1:]
	}
	return fmt.Sprintf("end of %s:\n%s", p.Log, content)
}

// waitReady waits until check succeeds, and fails the test at once if the program ends before.
func (p *Process) waitReady(t testing.TB, within time.Duration, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	err := poll(ctx, func(ctx context.Context) error {
		if ended, err := p.Ended(); ended {
			return final{fmt.Errorf("it ended: %w", errors.Join(err, errEnded))}
		}
		return check(ctx)
	})
	if err != nil {
		t.Fatalf("%s was not ready within %s: %v\n%s", p.Name, within, err, p.tail())
	}
}

// errEnded tells a program that ended from one that did not answer.
var errEnded = errors.New("the process is gone")

// final is an error that no further look can mend.
type final struct{ error }

// Eventually waits until check succeeds, and fails the test with its last error when that takes
// longer than within.
func Eventually(t testing.TB, within time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := poll(ctx, check); err != nil {
		t.Fatalf("%s: not within %s: %v", what, within, err)
	}
}

// poll calls check until it succeeds or ctx ends, and returns the last error that check itself gave.
func poll(ctx context.Context, check func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if stop := (final{}); errors.As(err, &stop) {
			return err
		}
		// A check that the deadline cut says less than the one before it.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-ticker.C:
		}
	}
}

// binaries builds the servers once a test process.
var binaries = sync.OnceValues(func() (map[servers.Name]string, error) {
	return servers.Build(context.Background(), os.Stderr)
})

// binary is the path of a built server.
func binary(t testing.TB, name servers.Name) string {
	t.Helper()
	paths, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	return paths[name]
}

var (
	logsMutex sync.Mutex
	logsTaken = map[string]bool{}
)

// logFile is an empty file for the log of a program of this test; the last run's is overwritten.
func logFile(t testing.TB, name string) string {
	t.Helper()
	root, err := servers.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, ".cache", "e2e", strings.ReplaceAll(t.Name(), "/", "_"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	logsMutex.Lock()
	defer logsMutex.Unlock()
	path := filepath.Join(dir, name+".log")
	for n := 2; logsTaken[path]; n++ {
		path = filepath.Join(dir, fmt.Sprintf("%s-%d.log", name, n))
	}
	logsTaken[path] = true
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
