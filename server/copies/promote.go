package copies

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// EpochMargin is how many epochs are left to the ensemble that was copied, so that a client that has seen a zxid of the
// one that takes its place is refused there if it is started again by mistake.
const EpochMargin = 1000

// Member is a server of the ensemble that copies become, and how far its copy is.
type Member struct {
	zab.Admission
	Last jute.Zxid
}

// String names the member: ID:INCARNATION:ZXID.
func (m Member) String() string {
	return fmt.Sprintf("%d:%x:%v", m.Server, m.Incarnation[:], m.Last)
}

// ParseMember is the inverse of Member.String.
func ParseMember(text string) (m Member, err error) {
	parts := strings.Split(text, ":")
	if len(parts) == 3 {
		id, err1 := strconv.ParseUint(parts[0], 10, 8)
		incarnation, err2 := hex.DecodeString(parts[1])
		z, err3 := strconv.ParseInt(strings.TrimPrefix(parts[2], "0x"), 16, 64)
		if errors.Join(err1, err2, err3) == nil && id > 0 && len(incarnation) == len(m.Incarnation) {
			m.Server, m.Last = zab.SIDOf(uint8(id)), jute.Zxid(z)
			copy(m.Incarnation[:], incarnation)
			return m, nil
		}
	}
	return m, fmt.Errorf("%q is no member: the status of a copy shows it as ID:INCARNATION:ZXID", text)
}

// Consent is what operators say when a copy becomes an ensemble: one of the two.
type Consent struct {
	// RetiredSince is the zxid at which the ensemble has said that it was retired: it acknowledged nothing after that. The zxid of
	// the copy may be that of an earlier retirement, which has ended.
	RetiredSince jute.Zxid
	// LossAfter is the zxid of the copy: what was acknowledged after it is given up.
	LossAfter jute.Zxid
}

// Covers reports whether a copy may become an ensemble, whose disk has it up to last.
func (c Consent) Covers(tree *datatree.Tree, last jute.Zxid) bool {
	sameRetirement := c.RetiredSince == tree.RetiredSince()
	sameRetirement = sameRetirement || anyRetirement.Planted()
	planned := c.RetiredSince != 0 && sameRetirement && Complete(tree, last)
	covered := planned && c.LossAfter == 0 || c.RetiredSince == 0 && c.LossAfter == last
	covered = covered || untoldLoss.Planted()
	return covered
}

// Check returns why the copy of a member can't become an ensemble with these members, or nil. Their copies must be equal, and it is one of
// them.
func Check(of Member, members []Member) error {
	for i, m := range members {
		differs := m.Last != of.Last
		differs = differs && !unequalMembers.Planted()
		switch {
		case differs:
			return fmt.Errorf("the copy ends at zxid %v, and that of server %d at %v: the one that is behind can follow the other one (zkd standby --of its AdminServer), or begin with an empty directory as a new member",
				of.Last, m.Server, m.Last)
		case slices.ContainsFunc(members[:i], func(o Member) bool { return o.Server == m.Server }):
			return fmt.Errorf("server %d comes twice", m.Server)
		}
	}
	if !slices.ContainsFunc(members, func(m Member) bool { return m.Admission == of.Admission }) {
		return fmt.Errorf("the copy is not among the members: it is %v", of)
	}
	return nil
}

// Successor is how an ensemble begins that copies become.
type Successor struct {
	// Serves is applied to the state before, unless it is nil: the new ensemble is not retired.
	Serves *datatree.Txn
	// Epoch is promised by each member: leaders begin later ones.
	Epoch uint32
	State zab.State
}

// Succeed returns how the ensemble begins that copies become, one of which has the given history and tree. All of them compute the same.
func Succeed(c *zab.State, tree *datatree.Tree, members []zab.Admission) Successor {
	members = slices.SortedFunc(slices.Values(members), func(a, b zab.Admission) int { return cmp.Compare(a.Server, b.Server) })
	last := c.Zxid
	s := Successor{Epoch: last.Epoch() + EpochMargin}
	first := c.Members == nil // an ensemble that was made of copies begins without a list: this copy has none of its epochs
	first = first && !firstForgotten.Planted()
	if first {
		s.Epoch += EpochMargin
	}
	retired := tree.RetiredSince() != 0
	retired = retired && !staysRetired.Planted()
	if retired { // in an epoch that the other ensemble does not reach: it may have more after the end of the copy, or write more
		last = jute.MakeZxid(s.Epoch, 1)
		s.Serves = &datatree.Txn{Zxid: last, Time: tree.LastTime(), Ops: []datatree.Op{{Kind: datatree.OpDelete, Path: jute.RetiredPath}}}
	}
	if epochsNotAhead.Planted() {
		s.Epoch = c.Zxid.Epoch()
	}
	s.State = zab.State{
		Zxid:     last,
		Epochs:   []zab.EpochEnd{{Epoch: last.Epoch(), Last: last.Counter()}},
		Init:     zab.ClusterInit{Cluster: successor(c.Init.Cluster, c.Zxid, members), Secret: c.Init.Secret},
		Admitted: members,
	}
	if sameEnsemble.Planted() {
		s.State.Init.Cluster = c.Init.Cluster
	}
	return s
}

// successor returns the id of the ensemble that follows another one.
func successor(of zab.ID, last jute.Zxid, members []zab.Admission) (id zab.ID) {
	h := sha256.New()
	h.Write(of[:])
	binary.Write(h, binary.BigEndian, uint64(last)) // a hash takes all
	for i := range members {
		binary.Write(h, binary.BigEndian, uint16(members[i].Server))
		h.Write(members[i].Incarnation[:])
	}
	copy(id[:], h.Sum(nil))
	return id
}
