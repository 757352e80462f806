package clients

import (
	"sync"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/fair"
	"github.com/zkd-project/zkd/server/limits"
)

// unread counts what clients have not read yet, of the connections that count: see outBuffer. When it is
// more than the limit, those who hold most lose their connections, and not those who come then.
type unread struct {
	limit int64

	mu   sync.Mutex // innermost
	sum  int64
	held map[*conn]int64 // without those that were ended
}

// add counts more bytes of a connection, or fewer, and returns the connections that have to be ended.
func (u *unread) add(c *conn, n int64) (over []*conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.line.IsCut() {
		return nil
	}
	u.sum += n
	if u.held[c] += n; u.held[c] == 0 {
		delete(u.held, c)
	}
	if n > 0 && u.sum > u.limit {
		over = u.heaviestLocked(u.sum - u.limit)
	}
	for _, c := range over {
		c.line.Cut()
		u.sum -= u.held[c]
		delete(u.held, c)
	}
	return over
}

// heaviestLocked returns the connections that give way.
func (u *unread) heaviestLocked(tooMuch int64) (over []*conn) {
	holders := make([]fair.Holder[*conn], 0, len(u.held))
	for c, n := range u.held {
		holders = append(holders, fair.Holder[*conn]{Key: c, Groups: (*host)(c).Groups(), Amount: n})
	}
	for _, i := range fair.Release(holders, tooMuch) {
		over = append(over, holders[i].Key)
	}
	return over
}

// bytes returns what is counted.
func (u *unread) bytes() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sum
}

// cutOff ends connections that hold most of what clients have not read. Another connection may be
// locked.
func (s *Clients) cutOff(over []*conn) {
	for _, c := range over {
		s.metrics.UnreadClosed.Add(1)
		s.log.Warn("closing connection: clients do not read, and this one has the most to read",
			zap.Stringer("remote", c.nc.RemoteAddr()), zap.Stringer("session", c.line.SessionID()), zap.Int64("limit_of_all_bytes", s.unread.limit))
		s.running.Go(c.kill)
	}
}

// Groups returns what a client has in common with others. See package fair.
func Groups(creds *auth.Credentials) []string { return limits.Groups(creds.IDs()) }
