package election

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Leader is the candidate that leads.
type Leader struct {
	hold.Contender
	// Acknowledged reports whether it has announced that it leads: see
	// Leadership.Acknowledge. A leader that has not may not even know yet that it leads.
	Acknowledged bool
	// Acknowledgement is the data that it acknowledged with.
	Acknowledgement []byte
}

// Leader returns the leader, and false if there are no candidates. There may be another one
// by the time that it returns.
func (e *Election) Leader(ctx context.Context) (Leader, bool, error) {
	for {
		entries, err := e.line.List(ctx)
		if err != nil || len(entries) == 0 {
			return Leader{}, false, e.failed(ctx, "find the leader of", err)
		}
		leader, ok, err := e.look(ctx, entries[0].Name)
		if ok || err != nil {
			return leader, ok, e.failed(ctx, "find the leader of", err)
		}
	}
}

// look returns the candidate with that name as the leader, with its acknowledgement, and
// false if it does not exist.
func (e *Election) look(ctx context.Context, name string) (Leader, bool, error) {
	c := e.c.Steady()
	node, err := c.Get(ctx, line.Join(e.Path(), name))
	if errors.Is(err, client.ErrNoNode) {
		return Leader{}, false, nil
	}
	if err != nil {
		return Leader{}, false, err
	}
	leader := Leader{Contender: hold.Contender{Path: line.Join(e.Path(), name), Holds: true}.With(node)}
	path := line.Join(e.o.Acknowledgements, name)
	ack, err := c.Get(ctx, path)
	if errors.Is(err, client.ErrNoNode) {
		return leader, true, nil
	}
	if err != nil {
		return Leader{}, false, err
	}
	token, said, ok := parseAck(ack.Data)
	if !ok {
		return Leader{}, false, fmt.Errorf("%w: %s is no acknowledgement; delete it", recipes.ErrLayout, path)
	}
	if token == leader.Token { // otherwise it is that of another node with the same name
		leader.Acknowledged, leader.Acknowledgement = true, said
	}
	return leader, true, nil
}

// WaitAcknowledged waits until there is a leader that has acknowledged that it leads, and
// returns it. When the session ends it continues if the client begins a new one.
func (e *Election) WaitAcknowledged(ctx context.Context) (Leader, error) {
	for {
		leader, ok, err := e.waitOnce(ctx)
		if ok {
			return leader, nil
		}
		if err != nil && !renewed(ctx, e.c, err) {
			return Leader{}, e.failed(ctx, "wait for the leader of", err)
		}
	}
}

// waitOnce returns the leader if it has acknowledged, and otherwise waits until the
// acknowledgements change.
func (e *Election) waitOnce(ctx context.Context) (Leader, bool, error) {
	c := e.c.Steady()
	list, err := c.Children(ctx, e.o.Acknowledgements)
	if err != nil && !errors.Is(err, client.ErrNoNode) {
		return Leader{}, false, err
	}
	// If there is no need to wait, there is none for a watch.
	if leader, ok, err := e.acknowledged(ctx, list.Names); ok || err != nil {
		return leader, ok, err
	}
	now, w, err := e.watchAcks(ctx)
	if err != nil {
		return Leader{}, false, err
	}
	if now.Czxid != list.Stat.Czxid || now.Pzxid != list.Stat.Pzxid {
		line.DropWatch(ctx, w)
		return Leader{}, false, nil
	}
	if _, err = w.Next(ctx); err != nil {
		line.DropWatch(ctx, w)
	}
	return Leader{}, false, err
}

// watchAcks sets a watch on the list of acknowledgements, and returns the Stat of their
// parent, which is zero if it does not exist.
func (e *Election) watchAcks(ctx context.Context) (client.Stat, *client.Watch, error) {
	c := e.c.Steady()
	for {
		list, err := c.ChildrenW(ctx, e.o.Acknowledgements)
		if !errors.Is(err, client.ErrNoNode) {
			return list.Stat, list.Watch, err
		}
		found, err := c.ExistsW(ctx, e.o.Acknowledgements)
		if err != nil || !found.Exists {
			return client.Stat{}, found.Watch, err
		}
		line.DropWatch(ctx, found.Watch) // it was created in between
	}
}

// acknowledged returns the leader if one of the acknowledgements is its own. Only leaders
// create them, and a leader leads as long as its node exists. So there is no need to check
// that it is the first in the line.
func (e *Election) acknowledged(ctx context.Context, names []string) (Leader, bool, error) {
	for _, name := range names {
		leader, ok, err := e.look(ctx, name)
		if err != nil || ok && leader.Acknowledged {
			return leader, err == nil, err
		}
	}
	return Leader{}, false, nil
}

func (e *Election) ackPath(place *line.Place) string {
	return line.Join(e.o.Acknowledgements, line.Base(place.Path()))
}

// acknowledge creates the leader's acknowledgement, or replaces its data.
func (e *Election) acknowledge(ctx context.Context, place *line.Place, data []byte) error {
	c := e.c.Steady().InSession(place.Session())
	path, ack := e.ackPath(place), formatAck(place.Token(), data)
	const rounds = 10 // a container may be deleted between its creation and its use
	for round := 1; ; round++ {
		_, err := settle.Create(ctx, c, path, ack, settle.CreateOptions{Mode: client.Ephemeral, ACL: e.line.ACL})
		switch {
		case errors.Is(err, client.ErrNodeExists):
			return e.replaceAck(ctx, c, place, ack)
		case !errors.Is(err, client.ErrNoNode) || round == rounds:
			return err
		}
		if err := settle.Ensure(ctx, c, e.o.Acknowledgements, client.CreateOptions{Mode: client.Container, ACL: e.line.ACL}); err != nil {
			return err
		}
	}
}

func (e *Election) replaceAck(ctx context.Context, c *client.Client, place *line.Place, ack []byte) error {
	path := e.ackPath(place)
	for {
		node, err := c.Get(ctx, path)
		if err != nil {
			return err
		}
		if isLater(node.Data, place.Token()) {
			return fmt.Errorf("%w: %s is that of a later leader", recipes.ErrLost, path)
		}
		_, err = settle.Set(ctx, c, path, ack, node.Stat.Version)
		if !errors.Is(err, client.ErrBadVersion) {
			return err
		}
	}
}

// isLater reports whether an acknowledgement is that of a leader after the one with the
// token. It can have the same name only with the layout ElectionSupport.
func isLater(ack []byte, token client.Zxid) bool {
	other, _, ok := parseAck(ack)
	return ok && other > token
}

// formatAck returns the data of an acknowledgement: the leader's token, as 0x and 16
// digits, a newline, and the leader's data.
func formatAck(token client.Zxid, data []byte) []byte {
	return append(fmt.Appendf(nil, "0x%016x\n", uint64(token)), data...)
}

func parseAck(ack []byte) (token client.Zxid, data []byte, ok bool) {
	head, data, found := bytes.Cut(ack, []byte("\n"))
	n, err := strconv.ParseUint(string(head), 0, 64)
	return client.Zxid(n), data, found && err == nil
}
