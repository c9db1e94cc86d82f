package scrape

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/config"

	"github.com/md-exporter/md-exporter/normalize"
)

// The bounds of a client whose Config leaves them zero.
const (
	// DefaultTimeout leaves room for two rounds of hanging Pods within a collection's eight seconds.
	DefaultTimeout = 2 * time.Second
	// DefaultMaxBodyBytes is several times the largest exposition seen from an engine or router.
	DefaultMaxBodyBytes = 1 << 20
	// DefaultMaxIdleConns keeps a connection to each Pod of all but the largest fleets; each holds some
	// fifteen kilobytes.
	DefaultMaxIdleConns = 1024
	// DefaultIdleConnTimeout outlasts the usual scrape intervals, one of two minutes included.
	DefaultIdleConnTimeout = 150 * time.Second
)

const (
	// A Pod is read by one collection at a time, and now and then by an overlapping probe.
	maxIdleConnsPerHost = 2
	// No engine or router answers with more than a few hundred bytes of headers.
	maxHeaderBytes = 64 << 10
	// What a connection holds while it waits: little, since there are thousands.
	connBuffer = 2 << 10
	// A short error body is read out so that its connection can be used again; a longer one costs
	// more than a new connection.
	maxDrainBytes = 4 << 10

	accept = "text/plain;version=0.0.4"
	// Nothing compressed is asked for: Python engines would compress on the event loop that serves
	// requests, and a decompressor here takes as much memory as many a body.
	acceptEncoding   = "identity"
	defaultUserAgent = "md-exporter"
)

// Config is how a Client reads. The zero value is ready for use.
type Config struct {
	// Timeout is the limit of one read, from dialing to the last byte of the body, the redirect
	// included. Zero means DefaultTimeout.
	Timeout time.Duration
	// MaxBodyBytes caps a body, as it is on the wire and after decompression alike. Zero means
	// DefaultMaxBodyBytes.
	MaxBodyBytes int64
	// TLS is what https endpoints are verified against, and the client certificate, if any. Nil
	// means the system's roots and no client certificate.
	TLS *config.TLSConfig
	// UserAgent is the request's User-Agent. Empty means md-exporter.
	UserAgent string
	// MaxIdleConns bounds the connections kept for later reads, over all Pods. Zero means
	// DefaultMaxIdleConns.
	MaxIdleConns int
	// IdleConnTimeout is how long a connection waits for the next read. Zero means
	// DefaultIdleConnTimeout.
	IdleConnTimeout time.Duration
}

// Client reads Pods and keeps connections to them. It is safe for concurrent use.
type Client struct {
	transport *http.Transport
	timeout   time.Duration
	maxBody   int64
	userAgent string
	gzips     sync.Pool // of *gzip.Reader
	buffers   sync.Pool // of *[copyBuffer]byte
}

// NewClient makes a client. It returns an error that names what is wrong: a negative bound, a
// tls_config that turns verification off or away from the Pod's address, a file that cannot be read.
func NewClient(cfg Config) (*Client, error) {
	switch {
	case cfg.Timeout < 0:
		return nil, fmt.Errorf("scrape timeout is negative: %v", cfg.Timeout)
	case cfg.MaxBodyBytes < 0:
		return nil, fmt.Errorf("scrape body limit is negative: %d bytes", cfg.MaxBodyBytes)
	case cfg.MaxIdleConns < 0:
		return nil, fmt.Errorf("scrape idle connection limit is negative: %d", cfg.MaxIdleConns)
	case cfg.IdleConnTimeout < 0:
		return nil, fmt.Errorf("scrape idle connection timeout is negative: %v", cfg.IdleConnTimeout)
	}
	tlsConfig, err := newTLSConfig(cfg.TLS)
	if err != nil {
		return nil, err
	}

	c := &Client{
		timeout:   orDefault(cfg.Timeout, DefaultTimeout),
		maxBody:   orDefault(cfg.MaxBodyBytes, DefaultMaxBodyBytes),
		userAgent: orDefault(cfg.UserAgent, defaultUserAgent),
	}
	d := &dialer{timeout: c.timeout, tls: tlsConfig}
	// Nothing but HTTP/1.1: a Pod's endpoint answers one request at a time.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	c.transport = &http.Transport{
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		Protocols:              &protocols,
		DisableCompression:     true, // decompressed here, where its failures are told apart
		MaxIdleConns:           orDefault(cfg.MaxIdleConns, DefaultMaxIdleConns),
		MaxIdleConnsPerHost:    maxIdleConnsPerHost,
		IdleConnTimeout:        orDefault(cfg.IdleConnTimeout, DefaultIdleConnTimeout),
		MaxResponseHeaderBytes: maxHeaderBytes,
		ReadBufferSize:         connBuffer,
		WriteBufferSize:        connBuffer / 2,
	}
	return c, nil
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Close closes the idle connections. Reads in flight are left to end.
func (c *Client) Close() {
	c.transport.CloseIdleConnections()
}

// Get reads the endpoint and writes the decompressed body to body as it arrives, at most MaxBodyBytes
// of it; body must not fail. The error is nil or an *Error: what was written is then half a body, and
// not to be used.
func (c *Client) Get(ctx context.Context, url string, body io.Writer) error {
	read, cancel := withLimit(ctx, c.timeout)
	defer cancel()
	if err := c.get(read.ctx, url, body); err != nil {
		return read.classify(err)
	}
	return nil
}

func (c *Client) get(ctx context.Context, rawURL string, body io.Writer) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return &Error{normalize.NotAdvertised, err}
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return &Error{normalize.NotAdvertised, fmt.Errorf("not an http or https URL: %q", rawURL)}
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""

	resp, err := c.request(ctx, u)
	if err != nil {
		return err
	}
	if next := redirect(u, resp); next != nil {
		discard(resp)
		if resp, err = c.request(ctx, next); err != nil {
			return err
		}
	}
	if resp.StatusCode != http.StatusOK {
		discard(resp)
		return &Error{normalize.HTTPStatus, fmt.Errorf("status %d", resp.StatusCode)}
	}
	defer resp.Body.Close()
	return c.readBody(resp, body)
}

func (c *Client) request(ctx context.Context, u *url.URL) (*http.Response, error) {
	var on *conn
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { on, _ = info.Conn.(*conn) },
	})
	req := (&http.Request{
		Method:     http.MethodGet,
		URL:        u,
		Host:       u.Host,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header: http.Header{
			"Accept":          {accept},
			"Accept-Encoding": {acceptEncoding},
			"User-Agent":      {c.userAgent},
		},
	}).WithContext(ctx)
	resp, err := c.transport.RoundTrip(req)
	if err != nil && ctx.Err() == nil && on != nil && on.ended.Load() && !on.alien.Load() {
		return nil, &closedError{err}
	}
	return resp, err
}

// redirect returns where the response may be followed to: /metrics/ on the same scheme, host and
// port, which is how frameworks that mount an application under a prefix answer /metrics. It returns
// nil for any other response.
func redirect(from *url.URL, resp *http.Response) *url.URL {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil
	}
	location := resp.Header.Values("Location")
	if len(location) != 1 || location[0] == "" {
		return nil
	}
	to, err := from.Parse(location[0])
	if err != nil {
		return nil
	}
	const path = "/metrics/"
	if to.Scheme != from.Scheme || !strings.EqualFold(to.Hostname(), from.Hostname()) || port(to) != port(from) ||
		to.User != nil || to.Path != path || to.EscapedPath() != path ||
		to.RawQuery != "" || to.ForceQuery || strings.Contains(location[0], "#") {
		return nil
	}
	return to
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// discard closes a response that is not used, reading a short rest so that the connection survives.
func discard(resp *http.Response) {
	if 0 < resp.ContentLength && resp.ContentLength <= maxDrainBytes {
		var rest [maxDrainBytes]byte
		for {
			if _, err := resp.Body.Read(rest[:]); err != nil {
				break
			}
		}
	}
	resp.Body.Close()
}

var errTooLarge = errors.New("body is over the size limit")

// readBody writes the decompressed body.
func (c *Client) readBody(resp *http.Response, body io.Writer) error {
	if resp.ContentLength > c.maxBody {
		return &Error{normalize.ResponseTooLarge, fmt.Errorf("Content-Length is %d bytes, the limit is %d", resp.ContentLength, c.maxBody)}
	}
	wire := &wireReader{body: resp.Body, left: c.maxBody}
	encoding, err := contentEncoding(resp.Header)
	if err != nil {
		return &Error{normalize.MalformedResponse, err}
	}

	if encoding == "gzip" {
		err = c.gunzip(wire, body)
	} else {
		err = c.copy(body, wire)
	}
	switch {
	case wire.err != nil:
		// The decompressor reports a connection that broke as a stream that is truncated.
		return wire.err
	case errors.Is(err, errTooLarge):
		return &Error{normalize.ResponseTooLarge, fmt.Errorf("%w of %d bytes", err, c.maxBody)}
	case err != nil:
		return &Error{normalize.MalformedResponse, err}
	}
	return nil
}

// gunzip decompresses every member of the stream.
func (c *Client) gunzip(wire *wireReader, body io.Writer) error {
	z, ok := c.gzips.Get().(*gzip.Reader)
	if !ok {
		z = new(gzip.Reader)
	}
	defer c.gzips.Put(z)
	if err := z.Reset(wire); err != nil {
		return fmt.Errorf("gzip: %w", err)
	}
	err := c.copy(body, z)
	if err != nil && !errors.Is(err, errTooLarge) {
		return fmt.Errorf("gzip: %w", err)
	}
	return err
}

// contentEncoding returns "gzip", or "" for a body as it is.
func contentEncoding(h http.Header) (string, error) {
	all := strings.Join(h.Values("Content-Encoding"), ",")
	switch strings.ToLower(strings.TrimSpace(all)) {
	case "", "identity":
		return "", nil
	case "gzip", "x-gzip":
		return "gzip", nil
	}
	return "", fmt.Errorf("Content-Encoding %q was not asked for", all)
}
