package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Fleet is several deployments at work, listening, and the Kubernetes objects that stand for them.
// It is safe for concurrent use once it is made.
type Fleet struct {
	options     Options
	simulations []*Simulation
}

// NewFleet makes the deployments, at their start and not yet listening. Their namespaces and names
// must be unique together.
func NewFleet(o Options, deployments ...Deployment) (*Fleet, error) {
	f := &Fleet{options: o}
	seen := map[[2]string]bool{}
	for _, d := range deployments {
		key := [2]string{d.Namespace, d.Name}
		if seen[key] {
			return nil, fmt.Errorf("simulate: deployment %s/%s twice", d.Namespace, d.Name)
		}
		seen[key] = true
		s, err := New(d, o)
		if err != nil {
			return nil, err
		}
		f.simulations = append(f.simulations, s)
	}
	return f, nil
}

// Simulations are the deployments, in the order given.
func (f *Fleet) Simulations() []*Simulation { return slices.Clone(f.simulations) }

// Simulation returns the named deployment, or nil.
func (f *Fleet) Simulation(namespace, name string) *Simulation {
	for _, s := range f.simulations {
		if s.description.Namespace == namespace && s.description.Name == name {
			return s
		}
	}
	return nil
}

// Servers are the processes of every deployment, by namespace, then Pod name.
func (f *Fleet) Servers() []*Server {
	var all []*Server
	for _, s := range f.simulations {
		all = append(all, s.servers...)
	}
	slices.SortFunc(all, func(a, b *Server) int {
		return cmp.Or(cmp.Compare(a.Namespace(), b.Namespace()), cmp.Compare(a.pod, b.pod))
	})
	return all
}

// Server returns the process of the named Pod, or nil.
func (f *Fleet) Server(namespace, pod string) *Server {
	for _, s := range f.Servers() {
		if s.Namespace() == namespace && s.pod == pod {
			return s
		}
	}
	return nil
}

// Start listens for every server. Where one cannot, those that could are closed again.
func (f *Fleet) Start() error {
	for _, s := range f.Servers() {
		address := "127.0.0.1:0"
		if f.options.Address != nil {
			address = f.options.Address(s.Namespace(), s.pod)
		}
		if err := s.Start(address); err != nil {
			now, cancel := context.WithCancel(context.Background())
			cancel()
			_ = f.Close(now)
			return fmt.Errorf("simulate: start %s/%s: %w", s.Namespace(), s.pod, err)
		}
	}
	return nil
}

// Close stops every server and returns when nothing of the fleet runs any more; answers under way
// have until ctx is done.
func (f *Fleet) Close(ctx context.Context) error {
	servers := f.Servers()
	errs := make([]error, len(servers))
	var group errgroup.Group
	for i, s := range servers {
		group.Go(func() error {
			errs[i] = s.Close(ctx)
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}

// Advance moves every deployment on by dt.
func (f *Fleet) Advance(dt time.Duration) {
	for _, s := range f.simulations {
		s.Advance(dt)
	}
}

// tick is how often Run moves the fleet on.
const tick = 200 * time.Millisecond

// Run moves the fleet on with real time until ctx is done.
func (f *Fleet) Run(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			now := time.Now()
			f.Advance(now.Sub(last))
			last = now
		}
	}
}
