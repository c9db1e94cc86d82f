package collector

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
)

// connection serves each connection with a function, which has read the request's head, until the test
// ends. It returns the URL.
func connection(t testing.TB, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		mu    sync.Mutex
		conns []net.Conn
		done  sync.WaitGroup
	)
	done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			done.Go(func() {
				defer conn.Close()
				head := make([]byte, 0, 4096)
				for b := make([]byte, 512); !bytes.Contains(head, []byte("\r\n\r\n")); {
					n, err := conn.Read(b)
					if err != nil {
						return
					}
					head = append(head, b[:n]...)
				}
				handle(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		done.Wait()
	})
	return "http://" + l.Addr().String() + "/metrics"
}

// raw answers with the bytes and closes; rawAndHang keeps the connection.
func raw(t testing.TB, text string) string {
	return connection(t, func(c net.Conn) { io.WriteString(c, text) })
}

func rawAndHang(t testing.TB, text string) string {
	return connection(t, func(c net.Conn) {
		io.WriteString(c, text)
		io.Copy(io.Discard, c)
	})
}

// full is a complete head before a body.
func full(body string, header ...string) string {
	return "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" +
		strings.Join(append(header, ""), "\r\n") + "\r\n" + body
}

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, text)
	z.Close()
	return b.String()
}

func encrypted(t testing.TB) string {
	s := httptest.NewUnstartedServer(busy())
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL + "/metrics"
}

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, vllmBody(1))
	}
}

// faulty are Pods that cannot be read, each with the reason.
var faulty = []struct {
	name   string
	reason normalize.Reason
	url    func(t testing.TB) string
}{
	{"without an endpoint", normalize.NotAdvertised, func(testing.TB) string { return "" }},
	{"no URL", normalize.NotAdvertised, func(testing.TB) string { return "ftp://127.0.0.1/metrics" }},

	{"refuses", normalize.ConnectionFailed, func(t testing.TB) string {
		// The near end of a connection keeps its port from everybody else, and nobody listens there.
		far, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		near, err := net.Dial("tcp", far.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { near.Close(); far.Close() })
		return "http://" + near.LocalAddr().String() + "/metrics"
	}},
	{"closes without an answer", normalize.ConnectionFailed, func(t testing.TB) string { return raw(t, "") }},
	{"closes within the head", normalize.ConnectionFailed, func(t testing.TB) string { return raw(t, "HTTP/1.1 200 OK\r\nContent-Le") }},
	{"closes within the body", normalize.ConnectionFailed, func(t testing.TB) string {
		whole := full(vllmBody(1))
		return raw(t, whole[:len(whole)-20])
	}},
	{"closes within a chunk", normalize.ConnectionFailed, func(t testing.TB) string {
		return raw(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nvllm:num_requests_running 1\n")
	}},
	{"closes before the last chunk", normalize.ConnectionFailed, func(t testing.TB) string {
		return raw(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1d\r\nvllm:num_requests_running 1\n\r\n")
	}},
	{"resets", normalize.ConnectionFailed, func(t testing.TB) string {
		return connection(t, func(c net.Conn) {
			_ = c.(*net.TCPConn).SetLinger(0)
		})
	}},

	{"hangs before the head", normalize.Timeout, func(t testing.TB) string { return rawAndHang(t, "") }},
	{"hangs within the head", normalize.Timeout, func(t testing.TB) string { return rawAndHang(t, "HTTP/1.1 200 OK\r\nX: ") }},
	{"hangs within the body", normalize.Timeout, func(t testing.TB) string {
		whole := full(vllmBody(1))
		return rawAndHang(t, whole[:len(whole)-20])
	}},
	{"hangs before the last chunk", normalize.Timeout, func(t testing.TB) string {
		return rawAndHang(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1d\r\nvllm:num_requests_running 1\n\r\n")
	}},
	{"drips", normalize.Timeout, func(t testing.TB) string {
		return connection(t, func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for range tick.C {
				if _, err := io.WriteString(c, "2\r\n#\n\r\n"); err != nil {
					return
				}
			}
		})
	}},

	{"answers 404", normalize.HTTPStatus, func(t testing.TB) string { return endpoint(t, status(404)) }},
	{"answers 401", normalize.HTTPStatus, func(t testing.TB) string { return endpoint(t, status(401)) }},
	{"answers 500", normalize.HTTPStatus, func(t testing.TB) string { return endpoint(t, status(500)) }},
	{"answers 503", normalize.HTTPStatus, func(t testing.TB) string { return endpoint(t, status(503)) }},
	{"answers 204", normalize.HTTPStatus, func(t testing.TB) string {
		return raw(t, "HTTP/1.1 204 No Content\r\n\r\n")
	}},
	{"redirects to another path", normalize.HTTPStatus, func(t testing.TB) string {
		return endpoint(t, status(302, "Location", "/other"))
	}},
	{"redirects to another host", normalize.HTTPStatus, func(t testing.TB) string {
		elsewhere := endpoint(t, busy())
		return endpoint(t, status(301, "Location", elsewhere+"/"))
	}},
	{"redirects without end", normalize.HTTPStatus, func(t testing.TB) string {
		return endpoint(t, status(307, "Location", "/metrics/"))
	}},

	{"says it is too large", normalize.ResponseTooLarge, func(t testing.TB) string {
		return rawAndHang(t, "HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n")
	}},
	{"is too large in chunks", normalize.ResponseTooLarge, func(t testing.TB) string {
		return endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
			for range 40 {
				io.WriteString(w, "#"+strings.Repeat("x", 64<<10)+"\n")
			}
		})
	}},
	{"is too large once decompressed", normalize.ResponseTooLarge, func(t testing.TB) string {
		return raw(t, full(zipped("#"+strings.Repeat("x", 8<<20)), "Content-Encoding: gzip"))
	}},
	{"has too large a head", normalize.ResponseTooLarge, func(t testing.TB) string {
		return raw(t, full(vllmBody(1), "X-Large: "+strings.Repeat("x", 200<<10)))
	}},

	{"answers HTML", normalize.MalformedResponse, func(t testing.TB) string { return endpoint(t, textBody("<html><body>It works!</body></html>")) }},
	{"answers JSON", normalize.MalformedResponse, func(t testing.TB) string { return endpoint(t, textBody(`{"status": "ok"}`)) }},
	{"has a selected line that is broken", normalize.MalformedResponse, func(t testing.TB) string {
		return endpoint(t, textBody(vllmBody(1)+"vllm:num_requests_running{engine=\"0\" 7\n"))
	}},
	{"has a value that is none", normalize.MalformedResponse, func(t testing.TB) string {
		return endpoint(t, textBody(vllmBody(1)+"vllm:num_requests_waiting{engine=\"1\"} many\n"))
	}},
	{"has a broken gzip stream", normalize.MalformedResponse, func(t testing.TB) string {
		z := zipped(vllmBody(1))
		return raw(t, full(z[:len(z)-9], "Content-Encoding: gzip"))
	}},
	{"is no gzip stream", normalize.MalformedResponse, func(t testing.TB) string {
		return raw(t, full(vllmBody(1), "Content-Encoding: gzip"))
	}},
	{"has an encoding that was not asked for", normalize.MalformedResponse, func(t testing.TB) string {
		return raw(t, full(vllmBody(1), "Content-Encoding: br"))
	}},
	{"speaks another protocol", normalize.MalformedResponse, func(t testing.TB) string {
		return raw(t, "220 mail.example ESMTP ready\r\n\r\n")
	}},

	{"has a certificate that nobody trusts", normalize.TLSFailed, encrypted},
	{"has no TLS where it is advertised", normalize.TLSFailed, func(t testing.TB) string {
		return strings.Replace(endpoint(t, busy()), "http:", "https:", 1)
	}},
	{"closes within the handshake", normalize.TLSFailed, func(t testing.TB) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var done sync.WaitGroup
		done.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Read(make([]byte, 1))
				c.Close()
			}
		})
		t.Cleanup(func() { l.Close(); done.Wait() })
		return "https://" + l.Addr().String() + "/metrics"
	}},
	{"speaks TLS where it is not advertised", normalize.HTTPStatus, func(t testing.TB) string {
		return strings.Replace(encrypted(t), "https:", "http:", 1)
	}},
}

// One fleet with every fault, each beside a healthy Pod: the fault has its code, the healthy Pod is
// whole, the answer is there within the scrape timeout, and no label holds an address.
func TestFaultyPods(t *testing.T) {
	var fleet []*discovery.Deployment
	for i, f := range faulty {
		d := vllmServing(fmt.Sprintf("m%02d", i), serverPod("healthy", endpoint(t, busy())), serverPod("ill", f.url(t)))
		fleet = append(fleet, d)
	}
	e := newExporter(t, settings{}, fleet...)
	for read := range 2 {
		started := time.Now()
		w := e.ask(t, "/metrics", deadlineHeader, "10")
		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("answered after %v", took)
		}
		got := parse(t, w.Body.Bytes())
		for i, f := range faulty {
			name := fleet[i].Name
			entries := slices.DeleteFunc(got.missing(name), func(s string) bool { return strings.HasPrefix(s, "healthy ") })
			if want := []string{"ill scrape " + string(f.reason)}; !slices.Equal(entries, want) {
				t.Errorf("%s: missing %q, want %q", f.name, entries, want)
			}
			of := []string{"modeldeployment", name}
			if got.value(t, "modeldeployment_up", of...) != 1 || got.value(t, "modeldeployment_partial", of...) != 1 {
				t.Errorf("%s: not up and partial", f.name)
			}
			if v := got.value(t, "modeldeployment_source_pods", append(of, "source", "vllm:num_requests_running")...); v != 1 {
				t.Errorf("%s: %v Pods in the gauge, want the healthy one", f.name, v)
			}
			if v := got.value(t, "modeldeployment_running_requests", of...); v != float64(read+1) {
				t.Errorf("%s: %v requests run on the healthy Pod, want %v", f.name, v, read+1)
			}
			if n := len(got.find("modeldeployment_window_seconds", of...)); n != 4*read {
				t.Errorf("%s: %d windows on the healthy Pod at read %d, want %d", f.name, n, read+1, 4*read)
			}
			if n := len(got.find("modeldeployment_pod_read_timestamp_seconds", append(of, "pod", "ill")...)); n != 0 {
				t.Errorf("%s: it has been read", f.name)
			}
		}
		address := regexp.MustCompile(`\d+\.\d+\.\d+\.\d+|localhost|:\d{4,}|https?:`)
		for line := range strings.Lines(w.Body.String()) {
			if strings.HasPrefix(line, "modeldeployment_") && address.MatchString(line) {
				t.Errorf("an address in %s", line)
			}
		}
	}
}

// The reasons of a deployment that lacks Pods, from manifests on.
func TestFaultyDeployments(t *testing.T) {
	const head = "apiVersion: worker.gpustack.ai/v1alpha1\nkind: ModelDeployment\nmetadata: {name: %s, namespace: ns, uid: %s}\nspec: %s\n---\n"
	var manifest strings.Builder
	specs := map[string]struct {
		spec    string
		missing []string
	}{
		"none":    {`{engine: {name: vllm}, roles: [{name: server, replicas: 2}]}`, []string{"engine/server no_pods"}},
		"routed":  {`{engine: {name: vllm}, roles: [{name: server}], router: {name: vllm-router}}`, []string{"engine/server no_pods", "router no_pods"}},
		"engine":  {`{engine: {name: mystery}, roles: [{name: server}]}`, []string{"engine/server no_pods", "engine/server unknown_engine"}},
		"router":  {`{engine: {name: vllm}, roles: [{name: server}], router: {name: mystery}}`, []string{"engine/server no_pods", "router no_pods", "router unknown_router"}},
		"nothing": {`{engine: {name: vllm}, roles: [{name: server, replicas: 0}]}`, []string{}},
		"own":     {`{engine: {name: vllm}, roles: [{name: server, command: [serve]}]}`, []string{}},
	}
	for name, s := range specs {
		fmt.Fprintf(&manifest, head, name, "uid-"+name, s.spec)
	}
	e := newExporter(t, settings{}, discovered(t, manifest.String()).Deployments...)
	got := e.scrape(t, "/metrics")
	for name, s := range specs {
		missing := slices.Sorted(slices.Values(got.missing(name)))
		if !slices.Equal(missing, s.missing) {
			t.Errorf("%s: missing %q, want %q", name, missing, s.missing)
		}
		got.value(t, "modeldeployment_info", "modeldeployment", name)
		up := got.find("modeldeployment_up", "modeldeployment", name)
		if len(s.missing) == 0 && len(up) != 0 {
			t.Errorf("%s expects no Pod and has an up", name)
		}
		if len(s.missing) > 0 && (len(up) != 1 || valueOf(up[0]) != 0 || got.value(t, "modeldeployment_partial", "modeldeployment", name) != 1) {
			t.Errorf("%s is not unavailable", name)
		}
	}
}
