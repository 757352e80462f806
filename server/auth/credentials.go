package auth

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// Bounds of the identities of one connection, whose client could add new ones without end. Each ACL entry is
// compared with them, an entry of scheme auth means all of them, and each write takes them to the leader.
const (
	maxIDs     = 1 + 64   // the first is the address
	maxIDBytes = 16 << 10 // names, and idOverhead for each
	idOverhead = 32
)

// Credentials are the identities of a connection. They are immutable; nil has none.
type Credentials struct {
	ids  []jute.ID
	ends []int64 // of ids, as Proof.Until; nil if all end with the connection

	// Of a connection on which an edge speaks for a client of its own: see EdgeRule. edge is the edge's own identity, and user
	// the one that it has given the client, or nobody.
	edge, user jute.ID
}

// NewCredentials returns credentials that end with the connection. It keeps ids.
func NewCredentials(ids ...jute.ID) *Credentials { return &Credentials{ids: ids} }

// IDs returns the identities, which must not be modified.
func (c *Credentials) IDs() []jute.ID {
	if c == nil {
		return nil
	}
	return c.ids
}

// With returns the credentials and those of a proof, without duplicates: an identity that
// is proved again ends as the later proof says. It fails with jute.ErrAuthFailed if the
// connection would have more than 64 identities besides its address, or more than 16 KiB of them.
func (c *Credentials) With(p Proof) (*Credentials, error) {
	sum := c.clone()
	for _, id := range p.IDs {
		i := slices.Index(sum.ids, id)
		if i < 0 {
			i = len(sum.ids)
			sum.ids = append(sum.ids, id)
			if sum.ends != nil {
				sum.ends = append(sum.ends, 0)
			}
		}
		if sum.ends == nil && p.Until != 0 {
			sum.ends = make([]int64, len(sum.ids))
		}
		if sum.ends != nil {
			sum.ends[i] = p.Until
		}
	}
	if len(sum.ids) > len(c.IDs()) && (len(sum.ids) > maxIDs || sizeOf(sum.ids) > maxIDBytes) {
		return c, jute.ErrAuthFailed
	}
	return sum, nil
}

func (c *Credentials) clone() *Credentials {
	if c == nil {
		return &Credentials{}
	}
	sum := *c
	sum.ids, sum.ends = slices.Clone(c.ids), slices.Clone(c.ends)
	return &sum
}

// Until returns when the first of the identities ends, in Unix ms, or 0 if all end with
// the connection.
func (c *Credentials) Until() (first int64) {
	if c == nil {
		return first
	}
	for _, end := range c.ends {
		if end != 0 && (first == 0 || end < first) {
			first = end
		}
	}
	return first
}

// At returns the credentials without those that have ended at now, in
// Unix ms.
func (c *Credentials) At(now int64) *Credentials {
	left := &Credentials{}
	if c != nil {
		left.edge, left.user = c.edge, c.user
	}
	for i, id := range c.IDs() {
		var end int64
		if c.ends != nil {
			end = c.ends[i]
		}
		if end == 0 || now < end {
			left.ids = append(left.ids, id)
			left.ends = append(left.ends, end)
		}
	}
	return left
}

func sizeOf(ids []jute.ID) int {
	n := 0
	for i := range ids {
		n += len(ids[i].Scheme) + len(ids[i].ID) + idOverhead
	}
	return n
}
