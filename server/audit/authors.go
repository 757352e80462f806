package audit

import (
	"cmp"
	"sync"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
)

// Author is the client of a transaction.
type Author struct{ User, IP string }

// authored is how many transactions Authors has.
const authored = 1024

// Authors has the authors of the last transactions, in memory.
type Authors struct {
	mu   sync.Mutex
	ring [authored]struct {
		zxid jute.Zxid
		Author
	}
	next int
}

// put notes the author of a transaction. Of a multi there are several entries.
func (a *Authors) put(e *Entry) {
	if e.Zxid <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ring[(a.next+authored-1)%authored].zxid == e.Zxid {
		return
	}
	to := &a.ring[a.next]
	to.zxid, to.Author = e.Zxid, Author{User: cmp.Or(e.User, namesOf(e.IDs)), IP: e.IP}
	a.next = (a.next + 1) % authored
}

// namesOf names identities, but for addresses. It cuts what a Tail cuts.
func namesOf(ids []jute.ID) (names string) {
	for i := range ids[:min(len(ids), tailList)] {
		if ids[i].Scheme == "ip" {
			continue
		}
		name := ids[i].Scheme + ":" + auth.User(ids[i])
		if name = name[:min(len(name), tailField)]; names != "" {
			name = ", " + name
		}
		names += name
	}
	return names
}

// ByZxid returns the authors by their transactions.
func (a *Authors) ByZxid() map[jute.Zxid]Author {
	a.mu.Lock()
	defer a.mu.Unlock()
	authors := make(map[jute.Zxid]Author)
	for i := range a.ring {
		if a.ring[i].zxid != 0 {
			authors[a.ring[i].zxid] = a.ring[i].Author
		}
	}
	return authors
}
