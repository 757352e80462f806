package data

import (
	"context"
	"encoding/binary"
	"iter"
	"slices"
	"time"

	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/wal"
)

// walkBudget is roughly the number of bytes of a view collected under one hold of the
// read lock.
const walkBudget = 64 << 10

// WriteSnapshot writes a view of the tree in st, with the ensemble's state at its zxid, into a
// snapshot by the server id; write is a method of the store. It takes the read lock of st again and again.
func WriteSnapshot(ctx context.Context, write func(context.Context, snapshot.Meta, ...snapshot.Section) (snapshot.Ref, error), st *state.State, view *datatree.View, ensemble []byte, id *datadirs.Identity) (wal.SnapRef, error) {
	tree := view.Meta()
	meta := snapshot.Meta{
		Zxid:   tree.Zxid,
		Epoch:  tree.Zxid.Epoch(),
		Time:   time.Now().UnixMilli(),
		Digest: history.AppendDigest(nil, tree.Digest),
		Server: uint8(id.Server), Incarnation: id.Incarnation[:],
		Extra: map[string][]byte{history.ExtraTree: datatree.AppendMeta(nil, &tree), history.ExtraEnsemble: ensemble},
	}
	if tree.LastTime > 0 {
		meta.Extra[history.ExtraTime] = binary.BigEndian.AppendUint64(nil, uint64(tree.LastTime))
	}
	if id.Server == 0 { // the ensemble's state has the secret of a member's sessions
		meta.Extra[history.ExtraSecret] = id.Secret[:]
	}
	rows := &rowWalk{state: st, view: view}
	ref, err := write(ctx, meta,
		snapshot.Section{Name: history.SectionSessions, Items: rows.rowsOf(datatree.TableSessions)},
		snapshot.Section{Name: history.SectionNodes, Items: rows.rowsOf(datatree.TableNodes)},
		snapshot.Section{Name: history.SectionACLs, Items: rows.lists(), Early: true},
	)
	return wal.SnapRef{Zxid: ref.Zxid, Name: ref.Name, Size: ref.Size, CRC: ref.CRC, Digest: ref.Digest}, err
}

// rowWalk reads a view's rows, table by table, a batch under each hold of the tree's read
// lock. ACL lists occur between the nodes and are few, so they are set aside until all
// nodes are read.
type rowWalk struct {
	state *state.State
	view  *datatree.View
	batch datatree.Batch
	all   []datatree.Row // of batch
	rows  []datatree.Row // the part of all that is not read yet
	more  bool
	begun bool
	acls  []datatree.Row
}

// peek returns the next row without taking it, or false at the end. The row stays valid
// until the batch is used up.
func (w *rowWalk) peek() (datatree.Row, bool) {
	for len(w.rows) == 0 {
		if w.begun && !w.more {
			return datatree.Row{}, false
		}
		w.begun = true
		w.batch.Reset()
		w.state.RLock()
		w.more = w.view.Step(&w.batch, walkBudget)
		w.state.RUnlock()
		w.all = slices.AppendSeq(w.all[:0], w.batch.All())
		w.rows = w.all
	}
	return w.rows[0], true
}

// rowsOf yields the rows of one table up to the first row of another.
func (w *rowWalk) rowsOf(table datatree.Table) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for {
			row, ok := w.peek()
			switch {
			case !ok:
				return
			case row.Table == datatree.TableACLs:
				w.acls = append(w.acls, datatree.Row{Key: append([]byte(nil), row.Key...), Value: append([]byte(nil), row.Value...)})
			case row.Table != table:
				return
			case !yield(row.Key, row.Value):
				return
			}
			w.rows = w.rows[1:]
		}
	}
}

// lists yields the ACL lists.
func (w *rowWalk) lists() iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for _, row := range w.acls {
			if !yield(row.Key, row.Value) {
				return
			}
		}
	}
}
