package replica

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/zab"
)

func sampleSubmissions() []Submission {
	bob := []jute.ID{{Scheme: "ip", ID: "10.0.0.1"}, {Scheme: "digest", ID: "bob:x"}}
	return []Submission{
		{Request: evaluate.Request{Op: jute.OpCreate, Session: 0x1a, Cxid: 7, Origin: 3<<56 | 9, Auth: bob, Body: []byte("body")}},
		{Kind: Barrier, Request: evaluate.Request{Op: jute.OpSync, Session: 0x1a, Cxid: 8, Origin: 3<<56 | 9, Auth: bob}},
		{Kind: Resume, Seen: 1 << 40, Request: evaluate.Request{Op: jute.OpCreateSession, Session: -1, TimeoutMs: 30000, Origin: 1<<64 - 1, Auth: []jute.ID{}}},
		{Request: evaluate.Request{Op: jute.OpSetData, Session: 5, Number: 1 << 40, Confirmed: 1<<40 - 1, Auth: []jute.ID{}}},
		{Request: evaluate.Request{Op: jute.OpCreateSession, Session: 5, Exact: true, Auth: []jute.ID{}}},
		{Request: evaluate.Request{Op: jute.OpCloseSession, Session: 5, Cxid: -11, Local: true, Refused: jute.ErrNoAuth, Auth: bob[:1]}},
	}
}

func appendSubmissions(b []byte, subs []Submission) []byte {
	var before *Submission
	for i := range subs {
		b = appendSubmission(b, &subs[i], before)
		before = &subs[i]
	}
	return b
}

// Records that servers exchange decode to the encoded values, in any order within a
// frame.
func TestPeerFramesKeepWhatTheyCarry(t *testing.T) {
	subs := sampleSubmissions()
	got, err := decodeSubmissions(nil, appendSubmissions(nil, subs), time.Second)
	for i := range subs {
		subs[i].Received = time.Second
	}
	if err != nil || !reflect.DeepEqual(got, subs) {
		t.Errorf("submissions: %v\ngot  %+v\nwant %+v", err, got, subs)
	}
	barriers := []barrier{{after: 1<<32 | 5, origin: 9, code: jute.ErrSessionMoved, session: 0x1a, read: 3}, {}}
	var b []byte
	for i := range barriers {
		b = appendBarrier(b, &barriers[i])
	}
	if got, err := decodeBarriers(nil, b); err != nil || !reflect.DeepEqual(got, barriers) {
		t.Errorf("barriers: %+v, %v", got, err)
	}
	touches := []Touch{{Session: -7, TimeoutMs: 4000, AgeMs: 250}, {Session: 1, TimeoutMs: -1, AgeMs: -1}}
	b = beginReport(nil, 1<<60+5)
	for _, x := range touches {
		b = appendTouch(b, x)
	}
	if beat, got, err := decodeReport(nil, b); err != nil || beat != 1<<60+5 || !reflect.DeepEqual(got, touches) {
		t.Errorf("touches: %d, %+v, %v", beat, got, err)
	}
	reads := []zab.ReadResult{{ID: 1<<63 + 1, OK: true}, {ID: 2}}
	b = nil
	for _, x := range reads {
		b = appendConfirmed(b, x)
	}
	if got, err := decodeConfirmed(nil, b); err != nil || !reflect.DeepEqual(got, reads) {
		t.Errorf("confirmed reads: %+v, %v", got, err)
	}
	if service, err := decodeFence(appendFence(nil, 3<<56|7)); service != 3<<56|7 || err != nil {
		t.Errorf("fence: %#x, %v", service, err)
	}
	want := datatree.Digest{Hi: 1, Lo: 1 << 63}
	if zxid, d, err := decodeDigest(appendDigest(nil, 77, want)); zxid != 77 || d != want || err != nil {
		t.Errorf("digest: %v, %v, %v", zxid, d, err)
	}
}

// A truncated frame is an error unless it ends at the end of a record.
func TestPeerFramesThatEndEarly(t *testing.T) {
	whole := appendSubmissions(nil, sampleSubmissions())
	ends := map[int]bool{0: true}
	for n := range sampleSubmissions() {
		ends[len(appendSubmissions(nil, sampleSubmissions()[:n+1]))] = true
	}
	for n := range whole {
		if _, err := decodeSubmissions(nil, whole[:n], 0); (err == nil) != ends[n] {
			t.Errorf("submissions cut at %d of %d: %v", n, len(whole), err)
		}
	}
	digest := appendDigest(nil, 1, datatree.Digest{})
	for n := range digest {
		if _, _, err := decodeDigest(digest[:n]); err == nil {
			t.Errorf("a digest cut at %d of %d is taken", n, len(digest))
		}
	}
	fence := appendFence(nil, 1)
	for _, b := range [][]byte{nil, fence[:7], append(fence, 0)} {
		if _, err := decodeFence(b); err == nil {
			t.Errorf("%x is taken for a fence", b)
		}
	}
	if _, _, err := decodeDigest(append(digest, 0)); err == nil {
		t.Error("a digest with something after it is taken")
	}
	if _, err := decodeSubmissions(nil, []byte{byte(Resume) + 1, submissionSameAuth, 2, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0}, 0); err == nil {
		t.Error("a submission of an unknown kind is taken")
	}
}

// FuzzPeerFrames decodes arbitrary bytes as each of the frames: nothing panics, and a
// decoded frame survives encoding and decoding.
func FuzzPeerFrames(f *testing.F) {
	f.Add(appendSubmissions(nil, sampleSubmissions()))
	f.Add(appendBarrier(nil, &barrier{after: 1, code: -101}))
	f.Add(appendTouch(appendTouch(beginReport(nil, 1), Touch{Session: 1}), Touch{AgeMs: 1 << 40}))
	f.Add(appendConfirmed(nil, zab.ReadResult{ID: 1, OK: true}))
	f.Add(appendFence(nil, 1))
	f.Add(appendDigest(nil, 5, datatree.Digest{Lo: 1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if subs, err := decodeSubmissions(nil, bytes.Clone(b), 0); err == nil {
			again, err := decodeSubmissions(nil, appendSubmissions(nil, subs), 0)
			if err != nil || !sameSubmissions(again, subs) {
				t.Errorf("submissions: %v\ngot  %+v\nwant %+v", err, again, subs)
			}
		}
		if barriers, err := decodeBarriers(nil, b); err == nil {
			var c []byte
			for i := range barriers {
				c = appendBarrier(c, &barriers[i])
			}
			if again, err := decodeBarriers(nil, c); err != nil || !reflect.DeepEqual(again, barriers) {
				t.Errorf("barriers: %+v, %v, want %+v", again, err, barriers)
			}
		}
		if beat, touches, err := decodeReport(nil, b); err == nil {
			c := beginReport(nil, beat)
			for _, x := range touches {
				c = appendTouch(c, x)
			}
			if same, again, err := decodeReport(nil, c); err != nil || same != beat || !reflect.DeepEqual(again, touches) {
				t.Errorf("touches: %+v, %v, want %+v", again, err, touches)
			}
		}
		if reads, err := decodeConfirmed(nil, b); err == nil {
			var c []byte
			for _, x := range reads {
				c = appendConfirmed(c, x)
			}
			if again, err := decodeConfirmed(nil, c); err != nil || !reflect.DeepEqual(again, reads) {
				t.Errorf("confirmed reads: %+v, %v, want %+v", again, err, reads)
			}
		}
		if service, err := decodeFence(b); err == nil && !bytes.Equal(appendFence(nil, service), b) {
			t.Errorf("fence: %#x", service)
		}
		if zxid, d, err := decodeDigest(b); err == nil && !bytes.Equal(appendDigest(nil, zxid, d), b) {
			t.Errorf("digest: %v, %v", zxid, d)
		}
	})
}

// sameSubmissions compares submissions; nil credentials equal an empty list.
func sameSubmissions(a, b []Submission) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i], b[i]
		if len(x.Request.Auth) == 0 && len(y.Request.Auth) == 0 {
			x.Request.Auth, y.Request.Auth = nil, nil
		}
		if !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}

// TestSubmissionOverhead checks that a forwarded request without its body fits into the
// size that a frame allows for it.
func TestSubmissionOverhead(t *testing.T) {
	ids := slices.Repeat([]jute.ID{{Scheme: "digest", ID: "u:" + strings.Repeat("h", 28)}}, 64<<10/(6+30+32))
	sub := Submission{Request: evaluate.Request{Op: -1 << 31, Cxid: -1 << 31, TimeoutMs: -1 << 31, Refused: -1 << 31, Number: 1<<63 - 1, Confirmed: 1<<63 - 2, Auth: ids}}
	if n := len(appendSubmission(nil, &sub, nil)); n > SubmissionOverhead {
		t.Errorf("a request with %d identities takes %d bytes beside its body, more than %d", len(ids), n, SubmissionOverhead)
	}
}

// TestForwardable: a server passes on what its clients ask of the leader, and a leader takes nothing else from it.
func TestForwardable(t *testing.T) {
	var got []string
	for op := jute.OpCode(-11); op < 120; op++ {
		if strings.HasPrefix(op.String(), "OpCode(") {
			continue // there is none
		}
		for kind, name := range []string{Write: "write", Barrier: "barrier", Resume: "resume"} {
			if forwardable(&Submission{Kind: Kind(kind), Request: evaluate.Request{Op: op}}) && (name != "write" || !Ordered(op)) {
				got = append(got, fmt.Sprint(name, " ", op))
			}
		}
		if passed := forwardable(&Submission{Kind: Write, Request: evaluate.Request{Op: op}}); Ordered(op) && passed == (op == jute.OpSync) {
			t.Errorf("%v as a write: passed on %v", op, passed)
		}
	}
	want := []string{"write createSession", "resume createSession", "barrier sync"}
	if !slices.Equal(got, want) {
		t.Errorf("besides writes: %q, want %q", got, want)
	}
}
