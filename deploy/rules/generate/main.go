// Command generate writes a Prometheus rule file as a PrometheusRule of prometheus-operator.
//
//	generate RULES.yaml PROMETHEUSRULE.yaml
//
// The text is moved, not parsed: comments and the layout of the expressions stay as they are.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// head is the object around the groups. What a Prometheus selects rules by, an overlay adds to its labels.
const head = `# Generated from %s by "make generate". Do not edit.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: md-exporter
  labels:
    app.kubernetes.io/name: md-exporter
spec:
`

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: generate RULES.yaml PROMETHEUSRULE.yaml")
		os.Exit(1)
	}
	if err := generate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate(from, to string) error {
	rules, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, prometheusRule(filepath.Base(from), rules), 0o644)
}

// prometheusRule puts the rule file named so below spec.
func prometheusRule(name string, rules []byte) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, head, name)
	for line := range bytes.Lines(rules) {
		if len(bytes.TrimSpace(line)) > 0 {
			out.WriteString("  ")
		}
		out.Write(line)
	}
	return out.Bytes()
}
