package line

import "github.com/zkd-project/zkd/client"

// Guard returns the operations with a check before them that the place exists. A
// multi of them is done as one if it does when the servers come to it, and else not at
// all and with client.ErrNoNode of the place's path. Names of places are unique, so
// that is all there is to check.
func (p *Place) Guard(ops ...client.Op) []client.Op {
	return append([]client.Op{client.CheckOp(p.path, client.AnyVersion)}, ops...)
}
