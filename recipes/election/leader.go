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
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Leader is the candidate that leads.
type Leader struct {
	Candidate
	// Acknowledged is whether it has said so itself: see Leadership.Acknowledge. A leader
	// that has not may not even know yet that it leads.
	Acknowledged bool
	// Data is what it acknowledged with.
	Data []byte
}

// Leader returns who leads, and false if there are no candidates. Leadership may have
// passed on by the time that it returns.
func (e *Election) Leader(ctx context.Context) (Leader, bool, error) {
	for {
		entries, err := e.line.List(ctx)
		if err != nil || len(entries) == 0 {
			return Leader{}, false, e.unless(ctx, "find the leader of", err)
		}
		leader, ok, err := e.look(ctx, entries[0].Name)
		if ok || err != nil {
			return leader, ok, e.unless(ctx, "find the leader of", err)
		}
	}
}

// unless is failed, but for nil.
func (e *Election) unless(ctx context.Context, verb string, err error) error {
	if err == nil {
		return nil
	}
	return e.failed(ctx, verb, err)
}

// look returns the candidate of that name, and false if there is none, together with
// its acknowledgement.
func (e *Election) look(ctx context.Context, name string) (Leader, bool, error) {
	c := e.c.Steady()
	node, err := c.Get(ctx, line.Join(e.Path(), name))
	if errors.Is(err, client.ErrNoNode) {
		return Leader{}, false, nil
	}
	if err != nil {
		return Leader{}, false, err
	}
	leader := Leader{Candidate: e.candidate(name, node.Data, node.Stat)}
	path := line.Join(e.acks, name)
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
	if token == leader.Token { // and not that of another node, of the same name
		leader.Acknowledged, leader.Data = true, said
	}
	return leader, true, nil
}

// WaitAcknowledged waits until there is a leader that has acknowledged that it leads, and
// returns it. It goes on through the end of the session if the client begins a new one.
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

// waitOnce returns the leader if it has acknowledged, and else waits until there are other
// acknowledgements.
func (e *Election) waitOnce(ctx context.Context) (Leader, bool, error) {
	c := e.c.Steady()
	list, err := c.Children(ctx, e.acks)
	if err != nil && !errors.Is(err, client.ErrNoNode) {
		return Leader{}, false, err
	}
	// Not having to wait needs no watch.
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

// watchAcks sets a watch over the list of acknowledgements, and returns the Stat of the
// node that they are below, which is zero if there is none.
func (e *Election) watchAcks(ctx context.Context) (client.Stat, *client.Watch, error) {
	c := e.c.Steady()
	for {
		list, err := c.ChildrenW(ctx, e.acks)
		if !errors.Is(err, client.ErrNoNode) {
			return list.Stat, list.Watch, err
		}
		found, err := c.ExistsW(ctx, e.acks)
		if err != nil || !found.Exists {
			return client.Stat{}, found.Watch, err
		}
		line.DropWatch(ctx, found.Watch) // it has been made in between
	}
}

// acknowledged returns the leader if one of the acknowledgements is its own. Only
// leaders make them, and who leads does so as long as its node is there: so it need not
// be looked whether it is the first.
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
	return line.Join(e.acks, line.Base(place.Path()))
}

// acknowledge makes the leader's acknowledgement, or replaces its data.
func (e *Election) acknowledge(ctx context.Context, place *line.Place, data []byte) error {
	c := e.c.Steady().InSession(place.Session())
	path, ack := e.ackPath(place), formatAck(place.Token(), data)
	const rounds = 10 // a container may be deleted between being made and being used
	for round := 1; ; round++ {
		_, err := settle.Create(ctx, c, path, ack, settle.CreateOptions{Mode: client.Ephemeral, ACL: e.line.ACL})
		switch {
		case errors.Is(err, client.ErrNodeExists):
			return e.replaceAck(ctx, c, place, ack)
		case !errors.Is(err, client.ErrNoNode) || round == rounds:
			return err
		}
		if err := settle.Ensure(ctx, c, e.acks, client.CreateOptions{Mode: client.Container, ACL: e.line.ACL}); err != nil {
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
// token. It may have the same name only if that tells nothing: see ElectionSupport.
func isLater(ack []byte, token client.Zxid) bool {
	other, _, ok := parseAck(ack)
	return ok && other > token
}

// formatAck returns the data of an acknowledgement: the leader's token, as 0x and 16
// digits, a newline, and what the leader says.
func formatAck(token client.Zxid, data []byte) []byte {
	return append(fmt.Appendf(nil, "0x%016x\n", uint64(token)), data...)
}

func parseAck(ack []byte) (token client.Zxid, data []byte, ok bool) {
	head, data, found := bytes.Cut(ack, []byte("\n"))
	n, err := strconv.ParseUint(string(head), 0, 64)
	return client.Zxid(n), data, found && err == nil
}
