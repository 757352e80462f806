package clients

import (
	"sync"

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

// appendTo appends the rows to list.
func (e *endedUses) appendTo(list []show.ClientUse) []show.ClientUse {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, row := range e.rows {
		list = append(list, *row)
	}
	return list
}
