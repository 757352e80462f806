package zab

import (
	"math/rand/v2"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

func TestQuorumOfOneCommitsWhatIsDurable(t *testing.T) {
	c := New(Recovered{})
	var out Output
	c.Propose(1, []byte("a"))
	c.Propose(2, []byte("b"))
	c.Take(&out)
	if len(out.Persist) != 2 || out.Persist[1].Prev != 1 || out.CommitTo != 0 {
		t.Fatalf("after two proposals: %+v", out)
	}
	first := out.PersistSeq

	c.Propose(3, nil)
	c.Take(&out)
	if out.CommitTo != 0 {
		t.Fatalf("committed %v before anything is durable", out.CommitTo)
	}
	c.PersistDone(first)
	c.Take(&out)
	if out.CommitTo != 2 || len(out.Persist) != 0 {
		t.Fatalf("first batch durable: %+v", out)
	}
}

func TestCoreContinuesTheRecoveredLog(t *testing.T) {
	last := jute.MakeZxid(3, 41)
	c := New(Recovered{LastZxid: last})
	if c.Committed() != last || c.NextZxid() != jute.MakeZxid(3, 42) {
		t.Fatalf("committed %v, next %v", c.Committed(), c.NextZxid())
	}
}

// TestEpochEndsWithItsCounter (ZOOKEEPER-1277): a server of its own writes on.
func TestEpochEndsWithItsCounter(t *testing.T) {
	last := jute.MakeZxid(1, ^uint32(0))
	c := New(Recovered{LastZxid: last - 1})
	var out Output
	c.Propose(last, nil)
	next := jute.MakeZxid(2, 1)
	if c.NextZxid() != next {
		t.Fatalf("%v follows %v, want %v", c.NextZxid(), last, next)
	}
	c.Propose(next, nil)
	c.Take(&out)
	c.PersistDone(out.PersistSeq)
	c.Take(&out)
	if out.CommitTo != next {
		t.Fatalf("committed %v, want %v", out.CommitTo, next)
	}
}

// TestInvariants feeds random inputs and checks the package's invariants after
// each.
func TestInvariants(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := New(Recovered{})
		var out Output
		var durable, handedOut jute.Zxid
		last := map[Seq]jute.Zxid{}
		var seq, done Seq
		for range 300 {
			switch rng.IntN(3) {
			case 0:
				c.Propose(c.NextZxid(), nil)
			case 1:
				if seq > done {
					done += 1 + Seq(rng.IntN(int(seq-done)))
					durable = last[done]
					c.PersistDone(done)
				}
			}
			c.Take(&out)
			for _, e := range out.Persist {
				if e.Prev != handedOut || e.Zxid != handedOut+1 {
					t.Fatalf("seed %d: entry %v after %v follows %v", seed, e.Zxid, e.Prev, handedOut)
				}
				handedOut = e.Zxid
			}
			if len(out.Persist) > 0 {
				seq = out.PersistSeq
				last[seq] = handedOut
			}
			if out.CommitTo != durable {
				t.Fatalf("seed %d: committed %v, durable %v", seed, out.CommitTo, durable)
			}
		}
	}
}

func TestImpossibleInputsPanic(t *testing.T) {
	cases := map[string]func(*Core){
		"gap in zxids":              func(c *Core) { c.Propose(2, nil) },
		"durable before handed out": func(c *Core) { c.PersistDone(1) },
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Fatal("no panic")
				}
			}()
			f(New(Recovered{}))
		})
	}
}
