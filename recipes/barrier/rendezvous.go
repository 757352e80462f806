package barrier

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Rendezvous is a place where parties meet, n at a time. It may be used from any
// goroutine; each Meet is another party.
type Rendezvous struct {
	base
	n    int
	line *line.Line
}

// Meeting is what all parties of a meeting are told.
type Meeting struct {
	// ID is the same for all parties, and larger than those of all earlier meetings.
	ID client.Zxid
	// Values has the value of each party, in the order in which they came.
	Values [][]byte
	// Own is the index of the caller's value.
	Own int
}

// NewRendezvous returns the rendezvous of n parties at path. It sends no request.
func NewRendezvous(c *client.Client, path string, n int, o Options) (*Rendezvous, error) {
	b, err := newBase(c, "rendezvous", path, o)
	if err != nil {
		return nil, err
	}
	if n < 2 {
		return nil, fmt.Errorf("rendezvous: %w: n is %d, but it takes 2 parties at least", client.ErrBadArguments, n)
	}
	labels := []string{fmt.Sprintf("party-of-%d-", n)}
	return &Rendezvous{b, n, &line.Line{Client: c, Path: path, ACL: o.ACL, Layout: &line.Layout{Labels: labels}}}, nil
}

// Meet waits until n parties are there, and exchanges values with them. If ctx ends but
// they have met, Meet returns the meeting. If Meet fails, this party has met nobody, unless
// the error IsAmbiguous: then the connection or the session was lost, and the others may
// have met it.
func (r *Rendezvous) Meet(ctx context.Context, value []byte) (Meeting, error) {
	place, err := r.line.Join(ctx, 0, value)
	if err != nil {
		return Meeting{}, r.wrap(ctx, "meet at", err)
	}
	p := &party{Rendezvous: r, c: r.c.Steady().InSession(place.Session()), own: place.Path()}
	m, err := p.meet(ctx)
	if err != nil {
		m, err = p.giveUp(ctx, err)
	}
	_ = place.Leave(ctx) // the session deletes it at the latest
	return m, r.wrap(ctx, "meet at", err)
}
