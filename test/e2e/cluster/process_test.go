package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test program is also the programs that these tests start: programVariable says which.
const (
	programVariable = "E2E_TEST_PROGRAM"
	asServer        = programVariable + "=server"  // answers HTTP like the exporter, ends on SIGTERM
	asParent        = programVariable + "=parent"  // starts a child, writes its id, waits
	asFailure       = programVariable + "=failure" // writes a line and exits with status 3
	asOwner         = programVariable + "=owner"   // runs TestOwner to its end

	// idFile is where the owner writes the id of the program that it started.
	idFile = "E2E_TEST_ID_FILE"
)

func TestMain(m *testing.M) {
	switch program := os.Getenv(programVariable); program {
	case "server":
		os.Exit(runServer())
	case "parent":
		child := exec.Command("sleep", "600")
		if err := child.Start(); err != nil {
			panic(err)
		}
		fmt.Println(child.Process.Pid)
		select {}
	case "failure":
		fmt.Fprintln(os.Stderr, "no such file: fleet.yaml")
		os.Exit(3)
	default:
		os.Exit(m.Run())
	}
}

// runServer is ready at the third request for it.
func runServer() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	address := strings.TrimPrefix(os.Args[len(os.Args)-1], "--web.listen-address=")
	mux, asked := http.NewServeMux(), 0
	mux.HandleFunc("/-/ready", func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "# TYPE asked gauge\nasked %d\n", asked)
	})
	server := &http.Server{Addr: address, Handler: mux}
	go func() { _ = server.ListenAndServe() }()
	<-ctx.Done()
	fmt.Fprintln(os.Stderr, "ending")
	if err := server.Shutdown(context.Background()); err != nil {
		return 1
	}
	return 0
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExporterProcess(t *testing.T) {
	e := startExporter(t, command{path: self(t), env: []string{asServer}})
	e.WaitReady(t, 10*time.Second)
	if got := e.Scrape(t, "/metrics")["asked"].GetMetric()[0].GetGauge().GetValue(); got != 3 {
		t.Errorf("asked is %v, want 3: ready did not wait for status 200", got)
	}
	if status, _ := e.Get(t, "/nowhere"); status != http.StatusNotFound {
		t.Errorf("status %d, want 404", status)
	}
	if m := e.Memory(t); m.Now < 1<<20 || m.Peak < m.Now {
		t.Errorf("memory is %+v", m)
	}
	if err := e.Stop(); err != nil {
		t.Errorf("ended with %v, want status 0", err)
	}
	if out := e.Output(t); !strings.Contains(out, "ending") {
		t.Errorf("standard error was not captured: %q", out)
	}
}

func TestProcessFailure(t *testing.T) {
	p := start(t, command{name: "failure", path: self(t), env: []string{asFailure}, log: logFile(t, "failure")})
	<-p.Done()
	_, err := p.Ended()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("ended with %v, want status 3", err)
	}
	if out := p.Output(t); !strings.Contains(out, "no such file: fleet.yaml") {
		t.Errorf("standard error was not captured: %q", out)
	}
	if tail := p.tail(); !strings.Contains(tail, "no such file: fleet.yaml") {
		t.Errorf("a failed test would show %q", tail)
	}
}

// A program's children end with it.
func TestKillEndsChildren(t *testing.T) {
	p := start(t, command{name: "parent", path: self(t), env: []string{asParent}, log: logFile(t, "parent")})
	var child int
	Eventually(t, 10*time.Second, "the program has a child", func(context.Context) (err error) {
		child, err = strconv.Atoi(strings.TrimSpace(p.Output(t)))
		return err
	})
	if !alive(t, child) {
		t.Fatal("the child does not run")
	}
	p.Kill()
	Eventually(t, 10*time.Second, "the child is gone", goneProcess(t, child))
}

// A test that ends takes its programs along, and so does one that the kernel kills.
func TestProgramsEndWithTheTest(t *testing.T) {
	t.Run("ends", func(t *testing.T) {
		var p *Process
		t.Run("test", func(t *testing.T) {
			p = start(t, command{name: "parent", path: self(t), env: []string{asParent}, log: logFile(t, "parent")})
		})
		if ended, _ := p.Ended(); !ended {
			t.Error("the program outlives its test")
		}
	})
	t.Run("subtest of the owner ends", func(t *testing.T) {
		var p *Process
		owner := t
		t.Run("test", func(t *testing.T) {
			p = start(t, command{name: "parent", path: self(t), env: []string{asParent}, log: logFile(t, "parent"), owner: owner})
		})
		if ended, _ := p.Ended(); ended {
			t.Error("the program ended before its owner")
		}
	})
	t.Run("is killed", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "id")
		owner := exec.Command(self(t), "-test.run=^TestOwner$")
		owner.Env = append(os.Environ(), asOwner, idFile+"="+file)
		if err := owner.Start(); err != nil {
			t.Fatal(err)
		}
		waited := false
		t.Cleanup(func() {
			if !waited {
				_ = owner.Process.Kill()
				_ = owner.Wait()
			}
		})
		var program int
		Eventually(t, 10*time.Second, "the test has started its program", func(context.Context) error {
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			program, err = strconv.Atoi(string(content))
			return err
		})
		if !alive(t, program) {
			t.Fatal("the program does not run")
		}
		if err := owner.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = owner.Wait()
		waited = true
		Eventually(t, 10*time.Second, "the program is gone", goneProcess(t, program))
	})
}

// TestOwner is the test that TestProgramsEndWithTheTest kills; by itself it has nothing to do.
func TestOwner(t *testing.T) {
	file := os.Getenv(idFile)
	if file == "" {
		t.Skip("runs as a process of another test")
	}
	p := start(t, command{name: "server", path: self(t), env: []string{asServer}, args: []string{"--web.listen-address=" + loopback(FreePort(t))}, log: logFile(t, "server")})
	// In one step, so that nobody reads half an id.
	if err := os.WriteFile(file+".new", []byte(strconv.Itoa(p.PID())), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
}

// alive reports whether a process runs; one that has ended but whom nobody waited for does not.
func alive(t *testing.T, id int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return false
	}
	_, state, found := strings.Cut(string(stat), ") ")
	return found && !strings.HasPrefix(state, "Z")
}

// goneProcess is a condition for Eventually.
func goneProcess(t *testing.T, id int) func(context.Context) error {
	return func(context.Context) error {
		if alive(t, id) {
			return fmt.Errorf("process %d runs", id)
		}
		return nil
	}
}
