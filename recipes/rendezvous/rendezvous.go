package rendezvous

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Rendezvous is a place where parties meet, n at a time. It may be used from any
// goroutine, also to meet several times at once: each Meet is a party of its own.
type Rendezvous struct {
	c    *client.Client
	n    int
	line *line.Line
}

// Options are what a Rendezvous can be told. The zero value is good for most.
type Options struct {
	// ACL is that of new nodes; nil is client.OpenACL. Parties must be allowed to read
	// and to write each other's nodes.
	ACL []client.ACL
}

// Meeting is what all who have met know of it.
type Meeting struct {
	// ID is the same for all in the meeting, and larger than those of all before it.
	ID client.Zxid
	// Values are what the parties have brought, in the order in which they came.
	Values [][]byte
	// Own is the index of one's own value.
	Own int
}

// New returns the rendezvous of n parties at path. Nothing is asked of the servers yet.
func New(c *client.Client, path string, n int, o Options) (*Rendezvous, error) {
	if c == nil {
		return nil, fmt.Errorf("rendezvous: %w: client is nil", client.ErrBadArguments)
	}
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("rendezvous: path: %w", err)
	}
	if n < 2 {
		return nil, fmt.Errorf("rendezvous: %w: n is %d, but it takes 2 parties at least", client.ErrBadArguments, n)
	}
	labels := []string{fmt.Sprintf("party-of-%d-", n)}
	return &Rendezvous{c: c, n: n, line: &line.Line{Client: c, Path: path, ACL: o.ACL, Layout: &line.Layout{Labels: labels}}}, nil
}

// Meet waits until n parties are there, and exchanges values with them. If ctx ends
// while they meet Meet returns the meeting all the same. If it fails nobody has met
// one, unless the error IsAmbiguous: then one has been cut off, or one's session has
// ended, and the others may believe to have met one.
func (r *Rendezvous) Meet(ctx context.Context, value []byte) (Meeting, error) {
	place, err := r.line.Join(ctx, 0, value)
	if err != nil {
		return Meeting{}, r.wrap(ctx, err)
	}
	p := &party{Rendezvous: r, c: r.c.Steady().InSession(place.Session()), own: place.Path()}
	m, err := p.meet(ctx)
	if err != nil {
		m, err = p.giveUp(ctx, err)
	}
	_ = place.Leave(ctx) // it goes with the session at the latest
	return m, r.wrap(ctx, err)
}

func (r *Rendezvous) wrap(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("rendezvous %s: %w", r.line.Path, line.Why(ctx, err))
}
