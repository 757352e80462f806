package shares

import (
	"slices"
	"testing"
)

func TestLevel(t *testing.T) {
	for _, tt := range []struct {
		wants      []int64
		have       int64
		most, rest int64
	}{
		{[]int64{0, 0, 0}, 100, 1 << 62, 100},
		{[]int64{10, 20}, 100, 1 << 62, 70},
		{[]int64{10, 200, 300}, 100, 45, 0},
		{[]int64{300, 200, 10}, 100, 45, 0},
		{[]int64{50, 50}, 100, 50, 0},
		{[]int64{1 << 60, 1 << 60, 1 << 60}, 10, 3, 0},
	} {
		most, rest := level(tt.wants, tt.have)
		if min(most, 1<<62) != tt.most || rest != tt.rest {
			t.Errorf("%v of %d: %d each, and %d left, want %d and %d", tt.wants, tt.have, most, rest, tt.most, tt.rest)
		}
	}
}

// TestDividedAreBounded checks that a leader divides the limits of which most is used.
func TestDividedAreBounded(t *testing.T) {
	var s Sums
	for server := range uint8(8) {
		var uses []Use
		for i := range MostUses {
			uses = append(uses, Use{Key: Key{server, byte(i)}, Limit: 100, Used: 200 + int64(server)})
		}
		s.Hear(server+1, uses)
	}
	all := s.Divide(0, []uint8{1, 2, 3, 4, 5, 6, 7, 8})
	for i, list := range all {
		if len(list) != MostDivided || list[0].Key[0] != 4 {
			t.Errorf("server %d is told %d shares, from that of %x", i+1, len(list), list[0].Key)
		}
	}
	if most := all[7][MostDivided-1]; most.Rate != 100*Scale {
		t.Errorf("the only server that uses a limit has %d of it", most.Rate)
	}
	if all = s.Divide(Kept+1, []uint8{9}); len(all[0]) != 0 {
		t.Errorf("limits of servers that are gone are still divided: %d", len(all[0]))
	}
}

func TestWire(t *testing.T) {
	uses := []Use{{Key{1}, 1, 0, false}, {Key{2}, mostLimit, mostLimit, true}}
	list := []Share{{Key{1}, 1}, {Key{2}, Scale * mostLimit}}
	if got, err := DecodeUses(AppendUses(nil, uses)); err != nil || !slices.Equal(got, uses) {
		t.Errorf("uses %v, %v", got, err)
	}
	if got, err := DecodeShares(AppendShares(nil, list)); err != nil || !slices.Equal(got, list) {
		t.Errorf("shares %v, %v", got, err)
	}
	if _, err := DecodeUses(AppendUses(nil, make([]Use, MostUses+1))); err == nil {
		t.Error("a report with too many uses is read")
	}
	if _, err := DecodeShares(AppendShares(nil, make([]Share, MostDivided+1))); err == nil {
		t.Error("an answer with too many shares is read")
	}
	for n := range len(AppendUses(nil, uses)) {
		if got, err := DecodeUses(AppendUses(nil, uses)[:n]); err == nil && len(got) > 1 {
			t.Errorf("%d bytes are read as %v", n, got)
		}
	}
}
