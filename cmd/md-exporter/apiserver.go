package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/promslog"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/md-exporter/md-exporter/apiserver/v1"
)

// defaultAPIListenAddress is a port that needs no privilege; the Service has 443.
const defaultAPIListenAddress = ":9443"

// apiFlags are the flags of the aggregated API.
type apiFlags struct {
	*readFlags
	*sourceFlags
	listenAddress     string
	certFile, keyFile string
	served            schema.GroupVersion
}

func apiserverCommand(app *kingpin.Application) command {
	cmd := app.Command("apiserver", "Serve each deployment's snapshot as an aggregated API of the cluster: modeldeployments/metrics.")
	f := &apiFlags{}
	cmd.Flag("api.listen-address", "Address to serve TLS on.").
		Default(defaultAPIListenAddress).StringVar(&f.listenAddress)
	cmd.Flag("api.tls-cert-file", "Serving certificate, read again when it changes; without one it is signed by itself, for trial.").
		PlaceHolder("FILE").StringVar(&f.certFile)
	cmd.Flag("api.tls-private-key-file", "Its private key.").
		PlaceHolder("FILE").StringVar(&f.keyFile)
	cmd.Flag("api.group", "API group, as the APIService names it.").
		Default(v1.OwnGroupName).StringVar(&f.served.Group)
	cmd.Flag("api.version", "API version, as the APIService names it.").
		Default(v1.Version).StringVar(&f.served.Version)
	f.readFlags = addReadFlags(cmd)
	f.sourceFlags = addSourceFlags(cmd)
	return command{cmd, func(ctx context.Context, env environment) error {
		if err := f.validate(); err != nil {
			return err
		}
		return serveAPI(ctx, promslog.New(env.log), f)
	}}
}

// validate checks the flags against each other; an error names the flag.
func (f *apiFlags) validate() error {
	if err := f.readFlags.validate(); err != nil {
		return err
	}
	if problems := validation.IsDNS1123Subdomain(f.served.Group); len(problems) > 0 {
		return fmt.Errorf("--api.group=%s: %s", f.served.Group, strings.Join(problems, "; "))
	}
	if problems := validation.IsDNS1035Label(f.served.Version); len(problems) > 0 {
		return fmt.Errorf("--api.version=%s: %s", f.served.Version, strings.Join(problems, "; "))
	}
	if (f.certFile == "") != (f.keyFile == "") {
		return errors.New("--api.tls-cert-file and --api.tls-private-key-file go together")
	}
	if err := validateAddress(f.listenAddress); err != nil {
		return fmt.Errorf("--api.listen-address=%s: %w", f.listenAddress, err)
	}
	return nil
}
