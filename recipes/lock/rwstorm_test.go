package lock_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

// step is what a client of the lock has done.
type rwStep struct {
	what  string // "lock", "share", "write", "unlock"
	who   int
	kind  lock.Kind
	token client.Zxid
}

// holders is the set of holders, and the highest tokens so far.
type holders struct {
	readers uint32 // a bit for each client
	writer  int    // 0 is none, else the client and 1
	top     client.Zxid
	topW    client.Zxid // of writers
}

func (h holders) holds(s rwStep) bool {
	if s.kind == lock.Write {
		return h.writer == s.who+1
	}
	return h.readers>>s.who&1 == 1
}

// exclusion is what the lock promises: a writer is alone, in the order of the tokens;
// only a holder can make a guarded write.
func exclusion(h holders, s rwStep) (bool, holders) {
	switch {
	case s.what == "write":
		return h.holds(s), h
	case s.what == "share": // a read lock beside the write lock
		ok := h.writer == s.who+1
		h.readers |= 1 << s.who
		return ok, h
	case s.what == "unlock":
		ok := h.holds(s)
		if s.kind == lock.Write {
			h.writer = 0
		} else {
			h.readers &^= 1 << s.who
		}
		return ok, h
	case s.kind == lock.Read:
		ok := h.writer == 0 && s.token > h.topW
		h.readers |= 1 << s.who
		h.top = max(h.top, s.token)
		return ok, h
	}
	ok := h.writer == 0 && h.readers == 0 && s.token > h.top
	return ok, holders{writer: s.who + 1, top: s.token, topW: s.token}
}

// rwHistory is what clients have done.
type rwHistory struct {
	*trial.History[holders, rwStep]
	revoke bool
	lost   atomic.Int64
	had    [2]atomic.Int64 // by kind
}

// Clients read, write and downgrade while connections break, sessions end and leaders are
// killed.
func TestRWStorm(t *testing.T) {
	for name, make := range lockers {
		for _, renew := range []bool{false, true} {
			if renew {
				name += ", sessions are renewed"
			}
			t.Run(name, func(t *testing.T) {
				trial.Storms(t, trial.Weather{Seeds: 2, Clients: 5, Faults: 40, Renew: renew}, func(s *trial.Storm) {
					storm(s, make, false)
				})
			})
		}
	}
}

// Besides they ask each other to release, which some of them do, and take the lock away
// from each other.
func TestStormOfRevocations(t *testing.T) {
	for name, make := range lockers {
		t.Run(name, func(t *testing.T) {
			trial.Storms(t, trial.Weather{Seeds: 2, Clients: 5, Faults: 30}, func(s *trial.Storm) {
				storm(s, make, true)
			})
		})
	}
}

func storm(s *trial.Storm, make func(c *client.Client, path string, o lock.RWOptions) (locker, error), revoke bool) {
	h := &rwHistory{History: trial.NewHistory(s, exclusion), revoke: revoke}
	s.Each(func(i int, rng *rand.Rand) {
		c := s.Client(i)
		l, err := make(c, "/lock", lock.RWOptions{OnRevoke: func(*hold.Held, lock.Kind) bool { return i%2 == 0 }})
		if err != nil {
			s.Error(err)
			return
		}
		if revoke && rng.IntN(3) == 0 {
			h.takeAway(l, rng)
		}
		h.round(l, c, i, rng)
	})
	s.Logf("%d read and %d write locks, of which %d were lost", h.had[lock.Read].Load(), h.had[lock.Write].Load(), h.lost.Load())
	if h.had[lock.Read].Load() == 0 || h.had[lock.Write].Load() == 0 {
		s.Error("nobody ever had the lock")
	}
	h.Check("a writer was not alone")
}

// explain reports whether there was no error. A lock that others revoke may be lost.
func (h *rwHistory) explain(what string, err error, expected ...error) bool {
	h.Helper()
	if h.revoke {
		expected = append(expected, recipes.ErrLost, recipes.ErrNotHeld)
	}
	return h.Explain(what, err, expected...)
}

// takeAway revokes somebody's lock, or place in the line.
func (h *rwHistory) takeAway(l locker, rng *rand.Rand) {
	all, err := l.Contenders(h.Ctx)
	if err == nil && len(all) > 0 {
		_, err = l.Revoke(h.Ctx, all[rng.IntN(len(all))], time.Duration(rng.IntN(3))*time.Millisecond)
	}
	h.Explain("revoke", err)
}

// round acquires the lock once, writes under it, and releases.
func (h *rwHistory) round(l locker, c *client.Client, i int, rng *rand.Rand) {
	s := rwStep{"lock", i, lock.Kind(rng.IntN(2)), 0}
	call := h.Now()
	held, err := l.take(h.Ctx, s.kind, int32(rng.IntN(3)))
	if !h.explain("lock", err) {
		return
	}
	s.token = held.Token()
	h.Add(i, s, call)
	h.had[s.kind].Add(1)
	h.write(c, held, s)
	if s.kind == lock.Write && rng.IntN(2) == 0 {
		h.downgrade(l, c, held, s)
	}
	h.unlock(held, s, call)
}

// downgrade takes the read lock beside the write lock, which may be lost then.
func (h *rwHistory) downgrade(l locker, c *client.Client, held *hold.Held, s rwStep) {
	call := h.Now()
	read, err := l.take(held.Context(), lock.Read, 0)
	if err != nil {
		return
	}
	h.Add(s.who, rwStep{"share", s.who, lock.Read, s.token}, call)
	h.write(c, read, rwStep{"write", s.who, lock.Read, s.token})
	h.unlock(read, rwStep{"unlock", s.who, lock.Read, s.token}, call)
}

func (h *rwHistory) write(c *client.Client, held *hold.Held, s rwStep) {
	s.what = "write"
	call := h.Now()
	if h.explain("guarded write", trial.Write(h.Ctx, c, held), client.ErrNoNode) {
		h.Add(s.who, s, call)
	}
}

// unlock releases. A lock that was lost may have been lost before the call returned. So may
// one that others revoke, if the connection breaks: see Held.Release.
func (h *rwHistory) unlock(held *hold.Held, s rwStep, asked int64) {
	s.what = "unlock"
	call := h.Now()
	released := h.explain("release", held.Release(h.Ctx))
	if !released {
		h.lost.Add(1)
	}
	if !released || h.revoke {
		call = asked
	}
	h.Add(s.who, s, call)
}
