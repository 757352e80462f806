package twopc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Names of the children of the transaction's node.
const (
	decisionNode = "decision"
	sitePrefix   = "site-"
)

// Outcome is a site's vote, and the result of a transaction.
type Outcome string

// The outcomes.
const (
	Commit Outcome = "commit"
	Abort  Outcome = "abort"
)

// Decision is the result of a transaction. Once recorded, it never changes.
type Decision struct {
	Outcome Outcome `json:"outcome,omitempty"`
	// Reason tells people why the transaction was aborted.
	Reason string `json:"reason,omitempty"`
}

// record is the data of the node "decision". Invariant: it is written at most twice, first
// by Begin, without an outcome, and then with one as version 1.
type record struct {
	ID        string   `json:"id"` // a GUID, different for each Begin at the path
	Sites     []string `json:"sites"`
	Ephemeral bool     `json:"ephemeral,omitempty"`
	Decision
}

func (r record) decided() bool { return r.Outcome != "" }

func (r record) encode() []byte {
	data, _ := json.Marshal(r) // which cannot fail for strings and a bool
	return data
}

func (t *Transaction) decode(data []byte) (r record, err error) {
	if err := json.Unmarshal(data, &r); err != nil || len(r.Sites) == 0 {
		return r, fmt.Errorf("%w: %s is not the record of a transaction; use another path", recipes.ErrLayout, t.node(decisionNode))
	}
	return r, nil
}

// get is Client.Get. If there is no node, it tries again after a Sync: the caller may have
// heard of the transaction before its server has.
func (t *Transaction) get(ctx context.Context, path string) ([]byte, client.Stat, error) {
	c := t.c.Steady()
	node, err := c.Get(ctx, path)
	if !errors.Is(err, client.ErrNoNode) {
		return node.Data, node.Stat, err
	}
	if err := c.Sync(ctx, t.path); err != nil {
		return nil, node.Stat, err
	}
	node, err = c.Get(ctx, path)
	return node.Data, node.Stat, err
}

func (t *Transaction) read(ctx context.Context) (record, client.Stat, error) {
	data, stat, err := t.get(ctx, t.node(decisionNode))
	if err != nil {
		return record{}, stat, err
	}
	rec, err := t.decode(data)
	return rec, stat, err
}

// readW is read and sets a watch, unless there is a decision or an error.
func (t *Transaction) readW(ctx context.Context) (record, *client.Watch, error) {
	rec, _, err := t.read(ctx)
	if err != nil || rec.decided() {
		return rec, nil, err
	}
	node, err := t.c.Steady().GetW(ctx, t.node(decisionNode))
	if err != nil {
		return rec, nil, err
	}
	rec, err = t.decode(node.Data)
	return rec, node.Watch, err
}

// settle records a decision unless there is one, and returns the record. The record is
// still undecided if one of the guards failed; then the caller counts the votes again.
//
// This makes the transaction atomic: of several programs that try to decide, whatever votes
// they have seen, only one can write version 1, and all adopt that decision.
func (t *Transaction) settle(ctx context.Context, rec record, d Decision, guards ...client.Op) (record, error) {
	rec.Decision = d
	_, err := t.c.Steady().Multi(ctx, append(guards, client.SetOp(t.node(decisionNode), rec.encode(), 0))...)
	if err == nil {
		return rec, nil
	}
	ambiguous := client.IsAmbiguous(err)
	if !errors.Is(err, client.ErrBadVersion) && !errors.Is(err, client.ErrNoNode) && (!ambiguous || ctx.Err() != nil) {
		return rec, err
	}
	now, _, readErr := t.read(ctx)
	if readErr != nil && ambiguous {
		return now, line.InDoubt(err, readErr)
	}
	return now, readErr
}
