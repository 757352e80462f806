package clients

import (
	"cmp"
	"slices"
	"sync"

	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/show"
)

// endedUses is what connections did that have ended, by address and identity. It has at most
// maxEndedUses rows: the smallest of more are added to one row.
type endedUses struct {
	mu   sync.Mutex
	rows map[endedBy]*show.ClientUse
}

type endedBy struct{ address, identity string }

const maxEndedUses = 256

// othersUse is the address of the row for all that have no row of their own.
const othersUse = "(others)"

// add adds the use of a connection that ended.
func (e *endedUses) add(u *show.ClientUse) {
	if u.Requests == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rows == nil {
		e.rows = make(map[endedBy]*show.ClientUse)
	}
	e.addLocked(endedBy{u.Address, u.Identity}, u)
	for len(e.rows) > maxEndedUses {
		var least endedBy
		for by, row := range e.rows {
			if by.address != othersUse && (least.address == "" || row.Requests < e.rows[least].Requests) {
				least = by
			}
		}
		row := e.rows[least]
		delete(e.rows, least)
		e.addLocked(endedBy{address: othersUse}, row)
	}
}

func (e *endedUses) addLocked(by endedBy, u *show.ClientUse) {
	row := e.rows[by]
	if row == nil {
		row = &show.ClientUse{Address: by.address, Identity: by.identity}
		e.rows[by] = row
	}
	row.Add(u)
}

// use returns what the connection did. Its watches are not counted.
func (c *conn) use() show.ClientUse {
	u := show.ClientUse{Address: c.ip(), Port: int(remoteAddrPort(c).Port()), Session: int64(c.line.SessionID()), Connections: 1}
	if id, ok := auth.Principal(c.credentials.Load().IDs()); ok {
		u.Identity = id.Scheme + ":" + auth.User(id)
	}
	c.mu.Lock()
	st := &c.mu.stats
	u.Requests, u.Replies, u.BytesIn, u.BytesOut = st.received, st.sent, st.bytesIn, st.bytesOut
	c.mu.Unlock()
	return u
}

// Clients is that of show.Lists.
func (f Facts) Clients() (list []show.ClientUse) {
	for _, c := range f.clients.all() {
		if c.line.Origin() == f.asker {
			continue
		}
		u := c.use()
		if w, ok := c.line.WatchHandle(); ok {
			u.Watches = int64(f.clients.state.Watches.CountOf(w))
		}
		list = append(list, u)
	}
	e := &f.clients.ended
	e.mu.Lock()
	for _, row := range e.rows {
		list = append(list, *row)
	}
	e.mu.Unlock()
	slices.SortFunc(list, func(a, b show.ClientUse) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Session, b.Session), cmp.Compare(a.Identity, b.Identity))
	})
	return list
}
