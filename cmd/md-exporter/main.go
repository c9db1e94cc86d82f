// Command md-exporter exports normalized metrics of LLM serving deployments on Kubernetes: for each
// GPUStack ModelDeployment one small set of series, the same for vLLM and SGLang and for the three
// routers, with what could not be measured and why.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/promslog"
	promslogflag "github.com/prometheus/common/promslog/flag"
	"github.com/prometheus/common/version"
)

// gcPercent is GOGC where the environment sets none. A scrape of a large fleet is a burst of short-lived
// objects over a small heap, twice a minute: collecting it sooner costs next to no CPU time beside the
// memory that it saves.
const gcPercent = 30

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once, whatever is still served.
	context.AfterFunc(ctx, stop)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	os.Exit(status)
}

// command is one sub-command, once its flags are parsed.
type command struct {
	*kingpin.CmdClause
	run func(context.Context, environment) error
}

// environment is what every command works with.
type environment struct {
	stdout, stderr io.Writer
	log            *promslog.Config
}

// exitStatus is a command's answer where that is more than success or failure: it is not said on stderr.
type exitStatus int

// Error implements error.
func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// run parses the arguments, runs their command and returns the exit status: whatever is wrong is one
// line on stderr and status 1.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if info, ok := debug.ReadBuildInfo(); ok && version.Version == "" {
		version.Version = info.Main.Version
	}
	app := kingpin.New("md-exporter", "Normalized Prometheus metrics of LLM serving deployments on Kubernetes.")
	app.UsageWriter(stdout).ErrorWriter(stderr)
	app.Version(version.Print("md-exporter"))
	app.HelpFlag.Short('h')
	env := environment{stdout: stdout, stderr: stderr, log: &promslog.Config{Writer: stderr}}
	promslogflag.AddFlags(app, env.log)
	commands := []command{serveCommand(app), apiserverCommand(app), demoCommand(app), snapshotCommand(app), inspectCommand(app)}

	selected, err := app.Parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "md-exporter: error: %v (see --help)\n", named(err, app, args))
		return 1
	}
	for _, c := range commands {
		if c.FullCommand() != selected {
			continue
		}
		err := c.run(ctx, env)
		var status exitStatus
		switch {
		case errors.As(err, &status):
			return int(status)
		case err != nil:
			fmt.Fprintf(stderr, "md-exporter: error: %v\n", err)
			return 1
		}
	}
	return 0
}

// named is the error of parsing the arguments, with the flag whose value is wrong: the value's own
// error does not say where it stands.
func named(err error, app *kingpin.Application, args []string) error {
	parsed, parseErr := app.ParseContext(args)
	if parseErr != nil {
		return err // It is about the arguments themselves and names them.
	}
	for _, element := range parsed.Elements {
		flag, ok := element.Clause.(*kingpin.FlagClause)
		if !ok || element.Value == nil {
			continue
		}
		if valueErr := flag.Model().Value.Set(*element.Value); valueErr != nil && valueErr.Error() == err.Error() {
			return fmt.Errorf("--%s=%s: %w", flag.Model().Name, *element.Value, err)
		}
	}
	return err
}
