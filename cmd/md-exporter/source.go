package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/md-exporter/md-exporter/collector"
	"github.com/md-exporter/md-exporter/discovery"
)

// sourceFlags say where deployments are discovered.
type sourceFlags struct {
	manifests  []string
	kubeconfig string
	namespaces []string
}

// source is a discovery source that runs until its context ends.
type source interface {
	collector.Source
	Run(ctx context.Context) error
}

// addSourceFlags defines the flags on a command.
func addSourceFlags(cmd *kingpin.CmdClause) *sourceFlags {
	f := &sourceFlags{}
	cmd.Flag("manifests", "File or folder of ModelDeployments, Pods, ReplicaSets and Deployments, as kubectl get -o yaml writes them; read again when it changes (repeatable). Instead of a cluster.").
		PlaceHolder("PATH").StringsVar(&f.manifests)
	cmd.Flag("kubeconfig", "Kubeconfig of the cluster; without it the one that the exporter runs in.").
		PlaceHolder("FILE").StringVar(&f.kubeconfig)
	cmd.Flag("namespace", "Namespace to discover in (repeatable); without it all of them.").
		PlaceHolder("NAMESPACE").StringsVar(&f.namespaces)
	return f
}

// open makes the source that the flags name; an error names the flag.
func (f *sourceFlags) open(logger *slog.Logger, reg prometheus.Registerer) (source, error) {
	if len(f.manifests) > 0 {
		if f.kubeconfig != "" || len(f.namespaces) > 0 {
			return nil, errors.New("--manifests is instead of a cluster: it goes with neither --kubeconfig nor --namespace")
		}
		return discovery.NewManifests(f.manifests, logger, reg)
	}
	if slices.Contains(f.namespaces, "") {
		// Not every namespace, which is what an empty name means to the API.
		return nil, errors.New("--namespace must not be empty")
	}
	klog.SetSlogLogger(logger)
	config, err := f.clusterConfig()
	if err != nil {
		return nil, err
	}
	return discovery.NewCluster(config, f.namespaces, logger, reg)
}

// clusterConfig is how to reach the API server.
func (f *sourceFlags) clusterConfig() (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if f.kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	}
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		return nil, errors.New("nothing to discover from: give --manifests=PATH or --kubeconfig=FILE, or run in a cluster")
	case err != nil && f.kubeconfig != "":
		return nil, fmt.Errorf("--kubeconfig=%s: %w", f.kubeconfig, err)
	case err != nil:
		return nil, fmt.Errorf("in-cluster configuration: %w", err)
	}
	config.UserAgent = "md-exporter/" + version.Version
	return config, nil
}

// personalFlags say where a person's command finds deployments: it asks once, and reaches a cluster as
// kubectl does.
type personalFlags struct {
	manifests  []string
	kubeconfig string
}

// addPersonalFlags defines the flags on a command.
func addPersonalFlags(cmd *kingpin.CmdClause) *personalFlags {
	f := &personalFlags{}
	cmd.Flag("manifests", "File or folder of ModelDeployments, Pods, ReplicaSets and Deployments, as kubectl get -o yaml writes them (repeatable). Instead of a cluster.").
		PlaceHolder("PATH").StringsVar(&f.manifests)
	cmd.Flag("kubeconfig", "Kubeconfig of the cluster; without it $KUBECONFIG, ~/.kube/config, or the cluster that this runs in.").
		PlaceHolder("FILE").StringVar(&f.kubeconfig)
	return f
}

// listTimeout bounds what is asked of an API server: four lists of one namespace.
const listTimeout = 15 * time.Second

// fleet is what is in the namespace now; of manifests it is all that they have.
func (f *personalFlags) fleet(ctx context.Context, namespace string, logger *slog.Logger) (*discovery.Fleet, error) {
	if len(f.manifests) > 0 {
		if f.kubeconfig != "" {
			return nil, errors.New("--manifests is instead of a cluster: it does not go with --kubeconfig")
		}
		source, err := discovery.NewManifests(f.manifests, logger, nil)
		if err != nil {
			return nil, err
		}
		return source.Fleet(), nil
	}
	klog.SetSlogLogger(logger)
	config, err := f.clusterConfig()
	if err != nil {
		return nil, err
	}
	cluster, err := discovery.NewCluster(config, []string{namespace}, logger, nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if err := cluster.List(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", config.Host, err)
	}
	return cluster.Fleet(), nil
}

// clusterConfig is how to reach the API server, by kubectl's rules.
func (f *personalFlags) clusterConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case err != nil && f.kubeconfig != "":
		return nil, fmt.Errorf("--kubeconfig=%s: %w", f.kubeconfig, err)
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("nothing to discover from: give --manifests=PATH or --kubeconfig=FILE, set KUBECONFIG, or run in a cluster")
	case err != nil:
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.UserAgent = "md-exporter/" + version.Version
	return config, nil
}
