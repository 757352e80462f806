package client

import (
	"testing"
	"testing/synctest"
)

// Whatever is pushed comes out in order, however the reader goes about it; if the
// rest is dropped at the end, the beginning of it; and no goroutine is left.
func TestStreamIsAList(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			r := seeded(seed)
			s := newStream[int](r.IntN(4))
			pushed, read := 0, 0
			check := func(v int) {
				if v != read {
					t.Fatalf("seed %d: got %d, want %d", seed, v, read)
				}
				read++
			}
			for range r.IntN(200) {
				switch r.IntN(3) {
				case 0:
					s.push(pushed)
					pushed++
				case 1:
					select {
					case v := <-s.ch:
						check(v)
					default:
					}
				case 2:
					synctest.Wait() // lets the feeder run
				}
			}
			drop, late := r.IntN(2) == 0, r.IntN(2) == 0
			s.end(drop)
			if late {
				s.end(true)
			}
			s.push(-1)
			for v := range s.ch {
				check(v)
			}
			if read > pushed || read < pushed && !drop && !late {
				t.Errorf("seed %d: read %d of %d, drop %v, %v", seed, read, pushed, drop, late)
			}
		})
	}
}

// A writer with a reader beside it: all of it, in order.
func TestStreamBesideItsReader(t *testing.T) {
	s := newStream[int](2)
	const count = 100_000
	go func() {
		for i := range count {
			s.push(i)
		}
		s.end(false)
	}()
	next := 0
	for v := range s.ch {
		if v != next {
			t.Fatalf("got %d, want %d", v, next)
		}
		next++
	}
	if next != count {
		t.Errorf("%d of %d", next, count)
	}
}

// What nobody reads and is dropped leaves no goroutine: the bubble would fail.
func TestStreamThatIsDropped(t *testing.T) {
	for _, before := range []bool{false, true} { // end twice, as at the end of a session
		synctest.Test(t, func(t *testing.T) {
			s := newStream[int](1)
			for i := range 10 {
				s.push(i)
			}
			if before {
				s.end(false)
			}
			s.end(true)
			s.end(true)
		})
	}
}
