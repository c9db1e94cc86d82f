package e2e

import (
	"encoding/hex"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// onlyLoopback fails the test if something listens on the URL's port on any address but loopback,
// or if nothing listens there at all.
func onlyLoopback(t *testing.T, server string) {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		content, err := os.ReadFile(table)
		if os.IsNotExist(err) { // a kernel without IPv6
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			const local, state, listening = 1, 3, "0A"
			fields := strings.Fields(line)
			if len(fields) <= state || fields[state] != listening {
				continue
			}
			host, port, _ := strings.Cut(fields[local], ":")
			if n, err := strconv.ParseUint(port, 16, 16); err != nil || strconv.FormatUint(n, 10) != u.Port() {
				continue
			}
			found++
			if ip := kernelIP(t, host); !ip.IsLoopback() {
				t.Errorf("%s also listens on %s", server, ip)
			}
		}
	}
	if found == 0 {
		t.Errorf("nothing listens on %s", server)
	}
}

// kernelIP reads an address as the kernel prints it: words of four bytes in the machine's order,
// which is little-endian wherever these tests run.
func kernelIP(t *testing.T, s string) net.IP {
	t.Helper()
	ip, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	for word := range slices.Chunk(ip, 4) {
		slices.Reverse(word)
	}
	return ip
}
