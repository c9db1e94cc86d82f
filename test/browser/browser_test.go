package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long something may take that is done at once on an idle machine.
const patience = time.Minute

// pictures is where the tests leave what they saw.
const pictures = "../../.cache/browser"

// The exporter, built once; empty where no browser is there to open its page.
var exporterBinary, chromium string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			chromium = path
			break
		}
	}
	if chromium == "" {
		return m.Run()
	}
	folder, err := os.MkdirTemp("", "md-exporter-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	exporterBinary = filepath.Join(folder, "md-exporter")
	build := exec.Command("go", "build", "-o", exporterBinary, "./cmd/md-exporter")
	build.Dir = "../.."
	if output, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s\n", err, output)
		return 1
	}
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// needBrowser skips the test where there is none.
func needBrowser(t *testing.T) {
	t.Helper()
	if chromium == "" {
		t.Skip("SKIPPED: no Chromium is installed here, so the status page is not opened in a browser (on Debian: apt-get install chromium)")
	}
}

// exporter is one that serves.
type exporter struct {
	url string
	// scrapes counts those of /metrics.
	scrapes int
}

var listening = regexp.MustCompile(`msg="Listening on" address=(\S+)`)

// lockedBuffer takes what a process writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// startExporter starts the command until the test ends.
func startExporter(t *testing.T, args ...string) *exporter {
	t.Helper()
	needBrowser(t)
	cmd := exec.Command(exporterBinary, append(args, "--web.listen-address=127.0.0.1:0")...)
	var stderr lockedBuffer
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // It was killed.
	})
	e := &exporter{}
	eventually(t, "the exporter listens", func() error {
		m := listening.FindStringSubmatch(stderr.String())
		if m == nil {
			return errors.New(stderr.String())
		}
		e.url = "http://" + m[1]
		_, err := e.get("/-/ready")
		return err
	})
	return e
}

func (e *exporter) get(path string) (string, error) {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(e.url + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", response.StatusCode, body)
	}
	return string(body), err
}

// scrape collects, and returns the series.
func (e *exporter) scrape(t *testing.T) string {
	t.Helper()
	e.scrapes++
	body, err := e.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// eventually polls until it holds.
func eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = holds(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not within %v: %v", what, patience, err)
}

// screen is what a page is looked at on.
type screen struct {
	name          string
	width, height int64
	phone, dark   bool
}

var screens = []screen{
	{name: "desktop-light", width: 1280, height: 900},
	{name: "desktop-dark", width: 1280, height: 900, dark: true},
	{name: "phone-light", width: 360, height: 780, phone: true},
	{name: "phone-dark", width: 360, height: 780, phone: true, dark: true},
}

// tab is a page in a browser of its own, in which no script runs.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu sync.Mutex
	// complaints are what the browser has to say, requests the URLs that it asked for.
	complaints, requests []string
}

// openBrowser starts a browser with an empty profile until the test ends.
func openBrowser(t *testing.T, s screen) *tab {
	t.Helper()
	needBrowser(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx,
		chromedp.ExecPath(chromium), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
	)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatalf("starting the browser: %v", err)
	}
	scheme := "light"
	if s.dark {
		scheme = "dark"
	}
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: s.width, Height: s.height, DeviceScaleFactor: 1.5, Mobile: s.phone,
	})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	return b
}

// listen notes what a quiet page does not do.
func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	complain := func(what string) { b.complaints = append(b.complaints, what) }
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		complain(e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		complain("console " + e.Type.String())
	case *log.EventEntryAdded:
		complain(e.Entry.Text)
	case *page.EventJavascriptDialogOpening:
		complain("dialog " + e.Message)
	case *network.EventRequestWillBeSent:
		if e.Request.URL != "data:," {
			b.requests = append(b.requests, e.Request.URL)
		}
	}
}

// call is one command to the browser.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	result, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.t.Fatalf("%+v: %v", params, err)
	}
	return result
}

// ask evaluates an expression; what is asked runs though the page's own scripts do not.
func ask[T any](b *tab, expression string) T {
	b.t.Helper()
	answer, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%.100s: %v", expression, err)
	}
	return answer
}

// do acts on the page.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// open goes to a URL.
func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// click clicks on what an XPath finds.
func (b *tab) click(xpath string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.Search(xpath)))
}

// follow does what leads to another page, and waits for that.
func (b *tab) follow(action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, action); err != nil {
		b.t.Fatal(err)
	}
}

// clickThrough clicks on what leads to another page.
func (b *tab) clickThrough(xpath string) {
	b.t.Helper()
	b.follow(chromedp.Click(chromedp.Search(xpath)))
}

// seen is the text of the page that can be seen, each run of white space a single space.
func (b *tab) seen() string {
	b.t.Helper()
	return strings.Join(strings.Fields(ask[string](b, `document.body.innerText`)), " ")
}

// sees fails the test where a part cannot be seen, or can that should not.
func (b *tab) sees(want bool, parts ...string) {
	b.t.Helper()
	text := b.seen()
	for _, part := range parts {
		if strings.Contains(text, part) != want {
			b.t.Errorf("%q is seen: %v, in\n%s", part, !want, text)
		}
	}
}

// rows are the names of the deployments.
func (b *tab) rows() []string {
	b.t.Helper()
	return ask[[]string](b, `Array.from(document.querySelectorAll(".row .name"), e => e.innerText)`)
}

func (b *tab) showsRows(want ...string) {
	b.t.Helper()
	if got := b.rows(); !slices.Equal(got, want) {
		b.t.Errorf("rows %q, want %q", got, want)
	}
}

// picture leaves what the whole page looks like.
func (b *tab) picture(name string) {
	b.t.Helper()
	beyond := true
	shot := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &beyond})
	if err := os.WriteFile(filepath.Join(pictures, name+".png"), shot.Data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// quiet fails the test where the browser complained, or asked for anything but pages of the exporter.
func (b *tab) quiet(e *exporter) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 {
		b.t.Errorf("the browser complains: %q", b.complaints)
	}
	for _, url := range b.requests {
		if path, ours := strings.CutPrefix(url, e.url+"/"); !ours || (path != "" && !strings.HasPrefix(path, "?")) {
			b.t.Errorf("the browser asks for %s", url)
		}
	}
	if len(b.requests) == 0 {
		b.t.Error("the browser asks for nothing")
	}
}

// count is the number of elements of a CSS selector.
func (b *tab) count(selector string) int {
	b.t.Helper()
	return ask[int](b, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector))
}
