package browser

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// The row of a deployment, what opens it, and the button of the form, as a person finds them.
func row(name string) string {
	return fmt.Sprintf(`//details[.//*[@class="name"][normalize-space()=%q]]/summary`, name)
}

const filterButton = `//button[normalize-space()="Filter"]`

func link(text string) string { return fmt.Sprintf(`//a[normalize-space()=%q]`, text) }

var demo = []string{"agents/qwen3-coder", "batch/llama-summarizer", "chat/qwen3-8b", "research/deepseek-r1"}

// A person opens the page of the demo, before and after it was collected, on each screen.
func TestStatusPage(t *testing.T) {
	e := startExporter(t, "demo", "--window.min=0s")

	b := openBrowser(t, screens[0])
	b.open(e.url)
	b.showsRows(demo...)
	b.sees(true, "4 deployments: 0 up 0 down 0 partial 4 not collected yet", "Nothing has been collected yet", "not collected yet", "–/4/4", "never")
	b.click(row("chat/qwen3-8b"))
	b.sees(true, "This deployment has not been collected yet.", "qwen3-8b-server-0")
	b.picture("before")

	e.scrape(t)
	eventually(t, "a window", func() error {
		if !strings.Contains(e.scrape(t), `modeldeployment_time_to_first_token_mean_seconds{modeldeployment="llama-summarizer"`) {
			return errors.New("no time to first token")
		}
		return nil
	})
	for _, s := range screens {
		t.Run(s.name, func(t *testing.T) { lookAround(t, e, s) })
	}
	b.quiet(e)

	// Nobody's looking has read a Pod: every fetch is a scrape's.
	series := e.scrape(t)
	sum := func(name string) (total int) {
		for _, m := range regexp.MustCompile(`(?m)^`+name+`\{.*\} (\d+)$`).FindAllStringSubmatch(series, -1) {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
		return total
	}
	if fetches, pods := sum("md_exporter_fetches_total"), sum("modeldeployment_owned_pods"); pods == 0 || fetches != e.scrapes*pods {
		t.Errorf("%d fetches in %d scrapes of %d Pods", fetches, e.scrapes, pods)
	}
}

func lookAround(t *testing.T, e *exporter, s screen) {
	b := openBrowser(t, s)
	b.open(e.url)
	b.showsRows(demo...)
	b.sees(true, "4 deployments: 4 up 0 down 1 partial", "up complete", "up partial 2 missing", "2/4/4", "sglang behind sglang-gateway", "prefill-decode", "took 2", "router", "running")
	b.sees(false, "not collected yet", "The connection to the Pod was refused", "connection_failed")
	b.looksRight(s)
	b.picture(s.name)

	// A row opens, and shuts.
	b.click(row("batch/llama-summarizer"))
	b.sees(true,
		"The connection to the Pod was refused, reset or closed early. connection_failed makes the deployment partial",
		"The Pod did not answer within the limit of one read. timeout makes the deployment partial",
		"device-prefix sglang:prefill_effective_tokens_total", "of tokens queried",
		"ttft sglang:time_to_first_token_seconds", "seconds", "samples",
		"server 1 read of 3 owned, 3 expected", "router 1 read of 1 owned, 1 expected",
		"llama-summarizer-server-0", "not read")
	b.looksRight(s)
	b.picture(s.name + "-open")
	b.click(row("batch/llama-summarizer"))
	b.sees(false, "connection_failed")

	// The filter: by button, by the enter key, by namespace, partial only, and none.
	b.do(chromedp.SendKeys(chromedp.CSS(`input[name=q]`), "QWEN"))
	b.clickThrough(filterButton)
	b.sees(true, "2 of 4 match.", "Clear")
	b.showsRows("agents/qwen3-coder", "chat/qwen3-8b")
	b.do(chromedp.SendKeys(chromedp.CSS(`select[name=namespace]`), "chat"))
	b.clickThrough(filterButton)
	b.showsRows("chat/qwen3-8b")
	b.clickThrough(link("Clear"))
	b.showsRows(demo...)
	b.do(chromedp.Click(chromedp.CSS(`input[name=partial]`)))
	b.clickThrough(filterButton)
	b.showsRows("batch/llama-summarizer")
	b.follow(chromedp.SendKeys(chromedp.CSS(`input[name=q]`), "nothing of the kind"+kb.Enter))
	b.showsRows()
	b.sees(true, "No deployment matches the filter.")

	// A deployment alone.
	b.clickThrough(link("Clear"))
	b.click(row("research/deepseek-r1"))
	b.clickThrough(`//details[@open]` + link("This deployment alone"))
	b.showsRows("research/deepseek-r1")
	b.sees(true, "transfer-speed sglang:kv_transfer_speed_gb_s", "GB/second", "decode-transfer-waiting")
	b.looksRight(s)
	b.picture(s.name + "-alone")
	b.clickThrough(link("All deployments"))
	b.showsRows(demo...)
	b.quiet(e)
}

// unreadable finds text of too little contrast, what is beyond the screen's edge, and on a phone what is too small
// to touch.
const unreadable = `(phone => {
	const found = [], channels = c => c.match(/[\d.]+/g).map(Number);
	const luminance = c => channels(c).slice(0, 3).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = e => {
		for (; e; e = e.parentElement) {
			const c = getComputedStyle(e).backgroundColor;
			if ((channels(c)[3] ?? 1) == 1) return c;
		}
		return getComputedStyle(document.documentElement).colorScheme.includes("dark") ? "rgb(0,0,0)" : "rgb(255,255,255)";
	};
	const name = e => e.tagName + "." + e.className + " " + (e.innerText || "").slice(0, 40);
	let texts = 0;
	for (const e of document.body.querySelectorAll("*")) {
		if (!e.checkVisibility()) continue;
		const box = e.getBoundingClientRect(), frame = e.parentElement.closest(".rows, body").getBoundingClientRect();
		if (box.right > Math.min(frame.right, innerWidth) + 0.5 || box.left < -0.5) found.push("beyond the edge: " + name(e));
		if (phone && ["SUMMARY", "BUTTON", "SELECT"].includes(e.tagName) && box.height < 40) found.push("too small: " + name(e));
		if (!Array.from(e.childNodes).some(n => n.nodeType == Node.TEXT_NODE && n.data.trim())) continue;
		texts++;
		const style = getComputedStyle(e), [high, low] = [luminance(style.color), luminance(behind(e))].sort((a, b) => b - a);
		if ((high + 0.05) / (low + 0.05) < 4.5) found.push("too little contrast: " + name(e));
		if (parseFloat(style.fontSize) < 12) found.push("too small: " + name(e));
	}
	if (document.documentElement.scrollWidth > innerWidth) found.push("the page is " + document.documentElement.scrollWidth + " wide");
	if (texts < 40) found.push("only " + texts + " texts were looked at");
	return found;
})`

// looksRight fails the test where the page cannot be read on the screen, or has not the screen's colours.
func (b *tab) looksRight(s screen) {
	b.t.Helper()
	for _, what := range ask[[]string](b, fmt.Sprintf("%s(%v)", unreadable, s.phone)) {
		b.t.Errorf("%s: %s", s.name, what)
	}
	background := ask[string](b, `getComputedStyle(document.body).backgroundColor`)
	if want := map[bool]string{false: "rgb(246, 248, 250)", true: "rgb(13, 17, 23)"}[s.dark]; background != want {
		b.t.Errorf("%s: the background is %s, want %s", s.name, background, want)
	}
}

// manifests writes deployments of the names, each with so many Pods that advertise nothing.
func manifests(t *testing.T, pods int, names ...string) string {
	t.Helper()
	var file strings.Builder
	for i, name := range names {
		fmt.Fprintf(&file, "---\napiVersion: worker.gpustack.ai/v1alpha1\nkind: ModelDeployment\nmetadata: {name: %q, namespace: %q, uid: d%d}\n", name, name, i)
		fmt.Fprintf(&file, "spec: {engine: {name: vllm}, roles: [{name: %q, replicas: %d}]}\n", name, pods)
		for p := range pods {
			fmt.Fprintf(&file, "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: %q\n  namespace: %q\n  uid: p%d-%d\n", fmt.Sprintf("%s-%d", name, p), name, i, p)
			fmt.Fprintf(&file, "  labels: {app.kubernetes.io/name: model-deployment, app.kubernetes.io/instance: %q, app.kubernetes.io/component: %[1]q}\n", name)
			fmt.Fprintf(&file, "  ownerReferences: [{apiVersion: worker.gpustack.ai/v1alpha1, kind: ModelDeployment, name: %q, uid: d%d, controller: true}]\n", name, i)
		}
	}
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Names that are markup are text, whoever opens the page, and whatever of it.
func TestStatusPageOfHostileNames(t *testing.T) {
	needBrowser(t)
	attacks := []string{
		`"><img src=x onerror=alert(1)>`, `' onmouseover='alert(2)`, `</style><style>*{display:none}</style>`,
		`</summary></details><form action=//example.invalid>`, `<script>alert(3)</script>`,
	}
	e := startExporter(t, "serve", "--manifests="+manifests(t, 1, attacks...))
	e.scrape(t)
	b := openBrowser(t, screens[0])
	b.open(e.url)
	b.sees(true, attacks...)
	for i := range attacks {
		b.click(fmt.Sprintf(`(//summary)[%d]`, i+1))
	}
	b.sees(true, attacks[0]+"-0", "not_advertised")
	for selector, want := range map[string]int{"img, script, iframe, object": 0, "form": 1, "style": 1, ".row": len(attacks), "details[open]": len(attacks), "main > .rows": 1} {
		if got := b.count(selector); got != want {
			t.Errorf("%d of %q, want %d", got, selector, want)
		}
	}
	b.looksRight(screens[0])
	b.picture("hostile")
	for _, attack := range attacks {
		b.do(chromedp.SendKeys(chromedp.CSS(`input[name=q]`), attack))
		b.clickThrough(filterButton)
		if kept := ask[string](b, `document.querySelector("input[name=q]").value`); kept != attack {
			t.Errorf("the form has %q, want %q", kept, attack)
		}
		if len(b.rows()) == 0 {
			t.Errorf("nothing is found by %q", attack)
		}
		b.clickThrough(link("Clear"))
	}
	b.quiet(e)
}

// A large fleet is on several pages, and each row leads to a page of its own.
func TestStatusPageOfALargeFleet(t *testing.T) {
	needBrowser(t)
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprintf("m%03d", i))
	}
	e := startExporter(t, "serve", "--manifests="+manifests(t, 10, names...))
	e.scrape(t)
	b := openBrowser(t, screens[2])
	b.open(e.url)
	b.sees(true, "300 deployments: 0 up 300 down 300 partial", "Shown are 1 to 100 of 300.", "each row leads to a page of its own")
	if got := b.rows(); len(got) != 100 || got[0] != "m000/m000" {
		t.Errorf("%d rows on the first page", len(got))
	}
	b.looksRight(screens[2])
	b.clickThrough(link("Next"))
	b.clickThrough(link("Next"))
	if got := b.rows(); len(got) != 100 || got[99] != "m299/m299" {
		t.Errorf("%d rows on the last page", len(got))
	}
	b.sees(false, "Next")
	b.clickThrough(`//a[@class="row"][.//*[@class="name"][normalize-space()="m299/m299"]]`)
	b.showsRows("m299/m299")
	b.sees(true, "The Pod has no address or advertises no valid metrics endpoint. not_advertised", "m299-9")
	b.looksRight(screens[2])
	b.quiet(e)
}
