package scrape

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// quiet keeps the expected handshake failures out of the test output.
var quiet = log.New(io.Discard, "", 0)

const exposition = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3\n"

// rawServer answers each connection with a function, and counts connections.
type rawServer struct {
	net.Listener
	accepted atomic.Int64
}

func (s *rawServer) url() string { return "http://" + s.Addr().String() + "/metrics" }

// serveRaw serves until the test ends: it closes the listener and every connection, and waits.
func serveRaw(t testing.TB, handle func(net.Conn)) *rawServer {
	return serveRawOn(t, "127.0.0.1:0", handle)
}

func serveRawOn(t testing.TB, addr string, handle func(net.Conn)) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skipf("cannot listen on %s: %v", addr, err)
	}
	s := &rawServer{Listener: l}
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
			s.accepted.Add(1)
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			done.Go(func() {
				defer conn.Close()
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
	return s
}

// awaitRequest reads one request's head.
func awaitRequest(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil || line == "\r\n" {
			return
		}
	}
}

// answer writes the text after the request came in, and closes.
func answer(text string) func(net.Conn) {
	return func(conn net.Conn) {
		awaitRequest(conn)
		io.WriteString(conn, text)
	}
}

// answerAndHang writes the text after the request came in, and keeps the connection open.
func answerAndHang(text string) func(net.Conn) {
	return func(conn net.Conn) {
		awaitRequest(conn)
		io.WriteString(conn, text)
		io.Copy(io.Discard, conn)
	}
}

// ok is a complete answer with a body and further header lines.
func ok(body string, headers ...string) string {
	head := "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	for _, h := range headers {
		head += h + "\r\n"
	}
	return head + "\r\n" + body
}

func chunked(headers, chunks string) string {
	return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + headers + "\r\n" + chunks
}

func zip(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.String()
}

// noise is text that does not compress.
func noise(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return string(b)
}

func flipped(s string, at int) string {
	b := []byte(s)
	b[at] ^= 0xff
	return string(b)
}

func newTestClient(t testing.TB, cfg Config) *Client {
	t.Helper()
	c, err := NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// authority signs the certificates of one test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// issue returns a certificate and key in PEM for the address, valid until the given time.
func (a *authority) issue(t testing.TB, ip string, until time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "pod"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.ParseIP(ip)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// serveTLS serves the exposition over https on 127.0.0.1 with a configuration made from the pair.
func serveTLS(t testing.TB, cert, key string, cfg *tls.Config) string {
	t.Helper()
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, exposition)
	}))
	s.Config.ErrorLog = quiet
	s.TLS = cfg
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL + "/metrics"
}

func writeFile(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// repeat is n bytes that compress well.
func repeat(n int) string { return strings.Repeat("a", n) }
