package normalize

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const requestsTotal = "vllm_router_requests_total"

// windowOf reads the vLLM router's request counter and says what its window is: "5 in 10s" for five
// requests over ten seconds, or the reason why there is none.
func windowOf(t *testing.T, h *History, at time.Duration, counter string, config WindowConfig) string {
	t.Helper()
	text := "vllm_router_active_workers 1\n"
	if counter != "absent" {
		text += requestsTotal + " " + counter
	}
	d := withRouter(engineOf("vllm", RoleServer), "vllm-router")
	r := observe(t, h, d, routerPod(), config, scrape{at, text})
	for _, s := range r.samples {
		if s.Field == SuccessfulRequests {
			if want := s.Samples / s.Window.Seconds(); s.Value != want {
				t.Errorf("at %v: the rate is %v, want %v", at, s.Value, want)
			}
			return fmt.Sprintf("%v in %v", s.Samples, s.Window)
		}
	}
	for _, m := range r.missing {
		if m.Source == requestsTotal {
			return string(m.Reason)
		}
	}
	return "nothing"
}

// TestWindow is how a baseline is chosen, rule by rule. Times are in seconds.
func TestWindow(t *testing.T) {
	type step struct {
		at      float64
		counter string
		want    string
	}
	short := WindowConfig{MaxAge: DefaultWindowMaxAge}
	for _, c := range []struct {
		name   string
		config WindowConfig
		steps  []step
	}{
		{"the newest read at least Min old", windows, []step{
			{0, "0", "first_sample"}, {10, "10", "10 in 10s"}, {20, "20", "10 in 10s"}, {25, "25", "15 in 15s"}, {30, "30", "10 in 10s"},
		}},
		{"where none is, the oldest", windows, []step{
			{0, "0", "first_sample"}, {3, "3", "3 in 3s"}, {6, "6", "6 in 6s"}, {9.5, "9", "9 in 9.5s"}, {12, "12", "12 in 12s"}, {13, "13", "10 in 10s"},
		}},
		{"Min 0 is the plain previous read", short, []step{
			{0, "0", "first_sample"}, {10, "10", "10 in 10s"}, {10.001, "11", "1 in 1ms"}, {12, "12", "1 in 1.999s"}, {300, "20", "8 in 4m48s"},
		}},
		{"a read five minutes old is a baseline", windows, []step{
			{0, "0", "first_sample"}, {300, "6", "6 in 5m0s"},
		}},
		{"an older one is none", windows, []step{
			{0, "0", "first_sample"}, {300.001, "6", "first_sample"}, {600.001, "7", "1 in 5m0s"}, {901, "8", "first_sample"},
		}},
		{"an older one is none, Min 0", short, []step{
			{0, "0", "first_sample"}, {301, "6", "first_sample"}, {302, "7", "1 in 1s"},
		}},
		{"the second read supplies a window, however soon", windows, []step{
			{0, "0", "first_sample"}, {0.001, "1", "1 in 1ms"}, {0.002, "2", "2 in 2ms"},
		}},
		{"zero is a measured zero", windows, []step{{0, "5", "first_sample"}, {10, "5", "0 in 10s"}}},
		{"a read that is not newer is not held", windows, []step{
			{0, "0", "first_sample"}, {0, "1", "first_sample"}, {10, "10", "10 in 10s"}, {10, "11", "11 in 10s"}, {5, "7", "7 in 5s"}, {20, "20", "10 in 10s"},
		}},
		// With Min 0 the last read alone is held: one of the same instant has none before it.
		{"a read that is not newer is not held, Min 0", short, []step{
			{0, "0", "first_sample"}, {10, "10", "10 in 10s"}, {10, "11", "first_sample"}, {20, "20", "10 in 10s"},
		}},
		{"a read older than all has no baseline", windows, []step{{10, "5", "first_sample"}, {5, "4", "first_sample"}, {20, "6", "1 in 10s"}}},

		{"a reset is reported once, and then there is a baseline again", windows, []step{
			{0, "100", "first_sample"}, {20, "200", "100 in 20s"}, {40, "5", "counter_reset"}, {60, "10", "5 in 20s"}, {80, "11", "1 in 20s"},
		}},
		{"reads before a reset are no baseline", windows, []step{
			{0, "1", "first_sample"}, {20, "200", "199 in 20s"}, {25, "5", "counter_reset"}, {27, "6", "1 in 2s"}, {31, "300", "295 in 6s"}, {37, "301", "295 in 10s"},
		}},
		{"a reset shows although the baseline is lower", windows, []step{
			{0, "0", "first_sample"}, {5, "50", "50 in 5s"}, {12, "20", "counter_reset"}, {22, "30", "10 in 10s"},
		}},
		{"a reset to zero", windows, []step{{0, "1", "first_sample"}, {20, "0", "counter_reset"}, {40, "0", "0 in 20s"}}},
		{"reset and reset again", windows, []step{
			{0, "9", "first_sample"}, {20, "8", "counter_reset"}, {40, "7", "counter_reset"}, {60, "8", "1 in 20s"},
		}},
		{"a resetting read that came too soon to be held", windows, []step{
			{0, "100", "first_sample"}, {0.1, "3", "counter_reset"}, {0.2, "4", "first_sample"}, {1, "200", "first_sample"}, {2, "201", "1 in 1s"}, {20, "210", "9 in 18s"},
		}},
		{"a reset that only reads too soon to be held show", windows, []step{
			{0, "0", "first_sample"}, {20, "100", "100 in 20s"}, {20.1, "150", "150 in 20.1s"}, {20.2, "120", "counter_reset"}, {40, "130", "first_sample"}, {60, "140", "10 in 20s"},
		}},
		{"a reset long after the last read is none", windows, []step{{0, "100", "first_sample"}, {400, "1", "first_sample"}, {420, "2", "1 in 20s"}}},
		{"Min 0 and a reset", short, []step{{0, "9", "first_sample"}, {1, "3", "counter_reset"}, {2, "4", "1 in 1s"}}},

		{"a source that is absent uses the newest read that has it", windows, []step{
			{0, "0", "first_sample"}, {20, "20", "20 in 20s"}, {40, "absent", "metric_absent"}, {60, "60", "40 in 40s"}, {80, "80", "20 in 20s"},
		}},
		{"absent all along", windows, []step{
			{0, "absent", "metric_absent"}, {20, "absent", "metric_absent"}, {40, "1", "first_sample"}, {41, "2", "1 in 1s"},
		}},
		{"absent beyond the maximum age", windows, []step{
			{0, "0", "first_sample"}, {200, "absent", "metric_absent"}, {301, "9", "first_sample"},
		}},
		{"absent over a reset", windows, []step{
			{0, "9", "first_sample"}, {20, "absent", "metric_absent"}, {40, "1", "counter_reset"}, {60, "2", "1 in 20s"},
		}},
		{"an invalid value is an absent one", windows, []step{
			{0, "0", "first_sample"}, {20, "NaN", "metric_absent"}, {40, "40", "40 in 40s"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := new(History)
			for _, s := range c.steps {
				at := time.Duration(s.at * float64(time.Second)).Round(time.Millisecond)
				if got := windowOf(t, h, at, s.counter, c.config); got != s.want {
					t.Errorf("at %v, %s: %s, want %s", at, s.counter, got, s.want)
				}
			}
		})
	}
}

// TestWindowFailedRead: a failed read holds nothing and drops nothing.
func TestWindowFailedRead(t *testing.T) {
	h := new(History)
	windowOf(t, h, 0, "0", windows)
	Failed(routerPod(), Timeout)
	if got := windowOf(t, h, 20*time.Second, "20", windows); got != "20 in 20s" {
		t.Errorf("got %s, want 20 in 20s", got)
	}
}

// TestWindowHeld: a read is held only if it is Min/15 newer than the last one held.
func TestWindowHeld(t *testing.T) {
	config := WindowConfig{MaxAge: DefaultWindowMaxAge, Min: 15 * time.Second}
	h := new(History)
	if h.Held() != 0 {
		t.Errorf("an empty history holds %d", h.Held())
	}
	for _, s := range []struct {
		at   time.Duration
		held int
	}{
		{0, 1}, {0, 1}, {999 * time.Millisecond, 1}, {time.Second, 2}, {1999 * time.Millisecond, 2},
		{1500 * time.Millisecond, 2}, {500 * time.Millisecond, 2}, {2 * time.Second, 3}, {3500 * time.Millisecond, 4},
		// From here on those at 2 s and before are no longer needed: the one at 3.5 s is 15 s old.
		{18500 * time.Millisecond, 2},
		// All are too old, save the read itself.
		{10 * time.Minute, 1},
	} {
		windowOf(t, h, s.at, "1", config)
		if h.Held() != s.held {
			t.Errorf("at %v: %d are held, want %d", s.at, h.Held(), s.held)
		}
	}
}

// TestWindowScrapers: two scrapers, each reading every half second, do not shrink each other's windows.
func TestWindowScrapers(t *testing.T) {
	h := new(History)
	apart := DefaultWindowMin / heldPerMin
	for i := range 4000 {
		at := time.Duration(i) * 250 * time.Millisecond
		got := windowOf(t, h, at, fmt.Sprint(i), windows)
		var n int
		var w string
		if _, err := fmt.Sscanf(got, "%d in %s", &n, &w); err != nil {
			if i > 0 {
				t.Fatalf("at %v: %s", at, got)
			}
			continue
		}
		window, err := time.ParseDuration(w)
		if err != nil || n != int(window/(250*time.Millisecond)) {
			t.Fatalf("at %v: %s", at, got)
		}
		if want := min(at, DefaultWindowMin); window < want || window > want+apart+250*time.Millisecond {
			t.Fatalf("at %v: the window is %v, want about %v", at, window, want)
		}
		if h.Held() > heldPerMin+2 {
			t.Fatalf("at %v: %d reads are held", at, h.Held())
		}
	}
}

// history is what History must come to: it forgets nothing, and looks through all.
type history struct {
	held []historyRead
	// began is the instant of the first read after each source's last reset.
	began map[string]time.Duration
}

type historyRead struct {
	at     time.Duration
	values map[string]float64
}

// window is the choice of a baseline read literally.
func (h *history) window(source string, now historyRead, config WindowConfig) (deltaAndWindow string, before bool) {
	var base *historyRead
	for i, r := range h.held {
		_, has := r.values[source]
		if !has || r.at >= now.at || now.at-r.at > config.MaxAge {
			continue
		}
		if r.at < h.began[source] {
			before = true
			continue
		}
		if base == nil || now.at-r.at >= config.Min {
			base = &h.held[i]
		}
	}
	if base == nil {
		return "first_sample", before
	}
	return fmt.Sprintf("%v in %v", now.values[source]-base.values[source], now.at-base.at), before
}

// TestWindowRandom holds History to the literal reading over many thousand reads at random times, with
// sources that come, go and are reset; and it holds the reads it keeps to their bound: at most
// heldPerMin+1 that are younger than Min, and one a source behind them.
func TestWindowRandom(t *testing.T) {
	sources := map[string]Field{
		"smg_router_requests_total":                   Requests,
		"smg_router_request_errors_total":             Errors,
		`smg_http_responses_total{status_code="500"}`: HTTP5xxResponses,
	}
	names := []string{"smg_router_requests_total", "smg_router_request_errors_total", `smg_http_responses_total{status_code="500"}`}
	for _, config := range []WindowConfig{windows, {MaxAge: 5 * time.Minute}, {MaxAge: 20 * time.Second, Min: 10 * time.Second}, {MaxAge: 7 * time.Second, Min: 3 * time.Second}} {
		for _, comeAndGo := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v to %v, come and go %v", config.Min, config.MaxAge, comeAndGo), func(t *testing.T) {
				random := rand.New(rand.NewPCG(1, uint64(config.Min)))
				h, literal := new(History), &history{began: map[string]time.Duration{}}
				d, p := gateway(), routerPod()
				counters, epochs, seen := map[string]float64{}, map[string]int{}, map[string]int{}
				absent := map[string]bool{}
				bound := heldPerMin + 2
				if comeAndGo {
					bound = heldPerMin + 1 + len(names)
				}
				if config.Min == 0 {
					bound = 1
					if comeAndGo {
						bound = len(names) + 1
					}
				}
				var at time.Duration
				var most, resets, measured int
				for i := range 6000 {
					switch random.IntN(200) {
					case 0:
						at += time.Duration(random.Int64N(int64(8 * time.Minute)))
					case 1, 2, 3:
						at += time.Duration(random.Int64N(int64(20 * time.Second)))
					default:
						at += 1 + time.Duration(random.Int64N(int64(700*time.Millisecond)))
					}
					now, text := historyRead{at, map[string]float64{}}, "up 1\n"
					for _, name := range names {
						if comeAndGo && random.IntN(20) == 0 {
							absent[name] = !absent[name]
						}
						if random.IntN(300) == 0 {
							// Each life starts lower than any value before it, so that the reset shows.
							epochs[name]++
							counters[name] = 0
						}
						counters[name] += float64(random.IntN(5))
						if absent[name] {
							continue
						}
						now.values[name] = 1e9 - 1e5*float64(epochs[name]) + counters[name]
						text += fmt.Sprintf("%s %.0f\n", name, now.values[name])
					}
					r := observe(t, h, d, p, config, scrape{at, text})
					got := map[Field]string{}
					for _, s := range r.samples {
						got[s.Field] = fmt.Sprintf("%v in %v", s.Samples, s.Window)
					}
					for _, m := range r.missing {
						for _, row := range sglangGateway.rows {
							if row.series == m.Source {
								got[row.field] = string(m.Reason)
							}
						}
					}
					for _, name := range names {
						if _, has := now.values[name]; !has {
							continue
						}
						reset := seen[name] != epochs[name]
						if reset {
							seen[name], literal.began[name] = epochs[name], at
						}
						want, before := literal.window(name, now, config)
						if is := got[sources[name]]; reset && is == "counter_reset" {
							resets++
						} else if reset && before || is != want {
							t.Fatalf("read %d at %v: %s is %q, want %q (reset %v)", i, at, name, is, want, reset)
						}
						measured++
					}
					if n := len(literal.held); n == 0 || at-literal.held[n-1].at >= config.Min/heldPerMin {
						literal.held = append(literal.held, now)
						literal.held = slices.DeleteFunc(literal.held, func(r historyRead) bool { return at-r.at > time.Hour })
					}
					if most = max(most, h.Held()); most > bound {
						t.Fatalf("read %d at %v: %d reads are held, more than %d", i, at, most, bound)
					}
				}
				if resets < 10 || measured < 5000 {
					t.Errorf("only %d windows and %d resets were seen", measured, resets)
				}
				t.Logf("at most %d reads were held, the bound is %d", most, bound)
			})
		}
	}
}

// TestWindowMismatch: the ratio's counters may have different baselines, but only until both have a read
// that is old enough.
func TestWindowMismatch(t *testing.T) {
	h := new(History)
	d, p := gateway(), routerPod()
	for _, s := range []struct {
		scrape
		want []string
	}{
		{scrape{0, smg(0, 0)[:len("smg_router_requests_total 0")]}, nil},
		{scrape{20 * time.Second, smg(20, 5)}, nil},
		{scrape{25 * time.Second, smg(30, 6)}, []string{"- " + ratioSource + ": window_mismatch"}},
		{scrape{30 * time.Second, smg(40, 10)}, []string{"error-ratio = 0.25 fraction of 20 in 10s (" + ratioSource + ")"}},
		{scrape{50 * time.Second, smg(60, 10)}, []string{"error-ratio = 0 fraction of 20 in 20s (" + ratioSource + ")"}},
		{scrape{70 * time.Second, smg(80, 5)}, nil},
		{scrape{75 * time.Second, smg(90, 6)}, []string{"- " + ratioSource + ": window_mismatch"}},
		{scrape{90 * time.Second, smg(100, 7)}, []string{"error-ratio = 0.1 fraction of 10 in 15s (" + ratioSource + ")"}},
	} {
		got := linesOf(t, p, observe(t, h, d, p, windows, s.scrape))
		compare(t, only(got, "error-ratio", ratioSource), s.want)
	}
}

// TestWindowScopes: each cache scope is a source of its own, but SGLang's share their counters: the reset
// of one mode resets them all.
func TestWindowScopes(t *testing.T) {
	d, p := engineOf("sglang", RoleServer), enginePod(RoleServer, "--enable-hierarchical-cache", "--hicache-storage-backend=file")
	got := outcome(t, d, p, twice(modes(10, 10, 10, 10), modes(20, 20, 20, 9))...)
	compare(t, only(got, "device-prefix", "host-prefix", "storage-prefix"), []string{
		"- device-prefix: counter_reset", "- host-prefix: counter_reset", "- storage-prefix: counter_reset"})
	vllmD, vllmP := withPool(engineOf("vllm", RoleServer)), enginePod(RoleServer, "--kv-transfer-config={}")
	external := func(hits, queries int) string {
		return sprint("vllm:external_prefix_cache_hits_total %d\nvllm:external_prefix_cache_queries_total %d\n", hits, queries)
	}
	got = outcome(t, vllmD, vllmP, twice(prefix(1, 2)+external(5, 9), prefix(2, 4)+external(4, 10))...)
	compare(t, only(got, "local-prefix", "external-store"), []string{
		"local-prefix = 1/2 tokens in 30s (vllm:prefix_cache)", "- external-store: counter_reset"})
}

// TestWindowTableChange: where the deployment's engine, router or mode was edited, all that was held is dropped.
func TestWindowTableChange(t *testing.T) {
	router := func(name string, kinds ...RoleKind) *Deployment { return withRouter(engineOf("vllm", kinds...), name) }
	for _, c := range []struct {
		name          string
		before, after *Deployment
		p             *Pod
	}{
		{"engine", engineOf("vllm", RoleServer), engineOf("sglang", RoleServer), enginePod(RoleServer)},
		{"router", router("vllm-router", RoleServer), router("llm-d-router", RoleServer), routerPod()},
		{"mode", router("vllm-router", RoleServer), router("vllm-router", RolePrefill, RoleDecode), routerPod()},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := new(History)
			all := body(hist(ttftName, 1, 1), hist("sglang:time_to_first_token_seconds", 1, 1), "vllm_router_requests_total 1",
				"vllm_router_pd_requests_total 1", "llm_d_epp_request_total 1")
			firsts := func(d *Deployment, at time.Duration) (n int) {
				for _, m := range observe(t, h, d, c.p, windows, scrape{at, all}).missing {
					if m.Reason == FirstSample {
						n++
					}
				}
				return n
			}
			for i, step := range []struct {
				d     *Deployment
				first int
				held  int
			}{{c.before, 1, 1}, {c.before, 0, 2}, {c.after, 1, 1}, {c.after, 0, 2}, {c.before, 1, 1}} {
				if got := firsts(step.d, time.Duration(i)*5*time.Second); got != step.first || h.Held() != step.held {
					t.Errorf("read %d: %d first samples with %d held, want %d and %d", i, got, h.Held(), step.first, step.held)
				}
			}
		})
	}
}

// TestWindowHeldBound: reads at the very pace at which all are held come to the bound, and not beyond.
func TestWindowHeldBound(t *testing.T) {
	h, most := new(History), 0
	for i := range 200 {
		windowOf(t, h, time.Duration(i)*(DefaultWindowMin/heldPerMin), "1", windows)
		most = max(most, h.Held())
	}
	if most != heldPerMin+2 {
		t.Errorf("at most %d reads were held, want %d", most, heldPerMin+2)
	}
}
