package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"
	"golang.org/x/sync/errgroup"

	"github.com/md-exporter/md-exporter/collector"
)

// defaultListenAddress is the exporter's port.
const defaultListenAddress = ":9847"

// The server's own limits, beside a deployment's. A client that does not send or take its bytes within
// them loses its connection, and nobody else anything.
const (
	readTimeout  = 10 * time.Second
	writeSlack   = 30 * time.Second
	idleTimeout  = 5 * time.Minute
	shutdownTime = 2 * time.Second
)

// serveFlags are the flags of everything that collects and serves.
type serveFlags struct {
	*readFlags
	web           *web.FlagConfig
	maxRequests   int
	timeoutOffset time.Duration
	shard, shards uint
}

// addServeFlags defines the flags on a command.
func addServeFlags(cmd *kingpin.CmdClause) *serveFlags {
	f := &serveFlags{web: kingpinflag.AddFlags(cmd, defaultListenAddress)}
	cmd.Flag("web.max-requests", "Requests that may collect at once; the rest are refused.").
		Default("40").IntVar(&f.maxRequests)
	f.readFlags = addReadFlags(cmd)
	cmd.Flag("scrape.timeout-offset", "What a request's deadline leaves of the scrape timeout that Prometheus sends.").
		Default("500ms").DurationVar(&f.timeoutOffset)
	cmd.Flag("shard", "Index of this replica's shard, from 0.").
		Default("0").UintVar(&f.shard)
	cmd.Flag("total-shards", "Shards that the deployments are split into by UID, one replica each.").
		Default("1").UintVar(&f.shards)
	return f
}

// validate checks the flags against each other; an error names the flag.
func (f *serveFlags) validate() error {
	if err := f.readFlags.validate(); err != nil {
		return err
	}
	switch {
	case f.maxRequests <= 0:
		return errors.New("--web.max-requests must be positive")
	case f.timeoutOffset < 0:
		return errors.New("--scrape.timeout-offset must not be negative")
	case f.shards == 0:
		return errors.New("--total-shards must be positive")
	case f.shard >= f.shards:
		return fmt.Errorf("--shard=%d must be below --total-shards=%d", f.shard, f.shards)
	}
	if err := web.Validate(*f.web.WebConfigFile); err != nil {
		return fmt.Errorf("--web.config.file=%s: %w", *f.web.WebConfigFile, err)
	}
	for _, address := range *f.web.WebListenAddresses {
		if err := validateAddress(address); err != nil {
			return fmt.Errorf("--web.listen-address=%s: %w", address, err)
		}
	}
	return nil
}

// validateAddress finds what is no address of a listener, before one is asked for.
func validateAddress(address string) error {
	if strings.HasPrefix(address, "vsock://") {
		return nil // Checked where it is listened on.
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	return err
}

func serveCommand(app *kingpin.Application) command {
	cmd := app.Command("serve", "Collect and serve the deployments' series.").Default()
	flags := addServeFlags(cmd)
	source := addSourceFlags(cmd)
	return command{cmd, func(ctx context.Context, env environment) error {
		return serve(ctx, promslog.New(env.log), flags, source)
	}}
}

// serve collects the source's deployments until the context ends.
func serve(ctx context.Context, logger *slog.Logger, flags *serveFlags, sources *sourceFlags) error {
	if err := flags.validate(); err != nil {
		return err
	}
	client, err := flags.newClient()
	if err != nil {
		return err
	}
	defer client.Close()

	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		versioncollector.NewCollector("md_exporter"),
	)
	source, err := sources.open(logger, registry)
	if err != nil {
		return err
	}
	reader := collector.NewReader(client, flags.reader, collector.NewMetrics(registry), logger)
	defer reader.Close()
	handler := collector.NewHandler(collector.Shard(source, flags.shard, flags.shards), reader, collector.HandlerConfig{
		Registry:      registry,
		TimeoutOffset: flags.timeoutOffset,
		MaxRequests:   flags.maxRequests,
		Logger:        logger,
	})

	logger.Info("Starting md-exporter", "version", version.Info())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return source.Run(ctx) })
	listenAndServe(ctx, group, handler, flags, logger)
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	logger.Info("Stopped")
	return nil
}

// listenAndServe serves in the group until the context ends; a scrape in flight is then finished, or
// cut at its deployments' deadline.
func listenAndServe(ctx context.Context, group *errgroup.Group, handler http.Handler, flags *serveFlags, logger *slog.Logger) {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      flags.reader.SnapshotTimeout + writeSlack,
		IdleTimeout:       idleTimeout,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	group.Go(func() error {
		err := web.ListenAndServe(server, flags.web, logger)
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	})
	group.Go(func() error {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), flags.reader.SnapshotTimeout+shutdownTime)
		defer cancel()
		if err := server.Shutdown(grace); err != nil {
			logger.Warn("Requests were cut off by the shutdown", "err", err)
			return server.Close()
		}
		return nil
	})
}
