package server

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestIDsAreReservedInTime checks that more ids are reserved when half of the reserved
// ids have been used.
func TestIDsAreReservedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		before := s.ident.IDs
		s.ids.Reserved(s.ids.Ahead() - 1<<36 + 1000)
		if !s.ids.Short() {
			t.Fatal("with 1000 left it is not short of ids")
		}
		time.Sleep(2 * s.cfg.TickTime)
		synctest.Wait()
		if s.ids.Short() {
			t.Error("short of ids")
		}
		s.nextOrigin()
		s = s.restart(t)
		if s.ident.IDs <= before {
			t.Errorf("the bound of the ids is %#x after a restart, and was %#x before", s.ident.IDs, before)
		}
	})
}

// TestIDsAreUniqueOverRestarts checks that no session or connection gets a number again,
// even if the clock stands still over a restart.
func TestIDsAreUniqueOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		seen := map[uint64]bool{}
		for range 5 {
			at := time.Now()
			for range 10 {
				c := s.connect(t)
				for _, id := range []uint64{uint64(c.session), s.nextOrigin()} {
					if seen[id] {
						t.Fatalf("number %#x comes again", id)
					}
					seen[id] = true
				}
				c.nc.Close()
			}
			s = s.restart(t)
			if !time.Now().Equal(at) {
				t.Log("the clock has moved on over the restart")
			}
		}
	})
}

// nextOrigin returns a number for a connection that no other connection has, on this or
// another server, now or after a restart.
func (s *Server) nextOrigin() uint64 { return uint64(s.ids.Next(nil)) }
