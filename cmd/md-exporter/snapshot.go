package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/promslog"
	"sigs.k8s.io/yaml"

	v1 "github.com/md-exporter/md-exporter/apiserver/v1"
	"github.com/md-exporter/md-exporter/collector"
	"github.com/md-exporter/md-exporter/discovery"
	"github.com/md-exporter/md-exporter/normalize"
)

// The exit status of a snapshot that could be taken: success is one to which nothing is missing.
const (
	statusPartial     exitStatus = 3
	statusUnavailable exitStatus = 4
)

// snapshotFlags are the arguments of the snapshot command.
type snapshotFlags struct {
	*readFlags
	*personalFlags
	target string
	output string
	window time.Duration
}

func snapshotCommand(app *kingpin.Application) command {
	cmd := app.Command("snapshot", "Read one deployment twice and print what that says. Exit status: 0 complete, 3 partial, 4 unavailable, 1 error.")
	f := &snapshotFlags{}
	cmd.Arg("NAMESPACE/NAME", "The ModelDeployment.").Required().StringVar(&f.target)
	cmd.Flag("output", "table, or the document as json or yaml.").Short('o').
		Default("table").EnumVar(&f.output, "table", "json", "yaml")
	cmd.Flag("window", "Time between the two reads, which cache hits, means and rates are of.").
		Default("5s").DurationVar(&f.window)
	f.personalFlags = addPersonalFlags(cmd)
	f.readFlags = addBoundFlags(cmd)
	return command{cmd, func(ctx context.Context, env environment) error { return f.run(ctx, env) }}
}

// run takes the snapshot and prints it.
func (f *snapshotFlags) run(ctx context.Context, env environment) error {
	namespace, name, err := f.validate()
	if err != nil {
		return err
	}
	client, err := f.newClient()
	if err != nil {
		return err
	}
	defer client.Close()
	logger := promslog.New(env.log)
	fleet, err := f.fleet(ctx, namespace, logger)
	if err != nil {
		return interrupted(ctx, err)
	}
	d := fleet.Get(namespace, name)
	if d == nil {
		return fmt.Errorf("no ModelDeployment %s/%s", namespace, name)
	}
	if env.log.Level.Level() > slog.LevelDebug {
		// What could not be read is in the snapshot.
		logger = slog.New(slog.DiscardHandler)
	}
	reader := collector.NewReader(client, f.reader, collector.NewMetrics(prometheus.NewRegistry()), logger)
	defer reader.Close()
	s, err := f.take(ctx, reader, d, newProgress(env.stderr))
	if err != nil {
		return err
	}
	if err := f.print(env.stdout, &s); err != nil {
		return err
	}
	switch {
	case s.Empty:
		return nil
	case !s.Up:
		return statusUnavailable
	case s.Partial:
		return statusPartial
	}
	return nil
}

// validate checks the arguments, and takes the target apart.
func (f *snapshotFlags) validate() (namespace, name string, err error) {
	switch {
	case f.window <= 0:
		return "", "", errors.New("--window must be positive")
	case f.window > maxDuration:
		return "", "", fmt.Errorf("--window must be at most %s", maxDuration)
	}
	f.reader.Window = normalize.WindowConfig{MaxAge: maxDuration}
	if err := f.readFlags.validate(); err != nil {
		return "", "", err
	}
	// The first read is the second one's baseline, whatever a slow Pod adds to the time between them.
	f.reader.Window.MaxAge = f.window + 2*f.reader.SnapshotTimeout
	namespace, name, found := strings.Cut(f.target, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("%q is not NAMESPACE/NAME", f.target)
	}
	return namespace, name, nil
}

// take reads the deployment twice and returns the second snapshot.
func (f *snapshotFlags) take(ctx context.Context, reader *collector.Reader, d *discovery.Deployment, progress *progress) (normalize.Snapshot, error) {
	defer progress.clear()
	started := time.Now()
	progress.say("Reading %d Pods of %s/%s", len(d.Pods), d.Namespace, d.Name)
	s := reader.Snapshot(ctx, d)
	if s.Empty {
		return s, interrupted(ctx, nil)
	}
	second := time.NewTimer(time.Until(started.Add(f.window)))
	defer second.Stop()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for waiting := true; waiting; {
		left := time.Until(started.Add(f.window))
		progress.say("Read %d of %d Pods of %s/%s once, again in %s", len(s.Reads), len(d.Pods), d.Namespace, d.Name, max(left, 0).Round(time.Second))
		select {
		case <-ctx.Done():
			return s, interrupted(ctx, nil)
		case <-second.C:
			waiting = false
		case <-ticker.C:
		}
	}
	progress.say("Reading %d Pods of %s/%s again", len(d.Pods), d.Namespace, d.Name)
	s = reader.Snapshot(ctx, d)
	return s, interrupted(ctx, nil)
}

// interrupted is the error, or that the command was ended from outside.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}

// print writes the snapshot in the form asked for.
func (f *snapshotFlags) print(w io.Writer, s *normalize.Snapshot) error {
	var text bytes.Buffer
	document := v1.FromSnapshot(s)
	switch f.output {
	case "json":
		encoder := json.NewEncoder(&text)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(document); err != nil {
			return err
		}
	case "yaml":
		data, err := yaml.Marshal(document)
		if err != nil {
			return err
		}
		text.Write(data)
	default:
		printSnapshot(&text, s, document)
	}
	_, err := w.Write(text.Bytes())
	return err
}

// progress is one line that changes, on a terminal; elsewhere it is nothing.
type progress struct{ terminal io.Writer }

// newProgress writes to what a command has for its messages.
func newProgress(w io.Writer) *progress {
	if file, ok := w.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return &progress{w}
		}
	}
	return &progress{io.Discard}
}

// eraseLine returns to the line's begin and erases it.
const eraseLine = "\r\x1b[K"

func (p *progress) say(format string, args ...any) {
	fmt.Fprint(p.terminal, eraseLine+plain(fmt.Sprintf(format, args...)))
}

func (p *progress) clear() { fmt.Fprint(p.terminal, eraseLine) }
