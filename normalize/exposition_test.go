package normalize

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

// supplied writes what the values hold, by the series' names, sorted: "name=value", a histogram as its
// "name_sum" and "name_count", a selection with its label, and 5xx responses as name{5xx}.
func supplied(table *Table, values Values) []string {
	all := map[string]float64{}
	for _, s := range table.series {
		if s.slot >= 0 && s.kind == histogram {
			all[s.name+"_sum"], all[s.name+"_count"] = values[s.slot], values[s.slot+1]
		} else if s.slot >= 0 {
			all[s.name] = values[s.slot]
		}
		for _, sel := range s.selections {
			if sel.statusCode5xx {
				all[s.name+"{5xx}"] = values[sel.slot]
			} else {
				all[s.name+"{"+sel.value+"}"] = values[sel.slot]
			}
		}
	}
	var lines []string
	for name, v := range all {
		if !math.IsNaN(v) {
			lines = append(lines, fmt.Sprintf("%s=%v", name, v))
		}
	}
	slices.Sort(lines)
	return lines
}

// tableNamed finds a table by the name that its cases have in sourceTables.
func tableNamed(t *testing.T, name string) *Table {
	t.Helper()
	if table := engines[name]; table != nil {
		return table
	}
	if name == "vllm-router-pd" {
		return routers["vllm-router"].pair
	}
	table := routers[name].serving
	if table == nil {
		t.Fatalf("no table is named %q", name)
	}
	return table
}

// TestParse is what is read of a body, oddity by oddity. What is expected is everything that the body supplies.
func TestParse(t *testing.T) {
	const r = "vllm:num_requests_running"
	for _, c := range []struct {
		name  string
		table string
		body  string
		want  string // Separated by blanks.
	}{
		// A series' value.
		{"sum over label sets", "vllm", r + `{engine="0"} 1` + "\n" + r + `{engine="1"} 2`, r + "=3"},
		{"NaN, Inf and negative are no samples", "vllm", body(r+`{e="0"} NaN`, r+`{e="1"} +Inf`, r+`{e="2"} -Inf`, r+`{e="3"} -1`, r+`{e="4"} 2`), r + "=2"},
		{"only invalid samples are absent", "vllm", body(r+`{e="0"} NaN`, r+`{e="1"} +Inf`, r+`{e="2"} -1`), ""},
		{"zero is present", "vllm", r + " 0", r + "=0"},
		{"minus zero is zero", "vllm", r + " -0", r + "=0"},
		{"HELP and TYPE are no sample", "vllm", body("# HELP "+r+" Requests.", "# TYPE "+r+" gauge"), ""},
		{"a sum beyond all numbers is no sample", "vllm", body(r+`{e="0"} 1.7e308`, r+`{e="1"} 1.7e308`), ""},
		{"every way to write a number", "vllm", body(r+`{e="0"} 1e2`, r+`{e="1"} +1`, r+`{e="2"} .5`, r+`{e="3"} 2.`, r+`{e="4"} 1.5E+1`), r + "=118.5"},
		{"names are exact", "vllm", body(r+"_max 1", "x_"+r+" 1", "vllm:num_requests 1", strings.ToUpper(r)+" 1"), ""},
		{"another exporter's names", "sglang", r + " 1", ""},

		// TYPE.
		{"gauge typed gauge", "vllm", typed(r, "gauge") + r + " 1", r + "=1"},
		{"gauge typed counter", "vllm", typed(r, "counter") + r + " 1", r + "=1"},
		{"gauge typed untyped", "vllm", typed(r, "untyped") + r + " 1", r + "=1"},
		{"gauge typed unknown", "vllm", typed(r, "unknown") + r + " 1", r + "=1"},
		{"TYPE in capitals", "vllm", typed(r, "GAUGE") + r + " 1", r + "=1"},
		{"TYPE without a type", "vllm", typed(r, "") + r + " 1", r + "=1"},
		{"gauge typed histogram", "vllm", typed(r, "histogram") + r + " 1", ""},
		{"gauge typed summary", "vllm", typed(r, "summary") + r + " 1", ""},
		{"gauge typed gaugehistogram", "vllm", typed(r, "gaugehistogram") + r + " 1", ""},
		{"gauge typed info", "vllm", typed(r, "info") + r + " 1", ""},
		{"gauge typed stateset", "vllm", typed(r, "stateset") + r + " 1", ""},
		{"gauge typed as nothing known", "vllm", typed(r, "thermometer") + r + " 1", ""},
		{"counter typed gauge", "vllm-router", typed("vllm_router_requests_total", "gauge") + "vllm_router_requests_total 1", "vllm_router_requests_total=1"},
		{"counter typed summary", "vllm-router", typed("vllm_router_requests_total", "summary") + "vllm_router_requests_total 1", ""},
		{"another name's TYPE", "vllm", typed(r+"_x", "summary") + r + " 1", r + "=1"},
		{"histogram typed histogram", "vllm", typed(ttftName, "histogram") + hist(ttftName, 1, 2), ttft(1, 2)},
		{"histogram typed untyped", "vllm", typed(ttftName, "untyped") + hist(ttftName, 1, 2), ttft(1, 2)},
		{"histogram typed unknown", "vllm", typed(ttftName, "unknown") + hist(ttftName, 1, 2), ttft(1, 2)},
		{"histogram without TYPE", "vllm", hist(ttftName, 1, 2), ttft(1, 2)},
		{"histogram typed summary", "vllm", typed(ttftName, "summary") + hist(ttftName, 1, 2), ""},
		{"histogram typed gauge", "vllm", typed(ttftName, "gauge") + hist(ttftName, 1, 2), ""},
		{"histogram typed counter", "vllm", typed(ttftName, "counter") + hist(ttftName, 1, 2), ""},
		{"histogram typed gaugehistogram", "vllm", typed(ttftName, "gaugehistogram") + hist(ttftName, 1, 2), ""},
		{"a value named like a histogram", "vllm", ttftName + " 1", ""},
		{"two TYPE lines that contradict: the first holds", "vllm", typed(r, "gauge") + typed(r, "summary") + r + " 1", r + "=1"},
		{"two TYPE lines that contradict, the other way", "vllm", typed(r, "summary") + typed(r, "gauge") + r + " 1", ""},
		{"TYPE twice", "vllm", typed(r, "gauge") + typed(r, "gauge") + r + " 1", r + "=1"},
		{"TYPE after the samples", "vllm", r + " 1\n" + typed(r, "gauge"), r + "=1"},
		{"TYPE after the samples vetoes too", "vllm", r + " 1\n" + typed(r, "summary"), ""},
		{"TYPE between the samples", "vllm", r + "{e=\"0\"} 1\n" + typed(r, "gauge") + r + "{e=\"1\"} 1\n", r + "=2"},
		{"TYPE with tabs and blanks", "vllm", "#\tTYPE \t" + r + "\t summary \n" + r + " 1", ""},
		{"TYPE with CRLF", "vllm", "# TYPE " + r + " summary\r\n" + r + " 1\r\n", ""},
		{"TYPED is a comment", "vllm", "# TYPED " + r + " summary\n" + r + " 1", r + "=1"},

		// Counters with and without _total.
		{"counter with _total", "vllm-router", "vllm_router_requests_total 1", "vllm_router_requests_total=1"},
		{"counter without _total", "vllm-router", "vllm_router_requests 1", "vllm_router_requests_total=1"},
		{"never both added", "vllm-router", body("vllm_router_requests 7", "vllm_router_requests_total 1"), "vllm_router_requests_total=1"},
		{"the other name where the table's has no valid sample", "vllm-router", body("vllm_router_requests_total NaN", "vllm_router_requests 7"), "vllm_router_requests_total=7"},
		{"the other name where the table's is of another type", "vllm-router", typed("vllm_router_requests_total", "summary") + body("vllm_router_requests_total 1", "vllm_router_requests 7"), "vllm_router_requests_total=7"},
		{"the other name is a histogram", "vllm-router", typed("vllm_router_requests", "histogram") + "vllm_router_requests 7", ""},
		{"a gauge has one name", "vllm", r + "_total 1", ""},
		{"modes without _total", "sglang", strings.ReplaceAll(modes(1, 2, 3, 4), "_total", ""), sglangModeValues(1, 2, 3, 4)},

		// Histograms.
		{"histogram sums its label sets", "vllm", body(ttftName+`_sum{e="0"} 1`, ttftName+`_count{e="0"} 2`, ttftName+`_sum{e="1"} 10`, ttftName+`_count{e="1"} 20`), ttft(11, 22)},
		{"count before sum", "vllm", body(ttftName+`_count{e="0"} 2`, ttftName+`_count{e="1"} 20`, ttftName+`_sum{e="1"} 10`, ttftName+`_sum{e="0"} 1`), ttft(11, 22)},
		{"a label set without a sum", "vllm", body(ttftName+`_count{e="0"} 2`, ttftName+`_count{e="1"} 20`, ttftName+`_sum{e="1"} 10`), ttft(10, 20)},
		{"a label set without a count", "vllm", body(ttftName+`_sum{e="0"} 2`, ttftName+`_count{e="1"} 20`, ttftName+`_sum{e="1"} 10`), ttft(10, 20)},
		{"a label set with an invalid sum", "vllm", body(ttftName+`_sum{e="0"} NaN`, ttftName+`_count{e="0"} 2`, ttftName+`_count{e="1"} 20`, ttftName+`_sum{e="1"} 10`), ttft(10, 20)},
		{"a label set with an invalid count", "vllm", body(ttftName+`_sum{e="0"} 1`, ttftName+`_count{e="0"} -2`, ttftName+`_count{e="1"} 20`, ttftName+`_sum{e="1"} 10`), ttft(10, 20)},
		{"sum and count of different label sets", "vllm", body(ttftName+`_sum{e="0"} 1`, ttftName+`_count{e="1"} 2`), ""},
		{"sum alone", "vllm", ttftName + "_sum 1", ""},
		{"count alone", "vllm", ttftName + "_count 1", ""},
		{"buckets are not read", "vllm", body(ttftName+`_bucket{le="1"} 1`, ttftName+`_bucket{le="+Inf"} broken`), ""},
		{"created is not read", "vllm", hist(ttftName, 1, 2) + ttftName + "_created 1.7e9\n", ttft(1, 2)},
		{"histograms fold no rank", "sglang", body(`sglang:kv_transfer_total_mb_sum{tp_rank="0"} 1`, `sglang:kv_transfer_total_mb_count{tp_rank="0"} 2`, `sglang:kv_transfer_total_mb_sum{tp_rank="1"} 1`, `sglang:kv_transfer_total_mb_count{tp_rank="1"} 2`), "sglang:kv_transfer_total_mb_count=4 sglang:kv_transfer_total_mb_sum=2"},
		{"histograms fold no priority", "sglang", body(`sglang:kv_transfer_total_mb_sum{priority=""} 1`, `sglang:kv_transfer_total_mb_count{priority=""} 2`, `sglang:kv_transfer_total_mb_sum{priority="1"} 1`, `sglang:kv_transfer_total_mb_count{priority="1"} 2`), "sglang:kv_transfer_total_mb_count=4 sglang:kv_transfer_total_mb_sum=2"},

		// Duplicates.
		{"the first of an identical label set stands", "vllm", body(r+`{e="0"} 1`, r+`{e="0"} 5`, r+`{e="1"} 2`), r + "=3"},
		{"identical in another order", "vllm", body(r+`{a="1",b="2"} 1`, r+`{b="2",a="1"} 5`), r + "=1"},
		{"an empty label is none", "vllm", body(r+`{a="1",b=""} 1`, r+`{a="1"} 5`), r + "=1"},
		{"no labels and empty braces", "vllm", body(r+" 1", r+"{} 5"), r + "=1"},
		{"the first valid one stands", "vllm", body(r+`{e="0"} NaN`, r+`{e="0"} 5`), r + "=5"},
		{"the first of a histogram's stands", "vllm", hist(ttftName, 1, 2) + hist(ttftName, 3, 4), ttft(1, 2)},
		{"a name and a value are not glued", "vllm", body(r+`{a="bc"} 1`, r+`{ab="c"} 2`), r + "=3"},
		{"equal but for an escape", "vllm", body(r+`{a="x\\n"} 1`, r+`{a="x\n"} 2`), r + "=3"},

		// Priorities.
		{"priority beside its total", "sglang", body(q(`priority=""`, 5), q(`priority="0"`, 3), q(`priority="10"`, 2)), running(5)},
		{"a total without the label", "sglang", body(q(``, 5), q(`priority="0"`, 3)), running(5)},
		{"priorities without a total", "sglang", body(q(`priority="0"`, 3), q(`priority="10"`, 2)), running(5)},
		{"the total of other labels", "sglang", body(q(`dp_rank="0",priority=""`, 5), q(`dp_rank="1",priority="0"`, 3)), running(8)},
		{"an invalid total is none", "sglang", body(`sglang:num_running_reqs{priority=""} NaN`, q(`priority="0"`, 3)), running(3)},
		{"priorities of ranks", "sglang", body(q(`tp_rank="0",priority=""`, 5), q(`tp_rank="0",priority="1"`, 5), q(`tp_rank="1",priority=""`, 5), q(`tp_rank="1",priority="1"`, 5)), running(5)},
		{"a counter's priorities", "sglang", body(`sglang:num_transfer_failed_reqs_total{priority=""} 5`, `sglang:num_transfer_failed_reqs_total{priority="1"} 4`), "sglang:num_transfer_failed_reqs_total=5"},
		{"llm-d's priorities are classes", "llm-d-router", body(`llm_d_epp_request_running{priority=""} 5`, `llm_d_epp_request_running{priority="1"} 4`), "llm_d_epp_request_running=9"},

		// Ranks.
		{"tensor ranks are one", "sglang", body(q(`tp_rank="0"`, 5), q(`tp_rank="1"`, 6)), running(6)},
		{"pipeline ranks are one", "sglang", body(q(`pp_rank="0"`, 5), q(`pp_rank="1"`, 4)), running(5)},
		{"expert ranks are one", "sglang", body(q(`moe_ep_rank="0"`, 5), q(`moe_ep_rank="1"`, 5)), running(5)},
		{"ranks of all kinds are one", "sglang", body(q(`tp_rank="0",pp_rank="0",moe_ep_rank="0"`, 1), q(`tp_rank="1",pp_rank="0",moe_ep_rank="1"`, 2), q(`tp_rank="0",pp_rank="1",moe_ep_rank="0"`, 3)), running(3)},
		{"data ranks are summed", "sglang", body(q(`dp_rank="0",tp_rank="0"`, 5), q(`dp_rank="0",tp_rank="1"`, 5), q(`dp_rank="1",tp_rank="2"`, 7), q(`dp_rank="1",tp_rank="3"`, 7)), running(12)},
		{"a rank and none", "sglang", body(q(`tp_rank="0"`, 5), q(``, 4)), running(5)},
		{"modes are folded each", "sglang", modes(4180, 14153, 1, 2) + strings.ReplaceAll(modes(0, 0, 0, 3), `tp_rank="0"`, `tp_rank="1"`), sglangModeValues(4180, 14153, 1, 3)},
		{"modes of data ranks are summed", "sglang", strings.ReplaceAll(modes(1, 2, 3, 4), `tp_rank`, `dp_rank`) + strings.ReplaceAll(modes(10, 20, 30, 40), `tp_rank="0"`, `dp_rank="1"`), sglangModeValues(11, 22, 33, 44)},
		{"a mode alone", "sglang", `sglang:prefill_effective_tokens_total{mode="input"} 3`, "sglang:prefill_effective_tokens_total{input}=3"},
		{"other modes", "sglang", `sglang:prefill_effective_tokens_total{mode="output"} 3`, ""},
		{"vLLM's engines are summed, whatever their labels", "vllm", body(r+`{tp_rank="0"} 1`, r+`{tp_rank="1"} 2`), r + "=3"},

		// Processes.
		{"gauges of two processes are one", "vllm", body(r+`{pid="1"} 1`, r+`{pid="2"} 2`), r + "=2"},
		{"SGLang's gauges of two processes are one", "sglang", body(q(`pid="1",tp_rank="0"`, 1), q(`pid="2",tp_rank="1"`, 2)), running(2)},
		{"a router's gauges of two processes are one", "vllm-router", body(`vllm_router_active_workers{pid="1"} 3`, `vllm_router_active_workers{pid="2"} 2`), "vllm_router_active_workers=3"},
		{"counters of two processes are summed", "vllm-router", body(`vllm_router_requests_total{pid="1"} 3`, `vllm_router_requests_total{pid="2"} 2`), "vllm_router_requests_total=5"},

		// The gateway's 5xx responses.
		{"5xx", "sglang-gateway", body(c5xx("200", 9), c5xx("500", 1), c5xx("503", 2), c5xx("599", 4)), "smg_http_responses_total{5xx}=7"},
		{"no 5xx is zero", "sglang-gateway", body(c5xx("200", 9)), "smg_http_responses_total{5xx}=0"},
		{"100 is a code", "sglang-gateway", body(c5xx("100", 9)), "smg_http_responses_total{5xx}=0"},
		{"no code at all is absent", "sglang-gateway", body("smg_http_responses_total 5", c5xx("", 1)), ""},
		{"what is no code", "sglang-gateway", body(c5xx("5xx", 1), c5xx("50", 1), c5xx("5000", 1), c5xx("099", 1), c5xx("600", 1), c5xx(" 500", 1), c5xx("5 0", 1), c5xx("٥٠٠", 1)), ""},
		{"what is no code beside one", "sglang-gateway", body(c5xx("600", 1), c5xx("5xx", 1), c5xx("502", 3)), "smg_http_responses_total{5xx}=3"},
		{"an invalid 5xx beside a 200", "sglang-gateway", body(c5xx("200", 1), `smg_http_responses_total{status_code="500"} NaN`), "smg_http_responses_total{5xx}=0"},
		{"only an invalid code", "sglang-gateway", `smg_http_responses_total{status_code="200"} NaN`, ""},
		{"5xx over paths", "sglang-gateway", body(`smg_http_responses_total{path="/a",status_code="500"} 1`, `smg_http_responses_total{path="/b",status_code="500"} 2`), "smg_http_responses_total{5xx}=3"},

		// Whitespace and line ends.
		{"no final newline", "vllm", "# TYPE x gauge\n" + r + " 1", r + "=1"},
		{"CRLF", "vllm", "# TYPE x gauge\r\n\r\n" + r + "{e=\"0\"} 1\r\n" + r + "{e=\"1\"} 2 1700000000000\r\n", r + "=3"},
		{"blanks and tabs", "vllm", " \t" + r + " \t{ \te \t= \t\"0\" \t, \tf=\"1\" \t} \t1 \t1700000000000 \t\n", r + "=1"},
		{"blanks without labels", "vllm", "\t" + r + "\t \t1\t", r + "=1"},
		{"nothing between brace and value", "vllm", r + `{e="0"}1`, r + "=1"},
		{"a comma behind the last label", "vllm", r + `{e="0",} 1`, r + "=1"},
		{"blank lines", "vllm", "\n\n \t\n" + r + " 1\n\n", r + "=1"},
		{"timestamps", "vllm", body(r+`{e="0"} 1 1700000000000`, r+`{e="1"} 2 -1`, r+`{e="2"} 4 0`), r + "=7"},

		// OpenMetrics.
		{"OpenMetrics", "vllm", body(
			"# HELP vllm:prefix_cache_queries Tokens.", "# TYPE vllm:prefix_cache_queries counter", "# UNIT vllm:prefix_cache_queries tokens",
			`vllm:prefix_cache_queries_total{e="0"} 10 1700000000.123`, `vllm:prefix_cache_queries_created{e="0"} 1.7e9`,
			`vllm:prefix_cache_queries_total{e="1"} 5 # {trace_id="a # }"} 0.5 1700000000.5`,
			"# TYPE "+ttftName+" histogram", ttftName+`_bucket{le="1"} 1 # {trace_id="b"} 0.5`, ttftName+"_count 1 # {} 1", ttftName+"_sum 0.5", "# EOF"),
			ttft(0.5, 1) + " vllm:prefix_cache_queries_total=15"},
		{"exemplar behind a float timestamp", "vllm-router", `vllm_router_requests_total 5 1.5 # {trace_id="x"} 0.5 1.5`, "vllm_router_requests_total=5"},
		{"names with _ under a TYPE with :", "vllm", typed(r, "gauge") + `vllm_num_requests_running{e="0"} 1`, r + "=1"},
		{"a counter's name with _ under a TYPE with :", "vllm", typed("vllm:prefix_cache_hits", "counter") + "vllm_prefix_cache_hits_total 3\nvllm_prefix_cache_hits_created 1.7e9", "vllm:prefix_cache_hits_total=3"},
		{"a counter's name with _ under its own TYPE with :", "vllm", typed("vllm:prefix_cache_hits_total", "counter") + "vllm_prefix_cache_hits_total 3", "vllm:prefix_cache_hits_total=3"},
		{"a histogram's name with _ under a TYPE with :", "vllm", typed(ttftName, "histogram") + hist(strings.ReplaceAll(ttftName, ":", "_"), 1, 2), ttft(1, 2)},
		{"a histogram's name with _ under a summary with :", "vllm", typed(ttftName, "summary") + hist(strings.ReplaceAll(ttftName, ":", "_"), 1, 2), ""},
		{"names with _ under a TYPE of their own", "vllm", typed("vllm_num_requests_running", "gauge") + "vllm_num_requests_running 1", ""},
		{"names with _ under both TYPEs", "vllm", typed(r, "gauge") + typed("vllm_num_requests_running", "gauge") + "vllm_num_requests_running 1", ""},
		{"names with _ without a TYPE", "vllm", "vllm_num_requests_running 1", ""},
		{"names with _ beside the exact one", "vllm", typed(r, "gauge") + "vllm_num_requests_running 7\n" + r + " 1", r + "=1"},
		{"SGLang's names with _ under a TYPE with :", "sglang", typed("sglang:num_running_reqs", "gauge") + "sglang_num_running_reqs 1", running(1)},

		// Labels.
		{"every escape", "vllm", r + `{a="\"",b="\\",c="\n",d="{},#=",e="\\\"\\"} 1`, r + "=1"},
		{"braces, commas and # in a value", "vllm", body(r+`{a="}"} 1`, r+`{a="{"} 2`, r+`{a=","} 4`, r+`{a=" # "} 8`, r+`{a="é"} 16`), r + "=31"},
		{"a mode in an escape's shape", "sglang", `sglang:prefill_effective_tokens_total{mode="in\\put"} 3`, ""},
		{"a long line", "vllm", r + `{a="` + strings.Repeat("x", 300<<10) + `"} 1`, r + "=1"},
		{"many labels", "vllm", r + "{" + manyLabels(200) + "} 1", r + "=1"},

		// Bodies with nothing of ours.
		{"empty", "vllm", "", ""},
		{"blank", "vllm", " \r\n\t\n\n", ""},
		{"comments", "vllm", "# nothing\n#\n# EOF\n", ""},
		{"other series", "vllm", "up 1\n", ""},
		{"malformed lines of other series", "vllm", body("up", `up{a="b`, "up{} x", "vllm:other{ 1", `<html>`, r+" 1", "vllm:num_requests_runnin"), r + "=1"},
		{"malformed comments", "vllm", body("# HELP", "# TYPE", "# TYPE "+r, `# HELP `+r+` \x`, "#TYPE", r+" 1"), r + "=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := tableNamed(t, c.table)
			values, err := table.Parse([]byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Fields(c.want)
			slices.Sort(want)
			if got := supplied(table, values); !slices.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			explained, _, err := table.Explain([]byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if got := supplied(table, explained); !slices.Equal(got, want) {
				t.Errorf("explained: got  %v\nwant %v", got, want)
			}
		})
	}
}

const ttftName = "vllm:time_to_first_token_seconds"

func ttft(sum float64, count int) string {
	return sprint("%s_count=%d %s_sum=%v", ttftName, count, ttftName, sum)
}

// typed is a TYPE line.
func typed(name, metricType string) string { return "# TYPE " + name + " " + metricType + "\n" }

// q is a sample of SGLang's running requests, running what becomes of it.
func q(labels string, value int) string {
	return sprint("sglang:num_running_reqs{%s} %d", labels, value)
}
func running(value int) string { return sprint("sglang:num_running_reqs=%d", value) }

func sglangModeValues(input, device, host, storage int) string {
	const name = "sglang:prefill_effective_tokens_total"
	return sprint("%s{input}=%d %s{device_hit}=%d %s{host_hit}=%d %s{storage_hit}=%d", name, input, name, device, name, host, name, storage)
}

func c5xx(code string, value int) string {
	return sprint("smg_http_responses_total{status_code=%q} %d", code, value)
}

func manyLabels(n int) string {
	labels := make([]string, n)
	for i := range labels {
		labels[i] = sprint(`l%d="%d"`, i, i)
	}
	return strings.Join(labels, ",")
}

// TestParseMalformed: a selected line that does not parse, or a body without an exposition line, makes the
// body unreadable, whatever else is in it.
func TestParseMalformed(t *testing.T) {
	const r = "vllm:num_requests_running"
	for _, c := range []struct{ name, body string }{
		{"no value", r},
		{"no value behind a blank", r + " "},
		{"no value behind labels", r + `{e="0"}`},
		{"no number", r + " one"},
		{"hexadecimal", r + " 0x10"},
		{"hexadecimal float", r + " 0x1p4"},
		{"underscores", r + " 1_000"},
		{"a number too great", r + " 1e999"},
		{"a comma in the number", r + " 1,5"},
		{"no timestamp", r + " 1 now"},
		{"too many fields", r + " 1 2 3"},
		{"a brace behind the value", r + ` 1 {e="0"}`},
		{"labels without an end", r + `{e="0" 1`},
		{"labels without anything", r + `{`},
		{"a label without a name", r + `{="0"} 1`},
		{"a label without =", r + `{e"0"} 1`},
		{"a label without a value", r + `{e=} 1`},
		{"a label name alone", r + `{e} 1`},
		{"a label name at the end", r + `{e`},
		{"a value without quotes", r + `{e=0} 1`},
		{"a value in other quotes", r + `{e='0'} 1`},
		{"a value without an end", r + `{e="0} 1`},
		{"a value without an end, escaped", r + `{e="0\"} 1`},
		{"a value that ends in an escape", r + `{e="\`},
		{"an escape of the quote and no end", r + `{e="\"`},
		{"an escape at the end, behind an escaped quote", r + `{e="\"\`},
		{"a comment behind the value", r + " 1 # one"},
		{"a # behind the value", r + " 1 #"},
		{"an exemplar without a value", r + ` 1 # {a="b"}`},
		{"an exemplar whose value is no number", r + ` 1 # {a="b"} x`},
		{"an exemplar whose timestamp is no number", r + ` 1 # {a="b"} 1 now`},
		{"an exemplar with too many fields", r + ` 1 # {a="b"} 1 2 3`},
		{"an exemplar whose labels have no end", r + ` 1 # {a="b" 1`},
		{"an unknown escape", r + `{e="\t"} 1`},
		{"a value that is not UTF-8", r + "{e=\"\xff\"} 1"},
		{"an escaped value that is not UTF-8", r + "{e=\"\\n\xff\"} 1"},
		{"a newline in a value", r + "{e=\"a\nb\"} 1"},
		{"a colon in a label's name", r + `{e:f="0"} 1`},
		{"a digit before a label's name", r + `{0="0"} 1`},
		{"a label's name twice", r + `{e="0",e="1"} 1`},
		{"the metric's own name as a label", r + `{__name__="x"} 1`},
		{"two commas", r + `{e="0",,f="1"} 1`},
		{"a comma first", r + `{,e="0"} 1`},
		{"no comma", r + `{e="0" f="1"} 1`},
		{"a control character behind the name", r + "\x00 1"},
		{"a histogram's sum", ttftName + "_sum x"},
		{"a histogram's count", ttftName + "_count x"},
		{"a counter's other name", "vllm:prefix_cache_hits x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, text := range []string{c.body, c.body + "\n", "up 1\n" + c.body + "\n" + r + `{x="1"} 1` + "\n"} {
				if values, err := vllm.Parse([]byte(text)); !errors.Is(err, ErrMalformed) || values != nil {
					t.Errorf("%q: got %v, %v, want ErrMalformed", text, values, err)
				}
			}
			// The same line of a series that is not read is harmless.
			other := strings.NewReplacer(r, "vllm:other", ttftName, "vllm:other", "vllm:prefix_cache_hits", "vllm:other").Replace(c.body)
			if _, err := vllm.Parse([]byte("up 1\n" + other + "\n")); err != nil {
				t.Errorf("%q: %v", other, err)
			}
		})
	}
	for _, c := range []struct{ name, body string }{
		{"HTML", "<!DOCTYPE html>\n<html>\n  <body>404 page not found</body>\n</html>\n"},
		{"JSON", `{"detail":"Not Found"}`},
		{"indented JSON", "{\n  \"detail\": \"Not Found\",\n  \"code\": 404\n}\n"},
		{"plain text", "404 page not found\n"},
		{"one word", "OK"},
		{"binary", "\x1f\x8b\x08\x00\x00\n\x00\xff"},
		{"a name without a value", "up\n"},
		{"broken lines of other series alone", "up{a=\"b\n"},
		{"HTML with a style sheet", "<style>\n#app { color: red }\n</style>\n"},
		{"Markdown", "# Not found\n\nThere is nothing here.\n"},
		{"JSON of one string", `{"detail"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if values, err := vllm.Parse([]byte(c.body)); !errors.Is(err, ErrMalformed) || values != nil {
				t.Errorf("got %v, %v, want ErrMalformed", values, err)
			}
		})
	}
}

// TestParseQuotedNames: a series whose name stands in the braces is an exposition line, and is not read.
func TestParseQuotedNames(t *testing.T) {
	for _, body := range []string{`{"my.metric"} 1`, `{"my.metric",a="b"} 1 2`, `{"vllm:num_requests_running"} 1`} {
		values, err := vllm.Parse([]byte(body))
		if err != nil || values.have([]int{0}) {
			t.Errorf("%s: %v, %v", body, values, err)
		}
	}
}

// TestParseManyLabels: a line costs its bytes, however many labels it has. Comparing each name with
// each other would take minutes here.
func TestParseManyLabels(t *testing.T) {
	var line strings.Builder
	line.WriteString("vllm:num_requests_running{")
	for i := 0; line.Len() < 1<<20; i++ {
		fmt.Fprintf(&line, `l%x="",`, i)
	}
	for _, c := range []struct{ name, line string }{
		{"selected", line.String() + "} 1"},
		{"of another series", strings.Replace(line.String(), "vllm:num", "other", 1) + "} 1"},
		{"an exemplar", "vllm:num_requests_running 1 # " + line.String()[len("vllm:num_requests_running"):] + "} 1"},
	} {
		if _, err := vllm.Parse([]byte(c.line)); err != nil {
			t.Errorf("%s: %.200v", c.name, err)
		}
	}
	if _, err := vllm.Parse([]byte(line.String() + `l0=""} 1`)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a name twice among many: %v", err)
	}
}

// TestParseMalformedIsForgotten: a parser that met a broken body gives the next one its due.
func TestParseMalformedIsForgotten(t *testing.T) {
	for range 100 {
		if _, err := vllm.Parse([]byte(typed("vllm:num_requests_running", "summary") + "vllm:num_requests_running x")); err == nil {
			t.Fatal("no error")
		}
		values, err := sglang.Parse([]byte("sglang:num_running_reqs 1"))
		if got := supplied(sglang, values); err != nil || !slices.Equal(got, []string{running(1)}) {
			t.Fatalf("got %v, %v", got, err)
		}
		values, err = vllm.Parse([]byte("vllm:num_requests_running 1"))
		if got := supplied(vllm, values); err != nil || !slices.Equal(got, []string{"vllm:num_requests_running=1"}) {
			t.Fatalf("got %v, %v", got, err)
		}
	}
}

// TestParserParts: a body that arrives in parts is the same body, wherever it is cut.
func TestParserParts(t *testing.T) {
	text := body("# TYPE vllm:num_requests_running gauge", `vllm:num_requests_running{e="0"} 1`, "up 1",
		`vllm:num_requests_running{e="\"1"} 2`) + "\r\n" + hist(ttftName, 1.5, 12) + "vllm:num_requests_waiting 34"
	want := []string{"vllm:num_requests_running=3", "vllm:num_requests_waiting=34", ttftName + "_count=12", ttftName + "_sum=1.5"}
	for size := 1; size <= len(text); size++ {
		p := vllm.NewParser()
		for part := range slices.Chunk([]byte(text), size) {
			// A part is only lent.
			lent := slices.Clone(part)
			if n, err := p.Write(lent); n != len(part) || err != nil {
				t.Fatalf("Write is %d, %v", n, err)
			}
			for i := range lent {
				lent[i] = 'x'
			}
		}
		values, err := p.Values()
		if got := supplied(vllm, values); err != nil || !slices.Equal(got, want) {
			t.Fatalf("in parts of %d: got %v, %v, want %v", size, got, err, want)
		}
	}
	p := vllm.NewParser()
	for _, part := range []string{"vllm:num_requests_running 1\nvllm:num_requests_wai", "ting x\nvllm:num_requests_waiting 1\n"} {
		if _, err := p.Write([]byte(part)); err != nil {
			t.Fatalf("Write fails: %v", err)
		}
	}
	if _, err := p.Values(); !errors.Is(err, ErrMalformed) {
		t.Errorf("got %v, want ErrMalformed", err)
	}
}

// TestSumOrder: the order of lines may differ from read to read and must not move a sum by a bit, which
// would read as a reset.
func TestSumOrder(t *testing.T) {
	var lines []string
	for i := range 40 {
		lines = append(lines,
			sprint(`vllm:time_to_first_token_seconds_sum{e="%d"} %v`, i, 0.1*float64(i*i)+1e-9),
			sprint(`vllm:time_to_first_token_seconds_count{e="%d"} %d`, i, i+1),
			sprint(`vllm:prefix_cache_hits_total{e="%d"} %v`, i, 0.1*float64(i)),
			sprint(`vllm:prefix_cache_queries_total{e="%d"} %v`, i, 0.3*float64(i)))
	}
	naive := func(lines []string) (sum float64) {
		for _, line := range lines {
			if strings.Contains(line, "_seconds_sum") {
				var v float64
				_, _ = fmt.Sscan(line[strings.IndexByte(line, ' '):], &v)
				sum += v
			}
		}
		return sum
	}
	reversed := slices.Clone(lines)
	slices.Reverse(reversed)
	if naive(lines) == naive(reversed) {
		t.Fatal("the lines' order does not matter to a plain sum: nothing is tested")
	}
	for _, reads := range [][]scrape{
		twice(body(lines...), body(reversed...)),
		twice(body(reversed...), body(lines...)),
	} {
		got := outcome(t, engineOf("vllm", RoleServer), enginePod(RoleServer), reads...)
		compare(t, only(got, "local-prefix", ttftName), []string{"- local-prefix: idle_window", "- " + ttftName + ": idle_window"})
	}
}

// TestValuesShape: each table's values have a place for everything that its rows are computed from.
func TestValuesShape(t *testing.T) {
	for _, s := range sourceTables {
		table := tableNamed(t, s.name)
		values, err := table.Parse(nil)
		if err != nil || len(values) != table.slots {
			t.Fatalf("%s: %d values, %v, want %d", s.name, len(values), err, table.slots)
		}
		used := map[int]bool{}
		for _, r := range table.rows {
			for _, slot := range r.slots {
				used[slot] = true
			}
		}
		if got := slices.Sorted(maps.Keys(used)); len(got) != table.slots || got[len(got)-1] != table.slots-1 {
			t.Errorf("%s: the rows use %v of %d values", s.name, got, table.slots)
		}
	}
}
