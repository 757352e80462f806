package history

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/zab"
)

// The sections of a snapshot, and the names of what snapshot.Meta has in Extra: the tree's meta
// row, the state of the ensemble, the secret of the session passwords of a server without one, and
// the tree's LastTime in 8 bytes.
const (
	SectionACLs     = "acls"
	SectionSessions = "sessions"
	SectionNodes    = "nodes"
	ExtraTree       = "tree"
	ExtraEnsemble   = "ensemble"
	ExtraSecret     = "secret"
	ExtraTime       = "time"
)

// State is what a history comes to: the znodes, and what it says of the ensemble.
type State struct {
	Tree     *datatree.Tree
	Ensemble zab.State
	// Applied, unless it is nil, is called with what each entry did to the znodes, or a part of an entry: the
	// tree's zxid is then that of the entry before.
	Applied func(*datatree.Txn, *datatree.Applied)

	txn datatree.Txn
	out datatree.Applied
}

// Apply adds the next entry of the history.
func (s *State) Apply(e *zab.Entry) error {
	if err := TransactionOf(e, s.Tree, &s.txn); err != nil {
		return err
	}
	return s.apply(e, &s.txn)
}

func (s *State) apply(e *zab.Entry, txn *datatree.Txn) error {
	if err := s.Ensemble.Apply(e); err != nil {
		return err
	}
	s.Tree.List(txn)
	for s.Tree.ApplyPart(txn, &s.out, atOnce) {
		s.applied(txn)
	}
	s.Tree.Apply(txn, &s.out)
	s.applied(txn)
	return nil
}

// atOnce bounds the changes whose events are in memory at a time. A session can have a million ephemerals,
// whose paths are long.
const atOnce = 1024

func (s *State) applied(txn *datatree.Txn) {
	if s.Applied != nil {
		s.Applied(txn, &s.out)
	}
}

// Digest encodes the digest of a tree, as snapshots have it.
func Digest(tree *datatree.Tree) []byte { return AppendDigest(nil, tree.Digest()) }

// AppendDigest appends the encoding of a digest.
func AppendDigest(b []byte, d datatree.Digest) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, d.Hi), d.Lo)
}

// ID names a history: all servers of an ensemble have the same, and what is restored from a
// backup has another one.
type ID [16]byte

// String returns the beginning of the name.
func (id ID) String() string { return fmt.Sprintf("%x", id[:4]) }

// IDOf returns the name of the history that a snapshot is from: that of the ensemble, or that of
// the log of a server that has always been alone.
func IDOf(meta *snapshot.Meta) (id ID, err error) {
	var ensemble zab.State
	if err := ensemble.Decode(meta.Extra[ExtraEnsemble]); err != nil {
		return id, err
	}
	if ensemble.Seeded() {
		return ID(ensemble.Init.Cluster), nil
	}
	if len(meta.Incarnation) != len(id) {
		return id, errors.New("the snapshot does not say which history it is from: it was taken by an early version of zkd")
	}
	return ID(meta.Incarnation), nil
}

// SecretOf returns the secret of the passwords of the sessions that a snapshot has. It is zero if an
// early version of zkd took the snapshot, on a server without an ensemble.
func SecretOf(meta *snapshot.Meta) (key secret.Key, err error) {
	var ensemble zab.State
	if err := ensemble.Decode(meta.Extra[ExtraEnsemble]); err != nil {
		return key, err
	}
	if ensemble.Seeded() {
		return ensemble.Init.Secret, nil
	}
	copy(key[:], meta.Extra[ExtraSecret])
	return key, nil
}

// LastTimeOf returns the latest time of a transaction in a snapshot, by the clocks of the leaders, in ms
// since the Unix epoch. Of an early version of zkd it is the time when the snapshot was taken, by the
// clock of its server.
func LastTimeOf(meta *snapshot.Meta) int64 {
	if b := meta.Extra[ExtraTime]; len(b) == 8 {
		return int64(binary.BigEndian.Uint64(b))
	}
	return meta.Time
}

// Load builds a tree and the ensemble's state from a snapshot. The tree checks its counts and
// its digest; a second goroutine, which ends before Load returns, computes the hashes. The
// error is a *fault.Error, or the end of ctx.
func Load(ctx context.Context, store *snapshot.Store, ref snapshot.Ref) (*datatree.Tree, zab.State, error) {
	return load(store.Path(ref.Name), func(visit snapshot.Visitor) (snapshot.Meta, error) { return store.Load(ctx, ref, visit) })
}

// StateOf returns the ensemble's state from a snapshot of which all but the digest and the counts of the tree is
// verified. It needs little memory.
func StateOf(ctx context.Context, store *snapshot.Store, ref snapshot.Ref) (state zab.State, err error) {
	meta, err := store.Verify(ctx, ref)
	if err == nil {
		if err = state.Decode(meta.Extra[ExtraEnsemble]); err != nil {
			err = fault.New(fault.Inconsistent, store.Path(ref.Name), err)
		}
	}
	return state, err
}

// LoadFile is like Load for a file about which nothing is known yet. What it returns counts only if
// the log refers to a snapshot by the Ref that it returns.
func LoadFile(ctx context.Context, store *snapshot.Store, name string) (ref snapshot.Ref, tree *datatree.Tree, state zab.State, err error) {
	tree, state, err = load(store.Path(name), func(visit snapshot.Visitor) (meta snapshot.Meta, err error) {
		ref, meta, err = store.LoadFile(ctx, name, visit)
		return meta, err
	})
	return ref, tree, state, err
}

// load builds a tree and the ensemble's state from the items that read delivers of the file at path.
func load(path string, read func(snapshot.Visitor) (snapshot.Meta, error)) (tree *datatree.Tree, state zab.State, err error) {
	tables := map[string]datatree.Table{
		SectionACLs:     datatree.TableACLs,
		SectionSessions: datatree.TableSessions,
		SectionNodes:    datatree.TableNodes,
	}
	loader := datatree.NewLoader()
	parts := make(chan datatree.Part, 16) // so that neither goroutine waits for the other one often
	var hashing sync.WaitGroup
	hashing.Go(func() {
		for part := range parts {
			part.Hash()
		}
	})
	loader.Offload(func(p datatree.Part) { parts <- p })
	meta, err := read(func(section string, key, value []byte) error {
		table, ok := tables[section]
		if !ok {
			return fmt.Errorf("unknown section %q", section)
		}
		return loader.Add(datatree.Row{Table: table, Key: key, Value: value})
	})
	close(parts)
	hashing.Wait()
	if err != nil {
		return nil, state, err
	}
	// The file is as it was written: an error from here on does not mean damage.
	err = loader.Add(datatree.Row{Table: datatree.TableMeta, Key: []byte(datatree.MetaKey), Value: meta.Extra[ExtraTree]})
	if err == nil {
		tree, err = loader.Finish()
	}
	if err == nil {
		if len(meta.Extra[ExtraTime]) == 8 {
			tree.SetLastTime(LastTimeOf(&meta))
		}
		err = state.Decode(meta.Extra[ExtraEnsemble])
	}
	if err != nil {
		return nil, state, fault.New(fault.Inconsistent, path, err)
	}
	return tree, state, nil
}
