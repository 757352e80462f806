package apachefiles

import (
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"io"
	"os"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

const (
	snapshotMagic = 0x5A4B534E // ZKSN
	logMagic      = 0x5A4B4C47 // ZKLG
	fileVersion   = 2
	sealSize      = 8 + 4 + 1
)

// snapshot is the content of a snapshot file.
type snapshot struct {
	tree *Tree
	// newest is the highest zxid that the file mentions. The log must reach it.
	newest jute.Zxid
	// exact is the zxid from which on the tree is exact, if the log goes so far. The
	// transaction after the one that the server has named as its last may be there in part.
	exact jute.Zxid
	// The digest belongs to the state at digestZxid; 0 means that there is none.
	digest     uint64
	digestZxid jute.Zxid
	version    string // the releases that write such a file
}

// readSnapshot reads the snapshot with this name; its name has its zxid and its compression.
func readSnapshot(r io.Reader, name string, zxid jute.Zxid) (*snapshot, error) {
	switch {
	case strings.HasSuffix(strings.ToLower(name), gzSuffix):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r = z
	case strings.HasSuffix(strings.ToLower(name), snappySuffix):
		r = &snappyReader{r: r}
	}
	in := newStream(r)
	in.sum = adler32.New()
	s := &snapshot{tree: newTree(), version: "3.5 or earlier"}
	s.tree.Last = zxid
	s.saw(zxid)
	s.read(in)
	if in.err != nil {
		return nil, fmt.Errorf("%s: at byte %d: %w", name, in.offset+int64(in.at), in.err)
	}
	return s, nil
}

// endMark ends each snapshot.
const endMark = "\x00\x00\x00\x01/"

// finished reports whether a server has written the snapshot to its end, as Apache's server does: by its last
// bytes, which a compressed one does not show. One that the server was interrupted in has confirmed nothing.
func (f *file) finished() (bool, error) {
	if f.size < int64(len(endMark)) {
		return false, nil
	}
	if f.compressed() {
		return true, nil
	}
	in, err := os.Open(f.path)
	if err != nil {
		return false, err
	}
	defer in.Close()
	b := make([]byte, len(endMark))
	_, err = in.ReadAt(b, f.size-int64(len(b)))
	return string(b) == endMark, err
}

func (f *file) compressed() bool {
	name := strings.ToLower(f.path)
	return strings.HasSuffix(name, gzSuffix) || strings.HasSuffix(name, snappySuffix)
}

const gzSuffix, snappySuffix = ".gz", ".snappy"

func (s *snapshot) read(in *stream) {
	if magic, version := in.int32(), in.int32(); in.err == nil && (magic != snapshotMagic || version != fileVersion) {
		in.fail("it is no snapshot of version %d", fileVersion)
	}
	in.int64() // dbid
	s.readBody(in)
	in.seal()
	// What follows depends on the version and the settings of the server.
	if in.err == nil {
		s.readTrailers(in)
	}
}

// readTrailers reads the digest and the last zxid. A file may have both, one or none of them:
// its length tells which.
func (s *snapshot) readTrailers(in *stream) {
	const digest, last = 8 + 4 + 8 + sealSize, 8 + sealSize
	left := len(in.rest(digest + last))
	switch left {
	case 0, last, digest, digest + last:
	default:
		in.fail("%d bytes after its end", left)
	}
	if left >= digest {
		s.version = "3.6 or later"
		zxid, version, value := jute.Zxid(in.int64()), in.int32(), in.int64()
		if version == 2 && zxid != 0 {
			s.digestZxid, s.digest = zxid, uint64(value)
			s.saw(zxid)
			s.exact = max(s.exact, zxid+1)
		}
		in.seal()
		left -= digest
	}
	if left == last {
		s.version = "3.9 or later"
		zxid := jute.Zxid(in.int64())
		s.saw(zxid)
		s.exact = max(s.exact, zxid+1)
		in.seal()
	}
}

// saw notes a zxid that the file mentions.
func (s *snapshot) saw(z jute.Zxid) {
	s.newest = max(s.newest, z)
	s.exact = max(s.exact, z)
}

// seal reads a seal and checks its sum.
func (s *stream) seal() {
	want := int64(s.checksum())
	if got := s.int64(); s.err == nil && got != want {
		s.fail("its checksum is %x, not %x", want, got)
	}
	if mark := s.bytes(); s.err == nil && string(mark) != "/" {
		s.fail("its end mark is %q", mark)
	}
}

// readBody reads the tables of a snapshot:
//
//	sessions   number (4); id (8), timeout in ms (4)
//	ACL lists  number (4); number of the list (8), vector of ACLs
//	znodes     path, data, number of the ACL list (8; -1: open to all), stat (60),
//	           pzxid (8); the path "/" ends them, and the root's is empty
func (s *snapshot) readBody(in *stream) {
	t := s.tree
	for n := in.count(); n > 0 && in.err == nil; n-- {
		id := jute.SessionID(in.int64())
		t.Sessions[id] = in.int32()
	}
	lists := map[int64][]jute.ACL{-1: t.intern(openACL)}
	for n := in.count(); n > 0 && in.err == nil; n-- {
		number := in.int64()
		lists[number] = t.intern(in.acls())
	}
	var dir string // of the last node
	var parent *Node
	for in.err == nil {
		b := in.bytes()
		if string(b) == "/" || in.err != nil {
			break
		}
		path := string(b)
		n := &Node{}
		if b := in.bytes(); b != nil {
			n.Data = append([]byte{}, b...)
		}
		n.ACL = lists[in.int64()] // nil if the list is newer than the table
		n.readStat(in)
		s.saw(max(n.Czxid, n.Mzxid, n.Pzxid))
		above, name := split(path)
		if parent == nil || above != dir {
			dir, parent = above, t.find(above)
		}
		switch {
		case in.err != nil:
		case path == "" && t.root == nil:
			t.attach(nil, "", "", n)
		case path == "" || path[0] != '/' || name == "" || parent == nil:
			in.fail("node %.100q has no parent", path)
		case parent.children[name] != nil:
			in.fail("node %.100q comes twice", path)
		default:
			t.attach(parent, path, name, n)
		}
	}
	if t.root == nil {
		in.fail("there is no root")
	}
}

func (n *Node) readStat(in *stream) {
	b := in.next(statSize)
	if b == nil {
		return
	}
	word := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	half := func(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
	n.Stat = Stat{
		Czxid: jute.Zxid(word(0)), Mzxid: jute.Zxid(word(8)), Ctime: int64(word(16)), Mtime: int64(word(24)),
		Version: half(32), Cversion: half(36), Aversion: half(40), Owner: jute.Owner(word(44)), Pzxid: jute.Zxid(word(52)),
	}
}

const statSize = 4*8 + 3*4 + 2*8

// acls reads a list of ACLs.
func (s *stream) acls() []jute.ACL {
	var list []jute.ACL
	for n := s.count(); n > 0 && s.err == nil; n-- {
		list = append(list, jute.ACL{Perms: jute.Perms(s.int32()), ID: jute.ID{Scheme: string(s.bytes()), ID: string(s.bytes())}})
	}
	return list
}
