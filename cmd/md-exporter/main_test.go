package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is wrong is one line that names it, and nothing listens.
func TestWrongArguments(t *testing.T) {
	good := "--manifests=" + t.TempDir()
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	broken := write(t, "broken.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a\n")
	second := write(t, "second.yaml", "kind: Pod\napiVersion: v1\nmetadata: {name: a}\n---\nkind: Pod\napiVersion: v1\nmetadata: {namespace: ns}\n")
	scalar := write(t, "scalar.yaml", "just text\n")
	mistyped := write(t, "mistyped.json", `{"apiVersion":"worker.gpustack.ai/v1alpha1","kind":"ModelDeployment","metadata":{"name":"m"},"spec":{"roles":7}}`)
	skips := write(t, "skips.yaml", "insecure_skip_verify: true\n")
	web := write(t, "web.yaml", "tls_server_config: {cert_file: nowhere.pem, key_file: nowhere.key}\n")
	html := write(t, "page.html", "<html>\n<body>not found</body>\n</html>\n")
	engines := write(t, "engines.prom", "vllm:num_requests_running 1\nsglang:num_running_reqs 2\n")
	routed := write(t, "routed.prom", "vllm:num_requests_running 1\nllm_d_epp_request_running 2\n")
	unknown := write(t, "unknown.prom", "up 1\n")
	halved := write(t, "halved.prom", "vllm:num_requests_running 1\nvllm:num_requests_waiting")
	for _, row := range []struct {
		args  string
		names string
	}{
		{"", "--manifests"},
		{"serve", "--manifests"},
		{"nosuch", "nosuch"},
		{"serve more", "more"},
		{"--nosuch", "--nosuch"},
		{"--manifests", "--manifests"},

		{good + " --web.max-requests=many", "--web.max-requests=many"},
		{good + " --web.max-requests=0", "--web.max-requests"},
		{good + " --scrape.timeout=2", "--scrape.timeout=2"},
		{good + " --scrape.timeout=0s", "--scrape.timeout"},
		{good + " --scrape.timeout=-1s", "--scrape.timeout"},
		{good + " --scrape.timeout-offset=-1ms", "--scrape.timeout-offset"},
		{good + " --scrape.timeout-offset=soon", "--scrape.timeout-offset=soon"},
		{good + " --scrape.concurrency=0", "--scrape.concurrency"},
		{good + " --scrape.concurrency=few", "--scrape.concurrency=few"},
		{good + " --scrape.max-inflight=-1", "--scrape.max-inflight"},
		{good + " --scrape.max-pods=0", "--scrape.max-pods"},
		{good + " --scrape.max-body-bytes=0", "--scrape.max-body-bytes"},
		{good + " --scrape.max-body-bytes=1MiB", "--scrape.max-body-bytes=1MiB"},
		{good + " --scrape.max-body-bytes=9223372036854775807", "--scrape.max-body-bytes"},
		{good + " --scrape.timeout=25h", "--scrape.timeout"},
		{good + " --snapshot.timeout=0s", "--snapshot.timeout"},
		{good + " --snapshot.timeout=2540400h", "--snapshot.timeout"},
		{good + " --window.max-age=25h", "--window.max-age"},
		{good + " --window.max-age=0s", "--window.max-age"},
		{good + " --window.min=-1s", "--window.min"},
		{good + " --window.min=151s", "--window.min=2m31s"},
		{good + " --window.min=6s --window.max-age=11s", "--window.min=6s"},
		{good + " --shard=1", "--shard=1"},
		{good + " --shard=-1", "--shard=-1"},
		{good + " --shard=2 --total-shards=2", "--shard=2"},
		{good + " --total-shards=0", "--total-shards"},
		{good + " --shard=0 --shard=0", "shard"},
		{good + " --log.level=loud", "--log.level=loud"},
		{good + " --log.format=xml", "--log.format=xml"},

		{good + " --web.listen-address=9847", "--web.listen-address=9847"},
		{good + " --web.listen-address=127.0.0.1:70000", "--web.listen-address=127.0.0.1:70000"},
		{good + " --web.listen-address=", "--web.listen-address="},
		{good + " --web.config.file=" + missing, missing},
		{good + " --web.config.file=" + web, web},
		{good + " --scrape.tls-config-file=" + missing, missing},
		{good + " --scrape.tls-config-file=" + broken, broken},
		{good + " --scrape.tls-config-file=" + skips, skips},

		{"--kubeconfig=" + missing, missing},
		{"--kubeconfig=" + broken, broken},
		{good + " --kubeconfig=" + missing, "--kubeconfig"},
		{good + " --namespace=chat", "--namespace"},

		{"--manifests=" + missing, missing},
		{good + " --manifests=" + missing, missing},
		{"--manifests=" + broken, broken},
		{"--manifests=" + second, second + ": document 2: Pod"},
		{"--manifests=" + scalar, scalar},
		{"--manifests=" + mistyped, mistyped},
		{"--manifests=" + os.DevNull, os.DevNull},
		{"--manifests=" + filepath.Dir(broken), broken},

		{"snapshot", "NAMESPACE/NAME"},
		{"snapshot " + good, "NAMESPACE/NAME"},
		{"snapshot m " + good, `"m" is not NAMESPACE/NAME`},
		{"snapshot /m " + good, `"/m"`},
		{"snapshot chat/ " + good, `"chat/"`},
		{"snapshot chat/m/n " + good, `"chat/m/n"`},
		{"snapshot chat/m " + good, "no ModelDeployment chat/m"},
		{"snapshot chat/m -o xml " + good, "--output=xml"},
		{"snapshot chat/m --window=0s " + good, "--window"},
		{"snapshot chat/m --window=25h " + good, "--window must be at most"},
		{"snapshot chat/m --snapshot.timeout=25h " + good, "--snapshot.timeout must be at most"},
		{"snapshot chat/m --window=5 " + good, "--window=5"},
		{"snapshot chat/m --scrape.max-pods=0 " + good, "--scrape.max-pods"},
		{"snapshot chat/m --scrape.tls-config-file=" + missing + " " + good, missing},
		{"snapshot chat/m --namespace=chat " + good, "--namespace"},
		{"snapshot chat/m --kubeconfig=" + missing, missing},
		{"snapshot chat/m --kubeconfig=" + broken, broken},
		{"snapshot chat/m --kubeconfig=" + missing + " " + good, "--kubeconfig"},
		{"snapshot chat/m --manifests=" + missing, missing},
		{"snapshot chat/m --manifests=" + broken, broken},

		{"inspect", "FILE|-|URL"},
		{"inspect " + missing, missing},
		{"inspect " + unknown + " " + missing, missing},
		{"inspect " + filepath.Dir(unknown), filepath.Dir(unknown)},
		{"inspect - -", "- is given twice"},
		{"inspect a b c", "3 expositions"},
		{"inspect ftp://127.0.0.1/metrics", "ftp://127.0.0.1/metrics is not an http or https URL"},
		{"inspect http:///metrics", "http:///metrics"},
		{"inspect http://127.0.0.1:port/metrics", "127.0.0.1:port"},
		{"inspect http://127.0.0.1:1/metrics", "http://127.0.0.1:1/metrics: connection_failed"},
		{"inspect " + html, html + ": malformed exposition"},
		{"inspect --engine=vllm " + html, html + ": malformed exposition"},
		{"inspect " + engines, "--engine or --router, one of --engine=sglang, --engine=vllm"},
		{"inspect " + routed, "--engine=vllm, --router=llm-d-router"},
		{"inspect " + unknown, unknown + ": no series"},
		{"inspect " + os.DevNull, "say whose it is with --engine or --router"},
		{"inspect " + halved, halved + `: malformed exposition: "vllm:num_requests_waiting"`},
		{"inspect --scrape.max-body-bytes=4 " + unknown, "--scrape.max-body-bytes"},
		{"inspect --scrape.timeout=0s " + unknown, "--scrape.timeout"},
		{"inspect --window=-1s " + unknown, "--window"},
		{"inspect --engine=llama " + unknown, "--engine=llama"},
		{"inspect --router=nginx " + unknown, "--router=nginx"},
		{"inspect --role-kind=both " + unknown, "--role-kind=both"},
		{"inspect --engine=vllm --router=vllm-router " + unknown, "--engine and --router"},
		{"inspect --router=vllm-router --arg=--x " + unknown, "--arg"},
		{"inspect --engine=vllm --role-kind=decode --no-pair " + unknown, "--no-pair"},

		{"demo --manifests=x", "--manifests"},
		{"demo --seed=-1", "--seed=-1"},
		{"demo --scrape.max-pods=0", "--scrape.max-pods"},
		{"demo --web.listen-address=nowhere", "--web.listen-address=nowhere"},
	} {
		t.Run(strings.ReplaceAll(row.args, "/", "_"), func(t *testing.T) {
			t.Parallel()
			got := runToEnd(t, strings.Fields(row.args)...)
			if got.status != 1 || got.stdout != "" {
				t.Errorf("status %d, stdout %q", got.status, got.stdout)
			}
			if strings.Count(got.stderr, "\n") != 1 || !strings.HasSuffix(got.stderr, "\n") ||
				!strings.HasPrefix(got.stderr, "md-exporter: error: ") || !strings.Contains(got.stderr, row.names) {
				t.Errorf("stderr is %q, want one line that names %s", got.stderr, row.names)
			}
		})
	}
}

// A port that somebody else has is an error that names it.
func TestPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, command := range []string{"serve --manifests=" + t.TempDir(), "demo"} {
		got := runToEnd(t, strings.Fields(command+" --log.level=error --web.listen-address="+taken.Addr().String())...)
		if got.status != 1 || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, taken.Addr().String()) {
			t.Errorf("%s: status %d, stderr %q", command, got.status, got.stderr)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, row := range []struct {
		args string
		has  []string
	}{
		{"--version", []string{"md-exporter, version v1.2.3-test"}},
		{"--help", []string{"serve", "demo", "snapshot", "inspect", "--log.level"}},
		{"-h", []string{"serve", "demo"}},
		{"help", []string{"serve", "demo"}},
		{"serve --help", []string{"--manifests", "--web.listen-address", ":9847", "--scrape.timeout=2s", "--window.min=10s", "--snapshot.timeout=8s"}},
		{"snapshot --help", []string{"NAMESPACE/NAME", "--output=table", "-o", "--window=5s", "--manifests", "--scrape.timeout=2s"}},
		{"inspect --help", []string{"FILE|-|URL", "--engine", "--role-kind", "--[no-]pair", "--router", "--[no-]kv-cache", "--arg", "--window=30s", "sglang-gateway"}},
		{"demo --help", []string{"--seed", "--web.listen-address", "--scrape.timeout=2s"}},
	} {
		got := runToEnd(t, strings.Fields(row.args)...)
		if got.status != 0 || got.stderr != "" {
			t.Errorf("%s: status %d, stderr %q", row.args, got.status, got.stderr)
		}
		for _, part := range row.has {
			if !strings.Contains(got.stdout, part) {
				t.Errorf("%s: no %s in %q", row.args, part, got.stdout)
			}
		}
	}
}
