package collector

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/md-exporter/md-exporter/discovery"
)

// Handler serves a source's deployments over HTTP.
type Handler struct {
	source Source
	reader *Reader
	config HandlerConfig
	// requests bounds the collections at once.
	requests chan struct{}
	mux      *http.ServeMux
}

// HandlerConfig is what a Handler serves with.
type HandlerConfig struct {
	// Registry holds the exporter's own series.
	Registry *prometheus.Registry
	// TimeoutOffset is what a request's deadline leaves of the scrape timeout for the answer.
	TimeoutOffset time.Duration
	// MaxRequests bounds the requests that collect at once; the rest get 503. It must be positive.
	MaxRequests int
	Logger      *slog.Logger
}

// NewHandler returns the exporter's handler: /metrics, /probe, /sd, /-/healthy, /-/ready and /.
func NewHandler(source Source, reader *Reader, config HandlerConfig) *Handler {
	h := &Handler{
		source:   source,
		reader:   reader,
		config:   config,
		requests: make(chan struct{}, config.MaxRequests),
		mux:      http.NewServeMux(),
	}
	config.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "md_exporter_deployments",
		Help: "ModelDeployments that this exporter collects.",
	}, func() float64 { return float64(len(source.Fleet().Deployments)) }))
	h.mux.HandleFunc("GET /metrics", h.bounded(h.metrics))
	h.mux.HandleFunc("GET /probe", h.bounded(h.probe))
	h.mux.HandleFunc("GET /sd", h.discovery)
	h.mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "Healthy.") })
	h.mux.HandleFunc("GET /-/ready", h.ready)
	h.mux.Handle("GET /{$}", &statusPage{source, reader, config.Logger})
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// bounded refuses a request where as many as may be are collecting.
func (h *Handler) bounded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case h.requests <- struct{}{}:
			defer func() { <-h.requests }()
			next(w, r)
		default:
			text(w, http.StatusServiceUnavailable, "Too many requests at once; --web.max-requests bounds them.")
		}
	}
}

// metrics answers with every deployment and the exporter's own series.
func (h *Handler) metrics(w http.ResponseWriter, r *http.Request) {
	h.collect(w, r, h.fleet().Deployments, h.config.Registry)
}

// probe answers with the target's series alone.
func (h *Handler) probe(w http.ResponseWriter, r *http.Request) {
	targets := r.URL.Query()["target"]
	var namespace, name string
	if len(targets) == 1 {
		namespace, name, _ = strings.Cut(targets[0], "/")
	}
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		text(w, http.StatusBadRequest, "One parameter target=NAMESPACE/NAME is needed.")
		return
	}
	d := h.fleet().Get(namespace, name)
	switch {
	case d != nil:
		h.collect(w, r, []*discovery.Deployment{d})
	case !h.source.Synced():
		text(w, http.StatusServiceUnavailable, "Discovery has not synced yet.")
	default:
		text(w, http.StatusNotFound, "No such ModelDeployment.")
	}
}

// fleet is the source's, and whatever it does not have any more is forgotten.
func (h *Handler) fleet() *discovery.Fleet {
	fleet := h.source.Fleet()
	h.reader.Retain(fleet)
	return fleet
}

// collect answers with the deployments' series, and then what the other gatherers have.
func (h *Handler) collect(w http.ResponseWriter, r *http.Request, deployments []*discovery.Deployment, more ...prometheus.Gatherer) {
	ctx := r.Context()
	if timeout := scrapeTimeout(r.Header, h.config.TimeoutOffset); timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
		deadline := prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "md_exporter_request_deadline_seconds",
			Help: "How long this request had for collecting, by the scrape timeout that it named.",
		})
		deadline.Set(timeout.Seconds())
		registry := prometheus.NewRegistry()
		registry.MustRegister(deadline)
		more = append(more, registry)
	}
	reply := newReply(w, r)
	err := NewCollector(ctx, h.reader, deployments).Encode(reply)
	for _, gatherer := range more {
		if err == nil {
			err = h.encode(reply, gatherer)
		}
	}
	if err == nil {
		err = reply.Close()
	}
	if err != nil {
		// The client does not take it: nothing can be told, and nobody else is harmed.
		h.config.Logger.Debug("Answer was not taken", "path", r.URL.Path, "err", err)
	}
}

// encode writes what a gatherer has. A series that cannot be gathered costs itself alone.
func (h *Handler) encode(reply *reply, gatherer prometheus.Gatherer) error {
	families, err := gatherer.Gather()
	if err != nil {
		h.config.Logger.Error("Some series cannot be served", "err", err)
	}
	for _, family := range families {
		if err := reply.Encode(family); err != nil {
			return err
		}
	}
	return nil
}

// target is one element of Prometheus's HTTP service discovery.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// discovery answers with one target a deployment, for /probe.
func (h *Handler) discovery(w http.ResponseWriter, _ *http.Request) {
	if !h.source.Synced() {
		text(w, http.StatusServiceUnavailable, "Discovery has not synced yet.")
		return
	}
	targets := []target{}
	for _, d := range h.source.Fleet().Deployments {
		t := target{
			Targets: []string{d.Namespace + "/" + d.Name},
			Labels: map[string]string{
				"__meta_modeldeployment_namespace": d.Namespace,
				"__meta_modeldeployment_name":      d.Name,
				"__meta_modeldeployment_engine":    d.Engine,
			},
		}
		if d.Router != nil {
			t.Labels["__meta_modeldeployment_router"] = d.Router.Name
		}
		targets = append(targets, t)
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(targets); err != nil {
		h.config.Logger.Debug("Service discovery answer was not taken", "err", err)
	}
}

// ready answers 200 once the fleet is known whole.
func (h *Handler) ready(w http.ResponseWriter, _ *http.Request) {
	if !h.source.Synced() {
		text(w, http.StatusServiceUnavailable, "Discovery has not synced yet.")
		return
	}
	text(w, http.StatusOK, "Ready.")
}

// text answers with one line.
func text(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(line + "\n")) // The client is gone where this fails.
}
