package collector

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed" // for the page's template and style
	"encoding/base64"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/version"

	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
)

const (
	// statusPageRows is how many deployments stand on one page.
	statusPageRows = 100
	// statusPageEntries is how many values, missing entries and Pods stand on a page of several
	// deployments, a few hundred bytes each. Where its deployments have more, each is opened alone.
	statusPageEntries = 1500
)

var (
	//go:embed status.html
	statusHTML string
	//go:embed status.css
	statusCSS string

	statusTemplate = template.Must(template.New("status").Funcs(template.FuncMap{
		"figure": figure, "took": took, "plural": plural,
	}).Parse(statusHTML))

	// statusPolicy lets a browser load nothing at all, run no script and send the form nowhere else, so that
	// a name in a manifest can do nothing even where escaping fails.
	statusPolicy = "default-src 'none'; style-src '" + styleHash() + "'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

func styleHash() string {
	sum := sha256.Sum256([]byte(statusCSS))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// statusPage is the page at /: the fleet as it was last collected. Rendering it reads no Pod.
type statusPage struct {
	source Source
	reader *Reader
	logger *slog.Logger
}

// ServeHTTP implements http.Handler.
func (p *statusPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := newStatusQuery(r.URL.Query())
	view := newStatusView(p.source.Fleet(), p.reader.Last, query, time.Now(), p.reader.config.Window.MaxAge)
	view.Synced = p.source.Synced()
	var page bytes.Buffer
	if err := statusTemplate.Execute(&page, view); err != nil {
		p.logger.Error("The status page cannot be rendered", "err", err)
		text(w, http.StatusInternalServerError, "The status page cannot be rendered.")
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", statusPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	header.Set("Vary", "Accept-Encoding")
	status := http.StatusOK
	if query.Deployment != "" && len(view.Rows) == 0 {
		status = http.StatusNotFound
	}
	if !acceptsGzip(r.Header) {
		w.WriteHeader(status)
		_, _ = page.WriteTo(w) // The client is gone where this fails.
		return
	}
	header.Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	compressed := gzip.NewWriter(w)
	_, _ = page.WriteTo(compressed)
	_ = compressed.Close()
}

// statusQuery is what a request asks the page for, by GET parameters.
type statusQuery struct {
	// Namespace is the one to show; empty for all.
	Namespace string
	// Text has words that must all be found in a deployment.
	Text string
	// Partial leaves out what is neither partial nor down.
	Partial bool
	// Deployment is NAMESPACE/NAME of the only one to show, opened. The filter does not hold for it.
	Deployment string
	// Page counts from 1.
	Page int
}

func newStatusQuery(values url.Values) statusQuery {
	page, err := strconv.Atoi(values.Get("page"))
	if err != nil {
		page = 1
	}
	return statusQuery{
		Namespace:  values.Get("namespace"),
		Text:       strings.TrimSpace(values.Get("q")),
		Partial:    values.Get("partial") != "",
		Deployment: values.Get("deployment"),
		Page:       max(page, 1),
	}
}

// Filtered reports whether the filter leaves anything out.
func (q statusQuery) Filtered() bool { return q.Namespace != "" || q.Text != "" || q.Partial }

// page is the link to another page of the same filter, relative, so that it holds behind any prefix.
func (q statusQuery) page(n int) string {
	values := url.Values{"page": {strconv.Itoa(n)}}
	if q.Namespace != "" {
		values.Set("namespace", q.Namespace)
	}
	if q.Text != "" {
		values.Set("q", q.Text)
	}
	if q.Partial {
		values.Set("partial", "1")
	}
	return "?" + values.Encode()
}

// matches reports whether the row passes the filter.
func (q statusQuery) matches(r *statusRow) bool {
	if q.Deployment != "" {
		return r.Namespace+"/"+r.Name == q.Deployment
	}
	if q.Namespace != "" && r.Namespace != q.Namespace {
		return false
	}
	if q.Partial && (r.Last == nil || !r.Last.Partial) {
		return false
	}
	for word := range strings.FieldsSeq(strings.ToLower(q.Text)) {
		found := func(s string) bool { return strings.Contains(strings.ToLower(s), word) }
		if !slices.ContainsFunc(r.words(), found) {
			return false
		}
	}
	return true
}

// statusView is what the template shows.
type statusView struct {
	Version string
	Style   template.CSS
	// At is when the page was made: every age on it is as of then.
	At     time.Time
	Synced bool
	Query  statusQuery
	// Namespaces are those to choose from.
	Namespaces []string

	// Of the whole fleet: how many there are, were read, were not, lack something, have nothing to read,
	// and have not been collected yet.
	Deployments, Up, Down, Partial, Empty, Waiting int

	// Matching deployments pass the filter; Rows are those of them on this page, which begins with number First.
	Matching, First int
	Rows            []*statusRow
	// Opens is true where each row opens on this page, not on one of its own.
	Opens          bool
	Previous, Next string
}

// Alone reports whether one deployment was asked for.
func (v *statusView) Alone() bool { return v.Query.Deployment != "" }

// LastRow is the number of the page's last row among those that match.
func (v *statusView) LastRow() int { return v.First + len(v.Rows) - 1 }

// newStatusView makes the view of a fleet from its last collections. What was collected longer than
// staleAfter ago is marked.
func newStatusView(fleet *discovery.Fleet, last func(*discovery.Deployment) *normalize.Snapshot, query statusQuery, now time.Time, staleAfter time.Duration) *statusView {
	v := &statusView{
		Version:     version.Version,
		Style:       template.CSS(statusCSS),
		At:          now.UTC(),
		Synced:      true,
		Query:       query,
		Deployments: len(fleet.Deployments),
	}
	var matching []*statusRow
	for _, d := range fleet.Deployments {
		row := &statusRow{Deployment: d, Last: last(d), now: now, staleAfter: staleAfter}
		v.count(row)
		if n := len(v.Namespaces); n == 0 || v.Namespaces[n-1] != d.Namespace {
			v.Namespaces = append(v.Namespaces, d.Namespace)
		}
		if query.matches(row) {
			matching = append(matching, row)
		}
	}
	if query.Namespace != "" && !slices.Contains(v.Namespaces, query.Namespace) {
		v.Namespaces = append(v.Namespaces, query.Namespace)
	}
	v.paginate(matching)
	return v
}

func (v *statusView) count(r *statusRow) {
	switch s := r.Last; {
	case s == nil:
		v.Waiting++
		return
	case s.Empty:
		v.Empty++
		return
	case s.Up:
		v.Up++
	default:
		v.Down++
	}
	if r.Last.Partial {
		v.Partial++
	}
}

// paginate puts the page's part of the rows in the view; a page beyond the last is the last.
func (v *statusView) paginate(rows []*statusRow) {
	v.Matching = len(rows)
	pages := max((len(rows)+statusPageRows-1)/statusPageRows, 1)
	page := min(v.Query.Page, pages)
	start := (page - 1) * statusPageRows
	v.First = start + 1
	v.Rows = rows[start:min(start+statusPageRows, len(rows))]
	if page > 1 {
		v.Previous = v.Query.page(page - 1)
	}
	if page < pages {
		v.Next = v.Query.page(page + 1)
	}
	var entries int
	for i := range v.Rows {
		entries += v.Rows[i].entries()
	}
	v.Opens = v.Alone() || entries <= statusPageEntries
}
