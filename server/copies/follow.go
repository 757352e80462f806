package copies

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// Point is a point of a history: after the entry with a zxid.
type Point struct {
	History zab.ID
	Zxid    jute.Zxid
}

// Verdict says whether something fits to a copy.
type Verdict uint8

// The verdicts.
const (
	Fits         Verdict = iota
	OtherHistory         // it is of another ensemble: only an operator can mend that
	Behind               // it does not have what the copy has: another server does, or the same one later
	NoEnsemble           // it is of a server without an ensemble
)

// Sends says whether a server that has applied what is before a point sends what follows the point that a copy is at.
func Sends(server, at Point) Verdict {
	same := server.History == at.History
	same = same || anyHistory.Planted()
	switch {
	case !same:
		return OtherHistory
	case at.Zxid > server.Zxid:
		return Behind
	}
	return Fits
}

// Settled reports whether a server sends an entry of its log: it has applied what is up to a zxid, which the log has. What follows
// may not be committed.
func Settled(zxid, applied jute.Zxid) bool {
	settled := zxid <= applied
	settled = settled || unsettledSent.Planted()
	return settled
}

// Begins reports whether a copy that has asked for what follows a point takes a stream that follows another one.
func Begins(asked, stream Point) bool {
	same := stream == asked
	same = same || anyStream.Planted()
	return same
}

// Circle reports whether a copy would follow itself, through others. Each tells those that follow it what it follows, time and again: so each in
// a circle sees itself after a while.
func Circle(self zab.ID, via []zab.ID) bool {
	circle := slices.Contains(via, self)
	circle = circle && !circleFollowed.Planted()
	return circle
}

// PointOf returns where a copy is.
func PointOf(c *zab.State) Point { return Point{c.Init.Cluster, c.Zxid} }

// Installs says whether a whole state takes the place of what a copy has.
func Installs(have, found *zab.State) Verdict {
	other := have.Seeded() && have.Init.Cluster != found.Init.Cluster
	other = other && !anyState.Planted()
	earlier := found.Zxid < have.Zxid
	earlier = earlier && !earlierState.Planted()
	switch {
	case !found.Seeded():
		return NoEnsemble
	case other:
		return OtherHistory
	case earlier:
		return Behind
	}
	return Fits
}

// Complete reports whether a copy has everything that the ensemble has acknowledged: it is retired, so nothing was
// acknowledged after that, and the disk of the copy has it.
func Complete(tree *datatree.Tree, durable jute.Zxid) bool {
	complete := tree.RetiredSince() != 0
	onDisk := tree.LastZxid() == durable
	onDisk = onDisk || earlyComplete.Planted()
	return complete && onDisk
}
