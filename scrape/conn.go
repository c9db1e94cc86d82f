package scrape

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"
)

// dialer opens the connections. The transport detaches a dial from the request that asked for it, so
// that another request can use the connection: the limit here is what ends a dial that hangs.
type dialer struct {
	timeout time.Duration
	tls     *tls.Config
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: raw}, nil
}

func (d *dialer) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}

	c := new(conn)
	cfg := d.tls.Clone()
	cfg.ServerName = host
	certificate := cfg.GetClientCertificate
	cfg.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c.unsettled.Store(true)
		if certificate == nil {
			return new(tls.Certificate), nil
		}
		return certificate(info)
	}
	client := tls.Client(raw, cfg)
	if err := client.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, &handshakeError{err}
	}
	c.Conn = client
	return c, nil
}

// conn keeps what net/http does not tell of a connection.
type conn struct {
	net.Conn
	// ended is true once a read found the connection closed or broken. Without it a header line
	// that was cut short looks like a malformed one.
	ended atomic.Bool
	// alien is true where the first byte of the answer is none of HTTP's: what followed was no header
	// line that was cut short.
	alien atomic.Bool
	// awaiting is true from the request to the first byte of its answer.
	awaiting atomic.Bool
	// unsettled is true from a TLS server's request for a certificate to its first byte: with TLS 1.3
	// the handshake is over for the client before the server has looked at its certificate, or at
	// there being none. The refusal is an alert on the first read, or a reset where the alert was
	// lost on the way.
	unsettled atomic.Bool
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.unsettled.Store(false)
		if c.awaiting.CompareAndSwap(true, false) {
			c.alien.Store(p[0] != 'H')
		}
	}
	if err != nil {
		c.ended.Store(true)
	}
	return n, c.refused(err)
}

func (c *conn) Write(p []byte) (int, error) {
	c.awaiting.Store(true)
	n, err := c.Conn.Write(p)
	return n, c.refused(err)
}

func (c *conn) refused(err error) error {
	if err == nil || isTimeout(err) || !c.unsettled.Load() {
		return err
	}
	return &handshakeError{err}
}
