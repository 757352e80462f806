package server

import (
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/server/zab"
)

// millis converts a time of the server's clock for the core and the session tracker.
func millis(d time.Duration) int64 { return d.Milliseconds() }

// standing is this server's part in the ensemble. The peer loop alone writes it; other parts
// read what they get of it.
type standing struct {
	role  atomic.Pointer[zab.Status]
	intro atomic.Pointer[zab.Introduction] // what hellos say
	lists atomic.Pointer[memberLists]
	peers atomic.Pointer[[]zab.PeerStatus] // of a leader, updated from time to time

	requests   [zab.Zero + 1]atomic.Uint64 // by server: what it has forwarded to this one
	quorumFull atomic.Bool                 // of a leader: the voters whose disks have room are not a quorum
	// Of a leader: writes that need more memory are refused. Of any server: how much the trees of all members
	// may take, as far as it knows, and the member that can't hold more.
	treeFull   atomic.Bool
	treeRoom   atomic.Int64
	treeRoomOf atomic.Int32
	held       held
}

// leads reports whether this server is a leader in service.
func (st *standing) leads() bool { return st.role.Load().Role == zab.Leading }

// listed reports whether a server is a member.
func (st *standing) listed(id zab.SID) bool { return st.lists.Load().settled.Find(id) != nil }

// forwarded returns how many requests a server has forwarded to this one.
func (st *standing) forwarded(by zab.SID) uint64 { return st.requests[by].Load() }

// memberLists are the lists of members that decide: see zab.Core.Lists. They are
// immutable.
type memberLists struct {
	settled, newest *zab.Members
	// served means that this server has served clients as a member, since its start. A server
	// that the settled list lacks was removed if so; otherwise nobody has added it yet.
	served bool
}

// service is what the clients' side has to know of the peer loop, which alone writes it, except
// that a failure ends the service.
type service struct {
	serving      atomic.Bool   // a leader is known, or this server is the leader
	number       atomic.Uint64 // of the present service; 0 if there is none
	from         atomic.Int64  // when it began; time.Duration
	idleSince    atomic.Int64  // when a service last ended; time.Duration
	answersUntil atomic.Int64  // as zab.Core.AnswersUntil, on the server's clock
}

func (s *service) Serving() bool            { return s.serving.Load() }
func (s *service) Service() uint64          { return s.number.Load() }
func (s *service) AnswersUntil() int64      { return s.answersUntil.Load() }
func (s *service) IdleSince() time.Duration { return time.Duration(s.idleSince.Load()) }

// serviceView is what is to be read of a service.
type serviceView interface {
	Serving() bool
	Service() uint64
	AnswersUntil() int64
	IdleSince() time.Duration
}

// following is how this server follows the members that a command has made.
type following struct {
	changed chan struct{}          // has a token when the lists have changed
	problem atomic.Pointer[string] // why the last change can't be followed; nil or "" if it is
}
