package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/promslog"

	"github.com/md-exporter/md-exporter/simulate"
)

const (
	// demoHistory is the traffic that the fleet has served before it is first read.
	demoHistory = 2 * time.Minute
	// demoCloseTime is what answers under way have at the end.
	demoCloseTime = time.Second
)

func demoCommand(app *kingpin.Application) command {
	cmd := app.Command("demo", "Collect and serve a simulated fleet on this machine's loopback addresses.")
	flags := addServeFlags(cmd)
	seed := cmd.Flag("seed", "Seed of the simulated traffic.").Default("1").Uint64()
	return command{cmd, func(ctx context.Context, env environment) error {
		return demo(ctx, env, flags, *seed)
	}}
}

// demo starts the simulated fleet, writes its objects to a manifest file and serves that: what reads
// the fleet is the exporter as it is.
func demo(ctx context.Context, env environment, flags *serveFlags, seed uint64) (err error) {
	if err := flags.validate(); err != nil {
		return err
	}
	fleet, err := simulate.NewFleet(simulate.Options{Now: time.Now}, simulate.Demo(seed)...)
	if err != nil {
		return err
	}
	fleet.Advance(demoHistory)
	if err := fleet.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		fleet.Run(ctx)
	}()
	defer func() {
		cancel()
		<-stopped
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), demoCloseTime)
		defer cancel()
		if closeErr := fleet.Close(grace); err == nil {
			err = closeErr
		}
	}()

	folder, err := os.MkdirTemp("", "md-exporter-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }() // what cannot be removed is in the temporary folder
	manifests := filepath.Join(folder, "fleet.yaml")
	if err := os.WriteFile(manifests, fleet.Manifests(), 0o600); err != nil {
		return err
	}
	if err := describe(env.stdout, fleet, manifests, (*flags.web.WebListenAddresses)[0]); err != nil {
		return err
	}
	return serve(ctx, promslog.New(env.log), flags, &sourceFlags{manifests: []string{manifests}})
}

// describe says what runs where, and what to look at.
func describe(w io.Writer, fleet *simulate.Fleet, manifests, listenAddress string) error {
	fmt.Fprintf(w, "A simulated fleet, its objects in %s:\n\n", manifests)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, simulation := range fleet.Simulations() {
		d := simulation.Deployment()
		fmt.Fprintf(table, "%s/%s\t%s\n", d.Namespace, d.Name, strings.Join(faults(d), ", "))
		for _, server := range simulation.Servers() {
			fmt.Fprintf(table, "  %s\t%s\thttp://%s/metrics\n", server.Pod(), server.Software(), server.Address())
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	host := listenAddress
	if strings.HasPrefix(host, ":") {
		host = "localhost" + host
	}
	_, err := fmt.Fprintf(w, `
Look at it, twice and some seconds apart, since cache hits, means and rates come from two reads:

  curl -s %[1]s/metrics | grep ^modeldeployment_
  curl -s '%[1]s/probe?target=chat/qwen3-8b' | grep ^modeldeployment_
  curl -s %[1]s/metrics | grep missing_info   # what was not measured, and why

`, host)
	return err
}

// faults says what is not as usual with the deployment's Pods.
func faults(d simulate.Deployment) []string {
	var all []string
	for _, role := range d.Roles {
		for _, fault := range []struct {
			pods int
			what string
		}{{role.Idle, "idle"}, {role.Refusing, "refusing connections"}, {role.Hanging, "hanging"}} {
			if fault.pods > 0 {
				all = append(all, fmt.Sprintf("%d %s", fault.pods, fault.what))
			}
		}
	}
	return all
}
