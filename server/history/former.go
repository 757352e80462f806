package history

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/zab"
)

// Former is a former state of one subtree, in a tree that has nothing but this, and what is above it. So a server that
// works can look at its past without the memory for a second tree.
type Former struct {
	Part
	Tree *datatree.Tree
	At   jute.Zxid // of the last entry that counts
	Last time.Time // of the last transaction that counts, by the clock of its leader; zero for none
	// Changed, unless it is nil, is called for each change of a node of the subtree, after it.
	Changed func(*Step)

	txn datatree.Txn
	one datatree.Txn // with one operation of txn
	out datatree.Applied
}

// Step is what a transaction did to a node.
type Step struct {
	Change
	Before, After []byte // the data
	Existed       bool   // so Before counts
	Stat          jute.Stat
	ACL           []jute.ACL // the list of the node then; of a node that is deleted, the last one
	Was           []jute.ACL // the list before, after a setACL
}

// TooLargeError means that a former state takes more memory than it may.
type TooLargeError struct{ Most int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("what there was takes more than the %d MiB of memory that it may take here", e.Most>>20)
}

// Part is what a Former has.
type Part struct {
	Root   string // of the subtree
	Levels int    // how many there are below the root, 0 for all; of the last one's nodes the children don't count
	Most   int64  // how many bytes of memory it may take, about
}

// nodeCost is about what a node takes besides its path and data.
const nodeCost = 256

// NewFormer returns the part before the first transaction.
func NewFormer(of Part) *Former { return &Former{Part: of, Tree: datatree.New()} }

// LoadFormer reads a part from a snapshot, which it verifies.
func LoadFormer(ctx context.Context, store *snapshot.Store, name string, of Part) (*Former, snapshot.Ref, snapshot.Meta, error) {
	f := &Former{Part: of}
	loader := datatree.NewLoader()
	var size int64
	ref, meta, err := store.LoadFile(ctx, name, func(section string, key, value []byte) error {
		row := datatree.Row{Table: datatree.TableNodes, Key: key, Value: value}
		switch section {
		case SectionACLs:
			row.Table = datatree.TableACLs
		case SectionSessions:
			row.Table = datatree.TableSessions
		default:
			if !f.keeps(pathOf(key)) {
				return nil
			}
		}
		if size += nodeCost + int64(len(key)+len(value)); size > f.Most {
			return &TooLargeError{f.Most}
		}
		return loader.Add(row)
	})
	if err != nil {
		return nil, ref, meta, err
	}
	f.At, f.Last = meta.Zxid, time.UnixMilli(LastTimeOf(&meta))
	f.Tree, err = loader.FinishAt(meta.Zxid)
	return f, ref, meta, err
}

// pathOf returns the path of a node by its key.
func pathOf(key []byte) string { return string(bytes.ReplaceAll(key, []byte{0}, []byte{'/'})) }

// keeps reports whether a node is in the subtree, or above it.
func (f *Former) keeps(path string) bool {
	if f.Levels > 0 && treediff.Below(path, f.Root) {
		return strings.Count(strings.TrimPrefix(path, strings.TrimSuffix(f.Root, "/")), "/") <= f.Levels
	}
	return f.has(path) || treediff.Below(f.Root, path)
}

// has reports whether a node is in the subtree.
func (f *Former) has(path string) bool { return path == f.Root || treediff.Below(path, f.Root) }

// Apply adds the next entry of the history.
func (f *Former) Apply(e *zab.Entry) error {
	f.At = e.Zxid
	data := e.Txn()
	if data == nil {
		return nil
	}
	if err := decodeTxn(e, data, &f.txn); err != nil {
		return err
	}
	f.Last = time.UnixMilli(f.txn.Time)
	for i := range f.txn.Ops {
		switch o := &f.txn.Ops[i]; o.Kind {
		case datatree.OpCreate, datatree.OpDelete, datatree.OpSetData, datatree.OpSetACL:
			if f.keeps(nodePath(o.Path)) {
				f.step(o, wordOf[o.Kind])
			}
		case datatree.OpCreateSession, datatree.OpAdoptSession:
			f.apply(o)
		case datatree.OpCloseSession:
			for _, path := range slices.Sorted(f.Tree.Ephemerals(f.txn.Session, "")) {
				f.step(&datatree.Op{Kind: datatree.OpDelete, Path: path}, "expire")
			}
			f.apply(&datatree.Op{Kind: o.Kind})
		}
	}
	if n := f.Tree.Stats(); int64(n.Nodes)*nodeCost+n.DataSize > f.Most {
		return &TooLargeError{f.Most}
	}
	return nil
}

// wordOf are the words of Change.Op.
var wordOf = map[datatree.OpKind]string{datatree.OpCreate: "create", datatree.OpDelete: "delete", datatree.OpSetData: "set", datatree.OpSetACL: "setACL"}

// nodePath is the path that an operation has for a node: the root is "" there.
func nodePath(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

// apply applies one operation, and reports whether it could be.
func (f *Former) apply(o *datatree.Op) bool {
	f.one = datatree.Txn{Zxid: f.txn.Zxid, Time: f.txn.Time, Session: f.txn.Session, Ops: append(f.one.Ops[:0], *o)}
	f.Tree.Apply(&f.one, &f.out)
	return f.out.Results[0].Code == 0
}

// step applies an operation on a node, and tells it.
func (f *Former) step(o *datatree.Op, word string) {
	path := nodePath(o.Path)
	if f.Changed == nil || !f.has(path) {
		f.apply(o)
		return
	}
	s := Step{Change: Change{f.txn.Zxid, f.Last, f.txn.Session, word, path, len(o.Data), o.Version, f.txn.Cxid, len(f.txn.Ops)}}
	var node datatree.Node
	if s.Before, node, s.Existed = f.Tree.GetData(path); s.Existed {
		s.Was, s.ACL = node.ACL, node.ACL
	}
	if !f.apply(o) {
		return
	}
	if after, node, ok := f.Tree.GetData(path); ok {
		s.After, s.Stat, s.ACL = after, node.Stat(), node.ACL
	}
	f.Changed(&s)
}

// Nodes returns the nodes of the subtree.
func (f *Former) Nodes() iter.Seq2[treediff.Node, error] { return Nodes(f.Tree, f.Root) }
