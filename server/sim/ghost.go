package sim

import (
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/zab"
)

// Failure is a violated invariant.
type Failure struct {
	Invariant string // its id in zab.md B.4
	Text      string
	Step      int
	At        uint64 // virtual µs
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%s at step %d, %d.%03d ms: %s", f.Invariant, f.Step, f.At/1000, f.At%1000, f.Text)
}

// fail ends the run: see Sim.Run.
func (s *Sim) fail(invariant, format string, args ...any) {
	panic(&Failure{Invariant: invariant, Text: fmt.Sprintf(format, args...), Step: s.steps, At: s.now})
}

// entryOrigin is what is known about an entry from its creation.
type entryOrigin struct {
	chain uint64
	by    zab.SID
}

// commit is an element of the committed sequence, with the state of the reference.
type commit struct {
	zxid    jute.Zxid
	chain   uint64
	digest  datatree.Digest // of the tree after it
	session jute.SessionID
	origin  uint64
	cxid    int32
	err     jute.Code
	needed  bool // it is a write of a client, which it may know of
}

// ghost holds what no server can know.
type ghost struct {
	born        map[jute.Zxid]entryOrigin
	established map[uint32]zab.SID            // leader by epoch
	promised    map[uint32]map[zab.SID]uint64 // epoch, leader: bits of the servers whose promise was durable

	commits []commit // the longest committed sequence ever seen
	last    jute.Zxid
	tree    *datatree.Tree            // the reference, after the last commit
	state   zab.State                 // of the members, after the last commit
	changes []memberChange            // among commits
	events  map[string][]treeEvent    // by path, in their order
	history []pathEvent               // all of them, in their order
	wanted  map[string]*change        // of the members, by changeBy
	ahead   map[uint64]bool           // connections of connectAhead
	asked   map[uint64][]ask          // by connection: writes that were handed over and are not committed
	owner   map[jute.SessionID]uint64 // the connection that was confirmed to the session's client
	left    map[uint64]bool           // connections that sessions have left
	owners  map[jute.SessionID]uint64 // as the committed sequence says
	txn     datatree.Txn
	applied datatree.Applied

	records []record        // of all committed transactions, for feeds and views
	hidden  map[string]bool // the last ACL of a path does not allow to read it
	// families are those of znodes that have had children.
	families map[string]family

	retirements []retirement   // oldest first
	entries     []chainedEntry // all of commits, if the site can be lost
	begun       []zab.State    // with which ensembles began that copies had become
	givenUp     [][2]jute.Zxid // what was committed after the first one, up to the second, is lost

	exact      map[jute.SessionID]*exactGhost
	exactConns map[uint64]bool // connections that have been granted exactly-once

	sessions map[jute.SessionID]bool   // all sessions ever created; false once closed
	upgraded map[jute.SessionID]uint64 // when a local one became global, µs
	kept     map[jute.SessionID]uint64 // until when its client was promised that it lives, µs
	expired  map[jute.SessionID]uint64 // when its close was committed, if no client asked for it
	acked    jute.Zxid                 // highest zxid known to a client
	tops     [256]uint32               // highest promise epoch made durable, by server
	admits   [256]zab.ID               // the incarnation with which each server was last admitted
	configs  []*zab.Members            // scratch
}

func newGhost() ghost {
	tree := datatree.New()
	root, _ := tree.Get("/")
	top := root.Stat()
	return ghost{
		born:        make(map[jute.Zxid]entryOrigin),
		ahead:       make(map[uint64]bool),
		established: make(map[uint32]zab.SID),
		promised:    make(map[uint32]map[zab.SID]uint64),
		tree:        tree,
		sessions:    make(map[jute.SessionID]bool),
		upgraded:    make(map[jute.SessionID]uint64),
		kept:        make(map[jute.SessionID]uint64),
		expired:     make(map[jute.SessionID]uint64),
		events:      make(map[string][]treeEvent),
		asked:       make(map[uint64][]ask),
		wanted:      make(map[string]*change),
		owner:       make(map[jute.SessionID]uint64),
		left:        make(map[uint64]bool),
		owners:      make(map[jute.SessionID]uint64),
		hidden:      make(map[string]bool),
		families:    map[string]family{"/": {changes: top.Cversion, count: top.NumChildren}},
		exact:       make(map[jute.SessionID]*exactGhost),
		exactConns:  make(map[uint64]bool),
	}
}

// index returns the index of z in the committed sequence.
func (g *ghost) index(z jute.Zxid) (int, bool) {
	n := len(g.commits)
	if n > 0 {
		if d := g.last - z; d >= 0 && d < jute.Zxid(n) && g.commits[n-1-int(d)].zxid == z {
			return n - 1 - int(d), true
		}
	}
	return slices.BinarySearchFunc(g.commits, z, func(c commit, z jute.Zxid) int {
		if c.zxid < z {
			return -1
		} else if c.zxid > z {
			return 1
		}
		return 0
	})
}

// digestAt returns the reference's digest at z, which is committed or 0.
func (g *ghost) digestAt(z jute.Zxid, empty datatree.Digest) (datatree.Digest, bool) {
	if z == 0 {
		return empty, true
	}
	i, ok := g.index(z)
	if !ok {
		return datatree.Digest{}, false
	}
	return g.commits[i].digest, true
}

// hashEntry returns a hash of an entry's content.
func hashEntry(e *zab.Entry) uint64 {
	h := uint64(e.Zxid)*0x9e3779b97f4a7c15 ^ uint64(e.Prev)*0xd1b54a32d192ed03 ^ uint64(e.Type)<<56
	data := e.Data
	for ; len(data) >= 8; data = data[8:] {
		w := uint64(data[0]) | uint64(data[1])<<8 | uint64(data[2])<<16 | uint64(data[3])<<24 |
			uint64(data[4])<<32 | uint64(data[5])<<40 | uint64(data[6])<<48 | uint64(data[7])<<56
		h = mix(h, w)
	}
	for _, b := range data {
		h = mix(h, uint64(b))
	}
	return mix(h, uint64(len(e.Data)))
}

// mix is a step of a hash.
func mix(h, w uint64) uint64 {
	h = (h ^ w) * 0x9fb21c651e98df25
	return h ^ h>>29
}

// checkAppend checks an entry that a node writes to its log, and returns it with
// its chain: I3, I4, I5.
func (s *Sim) checkAppend(n *node, e *zab.Entry) chainedEntry {
	last, chain := n.disk.written.last()
	if e.Prev != last {
		s.fail("I3", "server %d appends %v after %v, but its log ends at %v", n.id, e.Zxid, e.Prev, last)
	}
	if e.Zxid <= last || !s.follows(e) {
		s.fail("I3", "server %d appends %v of type %d after %v", n.id, e.Zxid, e.Type, last)
	}
	r := chainedEntry{Entry: *e, chain: mix(chain, hashEntry(e))}
	b, ok := s.ghost.born[e.Zxid]
	switch {
	case !ok:
		s.establish(n, e.Zxid.Epoch())
		s.ghost.born[e.Zxid] = entryOrigin{chain: r.chain, by: n.id}
	case b.chain != r.chain:
		s.fail("I5", "server %d appends another %v than server %d made", n.id, e.Zxid, b.by)
	}
	return r
}

// follows checks the counter: an epoch begins with a marker, whose counter is 0, and has no
// holes except the one for Options.InitialCounter.
func (s *Sim) follows(e *zab.Entry) bool {
	if e.Zxid.Epoch() != e.Prev.Epoch() || e.Prev == 0 {
		return e.Zxid.Counter() == 0 && e.Type == zab.EntryMarker
	}
	if e.Type == zab.EntryMarker {
		return false
	}
	if e.Prev.Counter() == 0 {
		return e.Zxid.Counter() == s.cfg.InitialCounter+1
	}
	return e.Zxid == e.Prev+1
}

// establish records that a node leads an epoch: I1, I7.
func (s *Sim) establish(n *node, epoch uint32) {
	by, ok := s.ghost.established[epoch]
	if ok && by != n.id {
		s.fail("I1", "servers %d and %d both lead epoch %d", by, n.id, epoch)
	}
	if ok {
		return
	}
	s.ghost.established[epoch] = n.id
	s.stats.Elections++
	promised := s.ghost.promised[epoch][n.id]
	quorum := func(v zab.SID) bool { return promised>>v&1 != 0 }
	ok = s.quorumNow(quorum)
	if epoch < s.ghost.last.Epoch() {
		// It comes too late to lead any server, and may not know of later members.
		ok = ok || isQuorum(&s.members, quorum)
		for _, c := range s.ghost.changes {
			ok = ok || isQuorum(c.members, quorum)
		}
	}
	if !ok {
		s.fail("I1", "server %d leads epoch %d without a quorum of durable promises (%b)", n.id, epoch, promised)
	}
	if s.ghost.last.Epoch() < epoch && !n.disk.written.has(s.ghost.last) {
		last, _ := n.disk.written.last()
		s.fail("I7", "server %d leads epoch %d without the committed %v; its log ends at %v", n.id, epoch, s.ghost.last, last)
	}
}

// promiseDurable records a promise that would survive: I2.
func (s *Sim) promiseDurable(n *node, p zab.Promise) {
	if p.Epoch < s.ghost.tops[n.id] {
		s.fail("I2", "server %d promises epoch %d after %d", n.id, p.Epoch, s.ghost.tops[n.id])
	}
	if n.old && p.To != n.id {
		if s.ghost.state.Admits(n.id, n.disk.durable.incarnation) {
			s.fail("I17", "server %d runs on an old copy of its data, and promises %v", n.id, p)
		}
		// Another incarnation was admitted since the copy was put back, so the copy has no vote,
		// and no server needs to remember it.
		n.old = false
	}
	s.ghost.tops[n.id] = p.Epoch
	m := s.ghost.promised[p.Epoch]
	if m == nil {
		m = make(map[zab.SID]uint64)
		s.ghost.promised[p.Epoch] = m
	}
	m[p.To] |= 1 << n.id
}

// debt is the promise of an epoch to another server, until the node has a leader. Meanwhile
// that server has the time of an election to become it.
type debt struct {
	promise zab.Promise
	gen     uint64 // of the link to that server
	at      uint64 // µs
}

// checkStanding checks that a node does not stand for election while another server, to
// which it has promised an epoch, may still lead it: I25.
func (s *Sim) checkStanding(n *node, p zab.Promise) {
	owes := n.owes
	n.owes = debt{}
	if p.To != n.id {
		if l := s.linkTo(n, p.To); l != nil {
			n.owes = debt{p, l.gen[l.side(n)], s.now}
		}
		return
	}
	c := s.cfg
	if n.settings != nil {
		n.settings.apply(&c)
	}
	if owes.at == 0 || s.now > owes.at+c.ElectionMs*800 || n.leads != 0 {
		return
	}
	o, l := s.node(owes.promise.To), s.linkTo(n, owes.promise.To)
	if o.alive && o.core.Status().Role != zab.Looking && o.core.Status().Epoch == owes.promise.Epoch && l != nil && l.gen[l.side(n)] == owes.gen {
		s.fail("I25", "server %d is a candidate for epoch %d, and has promised %v only %d ms before", n.id, p.Epoch, owes.promise, (s.now-owes.at)/1000)
	}
}

// checkTruncate checks that no committed entry is dropped: I14.
func (s *Sim) checkTruncate(n *node, upto jute.Zxid) {
	s.stats.Truncations++
	h := &n.disk.written
	if !h.has(upto) || upto < h.start {
		s.fail("I14", "server %d truncates to %v, which it does not have", n.id, upto)
	}
	i := h.search(upto)
	if i < len(h.ents) && h.ents[i].Zxid <= s.ghost.last {
		if _, ok := s.ghost.index(h.ents[i].Zxid); ok {
			s.fail("I14", "server %d truncates to %v, and %v after it is committed", n.id, upto, h.ents[i].Zxid)
		}
	}
	if upto < n.applied {
		s.fail("I14", "server %d truncates to %v, but has applied %v", n.id, upto, n.applied)
	}
}

// checkInstall checks a snapshot that replaces a history: I14, I15.
func (s *Sim) checkInstall(n *node, snap *snapshot) {
	s.stats.Installs++
	if snap.zxid > s.ghost.last {
		s.fail("I15", "server %d installs a snapshot at %v, but only %v is committed", n.id, snap.zxid, s.ghost.last)
	}
	i, ok := s.ghost.index(snap.zxid)
	if !ok || s.ghost.commits[i].chain != snap.chain || s.ghost.commits[i].digest != snap.digest {
		s.fail("I15", "server %d installs a snapshot at %v that is not the committed state there", n.id, snap.zxid)
	}
	last, _ := n.disk.written.last()
	if h := &n.disk.written; snap.zxid < min(last, s.ghost.last) {
		if j := h.search(snap.zxid); j < len(h.ents) {
			if _, ok := s.ghost.index(h.ents[j].Zxid); ok {
				s.fail("I14", "server %d replaces its history up to %v by a snapshot at %v: committed entries go", n.id, last, snap.zxid)
			}
		}
	}
}

// observe examines the state of a node's core after its outputs were taken, and extends the
// committed sequence.
func (s *Sim) observe(n *node) {
	c := n.core.Committed()
	if c <= s.ghost.last {
		if c != n.seenCommit {
			n.seenCommit = c
			if _, ok := s.ghost.index(c); !ok && c != 0 {
				s.fail("I6", "server %d says that %v is committed; it is not in the committed sequence", n.id, c)
			}
		}
		return
	}
	n.seenCommit = c
	h := &n.disk.written
	if !h.has(c) || !h.has(s.ghost.last) || h.start > s.ghost.last {
		s.fail("I12", "server %d says that %v is committed after %v; its log has (%v, ...]", n.id, c, s.ghost.last, h.start)
	}
	if chain, _ := h.chainAt(s.ghost.last); chain != s.ghost.lastChain() {
		s.fail("I6", "server %d commits %v on another history than that up to %v", n.id, c, s.ghost.last)
	}
	// The epoch that it led at the last look counts as well: it may have committed, and then
	// renewed its epoch or stepped down, all in one step.
	if e := c.Epoch(); e != n.leads && e != n.led {
		s.fail("I12", "server %d, which leads epoch %d, commits %v by itself", n.id, n.leads, c)
	}
	s.checkConfirmed(n, c)
	for i := h.search(s.ghost.last); i < len(h.ents) && h.ents[i].Zxid <= c; i++ {
		s.commit(n, &h.ents[i])
		if h.ents[i].Type == zab.EntryMembers {
			s.checkDurable(h.ents[i].Zxid, "server %d commits other members", n.id)
		}
	}
	s.checkDurable(c, "server %d commits it", n.id)
	s.checkLeaders()
}

func (g *ghost) lastChain() uint64 {
	if n := len(g.commits); n > 0 {
		return g.commits[n-1].chain
	}
	return 0
}

// commit appends an entry to the committed sequence and applies it to the reference.
func (s *Sim) commit(n *node, e *chainedEntry) {
	g := &s.ghost
	if e.Zxid.Counter() == 0 {
		s.stats.Epochs++
	}
	if n == nil && e.Txn() != nil && e.Prev.Counter() == 0 {
		g.state.Zxid = e.Prev // an ensemble that copies become begins in a later epoch, without a marker
	}
	c := commit{zxid: e.Zxid, chain: e.chain}
	s.decode(&e.Entry, &g.txn)
	s.checkGuarded(&g.txn)
	s.checkOperations(&g.txn)
	if e.Txn() != nil {
		s.checkRetired(&g.txn)
	}
	events := len(g.history)
	s.applyTxn(&e.Entry, g.tree, &g.state, &g.txn, &g.applied, func(events []datatree.Event) { g.noteChanges(e.Zxid, events) })
	if s.cfg.Feeds+s.cfg.Streams+s.cfg.Views+s.cfg.Edges > 0 {
		g.noteRecords(&g.txn, g.history[events:])
	}
	if e.Control() {
		s.commitControl(e)
	}
	if e.Txn() != nil {
		txn := &g.txn
		c.session, c.origin, c.cxid, c.err = txn.Session, txn.Origin, txn.Cxid, txn.Err
		c.needed = txn.Err == 0 && len(txn.Ops) > 0 && txn.Ops[0].Kind != datatree.OpCreateSession && txn.Ops[0].Kind != datatree.OpError
		s.checkTxn(txn)
		s.checkOrigin(txn)
		s.checkNumber(txn)
	}
	if skipped := g.tree.Stats().Skipped; skipped > 0 {
		s.fail("S1", "%v can't be applied: %v", e.Zxid, describeTxn(&g.txn))
	}
	if s.cfg.Site == SiteIsLost {
		g.entries = append(g.entries, *e)
	}
	c.digest = g.tree.Digest()
	g.commits = append(g.commits, c)
	g.last = e.Zxid
	s.stats.Commits++
}

// commitControl updates the admissions and the members.
func (s *Sim) commitControl(e *chainedEntry) {
	g := &s.ghost
	for _, a := range g.state.Admitted {
		if g.admits[a.Server] != a.Incarnation {
			g.admits[a.Server] = a.Incarnation
			s.stats.Admits++
		}
	}
	switch {
	case e.Type == zab.EntryMembers:
		g.changes = append(g.changes, memberChange{e.Zxid, g.state.Members})
		s.stats.MemberChanges++
		s.commitChange(g.state.Members)
		if !s.ordered[e.Zxid] {
			s.stats.Moves++
		}
	case g.state.Members != nil && len(g.changes) == 0: // the list of the first marker
		g.changes = append(g.changes, memberChange{e.Zxid, g.state.Members})
	}
}

// ask is a write that a connection has asked for.
type ask struct {
	cxid      int32
	refusable bool // perhaps without a transaction
}

func (g *ghost) asks(origin uint64, a ask) { g.asked[origin] = append(g.asked[origin], a) }

// checkOrigin checks that the writes of a connection take effect in their order and without
// a gap, R2, and that none does after the client was told that its session is on another
// connection: S7.
func (s *Sim) checkOrigin(txn *datatree.Txn) {
	g := &s.ghost
	done := txn.Err == 0 && len(txn.Ops) > 0 && txn.Ops[0].Kind != datatree.OpError
	if done && txn.Ops[len(txn.Ops)-1].Kind == datatree.OpSetOwner {
		g.owners[txn.Session] = txn.Origin
	}
	if owner := g.owners[txn.Session]; txn.Origin != 0 && owner != 0 && owner != txn.Origin {
		if done {
			s.fail("S7", "connection %#x owns session %v, and another one writes: %s", owner, txn.Session, describeTxn(txn))
		}
		return // the requests before it may have been refused without a transaction, and nothing after it takes effect
	}
	asked := g.asked[txn.Origin]
	if len(asked) == 0 || txn.Origin == 0 {
		return
	}
	if done && g.left[txn.Origin] {
		s.fail("S7", "session %v has left connection %#x, of which this is a write: %s", txn.Session, txn.Origin, describeTxn(txn))
	}
	if !g.next(txn.Origin, txn.Cxid) && !s.cfg.refuses() {
		s.fail("R2", "connection %#x asked for %v, and %v is request %d", txn.Origin, asked, txn.Zxid, txn.Cxid)
	}
}

// next removes a request from those that a connection has asked for, and reports whether it was
// the next one. Malformed requests may be refused without a transaction, and the upgrades of sessions.
func (g *ghost) next(origin uint64, cxid int32) bool {
	asked := g.asked[origin]
	for len(asked) > 0 && asked[0].refusable && asked[0].cxid != cxid {
		asked = asked[1:]
	}
	if len(asked) == 0 || asked[0].cxid != cxid {
		return false
	}
	g.asked[origin] = asked[1:]
	return true
}

// resumed records that a client is told that its session is on a connection now.
func (g *ghost) resumed(id jute.SessionID, origin uint64) {
	if old := g.owner[id]; old != 0 && old != origin {
		g.left[old] = true
	}
	g.owner[id] = origin
}

// checkTxn checks the life of sessions: S1, S2, S5.
func (s *Sim) checkTxn(txn *datatree.Txn) {
	g := &s.ghost
	for i := range txn.Ops {
		switch txn.Ops[i].Kind {
		case datatree.OpCreateSession:
			if _, ok := g.sessions[txn.Session]; ok {
				s.fail("S5", "session %v is created again by %v", txn.Session, txn.Zxid)
			}
			g.sessions[txn.Session] = true
			if txn.Cxid == replica.UpgradeXid {
				g.upgraded[txn.Session] = s.now
			}
		case datatree.OpCloseSession:
			if !g.sessions[txn.Session] {
				s.fail("S2", "session %v is closed again by %v", txn.Session, txn.Zxid)
			}
			g.sessions[txn.Session] = false
			if k := g.tree.NumEphemerals(txn.Session); k > 0 {
				s.fail("S1", "session %v is closed by %v and has %d ephemerals", txn.Session, txn.Zxid, k)
			}
			if txn.Origin == 0 {
				s.stats.Expired++
				g.expired[txn.Session] = s.now
				s.checkKept(txn.Session)
			}
		case datatree.OpCreate:
			if o := txn.Ops[i].Owner; o.Ephemeral() && !g.sessions[o.Session()] {
				s.fail("S1", "%v makes an ephemeral of session %v, which there is not", txn.Zxid, o.Session())
			}
		}
	}
}

// checkDurable checks that z can't be lost. It would be if a quorum of servers that count
// could elect one of them while none has z on a disk that would survive a power cut now:
// I8.
func (s *Sim) checkDurable(z jute.Zxid, why string, args ...any) {
	lacks := func(v zab.SID) bool {
		n := s.node(v)
		if n == nil {
			return false
		}
		log := s.votingLog(n)
		return log != nil && !log.has(z)
	}
	for _, m := range s.configsAt(z) {
		if isQuorum(m, lacks) {
			s.fail("I8", "%v is committed, and a quorum of members %v does not have it on disk: %s", z, ids(m), fmt.Sprintf(why, args...))
		}
	}
}

// checkLeaders checks that the leaders of later epochs have all committed entries: I7.
func (s *Sim) checkLeaders() {
	for _, n := range s.nodes {
		if !n.alive || n.leads == 0 || n.leads <= s.ghost.last.Epoch() {
			continue
		}
		if !n.disk.written.has(s.ghost.last) {
			s.fail("I7", "%v is committed, but server %d leads epoch %d without it", s.ghost.last, n.id, n.leads)
		}
	}
}

// checkApplied checks a node's tree: I6, I13.
func (s *Sim) checkApplied(n *node) {
	d, ok := s.ghost.digestAt(n.applied, s.emptyDigest)
	if !ok {
		s.fail("I6", "server %d has applied %v, which is not committed", n.id, n.applied)
	}
	if got := n.tree.Digest(); got != d {
		s.fail("I13", "server %d has digest %v at %v, the reference has %v", n.id, got, n.applied, d)
	}
	if !n.disk.durable.has(n.applied) {
		s.fail("I13", "server %d has applied %v, which is not durable there", n.id, n.applied)
	}
}
