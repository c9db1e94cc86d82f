package normalize

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// fatesOf writes what became of a series' samples, in the body's order: "name{a=b} value fate".
func fatesOf(read SeriesRead) []string {
	lines := []string{}
	for _, a := range read.Samples {
		var labels []string
		for _, l := range a.Labels {
			labels = append(labels, l.Name+"="+l.Value)
		}
		lines = append(lines, fmt.Sprintf("%s{%s} %v %s", strings.TrimPrefix(a.Name, read.Series), strings.Join(labels, ","), a.Value, a.Fate))
	}
	return lines
}

// TestExplain is what becomes of every sample, fate by fate. The samples of one series are expected whole.
func TestExplain(t *testing.T) {
	const (
		vllmRunning = "vllm:num_requests_running"
		sglang      = "sglang:num_running_reqs"
		modes       = "sglang:prefill_effective_tokens_total"
		responses   = "smg_http_responses_total"
		requests    = "vllm_router_requests_total"
	)
	seen := map[Fate]bool{}
	for _, c := range []struct {
		name, table, series string
		body                string
		metricType          string
		want                []string
	}{
		{"absent", "vllm", vllmRunning, "", "", []string{}},
		{"a TYPE alone", "vllm", vllmRunning, typed(vllmRunning, "gauge"), "gauge", []string{}},
		{"label sets are summed", "vllm", vllmRunning, typed(vllmRunning, "gauge") + body(vllmRunning+`{e="0"} 1`, vllmRunning+`{e="1"} 2`), "gauge",
			[]string{"{e=0} 1 counted", "{e=1} 2 counted"}},
		{"invalid", "vllm", vllmRunning, body(vllmRunning+` NaN`, vllmRunning+`{e="1"} -1`, vllmRunning+`{e="2"} +Inf`, vllmRunning+`{e="3"} 0`), "",
			[]string{"{} NaN invalid", "{e=1} -1 invalid", "{e=2} +Inf invalid", "{e=3} 0 counted"}},
		{"the wrong type", "vllm", vllmRunning, typed(vllmRunning, "summary") + vllmRunning + " 1", "summary", []string{"{} 1 wrong_type"}},
		{"names with _ without a TYPE", "vllm", vllmRunning, "vllm_num_requests_running 1", "", []string{"vllm_num_requests_running{} 1 wrong_type"}},
		{"both spellings", "vllm-router", requests, body("vllm_router_requests 7", requests+" 1"), "",
			[]string{"vllm_router_requests{} 7 other_spelling", "{} 1 counted"}},
		{"the other spelling stands", "vllm-router", requests, typed("vllm_router_requests", "counter") + body("vllm_router_requests 7", requests+" NaN"), "counter",
			[]string{"vllm_router_requests{} 7 counted", "{} NaN invalid"}},
		{"repeated", "vllm", vllmRunning, body(vllmRunning+`{a="1",b="2"} 1`, vllmRunning+`{b="2",a="1",c=""} 9`, vllmRunning+`{a="1"} 2`), "",
			[]string{"{a=1,b=2} 1 counted", "{b=2,a=1,c=} 9 repeated", "{a=1} 2 counted"}},
		{"priorities", "sglang", sglang, body(q(`priority="0"`, 3), q(`priority=""`, 5), q(`priority="10"`, 2)), "",
			[]string{"{priority=0} 3 priority_totalled", "{priority=} 5 counted", "{priority=10} 2 priority_totalled"}},
		{"ranks: the largest stands", "sglang", sglang, body(q(`tp_rank="0"`, 5), q(`tp_rank="1"`, 7), q(`tp_rank="2"`, 6)), "",
			[]string{"{tp_rank=0} 5 rank_folded", "{tp_rank=1} 7 counted", "{tp_rank=2} 6 rank_folded"}},
		{"ranks that agree: the first stands", "sglang", sglang, body(q(`tp_rank="0"`, 5), q(`tp_rank="1"`, 5)), "",
			[]string{"{tp_rank=0} 5 counted", "{tp_rank=1} 5 rank_folded"}},
		{"processes", "sglang", sglang, body(q(`tp_rank="0",pid="1"`, 1), q(`tp_rank="1",pid="1"`, 2), q(`tp_rank="0",pid="2"`, 3)), "",
			[]string{"{tp_rank=0,pid=1} 1 rank_folded", "{tp_rank=1,pid=1} 2 pid_folded", "{tp_rank=0,pid=2} 3 counted"}},
		{"modes", "sglang", modes, body(modes+`{mode="input"} 1`, modes+`{mode="other"} 2`, modes+" 3"), "",
			[]string{"{mode=input} 1 counted", "{mode=other} 2 unselected", "{} 3 unselected"}},
		{"status codes", "sglang-gateway", responses, body(c5xx("200", 9), c5xx("503", 2), c5xx("5xx", 1)), "",
			[]string{"{status_code=200} 9 unselected", "{status_code=503} 2 counted", "{status_code=5xx} 1 unselected"}},
		{"a histogram", "vllm", ttftName, typed(ttftName, "histogram") + body(ttftName+`_count{e="0"} 2`, ttftName+`_sum{e="1"} 9`, ttftName+`_sum{e="0"} 1`, ttftName+`_count{e="0"} 3`, ttftName+`_bucket{le="1"} 1`), "histogram",
			[]string{"_count{e=0} 2 counted", "_sum{e=1} 9 unmatched", "_sum{e=0} 1 counted", "_count{e=0} 3 repeated"}},
		{"a sum alone", "vllm", ttftName, ttftName + "_sum 9", "", []string{"_sum{} 9 unmatched"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := tableNamed(t, c.table)
			values, reads, err := table.Explain([]byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := table.Parse([]byte(c.body))
			if err != nil || !slices.Equal(supplied(table, values), supplied(table, parsed)) {
				t.Errorf("values %v, Parse has %v, %v", values, parsed, err)
			}
			if len(reads) != len(table.series) {
				t.Errorf("%d series, the table has %d", len(reads), len(table.series))
			}
			i := slices.IndexFunc(reads, func(r SeriesRead) bool { return r.Series == c.series })
			if got := fatesOf(reads[i]); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if reads[i].Type != c.metricType {
				t.Errorf("TYPE is %q, want %q", reads[i].Type, c.metricType)
			}
			for _, a := range reads[i].Samples {
				seen[a.Fate] = true
			}
		})
	}
	for _, f := range Fates() {
		if !seen[f] || f.Sentence() == "" {
			t.Errorf("%s: produced %v, sentence %q", f, seen[f], f.Sentence())
		}
	}
	if s := Fate("nothing").Sentence(); s != "" {
		t.Errorf("a fate that is none says %q", s)
	}
}

// A body that cannot be read is explained as little as it is read.
func TestExplainMalformed(t *testing.T) {
	for _, text := range []string{"vllm:num_requests_running one", "<html>\n</html>"} {
		if values, reads, err := vllm.Explain([]byte(text)); err == nil || values != nil || reads != nil {
			t.Errorf("%q: %v, %v, %v", text, values, reads, err)
		}
	}
	// The parser's next body has nothing of it.
	if _, err := vllm.Parse([]byte("vllm:num_requests_running 1\n")); err != nil {
		t.Error(err)
	}
}

// TestOutcomes writes every field of a Pod's table as one line: what it is, or why it is not.
func TestOutcomes(t *testing.T) {
	prefill := engineOf("sglang", RolePrefill, RoleDecode)
	for _, c := range []struct {
		name          string
		d             *Deployment
		p             *Pod
		first, second string
		want          []string
	}{
		{"vLLM's prefill half", engineOf("vllm", RolePrefill, RoleDecode), enginePod(RolePrefill),
			"vllm:num_requests_running 1\n" + prefix(10, 40) + hist(ttftName, 1, 2),
			"vllm:num_requests_running 2\n" + prefix(40, 100) + hist(ttftName, 2, 4),
			[]string{
				"running: 2", "waiting: metric_absent", "local-prefix: 30/60", "external-store: unsupported_no_kv_connector", "ttft: 0.5",
				"tpot: Not read from a prefill role of a pair.", "itl: Not read from a prefill role of a pair.",
			}},
		{"SGLang's decode half", prefill, enginePod(RoleDecode), q("", 3), q("", 4), []string{
			"running: 4", "waiting: metric_absent", "decode-transfer-waiting: metric_absent",
			"device-prefix: Not read from a decode role of a pair.", "host-prefix: Not read from a decode role of a pair.", "storage-prefix: Not read from a decode role of a pair.",
			"ttft: metric_absent", "itl: metric_absent",
			"transfer-latency: Read from a prefill role of a pair alone.", "transfer-speed: Read from a prefill role of a pair alone.",
			"transfer-size: Read from a prefill role of a pair alone.", "transfer-failures: Read from a prefill role of a pair alone.",
		}},
		{"an SGLang server", engineOf("sglang", RoleServer), enginePod(RoleServer, "--enable-lmcache"), modes(1, 2, 3, 4), modes(11, 12, 23, 34), []string{
			"running: metric_absent", "waiting: metric_absent", "decode-transfer-waiting: Read from a decode role of a pair alone.",
			"device-prefix: 10/70", "host-prefix: 20/70", "storage-prefix: unsupported_no_storage_tier", "ttft: metric_absent", "itl: metric_absent",
			"transfer-latency: Read from a prefill role of a pair alone.", "transfer-speed: Read from a prefill role of a pair alone.",
			"transfer-size: Read from a prefill role of a pair alone.", "transfer-failures: Read from a prefill role of a pair alone.",
		}},
		{"the gateway", gateway(), routerPod(), smg(10, 1), smg(20, 3), []string{
			"router-running: metric_absent", "router-backends: metric_absent", "requests: 0.3333333333333333", "errors: 0.06666666666666667", "error-ratio: 0.2", "http-5xx-responses: metric_absent",
		}},
		{"the gateway without its errors", gateway(), routerPod(), "smg_router_requests_total 1", "smg_router_requests_total 31", []string{
			"router-running: metric_absent", "router-backends: metric_absent", "requests: 1", "errors: not_yet_exported",
			"error-ratio: One of its two counters has no window: their entries say why.", "http-5xx-responses: metric_absent",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := observe(t, new(History), c.d, c.p, windows, twice(c.first, c.second)...)
			values, err := TableOf(c.d, c.p).Parse([]byte(c.second))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range Outcomes(c.d, values, r) {
				got = append(got, string(o.Field)+": "+said(t, o))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// said is the one thing that an outcome says.
func said(t *testing.T, o Outcome) string {
	t.Helper()
	var all []string
	if o.Gauge != nil {
		all = append(all, fmt.Sprint(o.Gauge.Value))
	}
	if o.Cache != nil {
		all = append(all, fmt.Sprintf("%v/%v", o.Cache.Hits, o.Cache.Queries))
	}
	if o.Sample != nil {
		all = append(all, fmt.Sprint(o.Sample.Value))
	}
	if o.Reason != "" {
		all = append(all, string(o.Reason))
	}
	if o.Elsewhere != "" {
		all = append(all, o.Elsewhere)
	}
	if len(all) != 1 {
		t.Errorf("%s says %q, want one thing", o.Field, all)
	}
	return strings.Join(all, " ")
}

// TestInputs: an outcome names what it was computed from, as one body supplies it.
func TestInputs(t *testing.T) {
	for _, c := range []struct {
		table string
		field Field
		d     *Deployment
		p     *Pod
		body  string
		want  []string
	}{
		{"vllm", Running, engineOf("vllm", RoleServer), enginePod(RoleServer), "vllm:num_requests_running 2", []string{"vllm:num_requests_running=2 true"}},
		{"vllm", TTFT, engineOf("vllm", RoleServer), enginePod(RoleServer), hist(ttftName, 1, 2), []string{ttftName + "_sum=1 true", ttftName + "_count=2 true"}},
		{"vllm", LocalPrefix, engineOf("vllm", RoleServer), enginePod(RoleServer), "vllm:prefix_cache_hits 3", []string{"vllm:prefix_cache_hits_total=3 true", "vllm:prefix_cache_queries_total=NaN false"}},
		{"sglang", HostPrefix, engineOf("sglang", RoleServer), enginePod(RoleServer), modes(1, 2, 3, 4), []string{
			sglangModes[2] + "=3 true", sglangModes[0] + "=1 true", sglangModes[1] + "=2 true", sglangModes[2] + "=3 true", sglangModes[3] + "=4 true",
		}},
		{"sglang-gateway", HTTP5xxResponses, gateway(), routerPod(), c5xx("502", 3), []string{`smg_http_responses_total{status_code=~"5[0-9][0-9]"}=3 true`}},
	} {
		t.Run(string(c.field), func(t *testing.T) {
			values, err := TableOf(c.d, c.p).Parse([]byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			r := new(History).Observe(c.d, c.p, values, zero, windows)
			outcomes := Outcomes(c.d, values, r)
			o := outcomes[slices.IndexFunc(outcomes, func(o Outcome) bool { return o.Field == c.field })]
			var got []string
			for _, in := range o.Inputs {
				got = append(got, fmt.Sprintf("%s=%v %v", in.Series, in.Value, in.Present))
				if name, _, _ := strings.Cut(in.Series, "{"); !slices.ContainsFunc(o.Series, func(s string) bool { return strings.HasPrefix(name, s) }) {
					t.Errorf("%s is of none of %q", in.Series, o.Series)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestEnginesAndRouters(t *testing.T) {
	if got := Engines(); !slices.Equal(got, []string{"sglang", "vllm"}) {
		t.Errorf("engines: %q", got)
	}
	if got := Routers(); !slices.Equal(got, []string{"llm-d-router", "sglang-gateway", "vllm-router"}) {
		t.Errorf("routers: %q", got)
	}
}
