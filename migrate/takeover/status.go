package takeover

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/apachelink"
	"github.com/zkd-project/zkd/migrate/mirror"
	"github.com/zkd-project/zkd/server/copies"
)

// StatusFile is the file in the directory of a mirror with its Status. It counts for nothing
// but the status.
const StatusFile = "mirror.status"

// Status is how far a mirror is.
type Status struct {
	Dir    string   `json:"dir"`
	From   []string `json:"from"`
	Server uint8    `json:"server"`
	// Member names the member to be for takeover decide.
	Member  string `json:"member"`
	Running bool   `json:"running"`
	// State is connecting, synchronizing, synced, waiting, stopped, or unknown.
	State   string    `json:"state"`
	Leader  string    `json:"leader,omitempty"`
	Epoch   uint32    `json:"epoch"`
	Zxid    string    `json:"zxid"`
	Durable string    `json:"durableZxid"`
	Lag     int64     `json:"lag"` // proposals of the leader that the copy did not have at the last ping
	Heard   time.Time `json:"heard"`
	// Waits is why nothing more gets onto the disk.
	Waits string `json:"waits,omitempty"`
	// Unknown is why the rest may not be so any more.
	Unknown string `json:"unknown,omitempty"`
	// Digest is Apache's digest of the copy at Zxid, in hex. Digests counts the transactions
	// whose digest was right, and Unfit those that did not fit.
	Digest  string `json:"apacheDigest"`
	Digests int64  `json:"digests"`
	Unfit   int64  `json:"unfit"`

	Transactions int64     `json:"transactions"`
	Snaps        int64     `json:"snaps"`
	Diffs        int64     `json:"diffs"`
	Znodes       int       `json:"znodes"`
	Sessions     int       `json:"sessions"`
	Ephemerals   int       `json:"ephemerals"`
	Written      time.Time `json:"written"`
}

// reporter keeps the status of a running mirror.
type reporter struct {
	writer *mirror.StatusWriter
	data   *mirror.Mirror // of other goroutines it takes Durable and Waits alone

	mu struct {
		sync.Mutex
		Status
		zxid    jute.Zxid
		digest  uint64
		founder mirror.Founder
	}
}

func newReporter(m *follower) *reporter {
	r := &reporter{data: m.data}
	r.mu.Status = Status{Dir: m.o.Dir, From: m.o.From, Server: m.o.ID, State: "connecting"}
	r.copied(m) // before the first write, which replaces what the last run has left
	r.writer = mirror.WriteStatus(filepath.Join(m.o.Dir, StatusFile), r.status)
	return r
}

func (r *reporter) status() any {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.mu.Status
	durable := r.data.Durable()
	s.Member = copies.Member{Admission: r.mu.founder, Last: durable}.String()
	s.Zxid, s.Durable, s.Digest = r.mu.zxid.String(), durable.String(), fmt.Sprintf("%x", r.mu.digest)
	if waits := r.data.Waits(); waits != nil && s.State != "stopped" {
		s.State, s.Waits = "waiting", waits.Error()
	}
	s.Written = time.Now()
	return &s
}

func (r *reporter) close() {
	r.change(func(s *Status) { s.State, s.Leader = "stopped", "" })
	r.writer.Close()
}

// copied notes what the copy has.
func (r *reporter) copied(m *follower) {
	stats := m.data.Tree().Stats()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.founder = m.data.Founder()
	r.mu.zxid = m.data.Last()
	r.mu.digest, r.mu.Digests = m.copy.Digest(), m.copy.Digests
	r.mu.Znodes, r.mu.Sessions, r.mu.Ephemerals = stats.Nodes, stats.Sessions, stats.Ephemerals
}

// followed notes a packet that was carried out.
func (r *reporter) followed(m *follower, l *apachelink.Learner, p *apachelink.Packet, s *apachelink.Step, addr string) {
	r.copied(m)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.Leader, r.mu.Epoch, r.mu.Heard = addr, l.Epoch(), time.Now()
	r.mu.Transactions += int64(len(s.Txns))
	switch p.Type {
	case apachelink.LeaderInfo:
		r.mu.State = "synchronizing"
	case apachelink.Diff:
		r.mu.Diffs++
	case apachelink.Snap:
		r.mu.Snaps++
	}
	if s.Synced {
		r.mu.State = "synced"
	}
	if s.Proposed != 0 {
		r.mu.Lag = 0
		if z := m.data.Last(); s.Proposed.Epoch() == z.Epoch() {
			r.mu.Lag = max(0, int64(s.Proposed-z))
		}
	}
}

func (r *reporter) unfit() { r.change(func(s *Status) { s.Unfit++ }) }

func (r *reporter) lost() {
	r.change(func(s *Status) { s.State, s.Leader = "connecting", "" })
}

func (r *reporter) change(f func(s *Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.mu.Status)
}

// ReadStatus returns the status of the mirror in dir.
func ReadStatus(dir string) (s *Status, err error) {
	s = &Status{}
	if s.Running, err = mirror.ReadStatus(dir, StatusFile, s); err != nil {
		return nil, err
	}
	if !s.Running {
		s.State, s.Leader = "stopped", ""
	} else if why := mirror.Unwritten(s.Written); why != "" {
		s.State, s.Unknown = "unknown", why
	}
	return s, nil
}

// Text returns the status for people.
func (s *Status) Text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s"+format+"\n", append([]any{name}, args...)...)
	}
	line("copy", "%s, of server %d", s.Dir, s.Server)
	state := s.State
	if s.Leader != "" {
		state += fmt.Sprintf(" with %s, epoch %d", s.Leader, s.Epoch)
	}
	line("state", "%s", state)
	if s.Unknown != "" {
		line("unknown", "%s", s.Unknown)
	}
	line("member", "%s", s.Member)
	line("zxid", "%s, on disk %s", s.Zxid, s.Durable)
	if s.Waits != "" {
		line("waits", "%s", s.Waits)
	}
	line("lag", "%d transactions", s.Lag)
	line("digests", "%d right, %d wrong; of the tree %s", s.Digests, s.Unfit, s.Digest)
	line("received", "%d transactions, %d SNAP, %d DIFF", s.Transactions, s.Snaps, s.Diffs)
	line("state has", "%d znodes, %d ephemerals, %d sessions", s.Znodes, s.Ephemerals, s.Sessions)
	return b.String()
}
