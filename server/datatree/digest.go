package datatree

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/zkd-project/zkd/jute"
)

// Digest is a 128-bit hash of the state. Servers that applied the same transactions have
// the same digest; others have a different one with high probability. It detects
// mistakes, not malice.
type Digest struct{ Hi, Lo uint64 }

// String renders the digest as 32 hex digits.
func (d Digest) String() string { return fmt.Sprintf("%016x%016x", d.Hi, d.Lo) }

// The digest is a sum of parts, so a change costs only the parts that it touches: a znode
// has one for its data and one for its stat and ACL, and a session has one. Each part
// begins with its tag and its subject.
func (d *Digest) add(h hash) {
	var carry uint64
	d.Lo, carry = bits.Add64(d.Lo, h.b, 0)
	d.Hi, _ = bits.Add64(d.Hi, h.a, carry)
}

func (d *Digest) sub(h hash) {
	var borrow uint64
	d.Lo, borrow = bits.Sub64(d.Lo, h.b, 0)
	d.Hi, _ = bits.Sub64(d.Hi, h.a, borrow)
}

const (
	tagPath uint64 = iota + 1
	tagData
	tagNull
	tagStat
	tagSession
	tagACL
	tagOutcome
)

// hash is the state of a hash function of two 64-bit lanes. Each lane consumes 16 bytes
// with a multiplication to 128 bits whose halves are folded together, as in wyhash. Its
// formula has a version, format.Digest. It is part of snapshots too: a new formula also
// needs a new version of format.Tree.
type hash struct{ a, b uint64 }

// Odd constants with balanced bits.
const (
	mix0 = 0x9e3779b97f4a7c15
	mix1 = 0xd1b54a32d192ed03
	mix2 = 0x8cb92ba72f3d8dd7
	mix3 = 0xaef17502108ef2d9
)

func fold(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	return hi ^ lo
}

func newHash(tag uint64) hash { return hash{mix2 ^ tag, mix3 + tag} }

// words hashes two words.
func (h hash) words(x, y uint64) hash {
	return hash{fold(x^mix0, y^h.a), fold(y^mix1, x^h.b)}
}

// string hashes s and its length.
func (h hash) string(s string) hash {
	h = h.words(uint64(len(s)), mix2)
	for ; len(s) >= 16; s = s[16:] {
		h = h.words(le64(s), le64(s[8:]))
	}
	if len(s) > 0 {
		var tail [16]byte
		copy(tail[:], s)
		h = h.words(binary.LittleEndian.Uint64(tail[:]), binary.LittleEndian.Uint64(tail[8:]))
	}
	return h
}

// le64 reads the first 8 bytes of s.
func le64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// sum finishes a part: each lane then depends on both.
func (h hash) sum() hash {
	return hash{fold(h.a^mix2, h.b^mix3), fold(h.b^mix0, bits.RotateLeft64(h.a, 32)^mix1)}
}

// hashPath starts the parts of the znode at path.
func hashPath(path string) hash {
	if path == "" {
		path = "/"
	}
	return newHash(tagPath).string(path)
}

// dataPart is the part for data; path is the hash of the path.
func dataPart(path hash, data []byte) hash {
	if data == nil {
		return path.words(tagNull, 0).sum()
	}
	return path.words(tagData, 0).string(unsafe.String(unsafe.SliceData(data), len(data))).sum()
}

// statPart is the part for the rest of a znode, except values that follow from other
// znodes.
func statPart(path hash, at *attrs, acl hash) hash {
	return path.words(tagStat, uint64(at.owner)).
		words(uint64(at.czxid), uint64(at.mzxid)).
		words(uint64(at.pzxid), uint64(at.ctime)).
		words(uint64(at.mtime), uint64(uint32(at.version))<<32|uint64(uint32(at.cversion))).
		words(uint64(uint32(at.aversion)), acl.a).
		words(acl.b, 0).sum()
}

// sessionPart is the part for a session.
func sessionPart(s *session) hash {
	rest := uint64(uint32(s.timeoutMs))
	if s.apache {
		rest |= 1 << 32
	}
	if s.exact {
		rest |= 1 << 33
	}
	h := newHash(tagSession).words(uint64(s.id), rest)
	if s.owner != 0 {
		h = h.words(s.owner, 0)
	}
	return h.sum()
}

// outcomePart is the part for an outcome of a session.
func outcomePart(id jute.SessionID, o *Outcome) hash {
	return newHash(tagOutcome).
		words(uint64(id), uint64(o.Number)).
		words(uint64(o.Zxid), uint64(uint32(o.Code))).
		string(o.Body).sum()
}
