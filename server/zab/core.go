package zab

import (
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// Entry is one element of the replicated history. Data is opaque here.
type Entry struct {
	Zxid jute.Zxid
	Prev jute.Zxid // zxid of the entry before it
	Data []byte
}

// Seq numbers the batches handed out to be persisted. It starts at 1.
type Seq uint64

// Output is everything that a core produced since the last Take.
type Output struct {
	Persist    []Entry // in order; empty means nothing to write
	PersistSeq Seq     // of this batch; meaningful if Persist is not empty
	// CommitTo is the highest committed zxid. The applier may apply up to it.
	CommitTo jute.Zxid
}

// Recovered is what a core needs to know of the log it continues.
type Recovered struct {
	LastZxid jute.Zxid // last durable entry, 0 if there is none
}

// Core is the state machine. See the package comment.
type Core struct {
	appended  jute.Zxid
	committed jute.Zxid

	lastSeq     Seq // of the newest batch handed out
	unpersisted []Entry
	inFlight    []batch // handed out, PersistDone not seen; in order
}

// batch remembers which entries a Seq makes durable.
type batch struct {
	seq  Seq
	last jute.Zxid
}

// New returns a core that continues the recovered log. Without an ensemble all
// of it is committed: the core is its own quorum.
func New(r Recovered) *Core {
	return &Core{appended: r.LastZxid, committed: r.LastZxid}
}

// NextZxid returns the zxid of the next entry. When the counter of the epoch is
// used up, after 2^32 writes, the next epoch begins: a quorum of one need not ask
// anybody. Counter 0 is never an entry.
func (c *Core) NextZxid() jute.Zxid {
	if c.appended.Counter() == ^uint32(0) {
		return jute.MakeZxid(c.appended.Epoch()+1, 1)
	}
	return c.appended + 1
}

// Committed returns the highest committed zxid.
func (c *Core) Committed() jute.Zxid { return c.committed }

// Propose appends an entry. zxid must be NextZxid; data is kept until the entry
// is committed. Anything else is a bug of the caller and panics.
func (c *Core) Propose(zxid jute.Zxid, data []byte) {
	if next := c.NextZxid(); zxid != next {
		panic(fmt.Sprintf("zab: proposal %v, next is %v", zxid, next))
	}
	c.unpersisted = append(c.unpersisted, Entry{Zxid: zxid, Prev: c.appended, Data: data})
	c.appended = zxid
}

// PersistDone tells that all batches up to seq are on stable storage. There is
// no opposite: a process whose log fails stops.
func (c *Core) PersistDone(seq Seq) {
	if seq > c.lastSeq {
		panic(fmt.Sprintf("zab: batch %d is durable, but only %d were handed out", seq, c.lastSeq))
	}
	n := 0
	for n < len(c.inFlight) && c.inFlight[n].seq <= seq {
		c.committed = c.inFlight[n].last
		n++
	}
	c.inFlight = append(c.inFlight[:0], c.inFlight[n:]...)
}

// Take moves everything produced since the last Take to out, reusing its
// memory.
func (c *Core) Take(out *Output) {
	out.Persist = append(out.Persist[:0], c.unpersisted...)
	clear(c.unpersisted)
	c.unpersisted = c.unpersisted[:0]
	if len(out.Persist) > 0 {
		c.lastSeq++
		c.inFlight = append(c.inFlight, batch{seq: c.lastSeq, last: c.appended})
		out.PersistSeq = c.lastSeq
	}
	out.CommitTo = c.committed
}
