package collector

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"k8s.io/client-go/rest"

	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
)

// docs is docs/metrics.md: its text and the rows of its tables, each by its header.
type docs struct {
	text string
	rows []map[string]string
}

func readDocs(t *testing.T) docs {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	d := docs{text: string(text)}
	var header []string
	for line := range strings.Lines(d.text) {
		line, isRow := strings.CutPrefix(strings.TrimSpace(line), "|")
		if !isRow {
			header = nil
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case header == nil:
			header = cells
		case strings.HasPrefix(cells[0], "---"):
		case len(cells) != len(header):
			t.Errorf("%d cells under a header of %d: %s", len(cells), len(header), line)
		default:
			row := map[string]string{}
			for i, cell := range cells {
				row[header[i]] = cell
			}
			d.rows = append(d.rows, row)
		}
	}
	return d
}

// under are the rows of the tables with the column, by its cell without backticks.
func (d docs) under(t *testing.T, column, prefix string) map[string]map[string]string {
	t.Helper()
	found := map[string]map[string]string{}
	for _, row := range d.rows {
		name := strings.Trim(row[column], "`")
		if name == "" || !strings.HasPrefix(name, prefix) {
			continue
		}
		if found[name] != nil {
			t.Errorf("%s has two rows", name)
		}
		found[name] = row
	}
	return found
}

// quoted writes names as a cell has them.
func quoted(names []string, separator string) string {
	if len(names) == 0 {
		return "—"
	}
	return "`" + strings.Join(names, "`"+separator+"`") + "`"
}

// sameNames reports names that one side has and the other lacks.
func sameNames(t *testing.T, what string, inPage, inCode []string) {
	t.Helper()
	for _, name := range inPage {
		if !slices.Contains(inCode, name) {
			t.Errorf("%s %s is in docs/metrics.md and does not exist", what, name)
		}
	}
	for _, name := range inCode {
		if !slices.Contains(inPage, name) {
			t.Errorf("%s %s is not in docs/metrics.md", what, name)
		}
	}
}

// Every modeldeployment_ series is on the page as it is in the code.
func TestDocumentedSeries(t *testing.T) {
	documented := readDocs(t).under(t, "Series", "modeldeployment_")
	var names []string
	for _, s := range AllSeries() {
		names = append(names, s.Name)
		field, sources := fieldOf(strings.TrimPrefix(s.Name, "modeldeployment_"))
		row := documented[s.Name]
		for column, want := range map[string]string{
			"Type":           "gauge",
			"Unit":           s.Unit,
			"Further labels": quoted(withoutCommon(s.Labels), ", "),
			"Field":          quoted(field, ""),
			"Source":         quoted(sources, "<br>"),
			"What it says":   s.Help,
		} {
			if row[column] != want {
				t.Errorf("%s, %s: the page says %q, want %q", s.Name, column, row[column], want)
			}
		}
		for _, label := range []string{"namespace", "modeldeployment", "pod"} {
			if !slices.Contains(s.Labels, label) {
				t.Errorf("%s has no label %s", s.Name, label)
			}
		}
	}
	sameNames(t, "series", slices.Collect(maps.Keys(documented)), names)
}

// fieldOf is the field that a series is of, by the contract, and the sources of that; none for what
// is no field's.
func fieldOf(series string) (field, sources []string) {
	scope := normalize.ScopeEngine
	if strings.HasPrefix(series, "router_") {
		scope = normalize.ScopeRouter
	}
	name := fieldByHand(series, nil)
	if name == "" && !strings.HasPrefix(series, "cache_") {
		return nil, nil
	}
	for _, s := range normalize.Sources() {
		isOne := s.Field == normalize.Field(name)
		if name == "" {
			isOne = s.Field.Info().Section == normalize.CacheHits
		}
		if isOne && s.Scope == scope && !slices.Contains(sources, s.Series) {
			sources = append(sources, s.Series)
		}
	}
	if name != "" {
		return []string{string(name)}, sources
	}
	// The page goes by the caches' order: vLLM's first.
	slices.SortStableFunc(sources, func(a, b string) int { return strings.Compare(b[:1], a[:1]) })
	return []string{map[string]string{
		"cache_hit_ratio": "rate", "cache_window_hit_tokens": "hits", "cache_window_query_tokens": "queries",
	}[series]}, sources
}

// withoutCommon leaves out the labels that every series has.
func withoutCommon(labels []string) []string {
	return slices.DeleteFunc(slices.Clone(labels), func(l string) bool {
		return l == "namespace" || l == "modeldeployment" || l == "pod"
	})
}

// Every source that the tables read has a series to go to.
func TestEverySourceHasASeries(t *testing.T) {
	supplied := map[string]bool{}
	for _, s := range AllSeries() {
		_, sources := fieldOf(strings.TrimPrefix(s.Name, "modeldeployment_"))
		for _, source := range sources {
			supplied[source] = true
		}
	}
	for _, s := range normalize.Sources() {
		if !supplied[s.Series] {
			t.Errorf("%s of %s has no series", s.Field, s.Supplier)
		}
	}
}

// whole is the exposition of everything that the exporter serves, its own series included.
func whole(t *testing.T) []byte {
	t.Helper()
	d := vllmServing("m", serverPod("a", endpoint(t, busy())), serverPod("b", endpoint(t, busy())), serverPod("c", ""))
	e := newExporter(t, settings{}, d)
	e.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		versioncollector.NewCollector("md_exporter"),
	)
	if _, err := discovery.NewManifests([]string{t.TempDir()}, nil, e.registry); err != nil {
		t.Fatal(err)
	}
	if _, err := discovery.NewCluster(&rest.Config{Host: "127.0.0.1:1"}, nil, nil, e.registry); err != nil {
		t.Fatal(err)
	}
	e.scrape(t, "/metrics")
	return e.ask(t, "/metrics", deadlineHeader, "10").Body.Bytes()
}

// Every series of the exporter's own is on the page as a scrape has it.
func TestDocumentedOwnSeries(t *testing.T) {
	documented := readDocs(t).under(t, "Series", "md_exporter_")
	var names []string
	for name, family := range parse(t, whole(t)) {
		if !strings.HasPrefix(name, "md_exporter_") {
			continue
		}
		names = append(names, name)
		row := documented[name]
		labels := slices.Sorted(maps.Keys(labelsOf(family.GetMetric()[0])))
		for column, want := range map[string]string{
			"Type":   strings.ToLower(family.GetType().String()),
			"Labels": quoted(labels, ", "),
		} {
			if row[column] != want {
				t.Errorf("%s, %s: the page says %q, want %q", name, column, row[column], want)
			}
		}
		if row["Unit"] == "" || strings.HasSuffix(name, "_seconds") != (row["Unit"] == "seconds") {
			t.Errorf("%s: unit %q", name, row["Unit"])
		}
		// The library's own sentence for build_info is not ours.
		if name != "md_exporter_build_info" && row["What it says"] != family.GetHelp() {
			t.Errorf("%s: the page says %q, its help %q", name, row["What it says"], family.GetHelp())
		}
		if row["What it says"] == "" {
			t.Errorf("%s: the page does not say what it is", name)
		}
	}
	sameNames(t, "series", slices.Collect(maps.Keys(documented)), names)
}

// Prometheus's linter has nothing to say of any series.
func TestLint(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(string(whole(t)))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// The reasons on the page are the closed set, in its order.
func TestDocumentedReasons(t *testing.T) {
	var documented []map[string]string
	for _, row := range readDocs(t).rows {
		if row["Reason"] != "" {
			documented = append(documented, row)
		}
	}
	reasons := normalize.Reasons()
	if len(documented) != len(reasons) {
		t.Fatalf("%d reasons on the page, want %d", len(documented), len(reasons))
	}
	for i, r := range reasons {
		partial := map[bool]string{true: "yes", false: "no"}[r.Partial()]
		row := documented[i]
		if row["Reason"] != "`"+string(r)+"`" || row["Partial"] != partial || row["Meaning"] != r.Sentence() {
			t.Errorf("row %d is %q, want %s, %s, %s", i+1, row, r, partial, r.Sentence())
		}
	}
}

// The label table lists the labels that there are, and the values of those with a closed set.
func TestDocumentedLabels(t *testing.T) {
	var named, labels []string
	cells := map[string]string{}
	for _, row := range readDocs(t).rows {
		for name := range strings.SplitSeq(row["Label"], ", ") {
			if name = strings.Trim(name, "`"); name != "" {
				named, cells[name] = append(named, name), row["Values"]
			}
		}
	}
	for _, s := range AllSeries() {
		labels = append(labels, withoutCommon(s.Labels)...)
	}
	slices.Sort(labels)
	sameNames(t, "label", named, slices.Compact(labels))
	for _, info := range normalize.Fields() {
		if info.Section == normalize.CacheHits && !strings.Contains(cells["cache"], "`"+string(info.Field)+"`") {
			t.Errorf("label cache: %s is not among its values", info.Field)
		}
	}
}

// Nothing that the page names in its prose or its queries is unknown.
func TestDocumentedNamesExist(t *testing.T) {
	page := readDocs(t)
	known := map[string]bool{
		// Prometheus's own, and the names of histograms' parts.
		"honor_labels:": true, "_sum": true, "_count": true, "group_left": true, "go_*": true, "process_*": true,
		"modeldeployment_*": true, "md_exporter_*": true,
	}
	for _, s := range AllSeries() {
		known[s.Name] = true
		known[strings.TrimPrefix(s.Name, "modeldeployment_")] = true
		for _, l := range s.Labels {
			known[l] = true
		}
	}
	for name := range page.under(t, "Series", "md_exporter_") {
		known[name] = true // Held against the code above.
	}
	for _, r := range normalize.Reasons() {
		known[string(r)] = true
	}
	for _, s := range normalize.Sources() {
		known[s.Series] = true
	}
	code := regexp.MustCompile("(?s)```promql\n(.*?)```|`([^`\n]+)`")
	word := regexp.MustCompile(`[A-Za-z_:+*]*_[A-Za-z0-9_:+*]*`)
	names := 0
	for _, m := range code.FindAllStringSubmatch(page.text, -1) {
		for _, name := range word.FindAllString(m[1]+m[2], -1) {
			names++
			if !known[name] {
				t.Errorf("%s does not exist", name)
			}
		}
	}
	if names < 100 {
		t.Errorf("only %d names found on the page", names)
	}
}
