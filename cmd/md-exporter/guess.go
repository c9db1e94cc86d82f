package main

import (
	"fmt"
	"strings"

	"github.com/md-exporter/md-exporter/normalize"
)

// shape is whose expositions these are: what the flags say, and what they leave open as the families
// have it. A guess is said in words.
func (f *shapeFlags) shape(bodies []exposition) (s shape, guess string, err error) {
	switch {
	case f.engine != "":
		return f.engineShape(f.engine), f.assumed(), nil
	case f.router != "":
		s, pairGuessed := f.routerMode(f.router, bodies)
		if pairGuessed {
			guess = "That it is before a pair is guessed from the families; --no-pair says otherwise."
		}
		return s, guess, nil
	}
	engines, routers, err := f.candidates(bodies)
	if err != nil {
		return shape{}, "", err
	}
	var flags []string
	for _, name := range engines {
		flags = append(flags, "--engine="+name)
	}
	for _, name := range routers {
		flags = append(flags, "--router="+name)
	}
	switch {
	case len(flags) == 0:
		return shape{}, "", fmt.Errorf("%s: no series of an engine or a router that is known: say whose it is with --engine or --router", names(bodies))
	case len(flags) > 1:
		return shape{}, "", fmt.Errorf("%s: series of more than one engine or router: say whose it is with --engine or --router, one of %s", names(bodies), strings.Join(flags, ", "))
	case len(engines) == 1:
		return f.engineShape(engines[0]), strings.TrimSpace("Guessed from the families: " + flags[0] + ". " + f.assumed()), nil
	case f.roleKind != "" || len(f.args) > 0:
		return shape{}, "", fmt.Errorf("%s: the series are of a router (%s): --role-kind and --arg are of an engine's Pod", names(bodies), flags[0])
	}
	s, pairGuessed := f.routerMode(routers[0], bodies)
	if pairGuessed {
		flags[0] += " --pair"
	}
	return s, fmt.Sprintf("Guessed from the families: %s.", flags[0]), nil
}

// assumed says what no family tells and no flag said: a wrong answer here reads as one about the Pod.
func (f *shapeFlags) assumed() string {
	var open []string
	if f.roleKind == "" {
		open = append(open, "--role-kind=server")
	}
	if !f.pairSet && (f.roleKind == "" || f.roleKind == string(normalize.RoleServer)) {
		open = append(open, "no --pair")
	}
	if !f.kvCache {
		open = append(open, "no --kv-cache")
	}
	if len(f.args) == 0 {
		open = append(open, "no --arg")
	}
	if len(open) == 0 {
		return ""
	}
	return "Assumed, where they matter: " + strings.Join(open, ", ") + "."
}

// candidates are the engines and routers of which the bodies have series. The error is that of a body that
// is no exposition to any of them.
func (f *shapeFlags) candidates(bodies []exposition) (engines, routers []string, err error) {
	for _, name := range normalize.Engines() {
		if has(bodies, f.engineShape(name)) {
			engines = append(engines, name)
		}
	}
	for _, name := range normalize.Routers() {
		if has(bodies, f.routerShape(name, false)) || has(bodies, f.routerShape(name, true)) {
			routers = append(routers, name)
		}
	}
	if len(engines) == len(normalize.Engines()) && len(routers) == len(normalize.Routers()) {
		// No body has all; one that is no exposition is malformed to everybody.
		s := f.engineShape(engines[0])
		for _, e := range bodies {
			if _, err := s.table().Parse(e.body); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", names([]exposition{e}), err)
			}
		}
	}
	return engines, routers, nil
}

// has reports whether any body has a series, a TYPE line or a malformed line of the shape's table.
func has(bodies []exposition, s shape) bool {
	for _, e := range bodies {
		_, reads, err := s.table().Explain(e.body)
		if err != nil {
			return true
		}
		for _, r := range reads {
			if r.Type != "" || len(r.Samples) > 0 {
				return true
			}
		}
	}
	return false
}

// routerMode is the router's shape in the mode that more of the samples are of, unless a flag says it.
func (f *shapeFlags) routerMode(router string, bodies []exposition) (s shape, guessed bool) {
	serving, pair := f.routerShape(router, false), f.routerShape(router, true)
	switch {
	case f.pairSet && f.pair:
		return pair, false
	case f.pairSet:
		return serving, false
	case samples(bodies, pair) > samples(bodies, serving):
		return pair, true
	}
	return serving, false
}

// samples counts the samples of the shape's series.
func samples(bodies []exposition, s shape) int {
	n := 0
	for _, e := range bodies {
		_, reads, err := s.table().Explain(e.body)
		if err != nil {
			continue
		}
		for _, r := range reads {
			n += len(r.Samples)
		}
	}
	return n
}

// names names the expositions.
func names(bodies []exposition) string {
	all := make([]string, len(bodies))
	for i, e := range bodies {
		all[i] = e.source
		if e.source == stdin {
			all[i] = "standard input"
		}
	}
	if len(all) == 2 && all[0] == all[1] {
		return all[0] + ", twice"
	}
	return strings.Join(all, " and ")
}
