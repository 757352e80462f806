package replica

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/internal/wire"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/zab"
)

// The frames that servers exchange beside the messages of their cores. Numbers are
// little-endian or varints. Each frame begins with the epoch that the sender follows or
// leads, in 4 bytes.
const (
	// frameSubmissions, to the leader: requests to be ordered.
	frameSubmissions = 1
	// frameBarriers, from the leader: outcomes without a transaction. They are sent
	// before any entry that is ordered after them.
	frameBarriers = 2
	// frameTouches, to the leader: the newest heartbeat heard, in 8 bytes, and
	// sessions whose clients were heard of.
	frameTouches = 3
	// frameDigest, to the leader: the digest of the tree at a zxid.
	frameDigest = 4
	// frameConfirmed, from the leader: the outcome of reads that barriers wait for.
	frameConfirmed = 5
	// frameDiverged, from the leader: the majority's digest at a zxid, from which the
	// receiver's differs.
	frameDiverged = 6
	// frameJoin, to the leader: the line, without "server.<id>=", with which the sender asks
	// to be added to the members as an observer.
	frameJoin = 7
	// frameFence, to the leader: the number of the service that begins, in 8 bytes.
	frameFence = 8
)

// urgent reports whether frames of a kind travel in the control lane. A report of touches
// needs no order relative to other frames, and keeps sessions alive, so it does not wait
// for them. All other kinds keep the order in which they were sent, also relative to the
// core's entries: a barrier precedes the entries that follow it, a confirmation follows
// its barrier, and requests stay in the order of their clients.
func urgent(kind uint8) bool {
	touches := kind == frameTouches
	return touches || confirmedFirst.Planted() && kind == frameConfirmed
}

// Touch is a sign of life of a session.
type Touch struct {
	Session   jute.SessionID
	TimeoutMs int32
	AgeMs     int64 // time since the touch
}

func beginFrame(b []byte, epoch uint32) []byte {
	return binary.LittleEndian.AppendUint32(b, epoch)
}

// SubmissionOverhead bounds the size of a forwarded request beside its body, including
// the identities of its connection (auth has 16 KiB for them).
const SubmissionOverhead = 256 << 10

// Flags of a submission in a frame.
const (
	submissionSameAuth = 1 << iota // the same as the previous submission's
	submissionRefused              // Refused follows
	submissionLocal
	submissionExact // Number and Confirmed follow, but for a createSession
)

// appendSubmission appends one submission; before is the previous one in the frame, or
// nil. A learner submits its clients' requests: a leader's requests to itself (removals)
// never travel.
func appendSubmission(b []byte, sub, before *Submission) []byte {
	req := &sub.Request
	flags := byte(0)
	if before != nil && sameAuth(req.Auth, before.Request.Auth) {
		flags |= submissionSameAuth
	}
	if req.Refused != 0 {
		flags |= submissionRefused
	}
	if req.Local {
		flags |= submissionLocal
	}
	numbered := req.Number != 0
	numbered = numbered && !numberForgotten.Planted()
	if req.Exact || numbered {
		flags |= submissionExact
	}
	b = append(b, byte(sub.Kind), flags)
	b = binary.AppendVarint(b, int64(req.Op))
	b = binary.LittleEndian.AppendUint64(b, uint64(req.Session))
	b = binary.AppendVarint(b, int64(req.Cxid))
	b = binary.LittleEndian.AppendUint64(b, req.Origin)
	b = binary.AppendVarint(b, int64(req.TimeoutMs))
	if flags&submissionRefused != 0 {
		b = binary.AppendVarint(b, int64(req.Refused))
	}
	if flags&submissionExact != 0 && req.Op != jute.OpCreateSession {
		b = binary.AppendVarint(b, req.Number)
		b = binary.AppendVarint(b, req.Confirmed)
	}
	if flags&submissionSameAuth == 0 {
		b = binary.AppendUvarint(b, uint64(len(req.Auth)))
		for i := range req.Auth {
			b = wire.AppendBytes(b, req.Auth[i].Scheme)
			b = wire.AppendBytes(b, req.Auth[i].ID)
		}
	}
	if sub.Kind == Resume { // a server of an earlier version ignores this body
		return wire.AppendBytes(b, binary.LittleEndian.AppendUint64(nil, uint64(sub.Seen)))
	}
	return wire.AppendBytes(b, req.Body)
}

// sameAuth reports whether two requests share one list of credentials.
func sameAuth(a, b []jute.ID) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// decodeSubmissions appends the submissions of a frame, after the epoch, to dst.
// Their bodies share the frame's memory.
func decodeSubmissions(dst []Submission, b []byte, received time.Duration) ([]Submission, error) {
	f := wire.NewReader(b)
	var auth []jute.ID
	for f.More() {
		kind, flags := Kind(f.Byte()), f.Byte()
		req := evaluate.Request{
			Op:        jute.OpCode(f.Varint()),
			Session:   jute.SessionID(f.Uint64()),
			Cxid:      int32(f.Varint()),
			Origin:    f.Uint64(),
			TimeoutMs: int32(f.Varint()),
			Local:     flags&submissionLocal != 0,
		}
		if flags&submissionRefused != 0 {
			req.Refused = jute.Code(f.Varint())
		}
		switch {
		case flags&submissionExact == 0:
		case req.Op == jute.OpCreateSession:
			req.Exact = true // a server of an earlier version ignores the flag
		default:
			req.Number, req.Confirmed = f.Varint(), f.Varint()
			if req.Number <= req.Confirmed || req.Confirmed < 0 {
				return dst, wire.ErrMalformed
			}
		}
		if flags&submissionSameAuth == 0 {
			auth = decodeAuth(&f)
		}
		req.Auth = auth
		req.Body = f.Bytes()
		if f.Err() != nil || kind > Resume {
			return dst, wire.ErrMalformed
		}
		sub := Submission{Kind: kind, Received: received, Request: req}
		if kind == Resume {
			sub.Seen, sub.Request.Body = decodeSeen(req.Body), nil
		}
		dst = append(dst, sub)
	}
	return dst, f.Err()
}

// decodeSeen returns the zxid in the body of a Resume, or 0 if an earlier version has sent none.
func decodeSeen(body []byte) jute.Zxid {
	if len(body) != 8 {
		return 0
	}
	return jute.Zxid(binary.LittleEndian.Uint64(body))
}

func decodeAuth(f *wire.Reader) []jute.ID {
	auth := make([]jute.ID, f.Count(2))
	for i := range auth {
		auth[i] = jute.ID{Scheme: f.String(), ID: f.String()}
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
	f := wire.NewReader(b)
	for f.More() {
		dst = append(dst, barrier{
			after:   jute.Zxid(f.Uint64()),
			origin:  f.Uint64(),
			session: jute.SessionID(f.Uint64()),
			code:    jute.Code(f.Varint()),
			read:    f.Uint64(),
		})
	}
	return dst, f.Err()
}

func appendConfirmed(b []byte, read zab.ReadResult) []byte {
	b = binary.LittleEndian.AppendUint64(b, read.ID)
	if read.OK {
		return append(b, 1)
	}
	return append(b, 0)
}

func decodeConfirmed(dst []zab.ReadResult, b []byte) ([]zab.ReadResult, error) {
	f := wire.NewReader(b)
	for f.More() {
		dst = append(dst, zab.ReadResult{ID: f.Uint64(), OK: f.Byte() == 1})
	}
	return dst, f.Err()
}

func appendTouch(b []byte, t Touch) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(t.Session))
	b = binary.AppendVarint(b, int64(t.TimeoutMs))
	return binary.AppendVarint(b, t.AgeMs)
}

func beginReport(b []byte, beat uint64) []byte { return binary.LittleEndian.AppendUint64(b, beat) }

func decodeReport(dst []Touch, b []byte) (beat uint64, touches []Touch, err error) {
	f := wire.NewReader(b)
	beat = f.Uint64()
	for f.More() {
		dst = append(dst, Touch{Session: jute.SessionID(f.Uint64()), TimeoutMs: int32(f.Varint()), AgeMs: f.Varint()})
	}
	return beat, dst, f.Err()
}

// errOtherFormula means that a digest was made by another formula than this server's: the
// two can't be compared.
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
	f := wire.NewReader(b)
	formula := f.Byte()
	zxid, d := jute.Zxid(f.Uint64()), datatree.Digest{Hi: f.Uint64(), Lo: f.Uint64()}
	if err := f.End(); err != nil {
		return 0, datatree.Digest{}, err
	}
	if formula != byte(format.Digest.Writes()) {
		return 0, datatree.Digest{}, errOtherFormula
	}
	return zxid, d, nil
}

func appendFence(b []byte, service uint64) []byte {
	return binary.LittleEndian.AppendUint64(b, service)
}

func decodeFence(b []byte) (service uint64, err error) {
	f := wire.NewReader(b)
	service = f.Uint64()
	return service, f.End()
}
