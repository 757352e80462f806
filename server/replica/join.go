package replica

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// joinRetry is the time between two requests to be added, in ms.
const joinRetry = 5000

// noteMember notes that a list of the history has this server.
func (r *Replica) noteMember() {
	if _, newest := r.Core.Lists(); r.status.Role == zab.Following && newest.Version != 0 && newest.Find(r.o.ID) != nil {
		r.joined = true
	}
}

// askToJoin asks the leader to add this server as an observer, while it follows and no list
// has it. A server that has been in a list does not ask: somebody has removed it.
func (r *Replica) askToJoin() {
	now := r.now()
	if r.o.Join == "" || r.joined || r.status.Role != zab.Following || now < r.joinAt {
		return
	}
	if _, newest := r.Core.Lists(); newest.Find(r.o.ID) != nil {
		return
	}
	r.joinAt = now + joinRetry
	r.event(zab.Info, r.status.Leader, "asks the leader to add this server to the members, as an observer")
	begin := r.beginFrame()
	r.buf = append(r.buf, r.o.Join...)
	r.toLeader(frameJoin, begin)
}

// errNotAnObserver means that a request to join asks for more than to add its sender as an
// observer.
var errNotAnObserver = errors.New("a server that joins is added as an observer, and changes no other server")

// hearJoin adds a server to the members, as an observer. It does nothing for a member, while
// another change is under way, and while writes are refused: the server asks again.
func (r *Replica) hearJoin(peer zab.SID, line string) {
	now, _ := r.Core.Lists()
	if r.status.Role != zab.Leading || r.o.Reconfigure == nil || now.Find(peer) != nil || r.refusesWrites() {
		return
	}
	if joinsAnother.Planted() {
		peer = peer%4 + 1
	}
	list, err := r.withObserver(now, peer, line)
	if err == nil {
		list.Commanded = true
		_, err = r.Core.ProposeMembers(list)
	}
	switch {
	case errors.Is(err, zab.ErrNotLeading), errors.Is(err, zab.ErrMembersPending):
	case err != nil:
		r.event(zab.Warn, peer, fmt.Sprintf("a server asks to be added to the members, and is refused: %v", err))
	default:
		r.event(zab.Info, peer, "adds a server that asked for it to the members, as an observer")
	}
}

// withObserver returns the members with a server in addition, as the observer that a line
// describes.
func (r *Replica) withObserver(now *zab.Members, id zab.SID, line string) (zab.Members, error) {
	switch {
	case !r.o.Evaluate.ReconfigEnabled:
		return zab.Members{}, fmt.Errorf("reconfigEnabled is false on the leader: %w", jute.ErrReconfigDisabled)
	case slices.ContainsFunc([]byte(line), func(b byte) bool { return b == ',' || b < ' ' }): // more than one line
		return zab.Members{}, errNotAnObserver
	}
	list, _, err := r.o.Reconfigure(now, jute.ReconfigRequest{Joining: fmt.Sprintf("server.%d=%s", id, line), ConfigID: -1})
	if err != nil {
		return zab.Members{}, err
	}
	others := list
	others.List = slices.DeleteFunc(slices.Clone(list.List), func(m zab.Member) bool { return m.ID == id })
	m := list.Find(id)
	more := m == nil || !m.Observer || !others.Same(now)
	more = more && !joinsWithVote.Planted()
	if more {
		return zab.Members{}, errNotAnObserver
	}
	return list, nil
}
