package scrape

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/md-exporter/md-exporter/normalize"
)

// drip writes an answer of a thousand bytes, one a second.
func drip(conn net.Conn) {
	awaitRequest(conn)
	io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
	for range 1000 {
		time.Sleep(time.Second)
		if _, err := io.WriteString(conn, "#"); err != nil {
			return
		}
	}
}

// TestWhoseDeadline holds the two deadlines apart, whichever is the earlier and however close they
// are, on a clock of its own.
func TestWhoseDeadline(t *testing.T) {
	const limit = 2 * time.Second
	hang := answerAndHang("")
	for _, tt := range []struct {
		name   string
		handle func(net.Conn)
		// caller's deadline; none where it is zero
		caller time.Duration
		// cancel is when the caller gives up; never where it is zero
		cancel time.Duration
		want   normalize.Reason
		took   time.Duration
	}{
		{"no deadline", hang, 0, 0, normalize.Timeout, limit},
		{"later deadline", hang, time.Minute, 0, normalize.Timeout, limit},
		{"a nanosecond later", hang, limit + 1, 0, normalize.Timeout, limit},
		{"the same deadline", hang, limit, 0, normalize.ScrapeDeadline, limit},
		{"a nanosecond earlier", hang, limit - 1, 0, normalize.ScrapeDeadline, limit - 1},
		{"earlier deadline", hang, time.Second, 0, normalize.ScrapeDeadline, time.Second},
		{"deadline passed before", hang, -1, 0, normalize.ScrapeDeadline, 0},
		{"cancelled before the limit", hang, 0, time.Second, normalize.ScrapeDeadline, time.Second},
		{"cancelled before both", hang, time.Minute, time.Second, normalize.ScrapeDeadline, time.Second},
		{"dripping body", drip, 0, 0, normalize.Timeout, limit},
		{"dripping body, earlier deadline", drip, 1500 * time.Millisecond, 0, normalize.ScrapeDeadline, 1500 * time.Millisecond},
		{"dripping body, cancelled", drip, 0, 1500 * time.Millisecond, normalize.ScrapeDeadline, 1500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := NewClient(Config{})
				if err != nil {
					t.Fatal(err)
				}
				var server sync.WaitGroup
				c.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
					near, far := net.Pipe()
					server.Go(func() {
						defer far.Close()
						tt.handle(far)
					})
					return near, nil
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.caller != 0 {
					ctx, cancel = context.WithTimeout(ctx, tt.caller)
					defer cancel()
				}
				if tt.cancel != 0 {
					time.AfterFunc(tt.cancel, cancel)
				}
				start := time.Now()
				err = c.Get(ctx, "http://127.0.0.1:8000/metrics", new(bytes.Buffer))
				if got := reasonOf(t, err); got != tt.want {
					t.Errorf("reason %q, want %q (%v)", got, tt.want, err)
				}
				if took := time.Since(start); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
				c.Close()
				server.Wait()
			})
		})
	}
}

// TestPollerDeadline holds the reason where the network's own timer is heard before the context's.
func TestPollerDeadline(t *testing.T) {
	ioTimeout := &net.OpError{Op: "dial", Net: "tcp", Err: context.DeadlineExceeded}
	sooner, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, tt := range []struct {
		name  string
		ctx   context.Context
		limit time.Duration
		want  normalize.Reason
	}{
		{"the caller's is the earlier", sooner, 2 * time.Hour, normalize.ScrapeDeadline},
		{"the limit is the earlier", sooner, time.Minute, normalize.Timeout},
		{"the caller has none", t.Context(), time.Minute, normalize.Timeout},
	} {
		read, stop := withLimit(tt.ctx, tt.limit)
		if got := read.classify(ioTimeout).Reason; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		stop()
	}
}

// TestEndedBefore holds that a read whose caller has gone is not started.
func TestEndedBefore(t *testing.T) {
	s := serveRaw(t, answer(ok(exposition)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := newTestClient(t, Config{}).Get(ctx, s.url(), new(bytes.Buffer))
	if got := reasonOf(t, err); got != normalize.ScrapeDeadline {
		t.Errorf("reason %q (%v)", got, err)
	}
	if n := s.accepted.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// TestCancelledInTheMiddle cancels real connections, with the request sent and within a body.
func TestCancelledInTheMiddle(t *testing.T) {
	for _, text := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n#"} {
		ctx, cancel := context.WithCancel(t.Context())
		s := serveRaw(t, func(conn net.Conn) {
			awaitRequest(conn)
			io.WriteString(conn, text)
			cancel()
			io.Copy(io.Discard, conn)
		})
		err := newTestClient(t, Config{Timeout: time.Minute}).Get(ctx, s.url(), new(bytes.Buffer))
		if got := reasonOf(t, err); got != normalize.ScrapeDeadline {
			t.Errorf("after %q: reason %q (%v)", text, got, err)
		}
	}
}
