package show

import (
	"time"
)

// Dirs has the bytes on disk of snapshots and of the log.
type Dirs struct{ Data, Log int64 }

// Snapshot is the newest snapshot.
type Snapshot struct {
	Zxid int64
	At   time.Time
}

// Peer is a server's part in its ensemble. Addresses are host:port.
type Peer struct {
	ID     int64
	Leads  bool
	Leader int64 // -1 if none is known
	Voter  bool
	// Activity is election, discovery, synchronization or broadcast.
	Activity string
	Members  []Member
	// Observers are those that follow this leader, by id.
	Observers []Observer
}

// Observer is an observer that follows this leader, and the link to it.
type Observer struct {
	ID     int64
	Remote string    // host:port
	Since  time.Time // the link
	// Received and Sent are frames, and Queued are bytes that wait to be sent.
	Received, Sent uint64
	Queued         int
	Requests       uint64 // that it has forwarded
	Zxid           int64  // it has all up to this one
}

// Member is a row of the list of members.
type Member struct {
	ID               int64
	Quorum, Election []string
	Client           string
	Observer         bool
}

// Member returns the member with an id, or one without addresses.
func (p *Peer) Member(id int64) Member {
	for _, m := range p.Members {
		if m.ID == id {
			return m
		}
	}
	return Member{}
}

// Concern says which pages a check belongs to.
type Concern int

// The concerns of a check.
const (
	Live  Concern = 1 << iota // the process makes progress; if not, it should be restarted
	Ready                     // this server serves clients now
)

// Check is a part of a server's health.
type Check struct {
	Name    string
	Concern Concern
	// Problem is the reason why the check fails; "" if it passes.
	Problem string
	// Note is something that an operator should know although the check passes.
	Note string
}
