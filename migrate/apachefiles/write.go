package apachefiles

import (
	"bufio"
	"encoding/binary"
	"hash/adler32"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// State is an exact state to be written.
type State struct {
	Zxid     jute.Zxid
	Sessions map[jute.SessionID]int32 // their timeouts in ms
	// Nodes yields the znodes, parents first; the path of the root is empty. It is called twice.
	Nodes iter.Seq2[string, *Node]
}

// WriteSnapshot writes s in the form of version 3.6, which all versions read: those before it
// stop at the first seal. The file has to be named snapshot.<zxid>, in hex.
func WriteSnapshot(to io.Writer, s *State) error {
	sum := adler32.New()
	buffered := bufio.NewWriterSize(to, 1<<20)
	w := io.MultiWriter(buffered, sum)
	var b []byte
	flush := func() error {
		_, err := w.Write(b)
		b = b[:0]
		return err
	}
	b = jute.AppendInt64(jute.AppendInt32(jute.AppendInt32(b, int32(snapshotMagic)), int32(fileVersion)), int64(-1))
	b = jute.AppendInt32(b, int32(len(s.Sessions)))
	for _, id := range slices.Sorted(maps.Keys(s.Sessions)) {
		b = jute.AppendInt32(jute.AppendInt64(b, id), s.Sessions[id])
	}
	lists := newACLNumbers(s.Nodes)
	b = append(b, lists.table()...)
	digest := uint64(0)
	for path, n := range s.Nodes {
		digest += NodeHash(path, n.Data, &n.Stat)
		b = appendNode(b, path, n, lists.number(n.ACL))
		if err := flush(); err != nil {
			return err
		}
	}
	b = jute.AppendString(b, "/")
	if err := flush(); err != nil {
		return err
	}
	b = appendSeal(b, sum.Sum32())
	b = jute.AppendInt32(jute.AppendInt64(b, s.Zxid), int32(2))
	b = binary.BigEndian.AppendUint64(b, digest)
	if err := flush(); err != nil {
		return err
	}
	b = appendSeal(b, sum.Sum32())
	if err := flush(); err != nil {
		return err
	}
	return buffered.Flush()
}

func appendSeal(b []byte, sum uint32) []byte {
	return jute.AppendString(jute.AppendInt64(b, int64(sum)), "/")
}

func appendNode(b []byte, path string, n *Node, list int64) []byte {
	b = jute.AppendInt64(jute.AppendBuffer(jute.AppendString(b, path), n.Data), list)
	b = jute.AppendInt64(jute.AppendInt64(jute.AppendInt64(jute.AppendInt64(b, n.Czxid), n.Mzxid), n.Ctime), n.Mtime)
	b = jute.AppendInt32(jute.AppendInt32(jute.AppendInt32(b, n.Version), n.Cversion), n.Aversion)
	return jute.AppendInt64(jute.AppendInt64(b, n.Owner), n.Pzxid)
}

// aclNumbers numbers the lists of ACLs, from 1 in the order of their first use.
type aclNumbers struct {
	numbers map[string]int64 // by encoding
	keys    []string
	scratch []byte
}

func newACLNumbers(nodes iter.Seq2[string, *Node]) *aclNumbers {
	l := &aclNumbers{numbers: make(map[string]int64)}
	for _, n := range nodes {
		l.number(n.ACL)
	}
	return l
}

// number returns the number of a list; -1 means that it is open to all.
func (l *aclNumbers) number(list []jute.ACL) int64 {
	if slices.Equal(list, openACL) {
		return -1
	}
	l.scratch = jute.AppendACLs(l.scratch[:0], list)
	n, ok := l.numbers[string(l.scratch)]
	if !ok {
		key := string(l.scratch)
		n = int64(len(l.keys) + 1)
		l.numbers[key] = n
		l.keys = append(l.keys, key)
	}
	return n
}

// table returns the table of the lists.
func (l *aclNumbers) table() []byte {
	b := jute.AppendInt32(nil, int32(len(l.keys)))
	for i, key := range l.keys {
		b = append(jute.AppendInt64(b, int64(i+1)), key...)
	}
	return b
}
