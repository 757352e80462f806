package clients

import (
	"sync"

	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/fair"
)

// unread counts what clients have not read yet, of the connections that count: see writer.countLocked. When it is
// more than the limit, those who hold most lose their connections, and not those who come then.
type unread struct {
	limit int64
	end   func(*line.Line) // ends a connection that gives way; another one may be locked

	mu   sync.Mutex // innermost
	sum  int64
	held map[*line.Line]int64 // without those that were ended
}

// add counts more bytes of a connection, or fewer. It may end connections.
func (u *unread) add(l *line.Line, n int64) {
	for _, over := range u.count(l, n) {
		u.end(over)
	}
}

// count returns the connections that have to be ended.
func (u *unread) count(l *line.Line, n int64) (over []*line.Line) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if l.Outbox.IsCut() {
		return nil
	}
	u.sum += n
	if u.held[l] += n; u.held[l] == 0 {
		delete(u.held, l)
	}
	if n > 0 && u.sum > u.limit {
		over = u.heaviestLocked(u.sum - u.limit)
	}
	for _, l := range over {
		l.Outbox.Cut()
		u.sum -= u.held[l]
		delete(u.held, l)
	}
	return over
}

// heaviestLocked returns the connections that give way.
func (u *unread) heaviestLocked(tooMuch int64) (over []*line.Line) {
	holders := make([]fair.Holder[*line.Line], 0, len(u.held))
	for l, n := range u.held {
		holders = append(holders, fair.Holder[*line.Line]{Key: l, Groups: l.Host().Groups(), Amount: n})
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
