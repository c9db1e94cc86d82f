//go:build !slim

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/common/version"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/md-exporter/md-exporter/apiserver"
	"github.com/md-exporter/md-exporter/collector"
)

// source is where deployments are discovered. With manifests --kubeconfig is that of the cluster which
// tells who asks, and not of one to discover in.
func (f *apiFlags) source(logger *slog.Logger, reg prometheus.Registerer) (source, error) {
	flags := *f.sourceFlags
	if len(flags.manifests) > 0 {
		switch _, err := f.clusterConfig(); {
		case len(flags.namespaces) > 0:
			return nil, errors.New("--manifests is instead of a cluster to discover in: it does not go with --namespace")
		case err != nil && flags.kubeconfig == "":
			return nil, errors.New("--manifests says what to serve, and a cluster who may ask: give --kubeconfig=FILE, or run in one")
		case err != nil:
			return nil, err
		}
		flags.kubeconfig = ""
	}
	return flags.open(logger, reg)
}

// serveAPI serves the source's deployments until the context ends.
func serveAPI(ctx context.Context, logger *slog.Logger, f *apiFlags) error {
	client, err := f.newClient()
	if err != nil {
		return err
	}
	defer client.Close()
	klog.SetSlogLogger(logger)
	registry := prometheus.NewRegistry()
	registry.MustRegister(versioncollector.NewCollector("md_exporter"))
	source, err := f.source(logger, registry)
	if err != nil {
		return err
	}
	reader := collector.NewReader(client, f.reader, collector.NewMetrics(registry), logger)
	defer reader.Close()

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listenAddress)
	if err != nil {
		return fmt.Errorf("--api.listen-address=%s: %w", f.listenAddress, err)
	}
	server, err := apiserver.New(apiserver.Config{
		Served:      f.served,
		Source:      source,
		Reader:      reader,
		ReadTimeout: f.reader.SnapshotTimeout,
		MaxRequests: apiserver.DefaultMaxRequests,
		Gatherer:    registry,
		Listener:    listener,
		CertFile:    f.certFile,
		KeyFile:     f.keyFile,
		Kubeconfig:  f.kubeconfig,
	})
	if err != nil {
		_ = listener.Close() // What failed is said.
		return err
	}
	logger.Info("Starting md-exporter apiserver", "version", version.Info())
	logger.Info("Listening on", "address", listener.Addr(), "api", f.served)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return source.Run(ctx) })
	group.Go(func() error { return server.Run(ctx) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	logger.Info("Stopped")
	return nil
}
