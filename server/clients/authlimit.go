package clients

import (
	"errors"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
)

const (
	// authBurst is the number of attempts that an address may make at once, in seconds of
	// its rate.
	authBurst = 10 * time.Second
	// authPatience is how long an attempt may be delayed. One that would have to wait
	// longer is refused.
	authPatience = 10 * time.Second
	// authAddresses bounds the addresses that are told apart. Further ones share a rate.
	authAddresses = 1 << 16
)

// authLimiter limits how often clients of one address may fail to authenticate
// (zkd.authFailuresPerSecond), so that nobody can try many passwords. An attempt waits for
// its turn before it is checked, since a client that is answered at once when it is right
// need not wait for the answer when it is wrong. Successful attempts do not count.
//
// Each address has a token bucket of authBurst.
type authLimiter struct {
	every   atomic.Int64 // see interval
	mu      sync.Mutex
	buckets map[string]authBucket // by address
	swept   time.Duration         // when full buckets were last removed
}

type authBucket struct {
	full    time.Duration // when the bucket is full again
	delayed bool          // an attempt had to wait since it was full
}

func newAuthLimiter(perSecond int) *authLimiter {
	l := &authLimiter{buckets: make(map[string]authBucket)}
	l.setRate(perSecond)
	return l
}

// setRate sets zkd.authFailuresPerSecond.
func (l *authLimiter) setRate(perSecond int) {
	every := time.Duration(0)
	if perSecond > 0 {
		every = time.Second / time.Duration(perSecond)
	}
	l.every.Store(int64(every))
}

// interval returns the time between two attempts; 0 means no limit.
func (l *authLimiter) interval() time.Duration { return time.Duration(l.every.Load()) }

// begin takes a token for an attempt, and returns how long the attempt must wait for it.
// ok is false if that is too long; no token is taken then. first is true for the first
// attempt of an address that must wait.
func (l *authLimiter) begin(addr string, now time.Duration) (delay time.Duration, ok, first bool) {
	interval := l.interval()
	if interval == 0 {
		return 0, true, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := l.keyLocked(addr, now)
	b := l.buckets[key]
	if b.full <= now {
		b = authBucket{full: now}
	}
	b.full += interval
	if delay = b.full - now - authBurst; delay > authPatience {
		return 0, false, false
	}
	first = delay > 0 && !b.delayed
	b.delayed = b.delayed || first
	l.buckets[key] = b
	return max(delay, 0), true, first
}

// succeeded gives the token of a successful attempt back.
func (l *authLimiter) succeeded(addr string, now time.Duration) {
	interval := l.interval()
	if interval == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := l.keyLocked(addr, now)
	b := l.buckets[key]
	if b.full -= interval; b.full <= now {
		delete(l.buckets, key)
		return
	}
	l.buckets[key] = b
}

// keyLocked returns the key of an address: of IPv6, the network that one customer has.
func (l *authLimiter) keyLocked(addr string, now time.Duration) string {
	if ip, err := netip.ParseAddr(addr); err == nil && ip.Is6() && !ip.Is4In6() {
		if network, err := ip.WithZone("").Prefix(64); err == nil {
			addr = network.String()
		}
	}
	if _, known := l.buckets[addr]; known || len(l.buckets) < authAddresses {
		return addr
	}
	if now-l.swept >= time.Second {
		l.swept = now
		maps.DeleteFunc(l.buckets, func(_ string, b authBucket) bool { return b.full <= now })
	}
	if len(l.buckets) < authAddresses {
		return addr
	}
	return "others"
}

// errTooManyFailures ends a connection whose address fails to authenticate too often.
var errTooManyFailures = errors.New("too many failed authentications from this address")

// awaitAttempt waits for the turn of an attempt to authenticate that may fail. It blocks only
// the connection's own reader. Other methods of authentication than auth packets call it,
// too, and attemptSucceeded if the attempt was successful.
func (c *conn) awaitAttempt() error {
	s := c.clients
	delay, ok, first := s.authLimiter.begin(c.ip(), s.now())
	if first {
		s.log.Warn("many failed authentications from one address: its attempts are delayed",
			zap.String("address", c.ip()), zap.Int("failures_per_second", s.live.Load().AuthFailuresPerSecond))
	}
	switch {
	case !ok:
		s.metrics.AuthRefused.Add(1)
		return errTooManyFailures
	case delay == 0:
		return nil
	}
	s.metrics.AuthDelayed.Add(1)
	c.submitBatch()
	c.flush()
	turn := time.NewTimer(delay)
	defer turn.Stop()
	select {
	case <-turn.C:
		return nil
	case <-s.refusing:
		return errHangUp
	case <-c.done:
		return net.ErrClosed
	}
}

// attemptSucceeded is called after awaitAttempt if the client has proved an identity.
func (c *conn) attemptSucceeded() { c.clients.authLimiter.succeeded(c.ip(), c.clients.now()) }

// mayFail reports whether an auth packet can be wrong. Each name and password is an identity
// of the digest scheme, but only one is the super user.
func (s *Clients) mayFail(r *jute.AuthRequest) bool {
	switch r.Scheme {
	case "ip", "ensemble": // there is nothing to be guessed
		return false
	case "digest":
		user, _, _ := strings.Cut(string(r.Auth), ":")
		return s.superUser != "" && user == s.superUser
	}
	return true
}

// hasFailed reports whether an auth packet that could be wrong was wrong.
func hasFailed(r *jute.AuthRequest, creds *auth.Credentials, err error) bool {
	if err != nil || r.Scheme != "digest" {
		return err != nil
	}
	for _, id := range creds.IDs() {
		if id.Scheme == "super" {
			return false
		}
	}
	return true
}
