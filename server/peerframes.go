package server

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/transport"
)

// The frames that servers exchange beside the messages of their cores. Numbers
// are little-endian or varints. Each begins with the epoch that the sender
// follows or leads, in 4 bytes.
const (
	// frameSubmissions, to the leader: requests that it is to order.
	frameSubmissions = 1
	// frameBarriers, from the leader: outcomes without a transaction. They are sent
	// before any entry that is ordered behind them.
	frameBarriers = 2
	// frameTouches, to the leader: the newest heartbeat heard, in 8 bytes, and
	// sessions whose clients were heard of.
	frameTouches = 3
	// frameDigest, to the leader: the digest of the tree at a zxid.
	frameDigest = 4
	// frameConfirmed, from the leader: the outcome of reads that barriers wait for.
	frameConfirmed = 5
	// frameDiverged, from the leader: the digest at a zxid of the majority, which
	// the receiver's is not.
	frameDiverged = 6
)

// laneOf returns the lane of a kind of frames. What has a place among entries, or
// among frames that have, is in the bulk lane: barriers stand before the entries
// behind them; a confirmation is of a barrier that was announced; submissions are in
// the order in which clients sent them. Reports of touches say all that they mean, and
// keep sessions alive: they don't wait.
func laneOf(kind uint8) transport.Lane {
	if kind == frameTouches {
		return transport.Control
	}
	return transport.Bulk
}

var errPeerFrame = errors.New("malformed frame")

// barrier is an outcome that has no transaction: the leader tells it to the
// server that asked, which lets it take effect when it has applied all that came
// before.
type barrier struct {
	after   jute.Zxid // the last transaction ordered before it
	origin  uint64
	code    jute.Code
	session jute.SessionID
	read    uint64 // takes effect when this read of the leader's core is confirmed; 0 for at once
}

// touch is a sign of life of a session, ageMs ago.
type touch struct {
	session   jute.SessionID
	timeoutMs int32
	ageMs     int64
}

// fields takes a frame apart. After an error everything is zero.
type fields struct {
	b      []byte
	failed bool
}

func (f *fields) fail() {
	f.b, f.failed = nil, true
}

func (f *fields) byte() byte {
	if len(f.b) == 0 {
		f.fail()
		return 0
	}
	v := f.b[0]
	f.b = f.b[1:]
	return v
}

func (f *fields) uint32() uint32 {
	if len(f.b) < 4 {
		f.fail()
		return 0
	}
	v := binary.LittleEndian.Uint32(f.b)
	f.b = f.b[4:]
	return v
}

func (f *fields) uint64() uint64 {
	if len(f.b) < 8 {
		f.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(f.b)
	f.b = f.b[8:]
	return v
}

func (f *fields) varint() int64 {
	v, n := binary.Varint(f.b)
	if n <= 0 {
		f.fail()
		return 0
	}
	f.b = f.b[n:]
	return v
}

// bytes shares the frame's memory.
func (f *fields) bytes() []byte {
	n, used := binary.Uvarint(f.b)
	if used <= 0 || n > uint64(len(f.b)-used) {
		f.fail()
		return nil
	}
	f.b = f.b[used:]
	v := f.b[:n:n]
	f.b = f.b[n:]
	return v
}

func (f *fields) string() string { return string(f.bytes()) }

func (f *fields) more() bool { return len(f.b) > 0 }

func (f *fields) err() error {
	if f.failed {
		return errPeerFrame
	}
	return nil
}

func appendBytes[T string | []byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

func beginPeerFrame(b []byte, epoch uint32) []byte {
	return binary.LittleEndian.AppendUint32(b, epoch)
}

// Flags of a submission in a frame.
const (
	submissionSameAuth = 1 << iota // as the one before
	submissionRefused              // Refused follows
	submissionLocal
)

// appendSubmission appends one submission; before is the one before it in the
// frame, or nil. A learner submits what its clients ask for: what a leader asks of
// itself (removals) never travels.
func appendSubmission(b []byte, sub, before *submission) []byte {
	req := &sub.req
	flags := byte(0)
	if before != nil && sameAuth(req.Auth, before.req.Auth) {
		flags |= submissionSameAuth
	}
	if req.Refused != 0 {
		flags |= submissionRefused
	}
	if req.Local {
		flags |= submissionLocal
	}
	b = append(b, byte(sub.kind), flags)
	b = binary.AppendVarint(b, int64(req.Op))
	b = binary.LittleEndian.AppendUint64(b, uint64(req.Session))
	b = binary.AppendVarint(b, int64(req.Cxid))
	b = binary.LittleEndian.AppendUint64(b, req.Origin)
	b = binary.AppendVarint(b, int64(req.TimeoutMs))
	if flags&submissionRefused != 0 {
		b = binary.AppendVarint(b, int64(req.Refused))
	}
	if flags&submissionSameAuth == 0 {
		b = binary.AppendUvarint(b, uint64(len(req.Auth)))
		for i := range req.Auth {
			b = appendBytes(b, req.Auth[i].Scheme)
			b = appendBytes(b, req.Auth[i].ID)
		}
	}
	return appendBytes(b, req.Body)
}

// sameAuth reports whether two requests have one list of credentials.
func sameAuth(a, b []jute.ID) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// decodeSubmissions appends the submissions of a frame, behind the epoch, to dst.
// Their bodies share the frame's memory.
func decodeSubmissions(dst []submission, b []byte, received time.Duration) ([]submission, error) {
	f := fields{b: b}
	var auth []jute.ID
	for f.more() {
		kind, flags := submissionKind(f.byte()), f.byte()
		req := evaluate.Request{
			Op:        jute.OpCode(f.varint()),
			Session:   jute.SessionID(f.uint64()),
			Cxid:      int32(f.varint()),
			Origin:    f.uint64(),
			TimeoutMs: int32(f.varint()),
			Local:     flags&submissionLocal != 0,
		}
		if flags&submissionRefused != 0 {
			req.Refused = jute.Code(f.varint())
		}
		if flags&submissionSameAuth == 0 {
			auth = decodeAuth(&f)
		}
		req.Auth = auth
		req.Body = f.bytes()
		if f.failed || kind > submitResume {
			return dst, errPeerFrame
		}
		dst = append(dst, submission{kind: kind, received: received, req: req})
	}
	return dst, f.err()
}

func decodeAuth(f *fields) []jute.ID {
	n, used := binary.Uvarint(f.b)
	if used <= 0 || n > uint64(len(f.b)-used)/2 { // each takes two bytes at least
		f.fail()
		return nil
	}
	f.b = f.b[used:]
	auth := make([]jute.ID, n)
	for i := range auth {
		auth[i] = jute.ID{Scheme: f.string(), ID: f.string()}
	}
	return auth
}

func appendBarrier(b []byte, x *barrier) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(x.after))
	b = binary.LittleEndian.AppendUint64(b, x.origin)
	b = binary.LittleEndian.AppendUint64(b, uint64(x.session))
	b = binary.AppendVarint(b, int64(x.code))
	return binary.LittleEndian.AppendUint64(b, x.read)
}

func decodeBarriers(dst []barrier, b []byte) ([]barrier, error) {
	f := fields{b: b}
	for f.more() {
		dst = append(dst, barrier{
			after:   jute.Zxid(f.uint64()),
			origin:  f.uint64(),
			session: jute.SessionID(f.uint64()),
			code:    jute.Code(f.varint()),
			read:    f.uint64(),
		})
	}
	return dst, f.err()
}

func appendConfirmed(b []byte, read zab.ReadResult) []byte {
	b = binary.LittleEndian.AppendUint64(b, read.ID)
	if read.OK {
		return append(b, 1)
	}
	return append(b, 0)
}

func decodeConfirmed(dst []zab.ReadResult, b []byte) ([]zab.ReadResult, error) {
	f := fields{b: b}
	for f.more() {
		dst = append(dst, zab.ReadResult{ID: f.uint64(), OK: f.byte() == 1})
	}
	return dst, f.err()
}

func appendTouch(b []byte, t touch) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(t.session))
	b = binary.AppendVarint(b, int64(t.timeoutMs))
	return binary.AppendVarint(b, t.ageMs)
}

func beginReport(b []byte, beat uint64) []byte { return binary.LittleEndian.AppendUint64(b, beat) }

func decodeReport(dst []touch, b []byte) (beat uint64, touches []touch, err error) {
	f := fields{b: b}
	beat = f.uint64()
	for f.more() {
		dst = append(dst, touch{session: jute.SessionID(f.uint64()), timeoutMs: int32(f.varint()), ageMs: f.varint()})
	}
	return beat, dst, f.err()
}

// errOtherFormula is returned for a digest that was made by another formula than
// this server's: the two can't be compared.
var errOtherFormula = errors.New("digest of another formula")

// appendDigest appends the formula's number in a byte (format.Digest), the zxid and
// the digest.
func appendDigest(b []byte, zxid jute.Zxid, d datatree.Digest) []byte {
	b = append(b, byte(format.Digest.Writes()))
	b = binary.LittleEndian.AppendUint64(b, uint64(zxid))
	b = binary.LittleEndian.AppendUint64(b, d.Hi)
	return binary.LittleEndian.AppendUint64(b, d.Lo)
}

func decodeDigest(b []byte) (jute.Zxid, datatree.Digest, error) {
	f := fields{b: b}
	formula := f.byte()
	zxid, d := jute.Zxid(f.uint64()), datatree.Digest{Hi: f.uint64(), Lo: f.uint64()}
	if f.more() {
		f.fail()
	}
	if err := f.err(); err != nil {
		return 0, datatree.Digest{}, err
	}
	if formula != byte(format.Digest.Writes()) {
		return 0, datatree.Digest{}, errOtherFormula
	}
	return zxid, d, nil
}
