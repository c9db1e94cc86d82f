package dashboards

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// substitute puts values in place of the variables, as Grafana does where everything is chosen.
func substitute(expr string) string {
	return strings.NewReplacer(
		"$__rate_interval", "1m", "$namespace", ".*", "$modeldeployment", ".*", "$role", ".*", "$pod", ".*",
	).Replace(expr)
}

// kindOf is what the rules need to know of an expression's values.
type kindOf struct {
	// labels are those that a value may have; varying, of these, those that may differ between values.
	labels, varying []string
	unit            string
	// mean is a mean or a ratio of one Pod, measured one whose roles, sources and scopes are not to be added.
	mean, measured bool
}

// rules checks expressions against the contract of the series.
type rules struct {
	series map[string]documented
	errs   []string
}

func (r *rules) fail(format string, args ...any) {
	r.errs = append(r.errs, fmt.Sprintf(format, args...))
}

// check parses a query and says what its values are and which rules it breaks.
func check(series map[string]documented, query string) (kindOf, []string) {
	if strings.Contains(substitute(query), "$") {
		return kindOf{}, []string{"a variable that is not known"}
	}
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(substitute(query))
	if err != nil {
		return kindOf{}, []string{err.Error()}
	}
	r := &rules{series: series}
	return r.expr(expr), r.errs
}

// expr is what an expression's values are. What it does not know, the dashboards do not use.
func (r *rules) expr(e parser.Expr) kindOf {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return r.expr(e.Expr)
	case *parser.NumberLiteral:
		return kindOf{unit: "number"}
	case *parser.VectorSelector:
		return r.selector(e)
	case *parser.MatrixSelector:
		return r.expr(e.VectorSelector)
	case *parser.AggregateExpr:
		return r.aggregation(e)
	case *parser.BinaryExpr:
		return r.binary(e)
	case *parser.Call:
		return r.call(e)
	}
	r.fail("%T is not used", e)
	return kindOf{}
}

func (r *rules) selector(s *parser.VectorSelector) kindOf {
	var known []documented
	for _, m := range s.LabelMatchers {
		if m.Name != model.MetricNameLabel {
			continue
		}
		for name, d := range r.series {
			if m.Matches(name) {
				known = append(known, d)
			}
		}
	}
	if len(known) == 0 {
		r.fail("%s is not a documented series", s)
		return kindOf{}
	}
	d := known[0]
	k := kindOf{labels: d.labels, varying: slices.Clone(d.labels), unit: d.unit, measured: d.field != ""}
	k.mean = strings.Contains(s.Name, "_mean_") || strings.HasSuffix(s.Name, "_ratio")
	for _, m := range s.LabelMatchers {
		if m.Name == model.MetricNameLabel {
			continue
		}
		for _, d := range known {
			if !slices.Contains(d.labels, m.Name) {
				r.fail("%s has no label %s", s.Name, m.Name)
			}
		}
		if m.Type == labels.MatchEqual {
			k.varying = without(k.varying, m.Name)
			if m.Name == "scope" && m.Value == "router" {
				k.varying = without(k.varying, "role") // a router's is empty
			}
		}
	}
	if strings.HasPrefix(s.Name, "modeldeployment_") && s.Name != "modeldeployment_info" {
		for _, label := range []string{"namespace", "modeldeployment"} {
			if !slices.ContainsFunc(s.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == label }) {
				r.fail("%s is not of the deployments chosen", s.Name)
			}
		}
	}
	return k
}

func (r *rules) aggregation(a *parser.AggregateExpr) kindOf {
	in := r.expr(a.Expr)
	if a.Without {
		r.fail("without keeps labels that are not known")
	}
	for _, label := range a.Grouping {
		if !slices.Contains(in.labels, label) {
			r.fail("grouped by %s, which %s has not", label, a.Expr)
		}
	}
	var dropped []string
	for _, label := range in.varying {
		if !slices.Contains(a.Grouping, label) {
			dropped = append(dropped, label)
		}
	}
	out := in
	out.labels, out.varying = a.Grouping, intersect(in.varying, a.Grouping)
	switch a.Op {
	case parser.SUM:
		for _, label := range []string{"scope", "source", "role", "cache"} {
			// Prefill and decode each count a request once; what stands for a fleet is by role name.
			if in.measured && slices.Contains(dropped, label) {
				r.fail("values of several %ss are added in %s", label, a)
			}
		}
		if in.mean {
			r.fail("means or ratios are added in %s", a)
		}
	case parser.MAX, parser.MIN:
	case parser.COUNT:
		out.unit, out.mean, out.measured = "entries", false, false
	default:
		r.fail("%s is not used", a.Op)
	}
	return out
}

func (r *rules) binary(b *parser.BinaryExpr) kindOf {
	left, right := r.expr(b.LHS), r.expr(b.RHS)
	out := left
	out.measured, out.mean = left.measured || right.measured, false
	if m := b.VectorMatching; m != nil && left.labels != nil && right.labels != nil {
		for _, label := range m.MatchingLabels {
			if m.On && (!slices.Contains(left.labels, label) || !slices.Contains(right.labels, label)) {
				r.fail("%s is not on both sides of %s", label, b)
			}
		}
		if !m.On && b.Op != parser.LOR && !sameLabels(without(left.labels, m.MatchingLabels...), without(right.labels, m.MatchingLabels...)) {
			r.fail("the sides of %s have different labels: %v and %v", b, left.labels, right.labels)
		}
		one := right
		switch {
		case m.Card == parser.CardOneToMany:
			out.labels, out.varying, one = right.labels, right.varying, left
		case m.Card == parser.CardOneToOne && m.On:
			out.labels, out.varying = m.MatchingLabels, intersect(left.varying, m.MatchingLabels)
		}
		for _, label := range m.Include {
			if !slices.Contains(one.labels, label) {
				r.fail("%s cannot be taken from a side of %s", label, b)
			}
		}
		out.labels = slices.Concat(out.labels, m.Include)
		if b.Op == parser.LOR {
			out.labels = slices.Concat(left.labels, right.labels)
		}
	} else if left.labels == nil {
		out.labels, out.varying = right.labels, right.varying
	}
	out.unit = r.unit(b, left, right)
	// A mean times what its window counted may be added; what is divided again may not.
	switch {
	case b.Op.IsSetOperator():
		out.mean = left.mean || b.Op == parser.LOR && right.mean
	case !strings.HasSuffix(out.unit, "*samples"):
		out.mean = left.mean || right.mean || out.unit == "ratio"
	}
	return out
}

// unit is the unit of a binary expression's values.
func (r *rules) unit(b *parser.BinaryExpr, left, right kindOf) string {
	weighed, isWeighed := strings.CutSuffix(left.unit, "*samples")
	switch {
	case b.ReturnBool:
		return "none"
	case b.Op == parser.LAND || b.Op == parser.LUNLESS || b.Op == parser.LOR, b.Op.IsComparisonOperator():
		return left.unit
	case b.Op == parser.MUL && right.unit == "samples":
		return left.unit + "*samples"
	case b.Op == parser.MUL && right.unit == "none":
		return left.unit
	case b.Op == parser.DIV && isWeighed && right.unit == "samples":
		return weighed
	case b.Op == parser.DIV && left.unit == right.unit:
		return "ratio"
	case b.Op == parser.DIV && right.unit == "Pods":
		return left.unit
	case b.Op == parser.DIV && right.unit == "seconds":
		return left.unit + "/second"
	case b.Op == parser.SUB && (left.unit == right.unit || left.unit == "number"):
		return right.unit
	}
	r.fail("no unit is known of %s: %q and %q", b, left.unit, right.unit)
	return ""
}

func (r *rules) call(c *parser.Call) kindOf {
	switch c.Func.Name {
	case "time":
		return kindOf{unit: "seconds"}
	case "rate":
		in := r.expr(c.Args[0])
		selector := c.Args[0].(*parser.MatrixSelector).VectorSelector.(*parser.VectorSelector)
		if kind := r.series[selector.Name].kind; kind != "counter" && kind != "histogram" {
			r.fail("the rate of a %s: %s", kind, selector.Name)
		}
		in.unit += "/second"
		return in
	case "histogram_quantile":
		in := r.expr(c.Args[1])
		if !slices.Contains(in.labels, "le") {
			r.fail("a quantile without le: %s", c)
		}
		in.labels, in.unit = without(in.labels, "le"), strings.TrimSuffix(in.unit, "/second")
		return in
	}
	r.fail("%s is not used", c.Func.Name)
	return kindOf{}
}

func without(all []string, labels ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(l string) bool { return slices.Contains(labels, l) })
}

func intersect(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(l string) bool { return !slices.Contains(b, l) })
}

func sameLabels(a, b []string) bool {
	set := func(all []string) map[string]bool {
		m := map[string]bool{}
		for _, l := range all {
			m[l] = true
		}
		return m
	}
	return maps.Equal(set(a), set(b))
}

// The rules refuse what they are there for, and pass what is right.
func TestRules(t *testing.T) {
	const chosen = `{namespace=~"$namespace", modeldeployment=~"$modeldeployment"}`
	const engineOnly = `{namespace=~"$namespace", modeldeployment=~"$modeldeployment", scope="engine"}`
	series := readSeries(t)
	for _, c := range []struct{ query, want string }{
		{`sum by (`, "parse error"},
		{`modeldeployment_running` + chosen, "not a documented series"},
		{`modeldeployment_up{job="a"}`, "has no label job"},
		{`modeldeployment_up`, "not of the deployments chosen"},
		{`modeldeployment_up{namespace="$cluster"}`, "variable"},
		{`max by (source) (modeldeployment_up` + chosen + `)`, "grouped by source"},
		{`max without (pod) (modeldeployment_up` + chosen + `)`, "without"},
		{`sum by (scope, role) (modeldeployment_running_requests` + chosen + `)`, "several sources"},
		{`sum by (source, role) (modeldeployment_running_requests` + chosen + `)`, "several scopes"},
		{`sum by (source) (modeldeployment_running_requests` + engineOnly + `)`, "several roles"},
		{`sum by (role, source) (modeldeployment_cache_window_hit_tokens` + engineOnly + `)`, "several caches"},
		{`sum by (role, source) (max by (namespace, role, source) (modeldeployment_running_requests` + engineOnly + `))`, ""},
		{`sum by (role, source) (modeldeployment_time_to_first_token_mean_seconds` + engineOnly + `)`, "means or ratios"},
		{`avg by (role, source) (modeldeployment_time_to_first_token_mean_seconds` + engineOnly + `)`, "avg is not used"},
		{`sum by (role, source) (modeldeployment_router_error_ratio` + engineOnly + ` / modeldeployment_source_pods` + engineOnly + `)`, "means or ratios"},
		{`avg_over_time(modeldeployment_up` + chosen + `[5m])`, "avg_over_time is not used"},
		{`rate(modeldeployment_running_requests` + chosen + `[5m])`, "rate of a gauge"},
		{`modeldeployment_up` + chosen + ` or vector(0)`, "vector is not used"},
		{`modeldeployment_up` + chosen + ` or on () absent(modeldeployment_up` + chosen + `)`, "absent is not used"},
		{`modeldeployment_up` + chosen + ` * on (role) group_right () modeldeployment_expected_pods` + chosen, "role is not on both sides"},
		{`modeldeployment_up` + chosen + ` / modeldeployment_source_pods` + chosen, "different labels"},
		{`modeldeployment_cache_window_hit_tokens` + chosen + ` / modeldeployment_window_seconds` + chosen, "different labels"},
		{`modeldeployment_cache_window_hit_tokens` + chosen + ` / ignoring (cache) group_left () modeldeployment_window_seconds` + chosen, ""},
		{mean(bySource, "time_to_first_token_mean_seconds", engine), ""},
		{mean(bySource, "time_to_first_token_mean_seconds", engine, ofRole, ofPod), ""},
		{state(), ""},
	} {
		_, errs := check(series, c.query)
		got := strings.Join(errs, "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.query, got, c.want)
		}
	}
}
