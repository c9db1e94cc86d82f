// Package docs holds the pages for people, and tests what they promise.
package docs

import (
	"os"
	"regexp"
	"testing"

	"github.com/md-exporter/md-exporter/collector"
	"github.com/md-exporter/md-exporter/normalize"
)

// Every reason has one row that says what to do, in the closed set's order, and no row has another.
func TestTroubleshootingHasEveryReason(t *testing.T) {
	text, err := os.ReadFile("troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([^|]{20,}) \\|$").FindAllStringSubmatch(string(text), -1)
	reasons := normalize.Reasons()
	if len(rows) != len(reasons) {
		t.Fatalf("%d rows, want %d", len(rows), len(reasons))
	}
	for i, r := range reasons {
		if rows[i][1] != string(r) {
			t.Errorf("row %d is of %s, want %s", i+1, rows[i][1], r)
		}
	}
}

// The pages name no series that there is not.
func TestPagesNameSeriesThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, s := range collector.AllSeries() {
		known[s.Name] = true
	}
	name := regexp.MustCompile(`\bmodeldeployment_[a-z0-9_]+`)
	for _, page := range []string{"troubleshooting.md", "limits.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		names := name.FindAllString(string(text), -1)
		if len(names) == 0 {
			t.Errorf("%s names no series", page)
		}
		for _, n := range names {
			if !known[n] {
				t.Errorf("%s: there is no series %s", page, n)
			}
		}
	}
}

// The bounds on the page of limits are flags that the README lists.
func TestLimitsNamesFlags(t *testing.T) {
	limits, err := os.ReadFile("limits.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	flags := regexp.MustCompile("`(--[a-z.-]+)`").FindAllStringSubmatch(string(limits), -1)
	if len(flags) < 9 {
		t.Errorf("only %d flags", len(flags))
	}
	for _, f := range flags {
		if !regexp.MustCompile(regexp.QuoteMeta("`"+f[1]) + `[=` + "`" + `]`).Match(readme) {
			t.Errorf("the README does not list %s", f[1])
		}
	}
}
