package line

import "github.com/zkd-project/zkd/client"

// Guard returns the operations preceded by a check that the place exists. A multi of them
// takes effect only if it does; otherwise it fails with client.ErrNoNode of the place's path.
// Names of places are unique, so nothing else needs to be checked.
func (p *Place) Guard(ops ...client.Op) []client.Op {
	return append([]client.Op{client.CheckOp(p.path, client.AnyVersion)}, ops...)
}
