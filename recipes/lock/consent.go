package lock

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/hold"
)

// Request is what is written into the node of a contender to ask it to release. Both are
// understood; each program writes the one that the contender it asks understands.
type Request string

const (
	// AskRelease is that of Apache's recipes page.
	AskRelease Request = "unlock"
	// CuratorRevoke is what Curator's Revoker writes, and what Java programs that have
	// called makeRevocable understand.
	CuratorRevoke Request = "__REVOKE__"
)

func isRequest(data []byte) bool {
	return Request(data) == AskRelease || Request(data) == CuratorRevoke
}

// hideRequest removes a request from the data of a contender.
func hideRequest(who *hold.Contender) {
	if who.Asked = isRequest(who.Data); who.Asked {
		who.Data = nil
	}
}

// changed is called with the data of the node, by the goroutine that watches it.
func (r *rwHolding) changed(data []byte) {
	if r.rw.o.OnRevoke == nil || !isRequest(data) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again = r.asked
	if !r.asked && !r.released() {
		r.asked = true
		go r.answer()
	}
}

// answer answers requests until there are none, or the lock is released.
func (r *rwHolding) answer() {
	for {
		if r.rw.o.OnRevoke(r.held, r.kind) {
			// If the servers refuse, the contender that asked sees it: the node remains.
			_ = r.held.Release(context.WithoutCancel(r.held.Context()))
			return
		}
		err := r.refuse()
		for errors.Is(err, client.ErrConnectionLoss) { // or the request would remain
			err = r.refuse()
		}
		if err != nil || !r.askedAgain() {
			return
		}
	}
}

// askedAgain reports whether there is a request that came after the one refused.
func (r *rwHolding) askedAgain() bool {
	for {
		r.mu.Lock()
		if !r.again {
			r.asked = false
			r.mu.Unlock()
			return false
		}
		r.again = false
		r.mu.Unlock()
		node, err := r.rw.line.Client.Steady().Get(r.held.Context(), r.held.Path())
		if err != nil || isRequest(node.Data) {
			return err == nil
		}
	}
}

// refuse restores the data that were there before the request. If they have changed
// meanwhile, an earlier attempt had succeeded unnoticed and somebody has asked since:
// that request gets its own answer.
func (r *rwHolding) refuse() error {
	ctx, path, c := r.held.Context(), r.held.Path(), r.rw.line.Client.Steady()
	node, err := c.Get(ctx, path)
	if err != nil || !isRequest(node.Data) {
		return err
	}
	_, err = settle.Set(ctx, c, path, r.rw.o.Data, node.Stat.Version)
	if errors.Is(err, client.ErrBadVersion) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.again = true
		return nil
	}
	return err
}
