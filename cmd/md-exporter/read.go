package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"

	"github.com/md-exporter/md-exporter/collector"
	"github.com/md-exporter/md-exporter/normalize"
	"github.com/md-exporter/md-exporter/scrape"
)

// clientFlags are the flags of everything that fetches an exposition.
type clientFlags struct {
	scrape        scrape.Config
	tlsConfigFile string
}

// addTo defines the flags on a command.
func (f *clientFlags) addTo(cmd *kingpin.CmdClause) {
	cmd.Flag("scrape.timeout", "Limit of one fetch of one Pod.").
		Default(scrape.DefaultTimeout.String()).DurationVar(&f.scrape.Timeout)
	cmd.Flag("scrape.max-body-bytes", "Bytes read of one Pod's exposition, after decompression.").
		Default(strconv.Itoa(scrape.DefaultMaxBodyBytes)).Int64Var(&f.scrape.MaxBodyBytes)
	cmd.Flag("scrape.tls-config-file", "File with a Prometheus tls_config for https Pods: CA, client certificate, minimum version.").
		PlaceHolder("FILE").StringVar(&f.tlsConfigFile)
}

// readFlags are the flags of everything that reads deployments' Pods.
type readFlags struct {
	clientFlags
	reader collector.ReaderConfig
}

// addReadFlags defines the flags on a command.
func addReadFlags(cmd *kingpin.CmdClause) *readFlags {
	f := addBoundFlags(cmd)
	cmd.Flag("window.max-age", "Age from which a read is no baseline of a window any more.").
		Default(normalize.DefaultWindowMaxAge.String()).DurationVar(&f.reader.Window.MaxAge)
	cmd.Flag("window.min", "Age from which on the newest read is preferred as baseline; 0s is the plain previous read.").
		Default(normalize.DefaultWindowMin.String()).DurationVar(&f.reader.Window.Min)
	return f
}

// addBoundFlags defines those of the flags that choose no window.
func addBoundFlags(cmd *kingpin.CmdClause) *readFlags {
	f := &readFlags{}
	f.addTo(cmd)
	cmd.Flag("scrape.concurrency", "Fetches at once for one deployment.").
		Default(strconv.Itoa(collector.DefaultConcurrency)).IntVar(&f.reader.Concurrency)
	cmd.Flag("scrape.max-inflight", "Fetches at once in the process.").
		Default(strconv.Itoa(collector.DefaultMaxInflight)).IntVar(&f.reader.MaxInflight)
	cmd.Flag("scrape.max-pods", "Pods read of one deployment.").
		Default(strconv.Itoa(collector.DefaultMaxPods)).IntVar(&f.reader.MaxPods)
	cmd.Flag("snapshot.timeout", "Limit of reading one deployment.").
		Default(collector.DefaultSnapshotTimeout.String()).DurationVar(&f.reader.SnapshotTimeout)
	return f
}

// What no flag may exceed: more is a mistake, and could not be added to.
const (
	maxDuration  = 24 * time.Hour
	maxBodyBytes = 1 << 30
)

// validate checks the flags; an error names the flag.
func (f *clientFlags) validate() error {
	switch {
	case f.scrape.Timeout <= 0:
		return errors.New("--scrape.timeout must be positive")
	case f.scrape.MaxBodyBytes <= 0:
		return errors.New("--scrape.max-body-bytes must be positive")
	case f.scrape.Timeout > maxDuration:
		return fmt.Errorf("--scrape.timeout must be at most %s", maxDuration)
	case f.scrape.MaxBodyBytes > maxBodyBytes:
		return fmt.Errorf("--scrape.max-body-bytes must be at most %d", int64(maxBodyBytes))
	}
	return nil
}

// validate checks the flags against each other; an error names the flag.
func (f *readFlags) validate() error {
	if err := f.clientFlags.validate(); err != nil {
		return err
	}
	positive := []struct {
		flag string
		ok   bool
	}{
		{"scrape.concurrency", f.reader.Concurrency > 0},
		{"scrape.max-inflight", f.reader.MaxInflight > 0},
		{"scrape.max-pods", f.reader.MaxPods > 0},
		{"snapshot.timeout", f.reader.SnapshotTimeout > 0},
		{"window.max-age", f.reader.Window.MaxAge > 0},
	}
	for _, p := range positive {
		if !p.ok {
			return fmt.Errorf("--%s must be positive", p.flag)
		}
	}
	switch w := f.reader.Window; {
	case f.reader.SnapshotTimeout > maxDuration:
		return fmt.Errorf("--snapshot.timeout must be at most %s", maxDuration)
	case w.MaxAge > maxDuration:
		return fmt.Errorf("--window.max-age must be at most %s", maxDuration)
	case w.Min < 0:
		return errors.New("--window.min must not be negative")
	case w.Min > w.MaxAge/2:
		return fmt.Errorf("--window.min=%s must be at most half of --window.max-age=%s", w.Min, w.MaxAge)
	}
	return nil
}

// newClient makes the client that Pods are read with; an error names the flag.
func (f *clientFlags) newClient() (*scrape.Client, error) {
	config := f.scrape
	config.UserAgent = "md-exporter/" + version.Version
	if f.tlsConfigFile != "" {
		tls, err := scrape.LoadTLSConfig(f.tlsConfigFile)
		if err != nil {
			return nil, fmt.Errorf("--scrape.tls-config-file: %w", err)
		}
		config.TLS = tls
	}
	client, err := scrape.NewClient(config)
	if err != nil && f.tlsConfigFile != "" {
		return nil, fmt.Errorf("--scrape.tls-config-file=%s: %w", f.tlsConfigFile, err)
	}
	return client, err
}
