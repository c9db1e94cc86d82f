package simulate

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// client is one without connections that outlive a test.
func client(t *testing.T) *http.Client {
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func get(t *testing.T, c *http.Client, url string, header ...string) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(header) == 2 {
		r.Header.Set(header[0], header[1])
	}
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, body
}

// listenAll starts every server and closes it when the test ends.
func listenAll(t *testing.T, s *Simulation) {
	t.Helper()
	for _, server := range s.Servers() {
		if err := server.Start("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := server.Close(context.Background()); err != nil {
				t.Errorf("close %s: %v", server.Pod(), err)
			}
		})
	}
}

func TestAnswersOverHTTP(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Run("bodies", func(t *testing.T) {
		for name, compressed := range map[string]bool{
			"vLLM behind its router": false, "SGLang behind its gateway": false, "vLLM with a pool": true,
		} {
			s := start(t, shapes()[name])
			s.Advance(20 * time.Second)
			listenAll(t, s)
			c := client(t)
			for _, server := range s.Servers() {
				url := "http://" + server.Address() + "/metrics"
				want, totals := server.Exposition()
				plain, body := get(t, c, url)
				if plain.StatusCode != 200 || !bytes.Equal(body, want) {
					t.Errorf("%s: status %d, %d bytes, want the body of this moment", server.Pod(), plain.StatusCode, len(body))
				}
				zipped, packed := get(t, c, url, "Accept-Encoding", "br, gzip;q=0.9")
				mayZip := server.Role() != "" || compressed
				if got := zipped.Header.Get("Content-Encoding") == "gzip"; got != mayZip {
					t.Errorf("%s: compressed: %v", server.Pod(), got)
				} else if got {
					z, err := gzip.NewReader(bytes.NewReader(packed))
					if err != nil {
						t.Fatal(err)
					}
					if body, err := io.ReadAll(z); err != nil || !bytes.Equal(body, want) {
						t.Errorf("%s: unpacked to %d bytes: %v", server.Pod(), len(body), err)
					}
				}
				if refused, _ := get(t, c, url, "Accept-Encoding", "gzip;q=0"); refused.Header.Get("Content-Encoding") != "" {
					t.Errorf("%s: compressed for a client that cannot", server.Pod())
				}
				if elsewhere, _ := get(t, c, "http://"+server.Address()+"/health"); elsewhere.StatusCode != 404 {
					t.Errorf("%s: /health is %d", server.Pod(), elsewhere.StatusCode)
				}
				journal := server.Answers()
				if len(journal) != 3 || !reflect.DeepEqual(journal[2].Totals, totals) || !journal[2].At.Equal(fixedStart.Add(20*time.Second)) {
					t.Errorf("%s: the journal of three answers is %+v", server.Pod(), journal)
				}
			}
		}
	})
}

// The journal is bounded, and it is the newest that it keeps.
func TestJournalIsBounded(t *testing.T) {
	var now time.Time
	d := shapes()["vLLM without a router"]
	d.Load.RequestsPerSecond = 0
	s, err := New(d, Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	server := find(t, s, "server")
	for i := range journalLength + 10 {
		now = fixedStart.Add(time.Duration(i) * time.Second)
		server.answer()
	}
	answers := server.Answers()
	if len(answers) != journalLength || !answers[len(answers)-1].At.Equal(now) {
		t.Errorf("%d answers, the last at %v", len(answers), answers[len(answers)-1].At)
	}
}

// dial reports how connecting and asking goes: refused, answered, or neither in time.
func dial(t *testing.T, address string, wait time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client(t).Do(r)
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}
	return err
}

func TestRefuseHangHeal(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Run("a running server", func(t *testing.T) {
		s := start(t, shapes()["vLLM behind its router"])
		listenAll(t, s)
		server := find(t, s, "server")
		address := server.Address()
		for range 3 {
			if err := dial(t, address, 10*time.Second); err != nil {
				t.Fatalf("healthy: %v", err)
			}
			server.Refuse()
			if err := dial(t, address, 10*time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("refusing: %v", err)
			}
			if server.Address() != address {
				t.Errorf("the address moved from %s to %s", address, server.Address())
			}
			if err := server.Hang(); err != nil {
				t.Fatal(err)
			}
			if err := dial(t, address, 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("hanging: %v", err)
			}
			if err := server.Heal(); err != nil {
				t.Fatal(err)
			}
		}
		if err := dial(t, address, 10*time.Second); err != nil {
			t.Errorf("healed: %v", err)
		}
	})
}

// A broken server gets no requests; a mended one does again.
func TestBrokenServersGetNoRequests(t *testing.T) {
	s := start(t, shapes()["vLLM behind its router"])
	server, router := find(t, s, "server"), find(t, s, "")
	workers := func() float64 {
		_, totals := router.Exposition()
		return totals.Values[RouterReportedWorkers]
	}
	served := func() float64 {
		_, totals := server.Exposition()
		return totals.Histograms[TTFT].Count
	}
	s.Advance(20 * time.Second)
	for name, breaks := range map[string]func(){"refusing": server.Refuse, "hanging": func() { _ = server.Hang() }} {
		breaks()
		s.Advance(20 * time.Second) // what it had is done
		before := served()
		s.Advance(20 * time.Second)
		if served() != before || workers() != 1 {
			t.Errorf("%s: it served %v more, the router reports %v workers", name, served()-before, workers())
		}
		if err := server.Heal(); err != nil {
			t.Fatal(err)
		}
		s.Advance(20 * time.Second)
		if served() == before || workers() != 2 {
			t.Errorf("healed: it served none, or the router reports %v workers of two", workers())
		}
	}
}

func TestBrokenFromTheStart(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Run("held and hung", func(t *testing.T) {
		s := start(t, Deployment{Engine: SGLang, Roles: []Role{{Name: "server", Replicas: 3, Refusing: 1, Hanging: 1}}, Load: busy})
		listenAll(t, s)
		servers := s.Servers()
		if err := dial(t, servers[0].Address(), 10*time.Second); err != nil {
			t.Errorf("healthy: %v", err)
		}
		if err := dial(t, servers[1].Address(), 10*time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("refusing: %v", err)
		}
		if l, err := net.Listen("tcp", servers[1].Address()); err == nil {
			_ = l.Close()
			t.Error("somebody else could take the address that refuses")
		}
		if err := dial(t, servers[2].Address(), 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("hanging: %v", err)
		}
	})
}

// Close ends a hanging answer, whoever still waits for it.
func TestCloseEndsHangingAnswers(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Run("while a client waits", func(t *testing.T) {
		s := start(t, Deployment{Engine: VLLM, Roles: []Role{{Name: "server", Replicas: 1, Hanging: 1}}})
		server := find(t, s, "server")
		if err := server.Start("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if err := server.Start("127.0.0.1:0"); err == nil {
			t.Error("started twice")
		}
		connection, err := net.Dial("tcp", server.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if _, err := io.WriteString(connection, "GET /metrics HTTP/1.1\r\nHost: pod\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(10 * time.Second); server.Hung() == 0; runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatal("the request never came")
			}
		}
		soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := server.Close(soon); err != nil {
			t.Errorf("close: %v", err)
		}
		if n := server.Hung(); n != 0 {
			t.Errorf("%d requests hang on", n)
		}
		if answer, _ := io.ReadAll(connection); len(answer) > 0 {
			t.Errorf("a hanging server said %q", answer)
		}
		if err := server.Start(server.Address()); err != nil {
			t.Errorf("a closed server does not start again: %v", err)
		}
		if err := server.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestReadWhileAdvancing(t *testing.T) {
	s := start(t, shapes()["SGLang pair behind its gateway"])
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for _, server := range s.Servers() {
		readers.Go(func() {
			var last Totals
			for {
				body, totals := server.Exposition()
				if got := stated(t, server.Software(), body); !reflect.DeepEqual(got, totals) {
					t.Errorf("%s: the body and its totals are of different moments", server.Pod())
				}
				if totals.Values[Requests] < last.Values[Requests] {
					t.Errorf("%s: requests went back", server.Pod())
				}
				last = totals
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range 200 {
		s.Advance(100 * time.Millisecond)
	}
	close(stop)
	readers.Wait()
}
