package traceid

import (
	"fmt"
	"testing"
)

// Processes of different versions have to agree on the ids.
func TestIDsStay(t *testing.T) {
	id := Of(0x100000a323e0038, 7)
	got := fmt.Sprintf("%x: client %x, server 2 %x, its stages %x %x", id, id.Client(), id.Server(2), id.Stage(2, 1), id.Stage(2, 2))
	const want = "91a3dabac8285b845f8db92e62b98d51: client b06cdba4b9c817af, server 2 cfd7b63e2d1a1efa, its stages 71c3612675fb2972 a4d40374efe1c158"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestIDsDiffer(t *testing.T) {
	traces := make(map[Trace]bool)
	for session := range int64(100) {
		for xid := range int32(100) {
			traces[Of(session<<56, xid)], traces[Of(session+1000, xid)] = true, true
		}
	}
	if len(traces) != 20_000 {
		t.Errorf("%d traces of 20000 requests", len(traces))
	}
	id := Of(1, 1)
	spans := map[Span]bool{id.Client(): true}
	for server := range 256 {
		spans[id.Server(uint8(server))] = true
		for stage := 1; stage <= 4; stage++ {
			spans[id.Stage(uint8(server), uint8(stage))] = true
		}
	}
	if want := 1 + 256*5; len(spans) != want {
		t.Errorf("%d spans, want %d", len(spans), want)
	}
}

func TestSampler(t *testing.T) {
	var counts [5]int
	samplers := [5]Sampler{NewSampler(-1), NewSampler(0.01), NewSampler(0.1), NewSampler(1), NewSampler(7)}
	for xid := range int32(100_000) {
		before := false
		for i, s := range samplers {
			is := s.Samples(42, xid+1)
			if before && !is {
				t.Fatalf("xid %d is sampled by a smaller ratio, and not by %v", xid+1, s)
			}
			if before = is; is {
				counts[i]++
			}
		}
	}
	if counts[0] != 0 || counts[3] != 100_000 || counts[4] != 100_000 || counts[1] < 900 || counts[1] > 1100 || counts[2] < 9700 || counts[2] > 10_300 {
		t.Errorf("of 100000 requests %d are sampled", counts)
	}
	for _, xid := range []int32{0, -1, -2, -1 << 31} {
		if NewSampler(1).Samples(42, xid) {
			t.Errorf("xid %d is sampled", xid)
		}
	}
}

func BenchmarkNotSampled(b *testing.B) {
	s := NewSampler(0.001)
	n := 0
	for xid := int32(1); b.Loop(); xid++ {
		if s.Samples(42, xid) {
			n++
		}
	}
}
