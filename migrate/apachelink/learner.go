package apachelink

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/apachefiles"
	"github.com/zkd-project/zkd/server/datatree"
)

// The errors of a link that ends for more than a failure of the network.
var (
	// ErrStartOver means that this copy can't be continued: the next link has to report 0.
	ErrStartOver = errors.New("the copy has to be made again")
	// ErrStop means that no other link can help before an operator has looked.
	ErrStop = errors.New("stopped")
)

const protocolVersion = 0x10000

// Options are what a learner reports to the leader.
type Options struct {
	SID      uint8     // no server of the ensemble has it
	Accepted uint32    // the greatest epoch that was recorded
	Last     jute.Zxid // of the last durable transaction; 0 to ask for all of the state
}

// Step is what to do after a packet, in the order of the fields.
type Step struct {
	Accept    uint32               // record this epoch durably; 0 for none
	ReadState bool                 // read the state that follows, and call Learner.State
	Install   *apachefiles.Tree    // replace the copy by this state, durably; only with Synced
	Found     *apachefiles.Summary // in Install
	Txns      []*apachefiles.Txn   // log and apply these
	Send      []Packet
	Synced    bool      // the copy is up to date
	Proposed  jute.Zxid // the leader's last proposal; 0 if it did not tell
}

// phase is what the learner waits for.
type phase uint8

const (
	awaitLeaderInfo phase = iota
	awaitKind             // DIFF, SNAP or TRUNC
	awaitState
	awaitNewLeader
	awaitUpToDate
	following
)

// Learner is the state of one link to a leader.
type Learner struct {
	o         Options
	phase     phase
	epoch     uint32
	last      jute.Zxid // of what was passed on
	label     jute.Zxid
	fuzzy     *apachefiles.Fuzzy // after a SNAP, until it is exact
	window    jute.Zxid          // of the last transaction given to fuzzy, 0 for none
	proposals []*apachefiles.Txn // not committed; oldest first
	// held are the transactions before UPTODATE. A leader tells of all that it has as committed; only then a quorum
	// has it, too, and no other leader lacks it.
	held []*apachefiles.Txn
}

// maxProposals bounds the proposals that wait for their commits.
const maxProposals = 1 << 16

// NewLearner returns a learner for a link that was just made.
func NewLearner(o Options) *Learner { return &Learner{o: o, last: o.Last} }

// Greeting returns the first packet.
func (l *Learner) Greeting() Packet {
	info := jute.AppendInt64(nil, int64(l.o.SID))
	info = jute.AppendInt64(jute.AppendInt32(info, int32(protocolVersion)), int64(0))
	return Packet{ObserverInfo, jute.MakeZxid(l.o.Accepted, 0), info}
}

// Step takes the leader's next packet. After an error the link is of no more use.
func (l *Learner) Step(p *Packet) (s Step, err error) {
	switch l.phase {
	case awaitLeaderInfo:
		return l.leaderInfo(p)
	case awaitKind:
		return l.kind(p)
	case awaitState:
		return s, fmt.Errorf("%v instead of the state", p.Type)
	}
	switch p.Type {
	case Proposal:
		err = l.propose(p)
	case Commit, CommitAndActivate:
		err = l.commit(p.Zxid, &s)
	case Inform, InformAndActivate:
		err = l.inform(p, &s)
	case NewLeader:
		err = l.newLeader(p, &s)
	case UpToDate:
		err = l.upToDate(&s)
	case Ping:
		if l.phase != awaitNewLeader {
			s.Send = []Packet{{Ping, p.Zxid, []byte{}}}
			s.Proposed = p.Zxid
		}
	}
	return s, err
}

// State takes the state that has followed a SNAP.
func (l *Learner) State(f *apachefiles.Fuzzy) {
	l.fuzzy, l.phase = f, awaitNewLeader
}

// Label returns the zxid of the SNAP whose state is to be read.
func (l *Learner) Label() jute.Zxid { return l.label }

// Epoch returns the leader's epoch, 0 before it is known.
func (l *Learner) Epoch() uint32 { return l.epoch }

func (l *Learner) leaderInfo(p *Packet) (s Step, err error) {
	if p.Type != LeaderInfo || len(p.Data) != 4 || binary.BigEndian.Uint32(p.Data) < protocolVersion {
		return s, fmt.Errorf("%v with %d bytes instead of LEADERINFO: it is no leader of Apache ZooKeeper 3.4 or later", p.Type, len(p.Data))
	}
	l.epoch = p.Zxid.Epoch()
	current := int32(-1)
	switch {
	case l.epoch < l.o.Accepted:
		return s, fmt.Errorf("a leader of epoch %d, and epoch %d has begun: it is an old one", l.epoch, l.o.Accepted)
	case l.epoch > l.o.Accepted:
		s.Accept, current = l.epoch, int32(l.o.Last.Epoch())
	}
	s.Send = []Packet{{AckEpoch, l.o.Last, jute.AppendInt32(nil, current)}}
	l.phase = awaitKind
	return s, nil
}

func (l *Learner) kind(p *Packet) (s Step, err error) {
	switch p.Type {
	case Diff:
		l.phase = awaitNewLeader
	case Snap:
		l.label, l.phase, s.ReadState = p.Zxid, awaitState, true
	case Trunc:
		return s, fmt.Errorf("%w: the leader wants the transactions after %v to be dropped, and this copy has committed ones up to %v. "+
			"Either the ensemble has lost what it had confirmed, or it is another ensemble. To follow what it has now, make another copy, in an empty directory", ErrStop, p.Zxid, l.last)
	default:
		return s, fmt.Errorf("%v instead of DIFF or SNAP", p.Type)
	}
	return s, nil
}

// propose holds a transaction until it is committed. Once the copy is up to date there are none
// for an observer.
func (l *Learner) propose(p *Packet) error {
	if l.phase == following {
		return nil
	}
	x, err := decode(p, p.Data)
	if err != nil {
		return err
	}
	if len(l.proposals) == maxProposals {
		return errors.New("too many proposals without commits")
	}
	l.proposals = append(l.proposals, x)
	return nil
}

// commit passes a proposal on. Older ones were not committed.
func (l *Learner) commit(z jute.Zxid, s *Step) error {
	if l.phase == following {
		return nil
	}
	for len(l.proposals) > 0 && l.proposals[0].Zxid < z {
		l.proposals = l.proposals[1:]
	}
	if len(l.proposals) == 0 || l.proposals[0].Zxid != z {
		return fmt.Errorf("a commit of %v, which was not proposed", z)
	}
	x := l.proposals[0]
	l.proposals = l.proposals[1:]
	return l.deliver(x, s)
}

func (l *Learner) inform(p *Packet, s *Step) error {
	data := p.Data
	if p.Type == InformAndActivate {
		if len(data) < 8 {
			return fmt.Errorf("%v of %d bytes", p.Type, len(data))
		}
		data = data[8:] // the designated leader
	}
	x, err := decode(p, data)
	if err != nil {
		return err
	}
	l.proposals = slices.DeleteFunc(l.proposals, func(o *apachefiles.Txn) bool { return o.Zxid == x.Zxid })
	return l.deliver(x, s)
}

// deliver passes a committed transaction on, or makes the state exact with it.
func (l *Learner) deliver(x *apachefiles.Txn, s *Step) error {
	for i := range x.Ops {
		if o := &x.Ops[i]; o.Kind == datatree.OpSetData && o.Path == datatree.ConfigPath {
			if err := l.checkConfig(o.Data); err != nil {
				return err
			}
		}
	}
	if l.fuzzy != nil {
		return l.replay(x)
	}
	if err := follows(l.last, x.Zxid); err != nil {
		return fmt.Errorf("%w: %w", ErrStartOver, err)
	}
	l.last = x.Zxid
	if l.phase == following {
		s.Txns = append(s.Txns, x)
	} else {
		l.held = append(l.held, x)
	}
	return nil
}

// replay applies a transaction to the fuzzy state, which may have it already: the first ones may
// be older than the label.
func (l *Learner) replay(x *apachefiles.Txn) error {
	before := l.window
	if before == 0 && x.Zxid > l.label {
		before = l.label
	}
	if before != 0 {
		if err := follows(before, x.Zxid); err != nil {
			return err
		}
	}
	l.window = x.Zxid
	l.fuzzy.Apply(x)
	return nil
}

func (l *Learner) newLeader(p *Packet, s *Step) error {
	if l.phase != awaitNewLeader || p.Zxid.Epoch() != l.epoch {
		return fmt.Errorf("NEWLEADER %v in epoch %d", p.Zxid, l.epoch)
	}
	if err := l.checkConfig(p.Data); err != nil {
		return err
	}
	// An observer's acknowledgement counts for nothing, so nothing has to be durable.
	s.Send = []Packet{{Ack, jute.MakeZxid(l.epoch, 0), nil}}
	l.phase = awaitUpToDate
	return nil
}

// install passes on the state that a SNAP has brought, if there was one. It is exact by now, also that of a leader of 3.4: it has queued
// NEWLEADER before it wrote the state, and what it applied meanwhile comes up to UPTODATE.
func (l *Learner) install(s *Step) error {
	if l.fuzzy == nil {
		return nil
	}
	tree, found, err := l.fuzzy.Finish()
	if err != nil {
		return err
	}
	if tree.Last < l.last {
		return fmt.Errorf("%w: the leader's state ends at %v, and this copy has committed transactions up to %v. "+
			"Either the ensemble has lost what it had confirmed, or it is another ensemble. To follow what it has now, make another copy, in an empty directory", ErrStop, tree.Last, l.last)
	}
	s.Install, s.Found = tree, found
	l.last, l.fuzzy = tree.Last, nil
	return nil
}

func (l *Learner) upToDate(s *Step) error {
	if l.phase != awaitUpToDate {
		return errors.New("UPTODATE without NEWLEADER")
	}
	if err := l.install(s); err != nil {
		return err
	}
	s.Txns = l.held
	l.phase, l.proposals, l.held = following, nil, nil
	s.Send = []Packet{{Ack, jute.MakeZxid(l.epoch, 0), nil}}
	s.Synced = true
	return nil
}

// checkConfig returns an error if the text of the ensemble's members names a server with the
// learner's id: the leader would take one for the other.
func (l *Learner) checkConfig(text []byte) error {
	prefix := fmt.Appendf(nil, "server.%d=", l.o.SID)
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, prefix) {
			return fmt.Errorf("%w: server %d is a member of the ensemble: choose an id that no server has", ErrStop, l.o.SID)
		}
	}
	return nil
}

// decode decodes a packet's transaction, whose zxid the packet repeats.
func decode(p *Packet, data []byte) (*apachefiles.Txn, error) {
	x, err := apachefiles.DecodeTxn(data)
	if err == nil && x.Zxid != p.Zxid {
		err = fmt.Errorf("it has zxid %v", x.Zxid)
	}
	if err != nil {
		return nil, fmt.Errorf("%v %v: %w", p.Type, p.Zxid, err)
	}
	return x, nil
}
