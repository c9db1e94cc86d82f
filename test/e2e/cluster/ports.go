package cluster

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// The ports are below those that Linux gives to outgoing connections (32768 and up), so that a port
// stays a stopped server's own until it starts again.
const (
	firstPort = 20000
	lastPort  = 32000
)

var (
	portsMutex sync.Mutex
	portsTaken = map[int]bool{}
)

// FreePort is a port on which nothing listens and which it has not given before.
func FreePort(t testing.TB) int {
	t.Helper()
	portsMutex.Lock()
	defer portsMutex.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if portsTaken[port] {
			continue
		}
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", loopback(port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatalf("no free port: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		portsTaken[port] = true
		return port
	}
	t.Fatalf("no free port from %d to %d", firstPort, lastPort)
	return 0
}

// loopback is the address of a port on this machine alone.
func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
