package mirror

import (
	"cmp"
	"context"
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

// MemberText names a member to be, and the last zxid of its mirror: ID:INCARNATION:ZXID.
func MemberText(f Founder, last jute.Zxid) string {
	return fmt.Sprintf("%d:%x:%v", f.Server, f.Incarnation[:], last)
}

// ParseMember is the inverse of MemberText.
func ParseMember(text string) (f Founder, last jute.Zxid, err error) {
	parts := strings.Split(text, ":")
	if len(parts) == 3 {
		id, err1 := strconv.ParseUint(parts[0], 10, 8)
		incarnation, err2 := hex.DecodeString(parts[1])
		z, err3 := strconv.ParseInt(strings.TrimPrefix(parts[2], "0x"), 16, 64)
		if errors.Join(err1, err2, err3) == nil && id > 0 && len(incarnation) == len(f.Incarnation) {
			f.Server = zab.SIDOf(uint8(id))
			copy(f.Incarnation[:], incarnation)
			return f, jute.Zxid(z), nil
		}
	}
	return f, 0, fmt.Errorf("%q is no member: the status of a copy shows it as ID:INCARNATION:ZXID", text)
}

// Promoted reports whether Promote has begun to make the data that of a member.
func (m *Mirror) Promoted() bool { return slices.Contains(m.ensemble.Admitted, m.Founder()) }

// Promote makes the copy of an ensemble of zkd the data of a member of a new ensemble. members have
// equal copies, and are promoted with the same members; this one is among them. Sessions keep their passwords.
// Promote may be called again after a crash.
func (m *Mirror) Promote(ctx context.Context, members []Founder) error {
	if !m.Promoted() {
		members = slices.Clone(members)
		slices.SortFunc(members, func(a, b Founder) int { return cmp.Compare(a.Server, b.Server) })
		cluster := successor(m.ensemble.Init.Cluster, m.Last(), members)
		if m.Retired() {
			m.serveAgain()
		}
		last := m.Tree().LastZxid()
		ensemble := zab.State{
			Zxid:     last,
			Epochs:   []zab.EpochEnd{{Epoch: last.Epoch(), Last: last.Counter()}},
			Init:     zab.ClusterInit{Cluster: cluster, Secret: m.ensemble.Init.Secret},
			Admitted: members,
		}
		if err := m.Accept(last.Epoch() + epochMargin); err != nil {
			return err
		}
		if err := m.InstallState(ctx, m.Tree(), ensemble); err != nil {
			return err
		}
	}
	return m.endMirror()
}

// Retired reports whether the ensemble was retired for a successor: nothing was written after that, so the copy has everything.
func (m *Mirror) Retired() bool { return m.Tree().RetiredSince() != 0 }

// serveAgain removes the node that retires the ensemble from the state, by a transaction of the successor.
func (m *Mirror) serveAgain() {
	tree := m.Tree()
	txn := datatree.Txn{Zxid: m.Last() + 1, Time: tree.LastTime(), Ops: []datatree.Op{{Kind: datatree.OpDelete, Path: jute.RetiredPath}}}
	var applied datatree.Applied
	m.state.Lock()
	tree.Apply(&txn, &applied)
	m.state.Unlock()
}

// successor returns the id of the ensemble that follows another one. All of its members compute the same.
func successor(of zab.ID, last jute.Zxid, members []Founder) (id zab.ID) {
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
