package rwlock

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
)

// Request is the data that a node gets to ask its contender to unlock. Both are
// understood; each program writes the one that those understand whom it asks.
type Request string

const (
	// Unlock is that of Apache's recipes page.
	Unlock Request = "unlock"
	// CuratorRevoke is what Curator's Revoker writes, and Java programs understand
	// that have called makeRevocable.
	CuratorRevoke Request = "__REVOKE__"
)

func isRequest(data []byte) bool {
	return Request(data) == Unlock || Request(data) == CuratorRevoke
}

// changed is told of the data of the node, by the goroutine that watches it.
func (h *Held) changed(data []byte) {
	if h.b.o.OnRevoke == nil || !isRequest(data) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.again = h.asked
	if !h.asked && !h.unlocked {
		h.asked = true
		go h.answer()
	}
}

// answer answers requests until there are none, or the lock is unlocked.
func (h *Held) answer() {
	for {
		if h.b.o.OnRevoke(h) {
			// What the servers refuse is seen by whoever asked: the node is there.
			_ = h.Unlock(context.WithoutCancel(h.Context()))
			return
		}
		err := h.refuse()
		for errors.Is(err, client.ErrConnectionLoss) { // or the request would stay for ever
			err = h.refuse()
		}
		if err != nil || !h.askedAgain() {
			return
		}
	}
}

// askedAgain reports whether there is a request that came after the one refused.
func (h *Held) askedAgain() bool {
	for {
		h.mu.Lock()
		if !h.again {
			h.asked = false
			h.mu.Unlock()
			return false
		}
		h.again = false
		h.mu.Unlock()
		node, err := h.b.line.Client.Steady().Get(h.Context(), h.path)
		if err != nil || isRequest(node.Data) {
			return err == nil
		}
	}
}

// refuse puts the data back that were there before the request. If they have changed
// meanwhile it was done unnoticed and somebody has asked since: that one has a right to
// an answer of his own.
func (h *Held) refuse() error {
	c := h.b.line.Client.Steady()
	node, err := c.Get(h.Context(), h.path)
	if err != nil || !isRequest(node.Data) {
		return err
	}
	_, err = settle.Set(h.Context(), c, h.path, h.b.o.Data, node.Stat.Version)
	if errors.Is(err, client.ErrBadVersion) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.again = true
		return nil
	}
	return err
}
