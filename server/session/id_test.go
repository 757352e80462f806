package session_test

import (
	"sync"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/session"
)

func TestIDs(t *testing.T) {
	tests := []struct {
		name   string
		server uint8
		nowMs  int64
		taken  []jute.SessionID
		want   []string
	}{
		{"layout", 1, 0x134236, nil, []string{"0x100001342360000", "0x100001342360001", "0x100001342360002"}},
		{"a clock of more than 40 bits", 1, 0x1_98_7654_3210, nil, []string{"0x198765432100000"}},
		{"negative", 0xff, 0x134236, nil, []string{"0xff00001342360000"}},
		{"taken ones are skipped", 2, 1, []jute.SessionID{2<<56 | 1<<16, 2<<56 | 1<<16 | 2}, []string{"0x200000000010001", "0x200000000010003"}},
		{"never 0", 0, 0, nil, []string{"0x1"}},
		{"never the smallest int64", 0x80, 0, nil, []string{"0x8000000000000001"}},
		{"the server's byte stays on overflow", 3, 1<<40 - 1, nil, []string{"0x3ffffffffff0000"}},
	}
	for _, tt := range tests {
		ids := newIDs(t, tt.server, tt.nowMs, 0)
		taken := func(id jute.SessionID) bool {
			for _, other := range tt.taken {
				if id == other {
					return true
				}
			}
			return false
		}
		for _, want := range tt.want {
			if got := ids.Next(taken).String(); got != want {
				t.Errorf("%s: NewIDs(%d, %#x): got %s, want %s", tt.name, tt.server, tt.nowMs, got, want)
			}
		}
	}
}

func newIDs(t *testing.T, server uint8, nowMs int64, bound uint64) *session.IDs {
	t.Helper()
	ids := session.NewIDs(server, nowMs, bound)
	ids.Reserved(ids.Ahead())
	return ids
}

// TestIDsOverRestarts restarts at the same time, and at earlier ones, after more ids than
// the clock has advanced. No id occurs twice.
func TestIDsOverRestarts(t *testing.T) {
	seen := map[jute.SessionID]bool{}
	var bound uint64
	for start, nowMs := range []int64{1000, 1000, 999, 1, 1000, 1001, 2000} {
		ids := session.NewIDs(7, nowMs, bound)
		bound = ids.Ahead()
		ids.Reserved(bound)
		for range 1<<16 + 100 {
			id := ids.Next(nil)
			if seen[id] {
				t.Fatalf("start %d: id %v comes again", start+1, id)
			}
			seen[id] = true
		}
		if ids.Short() {
			t.Errorf("start %d: short of ids", start+1)
		}
	}
}

// TestIDsAreReservedBefore checks that only reserved ids are generated.
func TestIDsAreReservedBefore(t *testing.T) {
	ids := session.NewIDs(1, 1, 0)
	if !ids.Short() {
		t.Error("nothing is reserved, and it is not short of ids")
	}
	defer func() {
		if recover() == nil {
			t.Error("an id was given out")
		}
	}()
	ids.Next(nil)
}

// TestIDsShort checks that half of the reserved ids suffice, and not one less.
func TestIDsShort(t *testing.T) {
	ids := session.NewIDs(1, 1, 0)
	const half = 1 << 35
	ids.Reserved(ids.Ahead() - half)
	if ids.Short() {
		t.Error("short of ids while half of them are left")
	}
	if ids.Next(nil); !ids.Short() {
		t.Error("not short of ids while less than half of them are left")
	}
}

// TestIDsCarry counts across the low 16 bits, and across the end of the clock's bits: the
// byte of the server stays, and the one forbidden id is skipped.
func TestIDsCarry(t *testing.T) {
	ids := newIDs(t, 0, 1<<40-1, 0)
	seen := map[jute.SessionID]bool{}
	for range 1<<16 + 10 {
		id := ids.Next(nil)
		if id == 0 || uint64(id)>>56 != 0 || seen[id] {
			t.Fatalf("id %v: zero, of another server or given twice", id)
		}
		seen[id] = true
	}
}

// TestIDsConcurrent takes ids from several goroutines: none occurs twice.
func TestIDsConcurrent(t *testing.T) {
	const goroutines, each = 4, 1000
	ids := newIDs(t, 1, 1, 0)
	var wg sync.WaitGroup
	got := make([][]jute.SessionID, goroutines)
	for g := range goroutines {
		wg.Go(func() {
			for range each {
				got[g] = append(got[g], ids.Next(nil))
			}
		})
	}
	wg.Wait()
	seen := map[jute.SessionID]bool{}
	for _, list := range got {
		for _, id := range list {
			seen[id] = true
		}
	}
	if len(seen) != goroutines*each {
		t.Errorf("%d different ids of %d", len(seen), goroutines*each)
	}
}

func TestNegotiate(t *testing.T) {
	tests := []struct{ requested, lowest, highest, want int32 }{
		{10_000, 4000, 40_000, 10_000},
		{4000, 4000, 40_000, 4000},
		{3999, 4000, 40_000, 4000},
		{40_001, 4000, 40_000, 40_000},
		{0, 4000, 40_000, 4000},
		{-1 << 31, 4000, 40_000, 4000},
		{1<<31 - 1, 4000, 40_000, 40_000},
		{5, 7, 7, 7},
	}
	for _, tt := range tests {
		if got := session.Negotiate(tt.requested, tt.lowest, tt.highest); got != tt.want {
			t.Errorf("Negotiate(%d, %d, %d) = %d, want %d", tt.requested, tt.lowest, tt.highest, got, tt.want)
		}
	}
}
