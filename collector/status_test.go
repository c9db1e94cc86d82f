package collector

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
)

// statusNow is when the pages of these tests are made.
var statusNow = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// givenCollections is a fleet of deployments and their last collections, in order; nil where there is none.
type givenCollections struct {
	fleet discovery.Fleet
	last  map[*discovery.Deployment]*normalize.Snapshot
}

func (g *givenCollections) add(d *discovery.Deployment, s *normalize.Snapshot) {
	if g.last == nil {
		g.last = map[*discovery.Deployment]*normalize.Snapshot{}
	}
	g.fleet.Deployments = append(g.fleet.Deployments, d)
	g.last[d] = s
}

// view is what the page shows for a query such as "?q=a".
func (g *givenCollections) view(t testing.TB, query string) *statusView {
	t.Helper()
	values, err := url.ParseQuery(strings.TrimPrefix(query, "?"))
	if err != nil {
		t.Fatal(err)
	}
	last := func(d *discovery.Deployment) *normalize.Snapshot { return g.last[d] }
	return newStatusView(&g.fleet, last, newStatusQuery(values), statusNow, 5*time.Minute)
}

func render(t testing.TB, v *statusView) string {
	t.Helper()
	var page strings.Builder
	if err := statusTemplate.Execute(&page, v); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// page is the page for a query, as HTML.
func (g *givenCollections) page(t testing.TB, query string) string {
	t.Helper()
	return render(t, g.view(t, query))
}

var (
	styles = regexp.MustCompile(`(?s)<style>.*?</style>`)
	blocks = regexp.MustCompile(`</?(td|th|li|option)\b`)
	tags   = regexp.MustCompile(`(?s)<[^>]*>`)
	blanks = regexp.MustCompile(`\s+`)
	// Of text and attributes a template leaves no quote: these are attributes' own.
	attributes = regexp.MustCompile(`"[^"]*"`)
)

// words is what a page says, without its tags, each run of white space a single space.
func words(page string) string {
	page = blocks.ReplaceAllString(styles.ReplaceAllString(page, ""), " $0")
	return strings.TrimSpace(blanks.ReplaceAllString(tags.ReplaceAllString(page, ""), " "))
}

// names are those of the rows.
func (v *statusView) names() []string {
	names := []string{}
	for _, r := range v.Rows {
		names = append(names, r.Namespace+"/"+r.Name)
	}
	return names
}

// collected is a deployment's last collection, of results made from two reads of each Pod ten seconds
// apart; a Pod whose URL is a reason's code could not be read for it.
func collected(t testing.TB, d *discovery.Deployment, age time.Duration) *normalize.Snapshot {
	t.Helper()
	at := statusNow.Add(-age)
	c := normalize.Collection{Deployment: &d.Deployment, At: at, Started: at.Add(-120 * time.Millisecond)}
	config := normalize.WindowConfig{MaxAge: time.Minute}
	for i := range d.Pods {
		pod := &d.Pods[i].Pod
		c.Owned = append(c.Owned, pod)
		table := normalize.TableOf(&d.Deployment, pod)
		if table == nil {
			continue
		}
		if reason := normalize.Reason(d.Pods[i].URL); slices.Contains(normalize.Reasons(), reason) {
			c.Results = append(c.Results, normalize.Failed(pod, reason))
			continue
		}
		var history normalize.History
		var result normalize.Result
		for n := 1; n <= 2; n++ {
			body := vllmBody(n)
			if pod.Scope == normalize.ScopeRouter {
				body = fmt.Sprintf("vllm_router_running_requests %d\nvllm_router_active_workers 3\nvllm_router_requests_total %d\n", n, 50*n)
			}
			values, err := table.Parse([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			result = history.Observe(&d.Deployment, pod, values, at.Add(time.Duration(n-2)*10*time.Second), config)
		}
		c.Results = append(c.Results, result)
	}
	s := c.Snapshot()
	return &s
}

// everyState is a fleet with a deployment of each state.
func everyState(t testing.TB) *givenCollections {
	t.Helper()
	g := &givenCollections{}
	add := func(namespace string, d *discovery.Deployment, age time.Duration) {
		d.Namespace = namespace
		if age < 0 {
			g.add(d, nil)
			return
		}
		g.add(d, collected(t, d, age))
	}
	const fine = "http://127.0.0.1/metrics"
	add("a", vllmServing("complete", serverPod("complete-server-0", fine), serverPod("complete-server-1", fine)), 12*time.Second)

	partial := vllmServing("partial", routerPod("partial-router-x", fine), serverPod("partial-server-0", fine), serverPod("partial-server-1", "timeout"))
	partial.Roles[0].Expected = 2
	partial.Router = &normalize.Router{Name: "vllm-router", Expected: 1}
	add("a", partial, 3*time.Minute)

	add("b", vllmServing("down", serverPod("down-server-0", "connection_failed")), 6*time.Minute)
	add("b", vllmServing("fresh", serverPod("fresh-server-0", fine)), -1)

	nothing := vllmServing("nothing")
	nothing.Roles[0].Managed = false
	add("b", nothing, time.Second)

	unknown := vllmServing("unknown", serverPod("unknown-server-0", fine))
	unknown.Engine = "tgi"
	add("c", unknown, time.Second)
	return g
}

func TestStatusPage(t *testing.T) {
	g := everyState(t)
	for _, row := range []struct {
		name, query string
		// What the page says, in this order; what is found elsewhere only is not found.
		says []string
		not  []string
	}{
		{name: "the whole fleet", query: "", says: []string{
			"/metrics", "/sd", "/-/healthy", "/-/ready",
			"6 deployments: 2 up 2 down 3 partial 1 not collected yet 1 with nothing to read",
			"Open a row",
			"a/complete Serving vllm serving State up complete Pods read/owned/expected 2/2/2 Now server running 4 waiting 0 Last collection 12 s ago took 120 ms",
			"a/partial Serving vllm behind vllm-router serving State up partial 1 missing Pods read/owned/expected 2/3/3 Now server running 2 waiting 0 router running 2 reported-workers 3 Last collection 3 min ago took 120 ms",
			"b/down Serving vllm serving State down partial 1 missing Pods read/owned/expected 0/1/1 Now no values Last collection 6 min ago",
			"b/fresh Serving vllm serving State not collected yet Pods read/owned/expected –/1/1 Now no values Last collection never",
			"This deployment has not been collected yet.",
			"b/nothing Serving vllm serving State nothing to read",
			"This deployment expects no Pod",
			"c/unknown Serving tgi serving State down partial",
			"As of 2026-03-04 05:06:07 UTC.",
		}},
		{name: "one deployment", query: "?deployment=a/partial", says: []string{
			"All deployments",
			"a/partial",
			"Missing",
			"The Pod did not answer within the limit of one read. timeout makes the deployment partial partial-server-1 scrape server",
			"The series exports nothing before its first increment or observation. not_yet_exported expected here, not partial",
			"partial-router-x vllm_router_request_errors_total router",
			"unsupported_no_kv_connector expected here, not partial partial-server-0 external-store server",
			"Now", "router-reported-workers vllm_router_active_workers router 3 workers 1 Pod",
			"running vllm:num_requests_running server 2 requests 1 Pod",
			"Windows",
			"partial-server-0 server local-prefix vllm:prefix_cache 25 % of tokens queried 10 s 100 samples",
			"partial-server-0 server itl vllm:inter_token_latency_seconds 0.25 seconds 10 s 40 samples",
			"partial-server-0 server ttft vllm:time_to_first_token_seconds 0.5 seconds 10 s 4 samples",
			"partial-router-x router successful-requests vllm_router_requests_total 5 requests/second 10 s 50 samples",
			"Pods", "server 1 read of 2 owned, 2 expected router 1 read of 1 owned, 1 expected",
			"partial-router-x router 3 min ago",
			"partial-server-0 server 3 min ago",
			"partial-server-1 server not read The Pod did not answer within the limit of one read. timeout",
			"This deployment alone", "Its series, read anew",
		}, not: []string{"a/complete", "b/down"}},
		{name: "a deployment that is not there", query: "?deployment=a/other", says: []string{"No such ModelDeployment: a/other"}, not: []string{"complete"}},
		{name: "an engine that no table knows", query: "?deployment=c/unknown", says: []string{
			"The deployment names an engine that no source table knows; its Pods are not read. unknown_engine makes the deployment partial engine/server server",
			"Pods", "unknown-server-0 server not read The deployment names an engine that no source table knows",
		}},
		{name: "a filter", query: "?namespace=a&q=partial", says: []string{"1 of 6 match.", "a/partial"}, not: []string{"a/complete", "b/down"}},
		{name: "a filter that nothing matches", query: "?q=zzz", says: []string{"No deployment matches the filter."}, not: []string{"a/complete"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			said := words(g.page(t, row.query))
			rest := said
			for _, part := range row.says {
				_, after, found := strings.Cut(rest, part)
				if !found {
					t.Fatalf("the page does not say %q where it should:\n%s", part, said)
				}
				rest = after
			}
			for _, part := range row.not {
				if strings.Contains(said, part) {
					t.Errorf("the page says %q", part)
				}
			}
		})
	}
}

func TestStatusFilter(t *testing.T) {
	g := everyState(t)
	all := []string{"a/complete", "a/partial", "b/down", "b/fresh", "b/nothing", "c/unknown"}
	for query, want := range map[string][]string{
		"":                              all,
		"?namespace=&q=&partial=":       all,
		"?page=0":                       all,
		"?page=7":                       all,
		"?page=x":                       all,
		"?namespace=b":                  {"b/down", "b/fresh", "b/nothing"},
		"?namespace=B":                  {},
		"?namespace=elsewhere":          {},
		"?partial=1":                    {"a/partial", "b/down", "c/unknown"},
		"?partial=1&namespace=b":        {"b/down"},
		"?q=PART":                       {"a/partial"},
		"?q=a/":                         {"a/complete", "a/partial"},
		"?q=tgi":                        {"c/unknown"},
		"?q=vllm-router":                {"a/partial"},
		"?q=prefill-decode":             {},
		"?q=server-1":                   {"a/complete", "a/partial"},
		"?q=server-1+complete":          {"a/complete"},
		"?q=timeout":                    {"a/partial"},
		"?q=connection_failed":          {"b/down"},
		"?q=++fresh+":                   {"b/fresh"},
		"?deployment=b/fresh":           {"b/fresh"},
		"?deployment=b/fresh&partial=1": {"b/fresh"},
		"?deployment=b":                 {},
	} {
		if got := g.view(t, query).names(); !slices.Equal(got, want) {
			t.Errorf("%q shows %q, want %q", query, got, want)
		}
	}

	// What was asked for stands in the form, also where the fleet has no such namespace.
	page := g.page(t, "?namespace=elsewhere&q=some+%22words%22&partial=1")
	for _, part := range []string{
		`<option value="elsewhere" selected>elsewhere</option>`, `value="some &#34;words&#34;"`, `value="1" checked>`, ">Clear</a>",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("no %s in the form", part)
		}
	}
	if page := g.page(t, ""); strings.Contains(page, "selected") || strings.Contains(page, "checked") || strings.Contains(page, ">Clear</a>") {
		t.Error("a form that nobody filled in is")
	}
}

// A Pod is what the fleet has now, and when it was read what the last collection says.
func TestStatusPods(t *testing.T) {
	d := vllmServing("m", serverPod("stays", ""), serverPod("fails", "http_status"), serverPod("goes", ""))
	g := &givenCollections{}
	now := vllmServing("m", serverPod("stays", ""), serverPod("fails", ""), serverPod("new", ""))
	g.add(now, collected(t, d, 5*time.Second))
	pods := func(v *statusView) []string {
		var got []string
		for _, p := range v.Rows[0].PodRows() {
			got = append(got, strings.Join([]string{p.Name, p.Read, string(p.Reason), p.Note}, "|"))
		}
		return got
	}
	want := []string{"stays|5 s ago||", "fails||http_status|", "new|||new since the last collection", "goes|5 s ago||gone since"}
	if got := pods(g.view(t, "")); !slices.Equal(got, want) {
		t.Errorf("Pods %q, want %q", got, want)
	}

	g.last[now].Missing = append(g.last[now].Missing, normalize.Missing{Source: "pod-discovery", Reason: normalize.PodLimit})
	if got, want := pods(g.view(t, ""))[2], "new||pod_limit|"; got != want {
		t.Errorf("of more Pods than are read: %q, want %q", got, want)
	}
	g.last[now] = nil
	if got, want := pods(g.view(t, "")), []string{"stays|||not collected yet", "fails|||not collected yet", "new|||not collected yet"}; !slices.Equal(got, want) {
		t.Errorf("before a collection: %q, want %q", got, want)
	}
}

// Every reason that there is has its sentence on the page, and says whether it makes a deployment partial.
func TestStatusReasons(t *testing.T) {
	d := vllmServing("m", serverPod("a", ""))
	s := collected(t, d, 0)
	s.Missing = nil
	for _, reason := range normalize.Reasons() {
		s.Missing = append(s.Missing, normalize.Missing{Pod: "a", Scope: engine, Role: "server", Source: "source-of-" + string(reason), Reason: reason})
	}
	g := &givenCollections{}
	g.add(d, s)
	said := words(g.page(t, ""))
	optional := false
	for _, group := range g.view(t, "").Rows[0].MissingByReason() {
		if optional && group.Partial() {
			t.Errorf("%s stands behind what does not make a deployment partial", group.Reason)
		}
		optional = optional || !group.Partial()
	}
	for _, reason := range normalize.Reasons() {
		effect := "expected here, not partial"
		if reason.Partial() {
			effect = "makes the deployment partial"
		}
		sentence := strings.NewReplacer("'", "&#39;").Replace(reason.Sentence())
		if part := fmt.Sprintf("%s %s %s a source-of-%[2]s server", sentence, reason, effect); !strings.Contains(said, part) {
			t.Errorf("the page does not say %q", part)
		}
	}
}

// Names come from manifests and may hold anything; wherever they stand they are text.
func TestStatusEscapes(t *testing.T) {
	handler := regexp.MustCompile(`<[^>]*\son[a-z]+\s*=`)
	for _, attack := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</style><script>alert(1)</script>`,
		`javascript:alert(1)`, `{{.Version}}`, `</details></section>`, `a b`, `&lt;b&gt;`, "\u202egnp.exe", "a\x00b", "\xff",
	} {
		d := vllmServing(attack, routerPod("r"+attack, ""), serverPod("p"+attack, ""), serverPod("f"+attack, "timeout"))
		d.Namespace, d.Roles[0].Name = "n"+attack, attack
		for i := range d.Pods {
			if d.Pods[i].Scope == engine {
				d.Pods[i].Role = attack
			}
		}
		d.Router = &normalize.Router{Name: "vllm-router", Expected: 1}
		s := collected(t, d, 0)
		d.Engine, d.Router = "e"+attack, &normalize.Router{Name: "t" + attack, Expected: 1}
		g := &givenCollections{}
		g.add(d, s)

		tame := strings.Repeat("x", len(attack))
		tagsOf := func(page string) []string {
			names := regexp.MustCompile(`<[a-zA-Z/!][^\s>]*`).FindAllString(styles.ReplaceAllString(page, ""), -1)
			slices.Sort(names)
			return names
		}
		for _, query := range []string{"", "?q=" + url.QueryEscape(attack), "?namespace=" + url.QueryEscape("n"+attack),
			"?deployment=" + url.QueryEscape("n"+attack+"/"+attack), "?deployment=" + url.QueryEscape(attack)} {
			// With a tame name in its place the page has the very same tags.
			tamed := *d
			tamed.Namespace, tamed.Name, tamed.Engine, tamed.Router = "n"+tame, tame, tame, &normalize.Router{Name: tame}
			peer := &givenCollections{}
			peer.add(&tamed, s)
			page := g.page(t, query)
			if got, want := tagsOf(page), tagsOf(peer.page(t, strings.ReplaceAll(query, url.QueryEscape(attack), tame))); !slices.Equal(got, want) {
				t.Errorf("%q on %q makes tags of its own: %q, want %q", attack, query, got, want)
			}
			if handler.MatchString(attributes.ReplaceAllString(page, "")) || strings.Contains(page, `href="javascript:`) {
				t.Errorf("%q on %q is more than text", attack, query)
			}
		}
		if got := g.view(t, "?deployment="+url.QueryEscape("n"+attack+"/"+attack)).names(); len(got) != 1 {
			t.Errorf("%q has no page of its own", attack)
		}
		for _, link := range []string{g.view(t, "").Rows[0].Link(), g.view(t, "").Rows[0].Probe()} {
			u, err := url.Parse(link)
			if err != nil || u.Scheme != "" || u.Host != "" || (u.Path != "" && u.Path != "probe") {
				t.Errorf("%q has the link %q, %v", attack, link, err)
			}
		}
	}
}

// The links on the page lead to what they name.
func TestStatusLinks(t *testing.T) {
	d := vllmServing(`m&"x"`, serverPod("a", endpoint(t, busy())))
	e := newExporter(t, settings{}, d)
	links := regexp.MustCompile(`href="([^"]*)"`)
	var followed []string
	for _, match := range links.FindAllStringSubmatch(e.ask(t, "/").Body.String(), -1) {
		link := strings.NewReplacer("&amp;", "&", "&#34;", `"`).Replace(match[1])
		if link == "data:," {
			continue
		}
		base := &url.URL{Path: "/"}
		target, err := base.Parse(link)
		if err != nil {
			t.Fatal(err)
		}
		if w := e.ask(t, target.String()); w.Code != http.StatusOK {
			t.Errorf("%s: status %d: %s", target, w.Code, w.Body)
		}
		followed = append(followed, target.Path)
	}
	for _, path := range []string{"/", "/metrics", "/sd", "/-/healthy", "/-/ready", "/probe"} {
		if !slices.Contains(followed, path) {
			t.Errorf("no link leads to %s", path)
		}
	}
}

// The page shows the last collection and makes none.
func TestStatusReadsNothing(t *testing.T) {
	g := newGated(t)
	d := vllmServing("m", serverPod("a", g.url))
	e := newExporter(t, settings{}, d)
	says := func(query, part string) {
		t.Helper()
		if w := e.ask(t, "/"+query); w.Code != http.StatusOK || !strings.Contains(words(w.Body.String()), part) {
			t.Errorf("%q: status %d, and it does not say %q: %s", query, w.Code, part, words(w.Body.String()))
		}
	}
	for _, query := range []string{"", "?q=m", "?deployment=ns/m"} {
		says(query, "Nothing has been collected yet.")
		says(query, "State not collected yet")
	}
	if n := g.requests.Load(); n != 0 {
		t.Errorf("the page made %d reads", n)
	}

	// While a collection is under way the page does not wait for it.
	snapshot := start(t, e, t.Context(), d)
	receive(t, g.came, "the request")
	says("", "State not collected yet")
	g.open <- struct{}{}
	receive(t, snapshot, "the snapshot")
	says("", "State up partial 4 missing")
	says("?deployment=ns/m", "There is no earlier read to measure a window against. first_sample")
	if n := g.requests.Load(); n != 1 {
		t.Errorf("%d reads, want the collection's one", n)
	}

	// It keeps nothing alive, either: what is gone is not shown.
	e.serve()
	says("", "No ModelDeployment is known")
}

func TestStatusAnswer(t *testing.T) {
	e := newExporter(t, settings{}, vllmServing("m", serverPod("a", endpoint(t, busy()))))
	w := e.ask(t, "/")
	for name, want := range map[string]string{
		"Content-Type":           "text/html; charset=utf-8",
		"X-Content-Type-Options": "nosniff",
		"Referrer-Policy":        "no-referrer",
		"Cache-Control":          "no-store",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	policy := w.Header().Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'", "form-action 'self'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy has no %s: %s", part, policy)
		}
	}
	if strings.Contains(policy, "script-src") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is weak: %s", policy)
	}
	body := w.Body.String()
	for _, part := range []string{"<script", " style=", "http://", "https://", "//"} {
		if strings.Contains(strings.ReplaceAll(body, "<!--", ""), part) {
			t.Errorf("the page has %q", part)
		}
	}

	compressed := e.ask(t, "/", "Accept-Encoding", "gzip")
	reader, err := gzip.NewReader(compressed.Body)
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(reader)
	if err != nil || words(string(unpacked))[:40] != words(body)[:40] {
		t.Errorf("compressed it is another page: %v", err)
	}

	if w := e.ask(t, "/?deployment=ns/other"); w.Code != http.StatusNotFound {
		t.Errorf("status %d of a deployment that is not there", w.Code)
	}
	unsynced := newExporter(t, settings{unsynced: true})
	if said := words(unsynced.ask(t, "/").Body.String()); !strings.Contains(said, "Discovery has not synced yet") || !strings.Contains(said, "No ModelDeployment is known yet.") {
		t.Errorf("before discovery has synced the page says %q", said)
	}
}

// A thousand deployments of ten Pods are pages of some hundred kilobytes at most, and every one of them is
// on one of the pages and opens on its own.
func TestStatusOfALargeFleet(t *testing.T) {
	g := largeFleet(t)
	seen := map[string]bool{}
	v := g.view(t, "")
	for pages := 1; ; pages++ {
		if v.Opens || len(v.Rows) > statusPageRows {
			t.Fatalf("page %d has %d rows, which open: %v", pages, len(v.Rows), v.Opens)
		}
		for _, name := range v.names() {
			seen[name] = true
		}
		if size := len(render(t, v)); size > 300<<10 {
			t.Errorf("page %d has %d bytes", pages, size)
		}
		if v.Next == "" {
			break
		}
		if pages > 20 {
			t.Fatal("the pages have no end")
		}
		v = g.view(t, v.Next)
	}
	if len(seen) != 1000 {
		t.Errorf("%d deployments on the pages, want 1000", len(seen))
	}
	if v = g.view(t, v.Previous); v.LastRow() != 900 {
		t.Errorf("the last page but one ends with %d", v.LastRow())
	}

	// The filter stays on the way.
	v = g.view(t, "?namespace=ns1&q=m&partial=1")
	if v.Matching != 500 || v.Next == "" {
		t.Fatalf("%d match, next is %q", v.Matching, v.Next)
	}
	if v = g.view(t, v.Next); v.Matching != 500 || v.First != 101 || v.Query.Text != "m" || !v.Query.Partial {
		t.Errorf("the next page is %+v", v.Query)
	}

	page := g.page(t, "?deployment=ns1/m0999")
	if !strings.Contains(page, "<details class=\"row\" open>") || !strings.Contains(page, "time_to_first_token_seconds") {
		t.Error("a deployment alone is not open")
	}
	if size := len(page); size > 100<<10 {
		t.Errorf("a deployment alone has %d bytes", size)
	}
	if n := strings.Count(g.page(t, "?q=m0007"), "<details"); n != 1 {
		t.Errorf("%d rows open where few match", n)
	}
}

// largeFleet is of 1,000 deployments of ten Pods each, in two namespaces; one Pod of each is not read.
func largeFleet(t testing.TB) *givenCollections {
	g := &givenCollections{}
	for i := range 1000 {
		var pods []discovery.Pod
		for p := range 10 {
			pods = append(pods, serverPod(fmt.Sprintf("m%04d-server-%d", i, p), ""))
		}
		pods[9].URL = "timeout"
		d := vllmServing(fmt.Sprintf("m%04d", i), pods...)
		d.Namespace = fmt.Sprintf("ns%d", i*2/1000)
		g.add(d, collected(t, d, time.Second))
	}
	return g
}

// The page of 1,000 deployments of ten Pods each.
func BenchmarkStatus(b *testing.B) {
	g := largeFleet(b)
	for name, query := range map[string]string{"page": "", "filtered": "?partial=1&q=timeout", "alone": "?deployment=ns1/m0999"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var size int
			for b.Loop() {
				size = len(g.page(b, query))
			}
			b.ReportMetric(float64(size), "bytes/page")
		})
	}
}

func TestStatusWords(t *testing.T) {
	for want, got := range map[string]string{
		"0": figure(0), "12": figure(12), "-3": figure(-3), "0.5205": figure(0.52049), "34.25": figure(34.2512), "12346": figure(12345.6),
		"1e+18": figure(1e18), "1.234e-05": figure(1.234e-5),
		"<1 ms": took(10 * time.Microsecond), "7 ms": took(7900 * time.Microsecond), "2 s": took(2001 * time.Millisecond), "2.01 s": took(2010 * time.Millisecond),
		"1 s ago":     ago(statusNow, statusNow.Add(-1999*time.Millisecond)),
		"119 s ago":   ago(statusNow, statusNow.Add(-119*time.Second)),
		"2 min ago":   ago(statusNow, statusNow.Add(-2*time.Minute)),
		"119 min ago": ago(statusNow, statusNow.Add(-119*time.Minute)),
		"2 h ago":     ago(statusNow, statusNow.Add(-2*time.Hour)),
		"2 days ago":  ago(statusNow, statusNow.Add(-48*time.Hour)),
		"just now":    ago(statusNow, statusNow.Add(time.Hour)),
		"Pod":         plural(1, "Pod"), "Pods": plural(0, "Pod"), "sample": plural(1.0, "sample"), "samples": plural(1.5, "sample"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
