package main

import (
	"strings"
	"testing"
)

// What is wrong is one line that names it, before anything listens.
func TestWrongAPIArguments(t *testing.T) {
	for _, row := range []struct{ args, names string }{
		{"--total-shards=2", "--total-shards"},
		{"--shard=0", "--shard"},
		{"--web.listen-address=:1", "--web.listen-address"},
		{"--api.group=UP", "--api.group=UP"},
		{"--api.version=1", "--api.version=1"},
		{"--api.listen-address=9443", "--api.listen-address=9443"},
		{"--api.tls-cert-file=tls.crt", "--api.tls-private-key-file"},
		{"--snapshot.timeout=0s", "--snapshot.timeout"},
		{"--window.min=151s", "--window.min=2m31s"},
		{"", "--manifests=PATH"},
		{"--manifests=.", "a cluster who may ask"},
		{"--manifests=. --namespace=chat", "--namespace"},
	} {
		got := runToEnd(t, strings.Fields("apiserver "+row.args)...)
		if got.status != 1 || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, row.names) {
			t.Errorf("%s: status %d, stdout %q, stderr %q, want one line that names %s", row.args, got.status, got.stdout, got.stderr, row.names)
		}
	}
}
