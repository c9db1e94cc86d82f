package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/md-exporter/md-exporter/normalize"
)

// inspectFlags are the arguments of the inspect command.
type inspectFlags struct {
	clientFlags
	shapeFlags
	sources []string
	window  time.Duration
}

// shapeFlags say whose exposition it is.
type shapeFlags struct {
	engine   string
	roleKind string
	pair     bool
	pairSet  bool
	router   string
	kvCache  bool
	args     []string
}

func inspectCommand(app *kingpin.Application) command {
	cmd := app.Command("inspect", "Say what is read of one Pod's exposition, and why each other field is missing or not read.")
	f := &inspectFlags{}
	cmd.Arg("FILE|-|URL", "The exposition, such as what curl printed; with a second one, two reads of one Pod.").
		Required().StringsVar(&f.sources)
	cmd.Flag("engine", "The Pod's engine: "+strings.Join(normalize.Engines(), " or ")+"; guessed from the families where neither it nor --router is given.").
		EnumVar(&f.engine, normalize.Engines()...)
	cmd.Flag("role-kind", "Kind of the engine Pod's role: server, prefill or decode; the latter two are the halves of a pair. By default server.").
		EnumVar(&f.roleKind, string(normalize.RoleServer), string(normalize.RolePrefill), string(normalize.RoleDecode))
	cmd.Flag("pair", "The deployment is a prefill/decode pair, which is another mode of some routers.").
		IsSetByUser(&f.pairSet).BoolVar(&f.pair)
	cmd.Flag("router", "The Pod is a router's: "+strings.Join(normalize.Routers(), ", ")+".").
		EnumVar(&f.router, normalize.Routers()...)
	cmd.Flag("kv-cache", "The deployment attaches a KV cache pool.").BoolVar(&f.kvCache)
	cmd.Flag("arg", "One of the engine Pod's arguments, as --arg=--enable-lmcache (repeatable): they say which caches it builds.").
		PlaceHolder("ARGUMENT").StringsVar(&f.args)
	cmd.Flag("window", "Time between two expositions: what files are taken as, and what is waited for between two URLs.").
		Default("30s").DurationVar(&f.window)
	f.addTo(cmd)
	return command{cmd, func(ctx context.Context, env environment) error { return f.run(ctx, env) }}
}

// run reads the expositions and explains the last one.
func (f *inspectFlags) run(ctx context.Context, env environment) error {
	for i, source := range f.sources {
		if source == "" {
			f.sources[i] = stdin // The parser of arguments takes the dash away.
		}
	}
	if err := f.validate(); err != nil {
		return err
	}
	client, err := f.newClient()
	if err != nil {
		return err
	}
	defer client.Close()
	bodies, err := readExpositions(ctx, f.sources, f.window, f.scrape.MaxBodyBytes, client, newProgress(env.stderr))
	if err != nil {
		return interrupted(ctx, err)
	}
	shape, guess, err := f.shape(bodies)
	if err != nil {
		return err
	}
	e, err := f.explain(shape, bodies)
	if err != nil {
		return err
	}
	e.guess = guess
	var text bytes.Buffer
	e.print(&text)
	_, err = env.stdout.Write(text.Bytes())
	return err
}

// validate checks the arguments against each other.
func (f *inspectFlags) validate() error {
	if err := f.clientFlags.validate(); err != nil {
		return err
	}
	half := f.roleKind == string(normalize.RolePrefill) || f.roleKind == string(normalize.RoleDecode)
	switch {
	case f.window <= 0:
		return errors.New("--window must be positive")
	case len(f.sources) > 2:
		return fmt.Errorf("%d expositions are given: one is explained, or the second of two reads of one Pod", len(f.sources))
	case f.engine != "" && f.router != "":
		return errors.New("--engine and --router: one exposition is of one of them")
	case f.router != "" && (f.roleKind != "" || len(f.args) > 0):
		return errors.New("--role-kind and --arg are of an engine's Pod, --router is not")
	case half && f.pairSet && !f.pair:
		return fmt.Errorf("--role-kind=%s is a half of a pair: it does not go with --no-pair", f.roleKind)
	}
	return validateSources(f.sources)
}

// shape is a deployment with one Pod, as far as the rules look at it.
type shape struct {
	deployment normalize.Deployment
	pod        normalize.Pod
}

// engineShape is an engine's Pod of a role of the kind.
func (f *shapeFlags) engineShape(engine string) shape {
	kind := normalize.RoleKind(f.roleKind)
	if kind == "" {
		kind = normalize.RoleServer
	}
	s := shape{
		normalize.Deployment{Engine: engine, KVCache: f.kvCache},
		normalize.Pod{Name: "inspected", Scope: normalize.ScopeEngine, Role: string(kind), Arguments: f.args},
	}
	s.add(kind)
	if f.pair || kind != normalize.RoleServer {
		s.add(normalize.RolePrefill, normalize.RoleDecode)
	}
	return s
}

// routerShape is a router's Pod, before a pair or not.
func (f *shapeFlags) routerShape(router string, pair bool) shape {
	s := shape{
		normalize.Deployment{Router: &normalize.Router{Name: router, Expected: 1}, KVCache: f.kvCache},
		normalize.Pod{Name: "inspected", Scope: normalize.ScopeRouter},
	}
	if pair {
		s.add(normalize.RolePrefill, normalize.RoleDecode)
	}
	return s
}

// add gives the deployment a role of each kind that it lacks, named for it.
func (s *shape) add(kinds ...normalize.RoleKind) {
	for _, kind := range kinds {
		name := string(kind)
		known := false
		for _, r := range s.deployment.Roles {
			known = known || r.Name == name
		}
		if !known {
			s.deployment.Roles = append(s.deployment.Roles, normalize.Role{Name: name, Kind: kind, Managed: true, Expected: 1})
		}
	}
}

func (s *shape) table() *normalize.Table { return normalize.TableOf(&s.deployment, &s.pod) }

// String says whose exposition it is.
func (s *shape) String() string {
	switch pair := s.deployment.Pair(); {
	case s.deployment.Router != nil && pair:
		return s.deployment.Router.Name + " before a prefill/decode pair"
	case s.deployment.Router != nil:
		return s.deployment.Router.Name + " in ordinary serving"
	case pair:
		return s.deployment.Engine + ", " + s.pod.Role + " role of a prefill/decode pair"
	default:
		return s.deployment.Engine + ", " + s.pod.Role + " role"
	}
}
