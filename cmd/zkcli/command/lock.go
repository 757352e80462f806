package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
)

// turn is a place in a queue of sequential ephemeral nodes below one path, and
// what comes with it once it is the first: a lock, or leadership. The layout is
// Curator's: children _c_<GUID>-<label>-<number> of which the lowest number holds.
// Each waits for the one before it alone, so that a release wakes one of them.
type turn struct {
	zk   *client.Client
	dir  string
	node string // our node's path, "" before there is one
	// token grows with each holder: the node's czxid. What the lock protects can
	// refuse a holder with a lower one.
	token client.Zxid
}

// The labels of Curator's InterProcessMutex and LeaderLatch.
const (
	lockLabel  = "lock-"
	latchLabel = "latch-"
)

// errTurnLost says that our node is gone: somebody deleted it.
var errTurnLost = errors.New("its node was deleted")

// queue puts our node at the end of the queue, and creates the path if need be.
func queue(ctx context.Context, zk *client.Client, dir, label string, data []byte) (*turn, error) {
	t := &turn{zk: zk, dir: dir}
	if err := zk.EnsurePath(ctx, dir, nil); err != nil {
		return nil, err
	}
	node, err := zk.CreateProtected(ctx, join(dir, label), data, client.EphemeralSequential, nil)
	if err != nil {
		return nil, err
	}
	t.node = node
	stat, ok, err := zk.WithRetry(client.DefaultRetry()).Exists(ctx, node)
	if err == nil && !ok {
		err = errTurnLost
	}
	t.token = stat.Czxid
	return t, err
}

// wait returns when our node is the first. before is told of the node that it
// waits for.
func (t *turn) wait(ctx context.Context, before func(node string)) error {
	zk := t.zk.WithRetry(client.DefaultRetry())
	for {
		names, _, err := zk.Children(ctx, t.dir)
		if err != nil {
			return err
		}
		previous, err := predecessor(names, t.node[strings.LastIndexByte(t.node, '/')+1:])
		if err != nil || previous == "" {
			return err
		}
		_, _, w, err := zk.GetW(ctx, join(t.dir, previous))
		if errors.Is(err, client.ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		before(join(t.dir, previous))
		if _, err = w.Next(ctx); err != nil {
			return errors.Join(err, closeWatch(ctx, w))
		}
	}
}

// predecessor returns the name that is before ours in the queue, or "" if ours is
// the first. Names without a number are none of the queue's.
func predecessor(names []string, ours string) (string, error) {
	if !slices.Contains(names, ours) {
		return "", errTurnLost
	}
	own, _ := sequence(ours)
	best, most := "", int64(0)
	for _, name := range names {
		n, ok := sequence(name)
		if ok && n < own && (best == "" || n > most) {
			best, most = name, n
		}
	}
	return best, nil
}

// sequence returns the number at the end of a name: ten digits.
func sequence(name string) (int64, bool) {
	const digits = 10
	if len(name) < digits {
		return 0, false
	}
	n, err := strconv.ParseInt(name[len(name)-digits:], 10, 64)
	return n, err == nil
}

// leave gives our place up. It returns when the node is gone; if no server can be
// reached, the session's end will see to it.
func (t *turn) leave(ctx context.Context) error {
	if t.node == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	err := t.zk.DeleteGuaranteed(ctx, t.node)
	for _, gone := range []error{client.ErrNoNode, client.ErrSessionExpired, client.ErrClosed} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("give up %s: %w", t.node, err)
	}
	return nil
}

// held returns a context that ends when the turn can't be trusted any more: its
// cause says why. While the connection is suspended that is so before the servers
// may have ended the session: reserve is how long before. Call stop at the end.
func (t *turn) held(ctx context.Context, reserve time.Duration) (held context.Context, stop func(), err error) {
	held, lose := context.WithCancelCause(ctx)
	states := t.zk.States(held)
	_, _, node, err := t.zk.WithRetry(client.DefaultRetry()).ExistsW(held, t.node)
	if err != nil {
		lose(err)
		return nil, nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lose(guard(held, states, t.zk.State(), node.Events(), t.zk.Timeout(), reserve))
	}()
	return held, func() {
		lose(nil)
		<-done
		_ = closeWatch(ctx, node) // or else the node's deletion would end it
	}, nil
}

// guard returns why a turn is lost, once it is.
//
// A connection is suspended when nothing has come for two thirds of the session's
// timeout at the latest: then a third is left until the servers end the session.
func guard(ctx context.Context, states <-chan client.StateChange, state client.State, node <-chan client.Event, timeout, reserve time.Duration) error {
	var limit <-chan time.Time
	for {
		switch {
		case state.Final() || state == client.StateConnecting:
			return fmt.Errorf("the session is %v", state)
		case state == client.StateSuspended && limit == nil:
			limit = time.After(max(0, timeout/3-reserve))
		case state.Connected():
			limit = nil
		}
		select {
		case change, ok := <-states:
			if !ok {
				return context.Cause(ctx)
			}
			state = change.To
		case _, ok := <-node:
			if ok {
				return errTurnLost
			}
			node = nil // the session ends, which states will say
		case <-limit:
			return errors.New("the connection is lost, and the session may expire")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
