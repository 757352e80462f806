package command

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
)

// pastWaits is for how long a command waits while somebody else looks at the past of the server.
const pastWaits = 30 * time.Second

// atFlag defines --at.
func atFlag(flags *cobra.Command) *string {
	return stringFlag(flags, "at", "", "", "as it was at a moment: 10m ago, after a zxid such as 0x100000002, or at a time such as 2026-11-22T14:05:00Z", Text)
}

// moment reads the value of a flag such as --at.
func (c *Call) moment(flag, text string) (m client.Moment, err error) {
	if hex, ok := strings.CutPrefix(text, "0x"); ok {
		n, err := strconv.ParseInt(hex, 16, 64)
		if err != nil || n <= 0 {
			return m, c.Usage("--%s: %q is no zxid, such as 0x100000002", flag, text)
		}
		m.Zxid = client.Zxid(n)
		return m, nil
	}
	if m.Ago, err = time.ParseDuration(daysAsHours(text)); err == nil && m.Ago > 0 {
		return m, nil
	}
	m.Ago = 0
	if m.Time, err = time.Parse(time.RFC3339, text); err != nil {
		return m, c.Usage("--%s: %q is no moment: write 10m or 2d for how long ago, a zxid such as 0x100000002, or a time such as 2026-11-22T14:05:00Z", flag, text)
	}
	return m, nil
}

// daysAsHours replaces a number of days, such as 2d, which Go's durations do not have.
func daysAsHours(text string) string {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n < 100_000 {
			return fmt.Sprint(n*24, "h")
		}
	}
	return text
}

// patient repeats what begins a look at the past while somebody else has one.
func patient[T any](ctx context.Context, c *Call, all func() iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		wait, cancel := context.WithTimeout(ctx, pastWaits)
		defer cancel()
		for said := false; ; said = true {
			busy := false
			for x, err := range all() {
				if busy = errors.Is(err, client.ErrThrottled) && wait.Err() == nil; busy {
					break
				}
				if !yield(x, pastError(err)) {
					return
				}
			}
			if !busy {
				return
			}
			if !said {
				c.App.say("somebody else looks at the past of this server: waiting")
			}
			select {
			case <-time.After(200 * time.Millisecond):
			case <-wait.Done():
			}
		}
	}
}

// pastError returns what a server says of a look at its past.
func pastError(err error) error {
	e, ok := errors.AsType[*client.Error](err)
	switch {
	case !ok || e.Op.String() != "past":
	case errors.Is(err, client.ErrUnimplemented):
		return &wordedError{"this server does not show its past: it is not zkd's, or of an earlier version (see features)", err}
	case e.Cause != nil && !errors.Is(err, client.ErrConnectionLoss):
		return &wordedError{e.Cause.Error(), err}
	}
	return err
}

// begun says which state is shown.
func (c *Call) begun(page client.PastPage) {
	when := ""
	if !page.Time.IsZero() {
		when = ", of " + stamp(page.Time)
	}
	c.App.say("as of zxid %v%s", page.Zxid, when)
}

// former yields the node at a path and its children as they were, or all below it.
func (c *Call) former(ctx context.Context, zk *client.Client, at string, below bool) (iter.Seq2[tree.Entry, error], error) {
	m, err := c.moment("at", at)
	if err != nil {
		return nil, err
	}
	return patient(ctx, c, func() iter.Seq2[tree.Entry, error] {
		return tree.Former(ctx, zk, c.pathOr("/"), tree.FormerOptions{At: m, Below: below, Data: true, Begun: c.begun})
	}), nil
}

// formerSubtree is former for the commands on subtrees.
func (c *Call) formerSubtree(ctx context.Context, zk *client.Client, root string, m client.Moment) iter.Seq2[subtree.Node, error] {
	return patient(ctx, c, func() iter.Seq2[subtree.Node, error] { return subtree.Former(ctx, zk, root, m, c.begun) })
}

// nodeAt returns the node of a command as it was.
func (c *Call) nodeAt(ctx context.Context, at string, watch bool) (e tree.Entry, err error) {
	if watch {
		return e, c.Usage("the past does not change: leave out -w")
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return e, err
	}
	nodes, err := c.former(ctx, zk, at, false)
	if err != nil {
		return e, err
	}
	for e, err := range nodes {
		return e, err
	}
	return e, &client.Error{Path: c.Arg(0), Err: client.ErrNoNode}
}

// listAt is list and listAll for the past.
func (c *Call) listAt(ctx context.Context, at string, watch, stat, recursive bool) error {
	if watch {
		return c.Usage("the past does not change: leave out -w")
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	nodes, err := c.former(ctx, zk, at, recursive)
	if err != nil {
		return err
	}
	var names []string
	var root *tree.Entry
	l := lister{c: c, zk: zk}
	for e, err := range nodes {
		if root == nil {
			if err != nil {
				return err
			}
			root = &e
		}
		switch {
		case err != nil && e.Path == "":
			return err
		case recursive:
			if names = append(names, e.Path); len(names) == 1000 {
				if err := l.emit(names); err != nil {
					return err
				}
				names = names[:0]
			}
		case e.Depth == 1:
			names = append(names, e.Path[strings.LastIndexByte(e.Path, '/')+1:])
		}
	}
	switch {
	case root == nil:
		return &client.Error{Path: c.Arg(0), Err: client.ErrNoNode}
	case recursive:
		return l.emit(names)
	}
	return c.emitChildren(names, root.Stat, stat)
}
