package scrape

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/config"

	"github.com/md-exporter/md-exporter/normalize"
)

func TestTLS(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	later, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	trusted := config.TLSConfig{CA: ca.pem}
	withClient := func(a *authority) config.TLSConfig {
		cert, key := a.issue(t, "127.0.0.1", later)
		return config.TLSConfig{CA: ca.pem, Cert: cert, Key: config.Secret(key)}
	}
	demanding := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.pool()}
	demanding12 := demanding.Clone()
	demanding12.MaxVersion = tls.VersionTLS12

	for _, tt := range []struct {
		name   string
		signer *authority
		ip     string
		until  time.Time
		server *tls.Config
		client config.TLSConfig
		want   normalize.Reason
	}{
		{"trusted", ca, "127.0.0.1", later, &tls.Config{}, trusted, ""},
		{"TLS 1.2", ca, "127.0.0.1", later, &tls.Config{MaxVersion: tls.VersionTLS12}, trusted, ""},
		{"unknown authority", stranger, "127.0.0.1", later, &tls.Config{}, trusted, normalize.TLSFailed},
		{"no authority given", ca, "127.0.0.1", later, &tls.Config{}, config.TLSConfig{}, normalize.TLSFailed},
		{"another address", ca, "127.0.0.9", later, &tls.Config{}, trusted, normalize.TLSFailed},
		{"expired", ca, "127.0.0.1", past, &tls.Config{}, trusted, normalize.TLSFailed},
		{"version too old", ca, "127.0.0.1", later, &tls.Config{MaxVersion: tls.VersionTLS12},
			config.TLSConfig{CA: ca.pem, MinVersion: config.TLSVersion(tls.VersionTLS13)}, normalize.TLSFailed},
		{"client certificate given", ca, "127.0.0.1", later, demanding, withClient(ca), ""},
		{"client certificate missing", ca, "127.0.0.1", later, demanding, trusted, normalize.TLSFailed},
		{"client certificate missing, TLS 1.2", ca, "127.0.0.1", later, demanding12, trusted, normalize.TLSFailed},
		{"client certificate not trusted", ca, "127.0.0.1", later, demanding, withClient(stranger), normalize.TLSFailed},
		{"client certificate optional", ca, "127.0.0.1", later, &tls.Config{ClientAuth: tls.RequestClientCert}, trusted, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cert, key := tt.signer.issue(t, tt.ip, tt.until)
			url := serveTLS(t, cert, key, tt.server.Clone())
			// A refusal behind the handshake races with the request: every order must end the same.
			for range 20 {
				c := newTestClient(t, Config{Timeout: time.Minute, TLS: &tt.client})
				var buf bytes.Buffer
				err := c.Get(t.Context(), url, &buf)
				if got := reasonOf(t, err); got != tt.want {
					t.Fatalf("reason %q, want %q (%v)", got, tt.want, err)
				}
				if tt.want == "" && buf.String() != exposition {
					t.Fatalf("body %q", buf.String())
				}
				c.Close()
			}
		})
	}
}

// TestNoTLSBehindHTTPS reads https from servers that speak none.
func TestNoTLSBehindHTTPS(t *testing.T) {
	for _, tt := range []struct {
		name    string
		handle  func(net.Conn)
		timeout time.Duration
		want    normalize.Reason
	}{
		{"plain HTTP", func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); io.Copy(io.Discard, c) }, time.Minute, normalize.TLSFailed},
		{"garbage", func(c net.Conn) { io.WriteString(c, "-ERR unknown command\r\n"); io.Copy(io.Discard, c) }, time.Minute, normalize.TLSFailed},
		{"closed within the handshake", func(c net.Conn) { c.Read(make([]byte, 1)) }, time.Minute, normalize.TLSFailed},
		{"reset within the handshake", func(c net.Conn) { c.Read(make([]byte, 1)); reset(c) }, time.Minute, normalize.TLSFailed},
		{"handshake never ends", func(c net.Conn) { io.Copy(io.Discard, c) }, 150 * time.Millisecond, normalize.Timeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := strings.Replace(serveRaw(t, tt.handle).url(), "http://", "https://", 1)
			err := newTestClient(t, Config{Timeout: tt.timeout}).Get(t.Context(), url, new(bytes.Buffer))
			if got := reasonOf(t, err); got != tt.want {
				t.Errorf("reason %q, want %q (%v)", got, tt.want, err)
			}
		})
	}

	t.Run("refused", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		err = newTestClient(t, Config{}).Get(t.Context(), "https://"+l.Addr().String()+"/metrics", new(bytes.Buffer))
		if got := reasonOf(t, err); got != normalize.ConnectionFailed {
			t.Errorf("reason %q (%v)", got, err)
		}
	})

	t.Run("the caller's deadline within the handshake", func(t *testing.T) {
		url := strings.Replace(serveRaw(t, func(c net.Conn) { io.Copy(io.Discard, c) }).url(), "http://", "https://", 1)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := newTestClient(t, Config{Timeout: 200 * time.Millisecond}).Get(ctx, url, new(bytes.Buffer))
		if got := reasonOf(t, err); got != normalize.ScrapeDeadline {
			t.Errorf("reason %q (%v)", got, err)
		}
	})
}

// TestTLSBehindHTTP reads http from a server that expects TLS: Go's says so with a status, others
// with an alert.
func TestTLSBehindHTTP(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = quiet
	s.StartTLS()
	defer s.Close()
	c := newTestClient(t, Config{})
	err := c.Get(t.Context(), strings.Replace(s.URL, "https://", "http://", 1)+"/metrics", new(bytes.Buffer))
	if got := reasonOf(t, err); got != normalize.HTTPStatus {
		t.Errorf("reason %q (%v)", got, err)
	}

	alert := serveRaw(t, answer("\x15\x03\x01\x00\x02\x02\x46\r\n"))
	err = c.Get(t.Context(), alert.url(), new(bytes.Buffer))
	if got := reasonOf(t, err); got != normalize.MalformedResponse {
		t.Errorf("reason %q (%v)", got, err)
	}
}

// TestTLSConnectionReuse counts the handshakes of many reads.
func TestTLSConnectionReuse(t *testing.T) {
	ca := newAuthority(t)
	cert, key := ca.issue(t, "127.0.0.1", time.Now().Add(time.Hour))
	handshakes := 0
	url := serveTLS(t, cert, key, &tls.Config{
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { handshakes++; return nil, nil },
	})
	c := newTestClient(t, Config{TLS: &config.TLSConfig{CA: ca.pem}})
	for range 10 {
		if err := c.Get(t.Context(), url, new(bytes.Buffer)); err != nil {
			t.Fatal(err)
		}
	}
	if handshakes != 1 {
		t.Errorf("10 reads took %d handshakes", handshakes)
	}
}

func TestLoadTLSConfig(t *testing.T) {
	ca := newAuthority(t)
	cert, key := ca.issue(t, "127.0.0.1", time.Now().Add(time.Hour))
	dir := t.TempDir()
	writeFile(t, dir, "ca.pem", ca.pem)
	writeFile(t, dir, "pod.pem", cert)
	writeFile(t, dir, "pod.key", key)
	path := writeFile(t, dir, "tls.yaml", "ca_file: ca.pem\ncert_file: pod.pem\nkey_file: pod.key\nmin_version: TLS13\n")

	cfg, err := LoadTLSConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "ca.pem"); cfg.CAFile != want || cfg.MinVersion != config.TLSVersion(tls.VersionTLS13) {
		t.Errorf("CA %q (want %q), version %v", cfg.CAFile, want, cfg.MinVersion)
	}
	url := serveTLS(t, cert, key, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.pool()})
	if err := newTestClient(t, Config{TLS: cfg}).Get(t.Context(), url, new(bytes.Buffer)); err != nil {
		t.Error(err)
	}

	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", ""},
		{"versions", "min_version: TLS12\nmax_version: TLS13\n", ""},
		{"verification off", "insecure_skip_verify: true\n", "insecure_skip_verify is refused"},
		{"verification on", "insecure_skip_verify: false\n", ""},
		{"another name", "server_name: pod\n", "server_name is refused"},
		{"unknown field", "ca_fil: ca.pem\n", "field ca_fil not found"},
		{"two documents", "ca_file: a\n---\nca_file: b\n", "more than one YAML document"},
		{"not YAML", "ca_file: [", "did not find expected node content"},
		{"unknown version", "min_version: TLS14\n", "unknown TLS version: TLS14"},
		{"two CAs", "ca_file: a\nca: b\n", "at most one of ca, ca_file"},
		{"certificate without key", "cert_file: pod.pem\n", "exactly one of key or key_file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := writeFile(t, t.TempDir(), "tls.yaml", tt.text)
			_, err := LoadTLSConfig(path)
			checkLine(t, err, path, tt.want)
		})
	}
	t.Run("missing", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tls.yaml")
		_, err := LoadTLSConfig(path)
		checkLine(t, err, path, "no such file")
	})
}

// checkLine wants no error, or one of one line that names the file and says what is wrong.
func checkLine(t *testing.T, err error, file, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want one line with %q and %q", err, file, want)
	}
}

func TestNewClient(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "ca.pem")
	for _, tt := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"negative time", Config{Timeout: -1}, "timeout is negative"},
		{"negative body", Config{MaxBodyBytes: -1}, "body limit is negative"},
		{"negative connections", Config{MaxIdleConns: -1}, "connection limit is negative"},
		{"negative idle time", Config{IdleConnTimeout: -1}, "connection timeout is negative"},
		{"verification off", Config{TLS: &config.TLSConfig{InsecureSkipVerify: true}}, "insecure_skip_verify is refused"},
		{"another name", Config{TLS: &config.TLSConfig{ServerName: "pod"}}, "server_name is refused"},
		{"missing CA", Config{TLS: &config.TLSConfig{CAFile: missing}}, missing},
		{"CA is none", Config{TLS: &config.TLSConfig{CA: "text"}}, "unable to use specified CA cert"},
		{"missing certificate", Config{TLS: &config.TLSConfig{CertFile: missing, KeyFile: missing}}, missing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewClient(tt.cfg)
			checkLine(t, err, "", tt.want)
		})
	}
}
