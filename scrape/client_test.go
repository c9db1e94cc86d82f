package scrape

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/md-exporter/md-exporter/normalize"
)

const testCap = 4096

// reasonOf is the error's code, or empty for none. An error that is no *Error fails the test.
func reasonOf(t *testing.T, err error) normalize.Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *Error
	if !errors.As(err, &e) || e.Err == nil || errors.Unwrap(err) != e.Err {
		t.Fatalf("not an *Error with a cause: %v", err)
	}
	return e.Reason
}

// TestOddServers reads servers that misbehave, each in its own way.
func TestOddServers(t *testing.T) {
	const short = 150 * time.Millisecond
	gzipped := "Content-Encoding: gzip"
	for _, tt := range []struct {
		name    string
		handle  func(net.Conn)
		timeout time.Duration // of one read; far away where it is zero
		want    normalize.Reason
		body    string // where want is empty
	}{
		{name: "complete", handle: answer(ok(exposition)), body: exposition},
		{name: "empty", handle: answer(ok("")), body: ""},
		{name: "until the connection closes", handle: answer("HTTP/1.0 200 OK\r\n\r\n" + exposition), body: exposition},
		{name: "chunked", handle: answer(chunked("", "3\r\na 1\r\n1\r\n\n\r\n0\r\n\r\n")), body: "a 1\n"},
		{name: "an interim answer first", handle: answer("HTTP/1.1 103 Early Hints\r\n\r\n" + ok(exposition)), body: exposition},

		{name: "reset at once", handle: reset, want: normalize.ConnectionFailed},
		{name: "reset after the request", handle: func(c net.Conn) { awaitRequest(c); reset(c) }, want: normalize.ConnectionFailed},
		{name: "reset within the body", handle: func(c net.Conn) {
			awaitRequest(c)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nvllm")
			reset(c)
		}, want: normalize.ConnectionFailed},
		{name: "closed at once", handle: func(net.Conn) {}, want: normalize.ConnectionFailed},
		{name: "closed after the request", handle: awaitRequest, want: normalize.ConnectionFailed},
		{name: "closed within the headers", handle: answer("HTTP/1.1 200 OK\r\nContent-Le"), want: normalize.ConnectionFailed},
		{name: "closed after an interim answer", handle: answer("HTTP/1.1 100 Continue\r\n\r\n"), want: normalize.ConnectionFailed},
		{name: "closed before Content-Length", handle: answer("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + exposition), want: normalize.ConnectionFailed},
		{name: "closed before the last chunk", handle: answer(chunked("", "3\r\na 1\r\n")), want: normalize.ConnectionFailed},
		{name: "closed within a chunk", handle: answer(chunked("", "30\r\na 1")), want: normalize.ConnectionFailed},
		{name: "closed before the end of the last chunk", handle: answer(chunked("", "3\r\na 1\r\n0\r\n")), want: normalize.ConnectionFailed},
		{name: "closed within gzip", handle: answer(strings.TrimSuffix(ok(zip(exposition), gzipped), zip(exposition)[20:])), want: normalize.ConnectionFailed},

		{name: "never answers", handle: answerAndHang(""), timeout: short, want: normalize.Timeout},
		{name: "headers never end", handle: answerAndHang("HTTP/1.1 200 OK\r\nX-A: b\r\n"), timeout: short, want: normalize.Timeout},
		{name: "body never ends", handle: answerAndHang("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + exposition), timeout: short, want: normalize.Timeout},
		{name: "gzip never ends", handle: answerAndHang(strings.TrimSuffix(ok(zip(exposition), gzipped), zip(exposition)[20:])), timeout: short, want: normalize.Timeout},
		{name: "an endless error body is not waited for", handle: answerAndHang("HTTP/1.1 500 No\r\nContent-Length: 100000\r\n\r\n"), want: normalize.HTTPStatus},

		{name: "not HTTP", handle: answer("-ERR unknown command\r\n"), want: normalize.MalformedResponse},
		{name: "another protocol speaks first", handle: func(c net.Conn) { io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n"); awaitRequest(c) }, want: normalize.MalformedResponse},
		{name: "an alert of a TLS server", handle: answer("\x15\x03\x01\x00\x02\x02\x46"), want: normalize.MalformedResponse},
		{name: "the first bytes of HTTP and no more", handle: answer("HTT"), want: normalize.ConnectionFailed},
		{name: "status is no number", handle: answer("HTTP/1.1 abc OK\r\n\r\n"), want: normalize.MalformedResponse},
		{name: "header without a colon", handle: answer("HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"), want: normalize.MalformedResponse},
		{name: "two lengths", handle: answer("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), want: normalize.MalformedResponse},
		{name: "length is no number", handle: answer("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), want: normalize.MalformedResponse},
		{name: "chunk length is no number", handle: answer(chunked("", "zz\r\na 1\r\n0\r\n\r\n")), want: normalize.MalformedResponse},
		{name: "chunk longer than it says", handle: answer(chunked("", "2\r\na 1\r\n0\r\n\r\n")), want: normalize.MalformedResponse},

		{name: "headers over the limit", handle: answer(ok(exposition, "X-Long: "+repeat(2*maxHeaderBytes))), want: normalize.ResponseTooLarge},
		{name: "headers without number", handle: func(c net.Conn) {
			awaitRequest(c)
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := io.WriteString(c, "X-A: "+repeat(100)+"\r\n"); err != nil {
					return
				}
			}
		}, want: normalize.ResponseTooLarge},
		{name: "length over the cap", handle: answerAndHang("HTTP/1.1 200 OK\r\nContent-Length: 4097\r\n\r\n"), want: normalize.ResponseTooLarge},
		{name: "chunks over the cap", handle: answer(chunked("", "1001\r\n"+repeat(4097)+"\r\n0\r\n\r\n")), want: normalize.ResponseTooLarge},
		{name: "chunks without end", handle: func(c net.Conn) {
			awaitRequest(c)
			io.WriteString(c, chunked("", ""))
			for {
				if _, err := io.WriteString(c, "3\r\na 1\r\n"); err != nil {
					return
				}
			}
		}, want: normalize.ResponseTooLarge},
		{name: "over the cap until the connection closes", handle: answer("HTTP/1.0 200 OK\r\n\r\n" + repeat(4097)), want: normalize.ResponseTooLarge},
		{name: "at the cap by length", handle: answer(ok(repeat(4096))), body: repeat(4096)},
		{name: "at the cap by chunks", handle: answer(chunked("", "1000\r\n"+repeat(4096)+"\r\n0\r\n\r\n")), body: repeat(4096)},
		{name: "at the cap until the connection closes", handle: answer("HTTP/1.0 200 OK\r\n\r\n" + repeat(4096)), body: repeat(4096)},
		{name: "at the cap decompressed", handle: answer(ok(zip(repeat(4096)), gzipped)), body: repeat(4096)},
		{name: "over the cap decompressed", handle: answer(ok(zip(repeat(4097)), gzipped)), want: normalize.ResponseTooLarge},
		{name: "over the cap compressed alone", handle: answer(chunked(gzipped+"\r\n", chunk(zip(noise(4096)))+"0\r\n\r\n")), want: normalize.ResponseTooLarge},

		{name: "gzip", handle: answer(ok(zip(exposition), gzipped)), body: exposition},
		{name: "gzip by its old name", handle: answer(ok(zip(exposition), "content-encoding:  X-GZIP ")), body: exposition},
		{name: "gzip in two members", handle: answer(ok(zip("a 1\n")+zip("b 2\n"), gzipped)), body: "a 1\nb 2\n"},
		{name: "gzip in chunks", handle: answer(chunked(gzipped+"\r\n", chunk(zip(exposition)[:9])+chunk(zip(exposition)[9:])+"0\r\n\r\n")), body: exposition},
		{name: "identity", handle: answer(ok(exposition, "Content-Encoding: identity")), body: exposition},
		{name: "gzip truncated", handle: answer(ok(zip(exposition)[:30], gzipped)), want: normalize.MalformedResponse},
		{name: "gzip truncated in its header", handle: answer(ok(zip(exposition)[:5], gzipped)), want: normalize.MalformedResponse},
		{name: "gzip truncated before its checksum", handle: answer(ok(strings.TrimSuffix(zip(exposition), zip(exposition)[len(zip(exposition))-8:]), gzipped)), want: normalize.MalformedResponse},
		{name: "gzip of no bytes", handle: answer(ok("", gzipped)), want: normalize.MalformedResponse},
		{name: "gzip with a wrong checksum", handle: answer(ok(flipped(zip(exposition), len(zip(exposition))-5), gzipped)), want: normalize.MalformedResponse},
		{name: "gzip with garbage behind", handle: answer(ok(zip(exposition)+"garbage behind it", gzipped)), want: normalize.MalformedResponse},
		{name: "gzip that is none", handle: answer(ok(exposition, gzipped)), want: normalize.MalformedResponse},
		{name: "deflate", handle: answer(ok(exposition, "Content-Encoding: deflate")), want: normalize.MalformedResponse},
		{name: "gzip twice", handle: answer(ok(zip(zip(exposition)), gzipped, gzipped)), want: normalize.MalformedResponse},

		{name: "switching protocols", handle: answer("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), want: normalize.HTTPStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.timeout == 0 {
				tt.timeout = time.Minute
			}
			c := newTestClient(t, Config{Timeout: tt.timeout, MaxBodyBytes: testCap})
			buf := new(bytes.Buffer)
			err := c.Get(t.Context(), serveRaw(t, tt.handle).url(), buf)
			if got := reasonOf(t, err); got != tt.want {
				t.Fatalf("reason %q, want %q (%v)", got, tt.want, err)
			}
			if tt.want == "" && buf.String() != tt.body {
				t.Errorf("body %q, want %q", buf, tt.body)
			}
			if buf.Len() > testCap {
				t.Errorf("%d bytes were written, the cap is %d", buf.Len(), testCap)
			}
		})
	}
}

func reset(conn net.Conn) {
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

func chunk(s string) string { return strconv.FormatInt(int64(len(s)), 16) + "\r\n" + s + "\r\n" }

func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String() + "/metrics"
	l.Close()
	err = newTestClient(t, Config{}).Get(t.Context(), url, new(bytes.Buffer))
	if got := reasonOf(t, err); got != normalize.ConnectionFailed {
		t.Errorf("reason %q (%v)", got, err)
	}
}

func TestURLs(t *testing.T) {
	c := newTestClient(t, Config{})
	for _, url := range []string{"", "://", "ftp://127.0.0.1/metrics", "/metrics", "http:///metrics", "http://127.0.0.1:port/metrics"} {
		if got := reasonOf(t, c.Get(t.Context(), url, new(bytes.Buffer))); got != normalize.NotAdvertised {
			t.Errorf("%q: reason %q", url, got)
		}
	}
}

func TestIPv6(t *testing.T) {
	s := serveRawOn(t, "[::1]:0", answer(ok(exposition)))
	var buf bytes.Buffer
	if err := newTestClient(t, Config{}).Get(t.Context(), s.url(), &buf); err != nil || buf.String() != exposition {
		t.Errorf("body %q, error %v", buf.String(), err)
	}
}

// TestStatuses holds that 200 is the one status that is read.
func TestStatuses(t *testing.T) {
	c := newTestClient(t, Config{})
	for _, status := range []int{201, 202, 204, 206, 300, 301, 304, 307, 400, 401, 403, 404, 429, 500, 503, 599} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(status)
			if status >= 400 {
				io.WriteString(w, exposition)
			}
		}))
		err := c.Get(t.Context(), s.URL+"/metrics", new(bytes.Buffer))
		if got := reasonOf(t, err); got != normalize.HTTPStatus {
			t.Errorf("%d: reason %q (%v)", status, got, err)
		}
		c.Close()
		s.Close()
	}
}

func TestRedirects(t *testing.T) {
	for _, tt := range []struct {
		name     string
		status   int
		location []string // HOST stands for the server's address, PORT for its port
		want     normalize.Reason
	}{
		{"relative", 307, []string{"/metrics/"}, ""},
		{"absolute", 307, []string{"http://HOST/metrics/"}, ""},
		{"without scheme", 308, []string{"//HOST/metrics/"}, ""},
		{"below the path", 301, []string{"metrics/"}, ""},
		{"found", 302, []string{"/metrics/"}, ""},
		{"see other", 303, []string{"/metrics/"}, ""},
		{"to itself", 307, []string{"/metrics"}, normalize.HTTPStatus},
		{"a second one", 307, []string{"/metrics/?"}, normalize.HTTPStatus},
		{"with a query", 307, []string{"/metrics/?a=b"}, normalize.HTTPStatus},
		{"with a fragment", 307, []string{"/metrics/#a"}, normalize.HTTPStatus},
		{"another path", 307, []string{"/metrics/all"}, normalize.HTTPStatus},
		{"escaped path", 307, []string{"/metric%73/"}, normalize.HTTPStatus},
		{"two slashes", 307, []string{"http://HOST//metrics/"}, normalize.HTTPStatus},
		{"another port", 307, []string{"http://127.0.0.1:1/metrics/"}, normalize.HTTPStatus},
		{"no port", 307, []string{"http://127.0.0.1/metrics/"}, normalize.HTTPStatus},
		{"another host", 307, []string{"http://127.0.0.2:PORT/metrics/"}, normalize.HTTPStatus},
		{"another scheme", 307, []string{"https://HOST/metrics/"}, normalize.HTTPStatus},
		{"with a user", 307, []string{"http://user@HOST/metrics/"}, normalize.HTTPStatus},
		{"broken", 307, []string{"http://[::1/metrics/"}, normalize.HTTPStatus},
		{"empty", 307, []string{""}, normalize.HTTPStatus},
		{"missing", 307, nil, normalize.HTTPStatus},
		{"two places", 307, []string{"/metrics/", "/metrics/"}, normalize.HTTPStatus},
		{"multiple choices", 300, []string{"/metrics/"}, normalize.HTTPStatus},
		{"not modified", 304, []string{"/metrics/"}, normalize.HTTPStatus},
		{"created", 201, []string{"/metrics/"}, normalize.HTTPStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked []string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.URL.Path)
				if r.URL.Path == "/metrics/" {
					io.WriteString(w, exposition)
					return
				}
				host := r.Host
				_, port, _ := net.SplitHostPort(host)
				for _, l := range tt.location {
					w.Header().Add("Location", strings.NewReplacer("HOST", host, "PORT", port).Replace(l))
				}
				w.WriteHeader(tt.status)
			}))
			defer s.Close()
			c := newTestClient(t, Config{})
			defer c.Close()
			var buf bytes.Buffer
			err := c.Get(t.Context(), s.URL+"/metrics", &buf)
			if got := reasonOf(t, err); got != tt.want {
				t.Fatalf("reason %q, want %q (%v)", got, tt.want, err)
			}
			if tt.want == "" && buf.String() != exposition {
				t.Errorf("body %q", buf.String())
			}
			if want := map[bool]int{true: 2, false: 1}[tt.want == ""]; len(asked) != want {
				t.Errorf("asked for %v", asked)
			}
		})
	}
}

func TestSecondRedirect(t *testing.T) {
	var asked int
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/metrics/", http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	c := newTestClient(t, Config{})
	defer c.Close()
	err := c.Get(t.Context(), s.URL+"/metrics", new(bytes.Buffer))
	if got := reasonOf(t, err); got != normalize.HTTPStatus || asked != 2 {
		t.Errorf("reason %q after %d requests (%v)", got, asked, err)
	}
}

// TestRequest holds what is sent: the two Accept headers and no credentials.
func TestRequest(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	var got *http.Request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
	}))
	defer s.Close()
	c := newTestClient(t, Config{UserAgent: "md-exporter/1.2.3"})
	defer c.Close()
	for range 2 {
		url := strings.Replace(s.URL, "http://", "http://user:secret@", 1) + "/metrics"
		if err := c.Get(t.Context(), url, new(bytes.Buffer)); err != nil {
			t.Fatal(err)
		}
	}
	want := http.Header{
		"Accept":          {"text/plain;version=0.0.4"},
		"Accept-Encoding": {"identity"},
		"User-Agent":      {"md-exporter/1.2.3"},
	}
	for name := range got.Header {
		if got.Header.Get(name) != want.Get(name) {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), want.Get(name))
		}
	}
	if len(got.Header) != len(want) || got.Method != http.MethodGet || got.Proto != "HTTP/1.1" || got.URL.String() != "/metrics" {
		t.Errorf("%s %s %s with %v", got.Method, got.URL, got.Proto, got.Header)
	}
}

// TestConnectionReuse counts connections over many reads, those included whose short body is not used.
func TestConnectionReuse(t *testing.T) {
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    normalize.Reason
	}{
		{"by length", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, exposition) }, ""},
		{"chunked", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, exposition)
			w.(http.Flusher).Flush()
			io.WriteString(w, exposition)
		}, ""},
		{"gzip", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, zip(exposition))
			w.(http.Flusher).Flush()
		}, ""},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				http.Redirect(w, r, "/metrics/", http.StatusTemporaryRedirect)
			}
		}, ""},
		{"error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) }, normalize.HTTPStatus},
		{"no content", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, normalize.HTTPStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var connections int
			s := httptest.NewUnstartedServer(tt.handler)
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					connections++ // called by the one accepting goroutine
				}
			}
			s.Start()
			defer s.Close()
			c := newTestClient(t, Config{})
			for range 20 {
				if got := reasonOf(t, c.Get(t.Context(), s.URL+"/metrics", io.Discard)); got != tt.want {
					t.Fatalf("reason %q, want %q", got, tt.want)
				}
			}
			c.Close()
			s.Close()
			if connections != 1 {
				t.Errorf("20 reads took %d connections", connections)
			}
		})
	}
}

// TestStaleConnection holds that a server which closed an idle connection costs a new one, no failure.
func TestStaleConnection(t *testing.T) {
	s := serveRaw(t, answer(ok(exposition)))
	c := newTestClient(t, Config{})
	for range 20 {
		if err := c.Get(t.Context(), s.url(), new(bytes.Buffer)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBomb reads a small body that decompresses to far more than the cap.
func TestBomb(t *testing.T) {
	bomb := ok(zip(repeat(16<<20)), "Content-Encoding: gzip")
	c := newTestClient(t, Config{Timeout: time.Minute})
	s := serveRaw(t, answer(bomb))
	var buf bytes.Buffer
	if got := reasonOf(t, c.Get(t.Context(), s.url(), &buf)); got != normalize.ResponseTooLarge {
		t.Errorf("reason %q", got)
	}
	if buf.Len() > DefaultMaxBodyBytes {
		t.Errorf("%d bytes were written", buf.Len())
	}
}

func BenchmarkGet(b *testing.B) {
	body := strings.Repeat(exposition, 500)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }))
	defer s.Close()
	c := newTestClient(b, Config{})
	defer c.Close()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Get(b.Context(), s.URL+"/metrics", io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
