package simulate

import (
	"fmt"
	"net"
)

// placeholder holds an address that refuses connections: the port is the near end of a connection
// to a listener of our own, so nobody listens on it and nobody else can.
type placeholder struct {
	far  net.Listener
	near net.Conn
}

// hold takes the address, or a free port of its host where the port is 0.
func hold(address string) (*placeholder, error) {
	local, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("simulate: hold %s: %w", address, err)
	}
	far, err := net.ListenTCP("tcp", &net.TCPAddr{IP: local.IP, Zone: local.Zone})
	if err != nil {
		return nil, fmt.Errorf("simulate: hold %s: %w", address, err)
	}
	near, err := net.DialTCP("tcp", local, far.Addr().(*net.TCPAddr))
	if err != nil {
		_ = far.Close()
		return nil, fmt.Errorf("simulate: hold %s: %w", address, err)
	}
	return &placeholder{far: far, near: near}, nil
}

func (p *placeholder) address() string { return p.near.LocalAddr().String() }

func (p *placeholder) release() {
	if c, ok := p.near.(*net.TCPConn); ok {
		_ = c.SetLinger(0) // leave no TIME_WAIT: the port is wanted again at once
	}
	_ = p.near.Close()
	_ = p.far.Close()
}
