package server

import (
	"testing"
	"testing/synctest"
	"time"
)

// Refusals for the same reason are a line of the log once in a while, which counts the others.
func TestRefusalsAreLoggedOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "maxClientCnxns=1")
		s.connectFor(t, 40_000)
		refuse := func(times int) {
			for range times {
				s.dial(t, dialOptions{})
				synctest.Wait()
			}
		}
		lines := func() int {
			return s.logged.FilterMessageSnippet("too many connections").Len()
		}
		if refuse(5); lines() != 1 {
			t.Fatalf("%d lines for 5 refusals", lines())
		}
		time.Sleep(9 * time.Second)
		if refuse(1); lines() != 1 {
			t.Errorf("%d lines for 6 refusals", lines())
		}
		time.Sleep(time.Second)
		refuse(1)
		last := s.logged.FilterMessageSnippet("too many connections").All()
		if len(last) != 2 || last[1].ContextMap()["others_before"] != int64(5) {
			t.Errorf("%v", last)
		}
	})
}
