package apachefiles

import (
	"bytes"
	"fmt"
	"io"

	"github.com/zkd-project/zkd/jute"
)

// Fuzzy is a state that a leader has sent to a learner while it applied transactions: each znode
// is as it was at some time. The transactions that the leader sends after it make it exact.
type Fuzzy struct{ snap *snapshot }

const stateEnd = "BenWasHere"

// ReadFuzzy reads the state with the zxid label from a link: the body of a snapshot, and an end
// mark. rest reads what follows it.
func ReadFuzzy(r io.Reader, label jute.Zxid) (f *Fuzzy, rest io.Reader, err error) {
	in := newStream(r)
	s := &snapshot{tree: newTree()}
	s.tree.Last = label
	s.saw(label)
	s.readBody(in)
	if mark := in.bytes(); in.err == nil && string(mark) != stateEnd {
		in.fail("its end mark is %.20q", mark)
	}
	if in.err != nil {
		return nil, nil, fmt.Errorf("the leader's state: at byte %d: %w", in.offset+int64(in.at), in.err)
	}
	return &Fuzzy{s}, io.MultiReader(bytes.NewReader(in.buf[in.at:]), r), nil
}

// Apply makes a transaction so, whatever the state has: it may be one that the state has already.
func (f *Fuzzy) Apply(x *Txn) { f.snap.tree.apply(x) }

// Finish returns the exact state after the last transaction, and what was found in it. The
// leader has sent all transactions that can have been applied while it wrote.
func (f *Fuzzy) Finish() (*Tree, *Summary, error) {
	t, sum := f.snap.tree, &Summary{Zxid: f.snap.tree.Last}
	if t.Last < f.snap.newest {
		return nil, sum, fmt.Errorf("the leader's state has changes up to %v, and its transactions end at %v", f.snap.newest, t.Last)
	}
	if err := t.finish(sum); err != nil {
		return nil, sum, err
	}
	return t, sum, nil
}
