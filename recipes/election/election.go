package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Options are the options of an election. The zero value is good for most.
type Options struct {
	// Data identify the candidate. They need not be unique, except with the layout
	// ElectionSupport.
	hold.Options
	// Layout is how the nodes of candidates are named.
	Layout Layout
	// Acknowledgements is the path below which leaders acknowledge that they have begun
	// to lead. "" is the election's path followed by "-acknowledged". It cannot be below
	// the election's path, as other libraries take what is there for candidates.
	Acknowledgements string
}

// Election is a path below which candidates stand for election. It shows them and the
// leader; Run takes part, as does a Latch. Its methods may be called from any goroutine.
type Election struct {
	c    *client.Client
	line *line.Line
	o    Options
}

// New returns the election at that path. It does not contact the servers. The error is
// that of a bad argument.
func New(c *client.Client, path string, o Options) (*Election, error) {
	if o.Acknowledgements == "" {
		o.Acknowledgements = path + "-acknowledged"
	}
	switch {
	case c == nil:
		return nil, fmt.Errorf("election: %w: the client is nil", client.ErrBadArguments)
	case !o.Layout.valid():
		return nil, fmt.Errorf("election: %w: Options.Layout is %d, but has to be from 0 to %d", client.ErrBadArguments, o.Layout, layouts-1)
	}
	if err := o.Complete(); err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("election: path %q: %w", path, err)
	}
	if err := line.CheckPath(o.Acknowledgements); err != nil {
		return nil, fmt.Errorf("election: Options.Acknowledgements %q: %w", o.Acknowledgements, err)
	}
	if o.Acknowledgements == path || line.Parent(o.Acknowledgements) == path {
		return nil, fmt.Errorf("election: %w: Options.Acknowledgements is %q, among the candidates; choose a path beside %s", client.ErrBadArguments, o.Acknowledgements, path)
	}
	return &Election{c: c, line: &line.Line{Client: c, Path: path, Layout: o.Layout.places(), ACL: o.ACL}, o: o}, nil
}

// Path returns the path below which the candidates are.
func (e *Election) Path() string { return e.line.Path }

// Contenders returns the candidates in the order in which they will lead, the leader first.
// There are none if nobody has ever stood for election.
func (e *Election) Contenders(ctx context.Context) ([]hold.Contender, error) {
	entries, err := e.line.List(ctx)
	var candidates []hold.Contender
	if err == nil {
		candidates, err = hold.Describe(ctx, e.c, e.Path(), entries)
	}
	if len(candidates) > 0 {
		candidates[0].Holds = true
	}
	return candidates, e.failed(ctx, "list the candidates of", err)
}

// failed adds to an error what could not be done in the election; nil remains nil.
func (e *Election) failed(ctx context.Context, verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s election %s: %w", verb, e.Path(), line.Why(ctx, err))
}

// elect stands for election and returns once it is won. It calls standing when the
// candidate has its place. If it fails, the candidate's node is deleted, if need be in the
// background. The leadership ends with ctx, and must be ended nevertheless.
func (e *Election) elect(ctx context.Context, standing func()) (*Leadership, error) {
	place, err := e.line.Join(ctx, 0, e.o.Data)
	if err != nil {
		return nil, e.failed(ctx, "join", err)
	}
	standing()
	if err := place.Await(ctx, line.First); err != nil {
		return nil, errors.Join(e.failed(ctx, "win", err), place.Leave(ctx))
	}
	return e.lead(ctx, place), nil
}
