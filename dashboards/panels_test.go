package dashboards

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// panels are a dashboard's panels, rows apart.
func panels(d classic) []*dashboard.Panel {
	var all []*dashboard.Panel
	for _, p := range d.Panels {
		if p.Panel != nil {
			all = append(all, p.Panel)
		}
	}
	return all
}

// queries are a panel's queries, by their reference.
func queries(t *testing.T, p *dashboard.Panel) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, target := range p.Targets {
		q, ok := target.(*prometheus.Dataquery)
		if !ok {
			t.Fatalf("panel %q: a query of the type %T", *p.Title, target)
		}
		all[*q.RefId] = q.Expr
	}
	return all
}

func TestLayout(t *testing.T) {
	for name, d := range decoded(t) {
		ids, taken := map[uint32]string{}, map[[2]uint32]string{}
		titles := map[string]bool{}
		section := ""
		place := func(id uint32, title string, at dashboard.GridPos) {
			if ids[id] != "" || id == 0 {
				t.Errorf("%s: %q and %q have the id %d", name, title, ids[id], id)
			}
			ids[id] = title
			if at.W == 0 || at.H == 0 || at.X+at.W > 24 {
				t.Errorf("%s: %q is placed at %+v", name, title, at)
			}
			for x := at.X; x < at.X+at.W; x++ {
				for y := at.Y; y < at.Y+at.H; y++ {
					if other := taken[[2]uint32{x, y}]; other != "" {
						t.Fatalf("%s: %q overlaps %q", name, title, other)
					}
					taken[[2]uint32{x, y}] = title
				}
			}
		}
		for _, p := range d.Panels {
			if p.RowPanel != nil {
				section = *p.RowPanel.Title
				place(p.RowPanel.Id, section, *p.RowPanel.GridPos)
				if len(p.RowPanel.Panels) > 0 {
					t.Errorf("%s: panels hide in the row %q", name, section)
				}
				continue
			}
			place(*p.Panel.Id, *p.Panel.Title, *p.Panel.GridPos)
			if key := section + ": " + *p.Panel.Title; titles[key] {
				t.Errorf("%s: two panels %q", name, key)
			} else {
				titles[key] = true
			}
		}
		// Lines have no holes: what is on a line fills it.
		for at, title := range taken {
			if at[0] > 0 && taken[[2]uint32{at[0] - 1, at[1]}] == "" {
				t.Errorf("%s: a hole before %q", name, title)
			}
			if at[0] < 23 && taken[[2]uint32{at[0] + 1, at[1]}] == "" {
				t.Errorf("%s: a hole after %q", name, title)
			}
			if at[1] > 0 && taken[[2]uint32{at[0], at[1] - 1}] == "" {
				t.Errorf("%s: a hole above %q", name, title)
			}
		}
	}
}

// Every panel says what it shows: the series, and of a field the field and its sources, as
// docs/metrics.md has them.
func TestPanelsSayWhatTheyShow(t *testing.T) {
	series := readSeries(t)
	for name, d := range decoded(t) {
		for _, p := range panels(d) {
			if p.Title == nil || *p.Title == "" || p.Description == nil || len(*p.Description) < 40 {
				t.Errorf("%s: a panel without title or description: %v", name, p.Id)
				continue
			}
			if p.FieldConfig == nil || p.FieldConfig.Defaults.Unit == nil || *p.FieldConfig.Defaults.Unit == "" {
				t.Errorf("%s: %q has no unit", name, *p.Title)
			}
			if len(p.Targets) == 0 {
				t.Errorf("%s: %q asks for nothing", name, *p.Title)
			}
			for _, expr := range queries(t, p) {
				for _, s := range regexp.MustCompile(`(modeldeployment|md_exporter)_[a-z0-9_]+`).FindAllString(expr, -1) {
					want := []string{"`" + s + "`"}
					if cache := strings.HasPrefix(s, "modeldeployment_cache_"); cache {
						if !slices.ContainsFunc(series[s].sources, func(source string) bool { return strings.Contains(*p.Description, source) }) {
							t.Errorf("%s: %q does not say which cache it shows", name, *p.Title)
						}
					} else if series[s].field != "" {
						want = append(append(want, series[s].field), series[s].sources...)
					}
					for _, w := range want {
						if !strings.Contains(*p.Description, w) {
							t.Errorf("%s: %q does not say %s", name, *p.Title, w)
						}
					}
				}
			}
		}
	}
}

// Every query keeps the rules of the series, and every value has the unit that it is measured in.
func TestQueries(t *testing.T) {
	series := readSeries(t)
	shown := map[string][]string{
		"seconds": {seconds}, "ratio": {ratio}, "bytes": {bytesSI}, "bytes/second": {bytesPerSecond},
		"requests/second": {perSecond}, "errors/second": {errorsPerSecond}, "responses/second": {responsesPerSecond},
		"transfers/second": {"suffix:failures/s"}, "fetches/second": {"suffix:fetches/s"}, "tokens/second": {tokens},
	}
	for _, counted := range []string{"none", "entries", "deployments", "requests", "backends", "workers", "Pods", "samples", "fetches", "reads"} {
		shown[counted] = []string{plain}
	}
	used := map[string]bool{}
	for name, d := range decoded(t) {
		for _, p := range panels(d) {
			for ref, expr := range queries(t, p) {
				k, errs := check(series, expr)
				for _, err := range errs {
					t.Errorf("%s: %q %s: %s\n%s", name, *p.Title, ref, err, expr)
				}
				if got := unitOf(p, ref); !slices.Contains(shown[k.unit], got) {
					t.Errorf("%s: %q %s: %s shown as %s", name, *p.Title, ref, k.unit, got)
				}
				for s := range series {
					if regexp.MustCompile(`\b` + s + `\b`).MatchString(expr) {
						used[s] = true
					}
				}
				for _, q := range p.Targets {
					legend := q.(*prometheus.Dataquery).LegendFormat
					for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(*legend, -1) {
						if *q.(*prometheus.Dataquery).RefId == ref && !slices.Contains(k.labels, label[1]) {
							t.Errorf("%s: %q %s: the legend's %s is no label of it", name, *p.Title, ref, label[1])
						}
					}
				}
			}
		}
		for _, v := range d.Templating.List {
			if v.Query == nil || v.Query.Map == nil {
				continue
			}
			match := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(v.Query.Map["query"].(string))
			if match == nil {
				t.Errorf("%s: the variable %s is %v", name, v.Name, v.Query.Map)
				continue
			}
			k, errs := check(series, match[1])
			if len(errs) > 0 || !slices.Contains(k.labels, match[2]) {
				t.Errorf("%s: the variable %s: %v %v", name, v.Name, errs, k.labels)
			}
		}
	}
	for s, d := range series {
		if strings.HasPrefix(s, "modeldeployment_") && d.kind == "gauge" && !used[s] {
			t.Errorf("no panel shows %s", s)
		}
	}
}

// unitOf is the unit that a query's values are shown in: the panel's, or in a table the column's.
func unitOf(p *dashboard.Panel, ref string) string {
	unit := *p.FieldConfig.Defaults.Unit
	if p.Type != "table" {
		return unit
	}
	title := ""
	for _, tr := range p.Transformations {
		if tr.Id == "organize" {
			renamed := tr.Options.(map[string]any)["renameByName"].(map[string]any)
			title, _ = renamed["Value #"+ref].(string)
		}
	}
	for _, o := range p.FieldConfig.Overrides {
		for _, property := range o.Properties {
			if o.Matcher.Options == title && property.Id == "unit" {
				return property.Value.(string)
			}
		}
	}
	return unit
}

// What was not measured is a gap or an empty cell: no line is drawn over it, and no old value stands for it.
func TestMissingStaysMissing(t *testing.T) {
	for name, d := range decoded(t) {
		for _, p := range panels(d) {
			switch p.Type {
			case "timeseries":
				custom, err := json.Marshal(p.FieldConfig.Defaults.Custom)
				if err != nil {
					t.Fatal(err)
				}
				var config timeseries.FieldConfig
				if err := json.Unmarshal(custom, &config); err != nil {
					t.Fatal(err)
				}
				if config.SpanNulls == nil || config.SpanNulls.Bool == nil || *config.SpanNulls.Bool {
					t.Errorf("%s: %q connects over gaps", name, *p.Title)
				}
			case "state-timeline":
				custom, _ := json.Marshal(p.FieldConfig.Defaults.Custom)
				if strings.Contains(string(custom), "spanNulls") && !strings.Contains(string(custom), `"spanNulls":false`) {
					t.Errorf("%s: %q connects over gaps: %s", name, *p.Title, custom)
				}
			case "stat", "table":
				if v := p.FieldConfig.Defaults.NoValue; v == nil || *v == "" || *v == "0" {
					t.Errorf("%s: %q says nothing where nothing was measured", name, *p.Title)
				}
				for _, target := range p.Targets {
					if q := target.(*prometheus.Dataquery); q.Instant == nil || !*q.Instant || *q.Range {
						t.Errorf("%s: %q may show a value that is not of now", name, *p.Title)
					}
				}
			default:
				t.Errorf("%s: %q is of the type %s, of which nothing is known here", name, *p.Title, p.Type)
			}
			for _, m := range p.FieldConfig.Defaults.Mappings {
				if m.SpecialValueMap != nil {
					t.Errorf("%s: %q has a text for null", name, *p.Title)
				}
			}
		}
	}
}

// A table's rows are the labels that all its queries share, so each query has just these. One alone may
// bring more, which tell no rows apart.
func TestTableRows(t *testing.T) {
	series := readSeries(t)
	for name, d := range decoded(t) {
		for _, p := range panels(d) {
			if p.Type != "table" {
				continue
			}
			sets := map[string]int{}
			for _, expr := range queries(t, p) {
				k, _ := check(series, expr)
				sets[fmt.Sprint(slices.Compact(slices.Sorted(slices.Values(k.labels))))]++
			}
			once := 0
			for _, n := range sets {
				if n == 1 {
					once++
				}
			}
			if len(sets) > 2 || len(sets) == 2 && once == 0 {
				t.Errorf("%s: the queries of %q have different labels: %v", name, *p.Title, sets)
			}
		}
	}
}
