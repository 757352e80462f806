package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

const superIs = "DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=" // of super:secret

// dialFrom opens a session from an address.
func (s *testServer) dialFrom(t testing.TB, ip string) *client {
	t.Helper()
	c := s.dial(t, dialOptions{ip: ip})
	c.establish(&jute.ConnectRequest{TimeoutMs: 40_000, Password: make([]byte, 16)})
	return c
}

// TestSuperByGuess lets one address guess the super user's password, over one connection and
// over many: it gets few answers, and one line is logged. Others are answered at once.
func TestSuperByGuess(t *testing.T) {
	for _, parallel := range []bool{false, true} {
		t.Run(fmt.Sprintf("parallel=%v", parallel), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startServer(t, superIs, "maxSessionTimeout=600000")
				const guesses = 300
				answers := make(chan time.Time, guesses)
				var guessing sync.WaitGroup
				guess := func(c *client, i int) {
					c.sendFrame(requestFrame(jute.XidAuth, jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: fmt.Appendf(nil, "super:%d", i)}))
					if r, err := c.next(); err == nil && r.Err == 0 {
						answers <- time.Now()
					}
				}
				began := time.Now()
				attacker := s.dialFrom(t, "10.6.6.6")
				for i := range guesses {
					if parallel {
						c := s.dialFrom(t, "10.6.6.6")
						guessing.Go(func() { guess(c, i) })
					} else if i < 40 {
						guess(attacker, i)
					}
				}
				synctest.Wait()
				for _, ip := range []string{"10.0.0.1", "10.6.6.7", "2001:db8::1"} {
					c := s.dialFrom(t, ip)
					before := time.Now()
					c.auth("super:secret")
					c.auth("bob:pw")
					if time.Since(before) > 0 {
						t.Errorf("%s waits %v", ip, time.Since(before))
					}
				}
				time.Sleep(time.Minute)
				guessing.Wait()
				close(answers)
				n, last := 0, began
				for at := range answers {
					n++
					last = at
				}
				if most := 20 + 2*int(last.Sub(began).Seconds()); n > most || n < 20 {
					t.Errorf("%d answers within %v, want at most %d", n, last.Sub(began), most)
				}
				if n := s.logged.FilterMessageSnippet("many failed authentications").Len(); n != 1 {
					t.Errorf("%d lines in the log", n)
				}
				refused := s.metrics.AuthRefused.Load()
				if parallel != (refused > 0) || s.metrics.AuthDelayed.Load() == 0 {
					t.Errorf("%d refused, %d delayed", refused, s.metrics.AuthDelayed.Load())
				}
				c := s.dialFrom(t, "10.6.6.6")
				before := time.Now()
				if c.auth("super:secret"); time.Since(before) > 0 {
					t.Errorf("after a minute the address waits %v", time.Since(before))
				}
			})
		})
	}
}

// TestAuthLimitCountsFailures checks that what succeeds is not limited, nor what can't fail, and
// that 0 means no limit.
func TestAuthLimitCountsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, superIs)
		began := time.Now()
		for i := range 100 {
			c := s.connect(t)
			c.auth("super:secret")
			c.auth(fmt.Sprintf("user%d:pw", i))
			c.auth("superior:x")
			c.ok(jute.OpAuth, &jute.AuthRequest{Scheme: "ip"})
			c.nc.Close()
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("good ones take %v", took)
		}
		failures := func(s *testServer) time.Duration {
			began := time.Now()
			for range 30 {
				c := s.connect(t)
				if r := c.call(jute.OpAuth, &jute.AuthRequest{Scheme: "nis", Auth: []byte("x")}); r.Err != jute.ErrAuthFailed {
					t.Errorf("got %v", r)
				}
				c.nc.Close()
			}
			return time.Since(began)
		}
		if took := failures(s); took < 4*time.Second || took > 6*time.Second {
			t.Errorf("30 failures take %v, want 5 s", took)
		}
		if took := failures(startServer(t, "zkd.authFailuresPerSecond=0")); took > 0 {
			t.Errorf("without a limit, failures take %v", took)
		}
	})
}

// TestAuthDelayAndStop checks that an attempt that waits does not hold up the end of the server.
func TestAuthDelayAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, superIs)
		var all []*client
		for i := range 40 {
			c := s.connect(t)
			c.sendFrame(requestFrame(jute.XidAuth, jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: fmt.Appendf(nil, "super:%d", i)}))
			all = append(all, c)
		}
		synctest.Wait()
		began := time.Now()
		if err := s.Close(); err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("Close: %v after %v", err, time.Since(began))
		}
		for _, c := range all {
			c.nc.Close()
		}
	})
}

// TestAuthFailureInAudit checks that a guess at the super user's password is a failure in the
// audit log, although the client is answered that it is another user of that name.
func TestAuthFailureInAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, audited...)
		c := s.connect(t)
		c.auth("super:guess")
		c.auth("super:secret")
		s.Close()
		lines := auditLines(t, s.opts.FS, map[jute.SessionID]string{c.session: "C"})
		if len(lines) != 2 || !strings.HasSuffix(lines[0], "operation=addAuth scheme=digest result=failure") ||
			!strings.HasSuffix(lines[1], "operation=addAuth scheme=digest result=success") {
			t.Errorf("got\n%s", strings.Join(lines, "\n"))
		}
	})
}
