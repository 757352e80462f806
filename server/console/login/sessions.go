package login

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/zkd-project/zkd/server/api"
)

const (
	// idle is how long a session stays without a request, and longest how long at most. That of a token ends with it.
	idle    = 30 * time.Minute
	longest = 12 * time.Hour
	// most bounds the sessions, and mostOfOne those of one network: see limits.Network. With one more, the one that was not used for
	// the longest time ends.
	most      = 256
	mostOfOne = 32
)

// key is the hash of what the cookie has. So a look-up tells nothing by the time that it takes.
type key [sha256.Size]byte

// bond is what a session is bound to: that its browser uses TLS, and the certificate that it shows.
type bond [sha256.Size]byte

// session is a browser that has signed in.
type session struct {
	key     key
	bond    bond
	network string // from which it has signed in
	proof   api.Proof
	name    string // who it is
	token   string // which its requests have in a header
	began   time.Time
	until   time.Time       // its end at the latest
	finish  finish          // of a sign-in that is under way elsewhere
	ctx     context.Context // ends with it
	cancel  context.CancelFunc

	// Guarded by sessions.mu.
	used  time.Time // when a request last began or ended
	busy  int       // requests
	timer *time.Timer
}

// sessions are those of all browsers.
type sessions struct {
	mu sync.Mutex
	of map[key]*session
}

// begin begins a session that ends at until at the latest, unless that is zero. It returns what the cookie has.
func (t *sessions) begin(s session, until time.Time) (id string, begun *session) {
	id = rand.Text()
	now := time.Now()
	s.key, s.token, s.began, s.used, s.until = sha256.Sum256([]byte(id)), rand.Text(), now, now, now.Add(longest)
	if !until.IsZero() && until.Before(s.until) {
		s.until = until
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	begun = &s
	t.mu.Lock()
	defer t.mu.Unlock()
	t.makeRoomLocked(s.network)
	t.of[s.key] = begun
	s.timer = time.AfterFunc(min(idle, s.until.Sub(now)), func() { t.look(begun) })
	return id, begun
}

// makeRoomLocked ends a session if there are too many for one more of a network: one of that network, or one of the network that has
// most.
func (t *sessions) makeRoomLocked(network string) {
	count := make(map[string]int)
	for _, s := range t.of {
		count[s.network]++
	}
	if count[network] < mostOfOne {
		if len(t.of) < most {
			return
		}
		for n := range count {
			if count[n] > count[network] || count[network] == 0 {
				network = n
			}
		}
	}
	var oldest *session
	for _, s := range t.of {
		if s.network == network && (oldest == nil || s.used.Before(oldest.used)) {
			oldest = s
		}
	}
	t.endLocked(oldest)
}

// enter begins a request of a session, nil if there is no such session. leave has to be called afterwards.
func (t *sessions) enter(id string, b bond) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.findLocked(id, b)
	if s != nil {
		s.busy++
		s.used = time.Now()
	}
	return s
}

func (t *sessions) findLocked(id string, b bond) *session {
	s := t.of[sha256.Sum256([]byte(id))]
	if s == nil || s.bond != b || !time.Now().Before(s.until) {
		return nil
	}
	return s
}

// take is enter for what is good for one request: it ends with it.
func (t *sessions) take(id string, b bond) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.findLocked(id, b)
	if s != nil {
		t.endLocked(s)
	}
	return s
}

// leave ends a request.
func (t *sessions) leave(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.busy--
	s.used = time.Now()
}

// look ends a session whose time is over, and looks again later at another one.
func (t *sessions) look(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	left := s.until.Sub(now)
	if s.busy == 0 {
		left = min(left, s.used.Add(idle).Sub(now))
	}
	if left > 0 {
		s.timer.Reset(min(left, idle))
		return
	}
	t.endLocked(s)
}

// end ends a session, and its requests that are under way.
func (t *sessions) end(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(s)
}

func (t *sessions) endLocked(s *session) {
	delete(t.of, s.key)
	s.timer.Stop()
	s.cancel()
}
