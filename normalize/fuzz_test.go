package normalize

import (
	"errors"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// allTables are the tables of all engines and routers.
var allTables = []*Table{vllm, sglang, llmdRouter, vllmRouter, vllmRouterPD, sglangGateway}

// seedBodies are hand-written starting points.
var seedBodies = []string{
	"",
	"# HELP vllm:num_requests_running Requests.\n# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} 1\r\n",
	"vllm:time_to_first_token_seconds_sum 1.5\nvllm:time_to_first_token_seconds_count 3 1700000000000\n",
	"# TYPE vllm:prefix_cache_hits counter\nvllm_prefix_cache_hits_total 3 1.5 # {trace_id=\"a\"} 1\n# EOF",
	modes(1, 2, 3, 4) + strings.ReplaceAll(modes(1, 2, 3, 4), "tp_rank", "dp_rank"),
	q(`priority="",tp_rank="0"`, 5) + "\n" + q(`priority="1",tp_rank="1"`, 4) + "\n" + q(`pid="1"`, 3),
	c5xx("503", 1) + "\n" + c5xx("200", 2) + "\nsmg_router_requests_total NaN\n",
	"vllm_router_requests_total{route=\"a\\\"b\\\\c\\nd\"} +Inf\nvllm_router_requests 7\n",
	"llm_d_epp_request_total{a=\"1\",b=\"2\"} 1\nllm_d_epp_request_total{b=\"2\",a=\"1\",c=\"\"} 2",
	"<html>\n", "{\"detail\": 404}", "vllm:num_requests_running{", "\x00\xff",
}

// FuzzParse: no body makes Parse panic; its errors wrap ErrMalformed; its values are finite, not
// negative, or absent; and neither another try, another way of cutting the body nor an explanation changes
// them.
func FuzzParse(f *testing.F) {
	for i, body := range seedBodies {
		f.Add([]byte(body), uint8(i))
	}
	f.Fuzz(func(t *testing.T, body []byte, cut uint8) {
		for _, table := range allTables {
			values, err := table.Parse(body)
			if err != nil {
				if !errors.Is(err, ErrMalformed) || values != nil {
					t.Fatalf("%v, %v: want no values and ErrMalformed", values, err)
				}
			} else if len(values) != table.slots {
				t.Fatalf("%d values, want %d", len(values), table.slots)
			}
			for _, v := range values {
				if math.IsInf(v, 0) || v < 0 {
					t.Fatalf("a value is %v", v)
				}
			}
			p := table.NewParser()
			for part := range slices.Chunk(body, 1+int(cut)) {
				_, _ = p.Write(part)
			}
			again, errAgain := p.Values()
			if (err == nil) != (errAgain == nil) || !slices.EqualFunc(values, again, func(a, b float64) bool {
				return math.Float64bits(a) == math.Float64bits(b)
			}) {
				t.Fatalf("in parts of %d: %v, %v; whole: %v, %v", 1+int(cut), again, errAgain, values, err)
			}
			explained, _, errExplained := table.Explain(body)
			if (err == nil) != (errExplained == nil) || !slices.EqualFunc(values, explained, func(a, b float64) bool {
				return math.Float64bits(a) == math.Float64bits(b)
			}) {
				t.Fatalf("explained: %v, %v; plain: %v, %v", explained, errExplained, values, err)
			}
		}
	})
}

// FuzzObserve: whatever two readable bodies hold, a value is finite and not negative, a ratio is at most
// one, and each row that is read ends in one value or one missing entry, the ratio's in at most one.
func FuzzObserve(f *testing.F) {
	for i, body := range seedBodies {
		f.Add(body, seedBodies[(i+1)%len(seedBodies)])
	}
	for _, table := range sourceTables {
		var first, second string
		for _, c := range table.cases {
			first, second = first+c.first+"\n", second+c.second+"\n"
		}
		f.Add(first, second)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		for _, table := range sourceTables {
			for _, name := range slices.Sorted(maps.Keys(table.shapes)) {
				s, h := table.shapes[name], new(History)
				var r Result
				for i, text := range []string{first, second} {
					values, err := TableOf(s.deployment, s.pod).Parse([]byte(text))
					if err != nil {
						return
					}
					r = h.Observe(s.deployment, s.pod, values, zero.Add(DefaultWindowMin*2*1<<i), windows)
				}
				for _, c := range r.caches {
					if !(c.Rate >= 0 && c.Rate <= 1) || c.Queries <= 0 {
						t.Fatalf("%s: %+v", name, c)
					}
				}
				for _, v := range r.samples {
					if !(v.Value >= 0) || v.Field == ErrorRatio && v.Value > 1 {
						t.Fatalf("%s: %+v", name, v)
					}
				}
				rows := len(r.gauges) + len(r.caches) + len(r.samples) + len(r.missing)
				o := podContext{kind: s.deployment.kind(s.pod.Role), pair: s.deployment.Pair()}
				want, ratios := 0, 0
				for _, row := range TableOf(s.deployment, s.pod).rows {
					if row.kind == ratio {
						ratios++
					} else if o.on(row.on) {
						want++
					}
				}
				if rows < want || rows > want+ratios {
					t.Fatalf("%s: %d entries for %d rows", name, rows, want)
				}
			}
		}
	})
}

// fuzzed is the counter that the differential fuzz tests read, of the vLLM router's table.
const fuzzed = "vllm_router_requests_total"

// seedLines are what may stand behind a counter's name.
var seedLines = []string{
	" 1", "{} 1", " 1\r", " 1 1700000000000", " 1 1.5e9 # {a=\"b\"} 2 3", "{a=\"b\"} 1\n{a=\"c\"} 2", "{a=\"b\",} 1", "\t{ a = \"b\" , b = \"c\" }\t1\t",
	"{a=\"\\\\\\\"\\n{}, #\"} 1e3", "{a=\"\"} 1\n 2\n{a=\"b\",c=\"d\"} 4\n{c=\"d\",a=\"b\"} 8", " NaN\n +Inf\n -1\n -0", " 0x1", " 1_0", " inf", "{a=\"\xff\"} 1",
	"{a=\"b\",a=\"c\"} 1", "{__name__=\"x\"} 1", "{\"a\"=\"b\"} 1", "{a:b=\"c\"} 1", " 1 2 3", " ", "{", "{a=\"b\"}1", " 1 # x", "{a=\"b\" 1", " 1 \r ", "{a=\"\\t\"} 1", " 1e999",
}

// fuzzedBody puts the counter's name before each line. It reports false for a line that makes it another
// series' name.
func fuzzedBody(lines string) (body string, ours bool) {
	var b strings.Builder
	for line := range strings.SplitSeq(lines, "\n") {
		if line != "" && line[0] != '{' && line[0] > ' ' {
			return "", false
		}
		b.WriteString(fuzzed + line + "\n")
	}
	return b.String(), true
}

// labeled is one sample of the counter as another parser read it.
type labeled struct {
	labels map[string]string
	value  float64
}

// sumOnce adds the valid samples of different label sets: all that a router's counter needs.
func sumOnce(samples []labeled) (sum float64, present bool) {
	seen := map[string]bool{}
	for _, s := range samples {
		if !(s.value >= 0) || math.IsInf(s.value, 1) {
			continue
		}
		var set []string
		for name, value := range s.labels {
			if value != "" {
				set = append(set, name+"\xff"+value)
			}
		}
		slices.Sort(set)
		if key := strings.Join(set, "\xfe"); !seen[key] {
			seen[key] = true
			sum += s.value
			present = true
		}
	}
	return sum, present && !math.IsInf(sum, 0)
}

// compareSum holds our value of the counter to the samples that another parser read.
func compareSum(t *testing.T, body string, values Values, samples []labeled) {
	t.Helper()
	got, present := values.get(vllmRouter.row(SuccessfulRequests).slots[0])
	want, wantPresent := sumOnce(samples)
	if present != wantPresent || present && math.Abs(got-want) > 1e-9*want {
		t.Fatalf("%q: %v (%v), want %v (%v)", body, got, present, want, wantPresent)
	}
}

// parseExpfmt reads the body with expfmt, for names as they were before UTF-8.
func parseExpfmt(body string) ([]labeled, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	var samples []labeled
	for _, m := range families[fuzzed].GetMetric() {
		samples = append(samples, labeled{labelsOf(m.GetLabel()), m.GetUntyped().GetValue()})
	}
	return samples, nil
}

func labelsOf(pairs []*dto.LabelPair) map[string]string {
	all := map[string]string{}
	for _, p := range pairs {
		all[p.GetName()] = p.GetValue()
	}
	return all
}

// quotedName finds a label name in quotes, which only the later text format has.
var quotedName = regexp.MustCompile(`[{,][ \t]*[a-zA-Z0-9_]*"`)

// lenient takes a line apart: labels, value, a word for a timestamp, and an exemplar.
var lenient = func() *regexp.Regexp {
	const blank, labels, word = `[ \t\r]*`, `\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}`, `[^ \t\r#][^ \t\r]*`
	return regexp.MustCompile(`(?s)^` + fuzzed + blank + `(` + labels + `)?` + blank + `(` + word + `)` + blank + `(` + word + `)?` + blank +
		`(?:#` + blank + labels + blank + word + blank + `(?:` + word + `)?` + blank + `)?$`)
}()

// plain rewrites a line without what we allow beyond expfmt: carriage returns as blanks, blanks at the
// end, timestamps that are no integers, exemplars.
func plain(line string) (string, bool) {
	m := lenient.FindStringSubmatch(line)
	if m == nil {
		return "", false
	}
	if _, err := strconv.ParseFloat(m[3], 64); err != nil && m[3] != "" {
		return "", false
	}
	quoted, escaped := false, false
	labels := strings.Map(func(r rune) rune {
		switch {
		case escaped:
			escaped = false
		case quoted && r == '\\':
			escaped = true
		case r == '"':
			quoted = !quoted
		case r == '\r' && !quoted:
			return ' '
		}
		return r
	}, m[1])
	return fuzzed + labels + " " + m[2], true
}

// FuzzExpfmt holds the line parser to prometheus/common/expfmt: what that accepts has the same value
// here, and what is accepted here it accepts too, but for the leniencies of parseSample.
func FuzzExpfmt(f *testing.F) {
	for _, lines := range seedLines {
		f.Add(lines)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		body, ours := fuzzedBody(lines)
		if !ours {
			return
		}
		values, err := vllmRouter.Parse([]byte(body))
		samples, errExpfmt := parseExpfmt(body)
		if errExpfmt == nil {
			if err != nil {
				if quotedName.MatchString(body) {
					return
				}
				t.Fatalf("%q: expfmt accepts it, we have %v", body, err)
			}
			compareSum(t, body, values, samples)
		}
		if err != nil {
			return
		}
		var rewritten strings.Builder
		for line := range strings.SplitSeq(strings.TrimSuffix(body, "\n"), "\n") {
			p, ok := plain(line)
			if !ok {
				t.Fatalf("%q is no sample, but we accept it", line)
			}
			rewritten.WriteString(p + "\n")
		}
		if samples, err = parseExpfmt(rewritten.String()); err != nil {
			t.Fatalf("%q: we accept it, but as %q expfmt has %v", body, rewritten.String(), err)
		}
		compareSum(t, body, values, samples)
	})
}
