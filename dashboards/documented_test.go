package dashboards

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documented is a series as docs/metrics.md has it.
type documented struct {
	unit, kind string
	labels     []string
	// field and sources are in backquotes, as the page has them; empty for what is no field's.
	field   string
	sources []string
}

var quoted = regexp.MustCompile("`([^`]+)`")

// readSeries reads docs/metrics.md, which the collector's tests hold against the code. A histogram is
// there by the series that it is made of.
func readSeries(t *testing.T) map[string]documented {
	t.Helper()
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]documented{}
	var header []string
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "|") {
			header = nil
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		if header == nil {
			header = cells
			continue
		}
		cell := func(column string) string {
			if i := slices.Index(header, column); i >= 0 && i < len(cells) {
				return cells[i]
			}
			return ""
		}
		name := quoted.FindStringSubmatch(cell("Series"))
		if name == nil {
			continue
		}
		d := documented{unit: cell("Unit"), kind: cell("Type"), labels: names(cell("Labels")), sources: quoted.FindAllString(cell("Source"), -1)}
		if strings.HasPrefix(name[1], "modeldeployment_") {
			d.labels = append(names(cell("Further labels")), "namespace", "modeldeployment", "pod")
			d.field = quoted.FindString(cell("Field"))
		}
		if d.kind == "histogram" {
			bucket := d
			bucket.labels = append(slices.Clone(d.labels), "le")
			all[name[1]+"_bucket"] = bucket
			all[name[1]+"_sum"], all[name[1]+"_count"] = d, d
			continue
		}
		all[name[1]] = d
	}
	if len(all) < 40 {
		t.Fatalf("only %d series in docs/metrics.md", len(all))
	}
	return all
}

// names are the words in backquotes.
func names(cell string) []string {
	var all []string
	for _, match := range quoted.FindAllStringSubmatch(cell, -1) {
		all = append(all, match[1])
	}
	return all
}
