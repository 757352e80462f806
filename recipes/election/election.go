package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Options are what an election can be told. The zero value is good for most.
type Options struct {
	// ID says who a candidate is: the data of its node. It need not be unique, but for
	// the layout ElectionSupport.
	ID string
	// Layout is what the nodes of candidates are called.
	Layout Layout
	// Acknowledgements is the path below which leaders acknowledge that they have begun
	// to lead. "" is the election's path with "-acknowledged" behind it: it can't be
	// below that, as other libraries take what is there for candidates.
	Acknowledgements string
	// Reserve is how long before the session may have ended leadership counts as lost
	// while there is no connection. It is time for the leader to stop what it does.
	Reserve time.Duration
	// ACL is that of new nodes. Nil is client.OpenACL. Candidates need to read, and
	// whoever is to end a leadership from outside to delete.
	ACL []client.ACL
}

// Election is a place where candidates stand for election. It shows who does, and
// who leads; Run takes part, as does a Latch. Its methods may be called from any
// goroutine.
type Election struct {
	c       *client.Client
	line    *line.Line
	id      []byte
	acks    string
	reserve time.Duration
}

// New returns the election at that path. It does not talk to the servers. The error is
// that of a bad argument.
func New(c *client.Client, path string, o Options) (*Election, error) {
	e := &Election{c: c, id: []byte(o.ID), acks: o.Acknowledgements, reserve: o.Reserve}
	if e.acks == "" {
		e.acks = path + "-acknowledged"
	}
	switch {
	case c == nil:
		return nil, fmt.Errorf("election: %w: the client is nil", client.ErrBadArguments)
	case !o.Layout.valid():
		return nil, fmt.Errorf("election: %w: Options.Layout is %d, but has to be from 0 to %d", client.ErrBadArguments, o.Layout, layouts-1)
	case o.Reserve < 0:
		return nil, fmt.Errorf("election: %w: Options.Reserve is %v, but must not be negative", client.ErrBadArguments, o.Reserve)
	}
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("election: path %q: %w", path, err)
	}
	if err := line.CheckPath(e.acks); err != nil {
		return nil, fmt.Errorf("election: Options.Acknowledgements %q: %w", e.acks, err)
	}
	if e.acks == path || line.Parent(e.acks) == path {
		return nil, fmt.Errorf("election: %w: Options.Acknowledgements is %q, among the candidates; choose a path beside %s", client.ErrBadArguments, e.acks, path)
	}
	e.line = &line.Line{Client: c, Path: path, Layout: o.Layout.places(), ACL: o.ACL}
	return e, nil
}

// Path returns the path below which the candidates are.
func (e *Election) Path() string { return e.line.Path }

// Candidate is one that stands for election.
type Candidate struct {
	ID      string           // what Options.ID of the candidate is
	Path    string           // of its node
	Token   client.Zxid      // that its leadership has or would have
	Session client.SessionID // that its node belongs to
}

// Candidates returns the candidates in the order in which they come to lead, that is
// the leader first. There are none if nobody has ever stood for election.
func (e *Election) Candidates(ctx context.Context) ([]Candidate, error) {
	c := e.c.Steady()
	entries, err := e.line.List(ctx)
	if err != nil {
		return nil, e.failed(ctx, "list the candidates of", err)
	}
	nodes := make([]*client.Future[client.Node], len(entries))
	for i, entry := range entries {
		nodes[i] = c.Async().Get(line.Join(e.Path(), entry.Name))
	}
	candidates := make([]Candidate, 0, len(entries))
	for i, entry := range entries {
		node, err := nodes[i].Wait(ctx)
		if client.IsRetryable(err) {
			node, err = c.Get(ctx, line.Join(e.Path(), entry.Name))
		}
		if errors.Is(err, client.ErrNoNode) {
			continue // it has gone meanwhile
		}
		if err != nil {
			return nil, e.failed(ctx, "list the candidates of", err)
		}
		candidates = append(candidates, e.candidate(entry.Name, node.Data, node.Stat))
	}
	return candidates, nil
}

func (e *Election) candidate(name string, data []byte, stat client.Stat) Candidate {
	return Candidate{ID: string(data), Path: line.Join(e.Path(), name), Token: stat.Czxid, Session: stat.EphemeralOwner}
}

// failed says what could not be done in the election.
func (e *Election) failed(ctx context.Context, verb string, err error) error {
	return fmt.Errorf("%s election %s: %w", verb, e.Path(), line.Why(ctx, err))
}

// elect stands for election and returns once it is won. standing is told when the
// candidate has its place. If it fails there is no candidate left, or none soon. The
// leadership ends with ctx, and has to be cleared nevertheless.
func (e *Election) elect(ctx context.Context, standing func()) (*Leadership, error) {
	place, err := e.line.Join(ctx, 0, e.id)
	if err != nil {
		return nil, e.failed(ctx, "join", err)
	}
	standing()
	if err := place.Await(ctx, line.First); err != nil {
		return nil, errors.Join(e.failed(ctx, "win", err), place.Leave(ctx))
	}
	return &Leadership{e: e, place: place, hold: place.Hold(ctx, line.HoldOptions{Reserve: e.reserve})}, nil
}
