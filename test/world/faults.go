package main

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/client"
)

const (
	away      = 5 * time.Second // how long a killed server is
	noQuorum  = 5 * time.Second
	withSpare = 5 * time.Second
	silent    = 15 * time.Second
)

// fault is what is done to an ensemble while a program works. It ends with all members well.
type fault struct {
	name, title string
	inflict     func(context.Context, *ensemble) error
}

var faults = []fault{
	{"leader", "leader killed", func(ctx context.Context, e *ensemble) error { return killOne(ctx, e, "leader") }},
	{"follower", "follower killed", func(ctx context.Context, e *ensemble) error { return killOne(ctx, e, "follower") }},
	{"quorum", "no quorum for 5 s", loseQuorum},
	{"rolling", "rolling restart", restartEach},
	{"member", "member added and removed", addAndRemove},
	{"move", "moved to the other kind of servers", move},
	{"edge", "edge replaced", replaceEdge},
	{"leader-hangs", "leader stopped for 15 s", func(ctx context.Context, e *ensemble) error { return stopOne(ctx, e, "leader") }},
	{"follower-hangs", "follower stopped for 15 s", func(ctx context.Context, e *ensemble) error { return stopOne(ctx, e, "follower") }},
	{wayTo, "nothing comes to the leader for 15 s", func(ctx context.Context, e *ensemble) error {
		return cut(ctx, e, "leader", func(r *relay) *gate { return &r.to })
	}},
	{wayFrom, "nothing comes from a follower for 15 s", func(ctx context.Context, e *ensemble) error {
		return cut(ctx, e, "follower", func(r *relay) *gate { return &r.from })
	}},
	{"own", "a part of the program killed", nothingToServers}, // the program does it
}

// The faults between an edge and a server: of those the others learn nothing.
const (
	wayTo   = "way-to-leader"
	wayFrom = "way-from-follower"
)

// all are the faults of each program that has no parts of its own to kill.
const all = "leader follower quorum rolling member"

func faultOf(name string) *fault {
	i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	return &faults[i]
}

func nothingToServers(context.Context, *ensemble) error { return nil }

func killOne(ctx context.Context, e *ensemble, mode string) error {
	s, err := e.with(mode)
	if err != nil {
		return err
	}
	s.kill()
	if err := wait(ctx, away); err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	return e.awaitHealthy(ctx)
}

func stopOne(ctx context.Context, e *ensemble, mode string) error {
	s, err := e.with(mode)
	if err != nil {
		return err
	}
	s.cmd.Process.Signal(syscall.SIGSTOP)
	err = wait(ctx, silent)
	s.cmd.Process.Signal(syscall.SIGCONT)
	if err != nil {
		return err
	}
	return e.awaitHealthy(ctx)
}

func cut(ctx context.Context, e *ensemble, mode string, way func(*relay) *gate) error {
	s, err := e.with(mode)
	if err != nil {
		return err
	}
	g := way(e.relays[s])
	g.set(true)
	defer g.set(false)
	return wait(ctx, silent)
}

// replaceEdge starts another edge, to which the first one hands its clients over before it ends.
func replaceEdge(ctx context.Context, e *ensemble) error {
	old, next := e.edge, *e.edge
	if err := next.start(); err != nil {
		return err
	}
	e.edge = &next
	return await(ctx, []*server{e.edge}, old.hasEnded)
}

func loseQuorum(ctx context.Context, e *ensemble) error {
	lost := e.members[:len(e.members)/2+1]
	for _, s := range lost {
		s.kill()
	}
	if err := wait(ctx, noQuorum); err != nil {
		return err
	}
	for _, s := range lost {
		if err := s.start(); err != nil {
			return err
		}
	}
	return e.awaitHealthy(ctx)
}

func restartEach(ctx context.Context, e *ensemble) error {
	for _, s := range e.members {
		s.stop()
		if err := s.start(); err != nil {
			return err
		}
		if err := e.awaitHealthy(ctx); err != nil {
			return fmt.Errorf("server %d: %w", s.id, err)
		}
	}
	return nil
}

func addAndRemove(ctx context.Context, e *ensemble) error {
	if err := e.spare.start(); err != nil {
		return err
	}
	// It is no member yet, and follows.
	if err := await(ctx, append(slices.Clone(e.members), e.spare), func() bool { return e.spare.mode() == "follower" }); err != nil {
		return fmt.Errorf("the new server does not follow: %w", err)
	}
	if err := e.reconfig(ctx, client.Members{Joining: e.spare.line}); err != nil {
		return fmt.Errorf("reconfig -add: %w", err)
	}
	if err := wait(ctx, withSpare); err != nil {
		return err
	}
	if err := e.reconfig(ctx, client.Members{Leaving: fmt.Sprint(e.spare.id)}); err != nil {
		return fmt.Errorf("reconfig -remove: %w", err)
	}
	e.spare.stop()
	return e.awaitHealthy(ctx)
}
