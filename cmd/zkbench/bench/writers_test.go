package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/cmd/zkbench/bench/fake"
	"github.com/zkd-project/zkd/jute"
)

// writersConfig is a load of 2 writers that takes a moment.
func writersConfig(sets int64) Config {
	c := Defaults(Outages)
	c.Connections, c.ValueSize, c.Rate, c.Count = 2, 40, 0, sets
	return c
}

// Connections that end in the middle of a set are replaced, the session continues,
// and what was under way counts as unknown.
func TestWritersReconnect(t *testing.T) {
	s := fake.Start(t)
	sets := 0
	s.Spoil = func(op jute.OpCode, frame []byte) []byte {
		if op == jute.OpSetData {
			if sets++; sets%10 == 0 {
				return nil
			}
		}
		return frame
	}
	dead := "127.0.0.1:1"
	r, err := Run(t.Context(), Target{Addrs: []string{s.Addr, dead}}, writersConfig(100))
	if err != nil {
		t.Fatal(err)
	}
	o := r.Outage
	if r.Ops != 90 || o.Unknown != 10 || o.Reconnects < 8 || o.Attempts < 1 || o.Expired != 0 || o.Refused != 0 {
		t.Errorf("got %d sets and %+v; want 90, 10 unknown, as many reconnects but for those at the end, failed attempts at %s", r.Ops, o, dead)
	}
	if g := o.Longest(); g.Long < reconnectDelay.Seconds()/2 {
		t.Errorf("longest gap is %v s, want about the delay of a reconnect at least", g.Long)
	}
	if left := s.Paths(); !slices.Equal(left, []string{"/"}) {
		t.Errorf("the run left %v", left)
	}
	var out strings.Builder
	if err := r.WriteTable(&out); err != nil || !strings.Contains(out.String(), "without a write") {
		t.Errorf("%v in\n%s", err, &out)
	}
}

// A reply that shows an older version than one before is a lost write.
func TestWritersSeeLostWrites(t *testing.T) {
	for name, spoil := range map[string]func(frame []byte) []byte{
		"old version": func(f []byte) []byte { binary.BigEndian.PutUint32(f[replyHeader+32:], 3); return f },
		"new version": func(f []byte) []byte { binary.BigEndian.PutUint32(f[replyHeader+32:], 1000); return f },
		"no node":     func(f []byte) []byte { return jute.AppendInt32(f[:12], jute.ErrNoNode) },
		"short":       func(f []byte) []byte { return f[:20] },
	} {
		t.Run(name, func(t *testing.T) {
			s := fake.Start(t)
			sets := 0
			s.Spoil = func(op jute.OpCode, frame []byte) []byte {
				if op == jute.OpSetData {
					if sets++; sets == 20 {
						return spoil(frame)
					}
				}
				return frame
			}
			cfg := writersConfig(40)
			cfg.Connections = 1 // of two, one may have set only once before
			r, err := Run(t.Context(), targetOf(s), cfg)
			if !errors.Is(err, ErrWrong) || r.Wrong < 1 {
				t.Errorf("got %v and %d wrong replies, want %v", err, r.Wrong, ErrWrong)
			}
		})
	}
}

// AwaitSteady waits for writes to be back.
func TestAwaitSteady(t *testing.T) {
	s := fake.Start(t)
	cfg := writersConfig(0)
	cfg.Rate = 1000
	w, err := StartWriters(t.Context(), targetOf(s), cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.Mark()
	gap, err := w.AwaitSteady(t.Context(), 50*time.Millisecond)
	if err != nil || gap.Long <= 0 {
		t.Errorf("got %+v, %v, want the longest of the gaps", gap, err)
	}
	if _, err := w.Stop(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.AwaitSteady(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v without writes, want %v", err, context.DeadlineExceeded)
	}
}

func TestTracker(t *testing.T) {
	const ms = int64(time.Millisecond)
	tr := newTracker(0)
	for _, at := range []int64{1, 3, 2, 10, 11} {
		tr.wrote(at*ms, at*ms)
	}
	want := []Gap{{0.003, 0.007}, {0.001, 0.002}, {0, 0.001}, {0.010, 0.001}}
	if o := tr.snapshot(); !slices.Equal(o.Gaps, want) {
		t.Errorf("gaps %v, want %v", o.Gaps, want)
	}
	tr.forget(12 * ms)
	for _, s := range []struct {
		write, at int64 // ms; write 0: none
		steady    bool
	}{
		{0, 12, false},    // nothing is known of what comes
		{0, 40, false},    // no write
		{50, 51, false},   // the gap has just ended
		{60, 61, true},    // and nothing worse came since
		{200, 201, false}, // a worse one
		{210, 211, true},
	} {
		if s.write > 0 {
			tr.wrote(s.write*ms, s.write*ms)
		}
		if got := tr.steady(s.at*ms, 10*time.Millisecond, 5*time.Millisecond); got != s.steady {
			t.Errorf("steady at %d ms: %v, want %v", s.at, got, s.steady)
		}
	}
	if o := tr.snapshot(); o.Longest() != (Gap{0.060, 0.140}) || len(o.Gaps) != 3+1 {
		t.Errorf("after a mark: %v", o.Gaps)
	}
}

// What is resumed is the session that there was.
func TestConnectRequest(t *testing.T) {
	s := session{id: 0x102030405060708, passwd: []byte("0123456789abcdef")}
	b := appendConnect(nil, hello{timeout: 10 * time.Second, resume: &s, zxid: 0x100000002})
	d := jute.NewDecoder(b[frameHeader:])
	if got := [3]int64{int64(d.Int32()), d.Int64(), int64(d.Int32())}; got != [3]int64{0, 0x100000002, 10000} {
		t.Errorf("protocol, zxid and timeout are %v", got)
	}
	if id, passwd := d.Int64(), d.Buffer(); id != int64(s.id) || string(passwd) != string(s.passwd) {
		t.Errorf("session %#x, password %q", id, passwd)
	}
	if len(b) != frameHeader+int(binary.BigEndian.Uint32(b)) {
		t.Errorf("frame of %d bytes says %d", len(b), binary.BigEndian.Uint32(b))
	}
}
