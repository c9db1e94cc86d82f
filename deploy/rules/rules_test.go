package rules

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	"github.com/md-exporter/md-exporter/collector"
	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
)

// rule is an element of a rule file.
type rule struct {
	Record      string            `json:"record"`
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// group is a group of a rule file.
type group struct {
	Name  string `json:"name"`
	Rules []rule `json:"rules"`
}

// override is the one series that an operator makes.
const override = "modeldeployment:threshold:override"

func readGroups(t *testing.T) []group {
	t.Helper()
	content, err := os.ReadFile("md-exporter.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []group `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(content, &file); err != nil {
		t.Fatal(err)
	}
	return file.Groups
}

func readRules(t *testing.T) []rule {
	t.Helper()
	var all []rule
	for _, g := range readGroups(t) {
		all = append(all, g.Rules...)
	}
	return all
}

func alerts(t *testing.T) map[string]rule {
	t.Helper()
	all := map[string]rule{}
	for _, r := range readRules(t) {
		if r.Alert == "" {
			continue
		}
		if _, twice := all[r.Alert]; twice {
			t.Errorf("alert %s twice", r.Alert)
		}
		all[r.Alert] = r
	}
	return all
}

// page is a page of docs.
func page(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

var (
	ownRow   = regexp.MustCompile("(?m)^\\| `(md_exporter_[a-z0-9_]+)` \\| (\\w+) \\| [^|]* \\| ([^|]*) \\|")
	quoted   = regexp.MustCompile("`([^`]+)`")
	template = regexp.MustCompile("printf `([a-z_:(]+\\{[^`]*)`")
)

// known are the labels of every series that a rule may name: the collector's, the exporter's own as the
// page of series has them (a test of the collector's holds that page against the code), Prometheus's two
// of a target, and what the rules record.
func known(t *testing.T) map[string][]string {
	t.Helper()
	target := []string{"job", "instance"}
	series := map[string][]string{
		"up":                      target,
		"scrape_duration_seconds": target,
		override:                  {"threshold", "namespace", "modeldeployment"},
	}
	for _, s := range collector.AllSeries() {
		series[s.Name] = append(target, s.Labels...)
	}
	for _, row := range ownRow.FindAllStringSubmatch(page(t, "metrics.md"), -1) {
		labels := slices.Clone(target)
		for _, l := range quoted.FindAllStringSubmatch(row[3], -1) {
			labels = append(labels, l[1])
		}
		for _, suffix := range map[string][]string{"histogram": {"_bucket", "_sum", "_count"}}[row[2]] {
			series[row[1]+suffix] = append(slices.Clone(labels), "le")
		}
		series[row[1]] = labels
	}
	descs := make(chan *prometheus.Desc, 1)
	new(discovery.Cluster).Describe(descs)
	if desc := (<-descs).String(); strings.Contains(desc, `"md_exporter_discovery_synced"`) && strings.Contains(desc, "{resource}") {
		series["md_exporter_discovery_synced"] = append(target, "resource")
	}
	for _, r := range readRules(t) {
		if r.Record == "" {
			continue
		}
		// What an aggregation keeps, or a matching ends with, is among the labels that the expression names.
		labels := slices.Collect(maps.Keys(r.Labels))
		parser.Inspect(parse(t, r.Expr), func(node parser.Node, _ []parser.Node) error {
			switch node := node.(type) {
			case *parser.AggregateExpr:
				labels = append(labels, node.Grouping...)
			case *parser.VectorSelector:
				// A record of records has their labels.
				labels = append(labels, series[node.Name]...)
			}
			return nil
		})
		series[r.Record] = append(series[r.Record], labels...)
	}
	return series
}

func parse(t *testing.T, expr string) parser.Expr {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return parsed
}

// Every series and label that a rule, or a query in a text of its, names exists.
func TestNamesExist(t *testing.T) {
	series := known(t)
	used := map[string]bool{}
	for _, r := range readRules(t) {
		exprs := []string{r.Expr}
		for _, text := range r.Annotations {
			for _, q := range template.FindAllStringSubmatch(text, -1) {
				exprs = append(exprs, strings.ReplaceAll(q[1], "%q", `"x"`))
			}
		}
		for _, expr := range exprs {
			checkNames(t, r.Alert+r.Record, parse(t, expr), series, used)
		}
	}
	if len(used) < 50 {
		t.Errorf("only %d series found in the rules", len(used))
	}
	if !used[override] {
		t.Errorf("nothing reads %s", override)
	}
}

func checkNames(t *testing.T, name string, expr parser.Expr, series map[string][]string, used map[string]bool) {
	t.Helper()
	// What the whole expression can be grouped or matched by is a label of one of its series.
	var all []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if v, ok := node.(*parser.VectorSelector); ok {
			all = append(all, series[v.Name]...)
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		var labels []string
		switch node := node.(type) {
		case *parser.VectorSelector:
			known, exists := series[node.Name]
			if !exists {
				t.Errorf("%s: there is no series %q", name, node.Name)
			}
			used[node.Name] = true
			for _, m := range node.LabelMatchers {
				if m.Name != "__name__" && !slices.Contains(known, m.Name) {
					t.Errorf("%s: %s has no label %s", name, node.Name, m.Name)
				}
			}
		case *parser.AggregateExpr:
			if node.Without {
				t.Errorf("%s: without is not checked: name what is kept", name)
			}
			labels = node.Grouping
		case *parser.BinaryExpr:
			if node.VectorMatching != nil {
				labels = append(slices.Clone(node.VectorMatching.MatchingLabels), node.VectorMatching.Include...)
			}
		}
		for _, l := range labels {
			if !slices.Contains(all, l) {
				t.Errorf("%s: no series of it has a label %s", name, l)
			}
		}
		return nil
	})
}

// The values of labels with a closed set are of that set, and every reason that makes a deployment
// partial is of one class or one of those that pass by themselves.
func TestReasons(t *testing.T) {
	passing := []normalize.Reason{
		normalize.FirstSample, normalize.CounterReset, normalize.IncompatibleCounters, normalize.WindowMismatch,
		normalize.NoRequests, normalize.NoQueries, normalize.NoObservations,
	}
	classes := map[normalize.Reason][]string{}
	for _, r := range readRules(t) {
		parser.Inspect(parse(t, r.Expr), func(node parser.Node, _ []parser.Node) error {
			v, ok := node.(*parser.VectorSelector)
			if !ok || v.Name != "modeldeployment_missing_info" {
				return nil
			}
			for _, m := range v.LabelMatchers {
				if m.Name != "reason" {
					continue
				}
				for code := range strings.SplitSeq(m.Value, "|") {
					reason := normalize.Reason(code)
					if !slices.Contains(normalize.Reasons(), reason) {
						t.Errorf("%s%s: there is no reason %s", r.Record, r.Alert, code)
					}
					if class := r.Labels["class"]; class != "" && !slices.Contains(classes[reason], class) {
						classes[reason] = append(classes[reason], class)
					}
				}
			}
			return nil
		})
	}
	for _, reason := range normalize.Reasons() {
		want := 0
		if reason.Partial() && !slices.Contains(passing, reason) {
			want = 1
		}
		if got := classes[reason]; len(got) != want {
			t.Errorf("%s is of the classes %v, want %d", reason, got, want)
		}
	}
}

// Each alert has what a person at night needs, and its runbook is a section of docs/alerts.md; no section is of no alert.
func TestRunbooks(t *testing.T) {
	text := page(t, "alerts.md")
	sections := map[string]string{}
	for _, section := range strings.Split(text, "\n### ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		body, _, _ = strings.Cut(body, "\n## ")
		sections[title] = body
	}
	for name, alert := range alerts(t) {
		if !slices.Contains([]string{"critical", "warning"}, alert.Labels["severity"]) {
			t.Errorf("%s: severity %q", name, alert.Labels["severity"])
		}
		if summary := alert.Annotations["summary"]; summary == "" || len(summary) > 200 {
			t.Errorf("%s: summary %q", name, summary)
		}
		if alert.Annotations["description"] == "" || alert.For == "" {
			t.Errorf("%s: it has no description, or no for", name)
		}
		if got, want := alert.Annotations["runbook_url"], "docs/alerts.md#"+strings.ToLower(name); got != want {
			t.Errorf("%s: runbook_url %s, want %s", name, got, want)
		}
		body, ok := sections[name]
		if !ok {
			t.Errorf("docs/alerts.md has no section %s", name)
		}
		for _, part := range []string{"**Meaning.**", "**Likely causes.**", "**Look at.**", "**Do.**", "```promql"} {
			if !strings.Contains(body, part) {
				t.Errorf("docs/alerts.md, %s: no %s", name, part)
			}
		}
		delete(sections, name)
	}
	for title := range sections {
		t.Errorf("docs/alerts.md has a section %q, and no alert is named so", title)
	}
}

// The queries of the page of alerts parse, and name what exists.
func TestRunbookQueries(t *testing.T) {
	series := known(t)
	blocks := regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllStringSubmatch(page(t, "alerts.md"), -1)
	for _, block := range blocks {
		for expr := range strings.SplitSeq(block[1], "\n\n") {
			checkNames(t, "docs/alerts.md", parse(t, expr), series, map[string]bool{})
		}
	}
	if len(blocks) < len(alerts(t)) {
		t.Errorf("only %d queries", len(blocks))
	}
}

// promtool's unit tests hold for each alert one time at which it fires and one at which it does not, and
// no alert that there is not; every group is in every file's order, for promtool runs them in any.
func TestEveryAlertIsTested(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("tests", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	var order []string
	for _, g := range readGroups(t) {
		order = append(order, g.Name)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	all := alerts(t)
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			GroupEvalOrder []string `json:"group_eval_order"`
			Tests          []struct {
				Name           string `json:"name"`
				AlertRuleTests []struct {
					AlertName string `json:"alertname"`
					ExpAlerts []any  `json:"exp_alerts"`
				} `json:"alert_rule_test"`
			} `json:"tests"`
		}
		if err := yaml.Unmarshal(content, &file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if !slices.Equal(file.GroupEvalOrder, order) {
			t.Errorf("%s: group_eval_order is %v, want %v", path, file.GroupEvalOrder, order)
		}
		for _, test := range file.Tests {
			for _, a := range test.AlertRuleTests {
				if _, ok := all[a.AlertName]; !ok {
					t.Errorf("%s, %s: there is no alert %s", path, test.Name, a.AlertName)
				}
				if len(a.ExpAlerts) > 0 {
					fires[a.AlertName] = true
				} else {
					quiet[a.AlertName] = true
				}
			}
		}
	}
	for name := range all {
		if !fires[name] {
			t.Errorf("no test in which %s fires", name)
		}
		if !quiet[name] {
			t.Errorf("no test in which %s must not fire", name)
		}
	}
}
