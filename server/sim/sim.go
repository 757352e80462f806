package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/behavior"
)

// Sim is a simulated ensemble. It belongs to one goroutine.
type Sim struct {
	cfg      Config
	rng      *rand.Rand
	agenda   agenda
	now      uint64 // virtual µs
	steps    int
	phase    phase
	hash     uint64
	members  zab.Members // of the configuration file
	nodes    []*node
	clients  []*client
	streams  []*stream
	standbys []*standby
	links    [16][16]*link
	blocks   [16][16]int
	dialing  [16][16]bool
	held     [16][]event    // events that wait for a paused node
	freeAt   [16][16]uint64 // from, to: when everything sent has passed, µs
	core     []int8         // nodes that must make progress, in phaseLive
	ghost    ghost
	stats    Stats
	free     []*packet
	paths    []string
	fedAt    uint64             // when the last event of a feed was sent, µs
	cut      [numEdges]uint64   // until when an edge reaches no server, µs
	memories []*memory          // of edges
	carriers []*carrier         // of edges
	plans    []zab.Members      // lists that operators are distributing
	retired  uint64             // until when the nemesis wants the ensemble to be, µs
	lives    uint32             // the most of a server at an earlier site
	ordered  map[jute.Zxid]bool // changes of the members that the nemesis has requested
	schemes  *auth.Schemes
	weights  *limits.Weights

	txn         datatree.Txn // scratch
	result      datatree.Applied
	emptyDigest datatree.Digest

	tracing  bool
	behavior *behavior.Recorder // nil if nobody wants it
	lines    []string
	// filter is called with each message of a core before it is sent; false drops it.
	filter func(from, to *node, m *zab.Message) bool
	// slowHandshake returns how much longer than usual the handshake of a link takes, µs.
	slowHandshake func(a, b *node) uint64
}

// Result is the result of a run.
type Result struct {
	Config  Config
	Failure *Failure // nil on success
	Steps   int
	Hash    uint64 // of all events
	Stats   Stats
}

// Run runs an ensemble to the end.
func Run(cfg Config) Result {
	return newSim(cfg).run()
}

// Trace repeats a run and writes its last events, at most lines lines.
func Trace(cfg Config, w io.Writer, lines int) Result {
	s := newSim(cfg)
	s.tracing = true
	r := s.run()
	if k := len(s.lines); k > lines {
		s.lines = s.lines[k-lines:]
	}
	for _, line := range s.lines {
		_, _ = fmt.Fprintln(w, line) // for a person to read
	}
	return r
}

func newSim(cfg Config) *Sim {
	s := &Sim{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 1)), ghost: newGhost(), ordered: make(map[jute.Zxid]bool)}
	s.emptyDigest = s.ghost.tree.Digest()
	schemes, err := auth.New(auth.Config{})
	if err != nil {
		panic(err) // its configuration is always valid
	}
	s.schemes = schemes
	if c := s.cfg.Weight; c > 0 {
		s.weights = limits.NewWeights([]limits.Rule{{Scope: limits.Address, Subject: addresses[0][0].ID, Weight: c}})
	}
	for i := range cfg.servers() {
		if i < cfg.Voters+cfg.Observers {
			s.members.List = append(s.members.List, zab.Member{ID: zab.SID(i + 1), Observer: i >= cfg.Voters, Weight: 1})
		}
		n := &node{id: zab.SID(i + 1), idx: int8(i), s: s, capacity: cfg.Capacity}
		if cfg.SkewPct > 0 {
			n.skew = int64(s.between(0, uint64(cfg.SkewPct)*20_000)) - int64(cfg.SkewPct)*10_000
		}
		n.disk.durable.incarnation = s.newID()
		n.disk.durable.exists = true
		n.disk.written = n.disk.durable.clone()
		n.disk.data.owner = &datadirs.Owner{Server: n.id, Incarnation: n.disk.durable.incarnation}
		s.nodes = append(s.nodes, n)
	}
	if cfg.Groups > 0 {
		s.members.Hierarchical = true
		for i := range s.members.List {
			s.members.List[i].Group, s.members.List[i].Weight = uint32(i%cfg.Groups), uint32(s.between(1, 3))
		}
	}
	for _, n := range s.nodes {
		n.file = s.members
		if n.file.Find(n.id) == nil {
			n.file.List = append(slices.Clone(n.file.List), zab.Member{ID: n.id, Observer: true, Weight: 1})
		}
		if cfg.Settings {
			n.settings = s.drawSettings()
		}
	}
	if cfg.OddFile {
		s.giveDifferingFile()
	}
	if cfg.WAL {
		for _, n := range s.nodes {
			s.newReal(n)
		}
	}
	for i := range 12 {
		s.paths = append(s.paths, "/"+string(rune('a'+i)))
	}
	s.newMemories()
	for i := range cfg.Clients {
		c := &client{id: i, node: -1, feeds: s.newFeeds(i)}
		s.clients = append(s.clients, c)
		s.clientTurn(c)
	}
	for i := range cfg.Streams {
		s.streams = append(s.streams, new(stream))
		s.streamTurn(int32(i))
	}
	for i := range cfg.Standbys {
		s.standbys = append(s.standbys, s.newStandby(i+1))
		s.standbyTurn(int32(i))
	}
	for f := range Fault(numFaults) {
		s.scheduleFault(f)
	}
	return s
}

// run ends with the first failure, or with the last phase.
func (s *Sim) run() (r Result) {
	defer func() {
		r.Config, r.Steps, r.Hash, r.Stats = s.cfg, s.steps, s.hash, s.stats
		switch x := recover().(type) {
		case nil:
		case *Failure:
			r.Failure = x
		default:
			r.Failure = &Failure{Invariant: "panic", Text: fmt.Sprintf("%v\n%s", x, debug.Stack()), Step: s.steps, At: s.now}
		}
		s.stats.VirtualMs = s.now / 1000
		r.Stats = s.stats
	}()
	for _, n := range s.nodes {
		s.agenda.push(event{at: s.between(0, s.cfg.ElectionMs*300), kind: evRestart, node: n.idx})
	}
	if s.cfg.Site != SiteStays {
		s.changeSites()
	}
	for s.steps < s.cfg.Steps {
		s.step()
	}
	if !s.cfg.ChaosOnly {
		s.runLive()
		s.converge()
	}
	return r
}

// step executes the next event.
func (s *Sim) step() {
	e := s.agenda.pop()
	s.steps++
	s.now = e.at
	s.hash = mix(s.hash, e.at<<16|uint64(e.kind)<<8|uint64(uint8(e.node)))
	var n *node
	if e.node >= 0 {
		n = s.nodes[e.node]
		if e.life != 0 && (e.life != n.life || !n.alive) {
			return
		}
		if n.paused && e.kind != evResume && e.kind != evRestart {
			e.life = n.life
			s.held[n.idx] = append(s.held[n.idx], e)
			return
		}
	}
	if n != nil && n.alive && s.waits(n, &e) {
		return
	}
	if n != nil && n.alive && !n.paused { // as the loop does before each batch of inputs
		n.rep.Advance()
	}
	s.dispatch(n, &e)
	s.hash = mix(s.hash, uint64(s.ghost.last))
}

func (s *Sim) dispatch(n *node, e *event) {
	p := e.pkt
	switch e.kind {
	case evTick:
		s.tick(n)
	case evDeliver:
		s.deliver(n, p)
	case evSynced:
		s.synced(n)
	case evDrain:
		n.lazy = false
		s.drain(n)
	case evApply:
		s.applyAll(n)
		s.takeOutputs(n)
	case evLogRead:
		s.logRead(n, &p.read)
	case evSnapStep:
		s.snapStep(n)
		if n.alive {
			s.takeOutputs(n)
		}
	case evDrained:
		n.hungry = false
		s.takeOutputs(n)
	case evXfer:
		s.xferStep(n, p.xfer)
	case evSnapGot:
		s.snapGot(n, p.xfer)
	case evLinkUp:
		s.linkUp(n, p.link, int(p.to))
	case evLinkDown:
		s.linkDown(n, p.link, int(p.to))
	case evDial:
		s.dialNow(int8(e.arg>>8), int8(e.arg&0xff))
	case evRestart:
		s.restart(n)
	case evResume:
		if n.paused {
			s.resumeNode(n)
		}
	case evFault:
		s.inject(Fault(e.arg))
	case evUndo:
		p.undo()
	case evClient:
		s.clientTurn(s.clients[e.arg])
	case evToClient:
		s.received(s.clients[e.arg], &p.rep)
	case evFeed:
		s.feed(n)
	case evStream:
		s.streamTurn(e.arg)
	case evStandby:
		s.standbyTurn(e.arg)
	case evToServer:
		if n.alive {
			s.serve(n, p.client, &p.req)
		} else if p.req.kind != 0 {
			s.toClient(n, p.client, &reply{attempt: p.req.attempt, closed: true})
		}
	}
}

// after schedules an event of a node's current process.
func (s *Sim) after(kind eventKind, n *node, us uint64) {
	s.agenda.push(event{at: s.now + us, kind: kind, node: n.idx, life: n.life})
}

func (s *Sim) afterPacket(kind eventKind, n *node, us uint64, p *packet) {
	life := n.life
	if kind == evToServer {
		life = 0 // the event checks whether there is a process
	}
	s.agenda.push(event{at: s.now + us, kind: kind, node: n.idx, life: life, pkt: p})
}

func (s *Sim) afterUndo(us uint64, undo func()) {
	s.agenda.push(event{at: s.now + us, kind: evUndo, node: -1, pkt: &packet{undo: undo}})
}

// between draws from [lo, hi).
func (s *Sim) between(lo, hi uint64) uint64 {
	if hi <= lo {
		return lo
	}
	return lo + s.rng.Uint64N(hi-lo)
}

// heartbeat is the time between two heartbeats, in ms.
func (s *Sim) heartbeat() uint64 {
	if s.cfg.HeartbeatMs > 0 {
		return s.cfg.HeartbeatMs
	}
	return max(s.cfg.ElectionMs/10, s.cfg.TickMs)
}

func (s *Sim) percent(p int) bool { return p > 0 && s.rng.IntN(100) < p }

func (s *Sim) newID() (id zab.ID) {
	for i := range id {
		id[i] = byte(s.rng.Uint32())
	}
	return id
}

// trace records an event, in runs whose trace is wanted.
func (s *Sim) trace(n *node, format string, args ...any) {
	if !s.tracing {
		return
	}
	who := "      "
	if n != nil {
		who = fmt.Sprintf("%*s%d%*s", n.idx, "", n.id, max(0, 5-int(n.idx)), "")
	}
	s.lines = append(s.lines, fmt.Sprintf("%8d %6d.%03d %s %s", s.steps, s.now/1000, s.now%1000, who, fmt.Sprintf(format, args...)))
	if len(s.lines) > 200000 {
		s.lines = append(s.lines[:0], s.lines[100000:]...)
	}
}

func describeTxn(txn *datatree.Txn) string {
	return fmt.Sprintf("%v session %v cxid %d err %d ops %+v", txn.Zxid, txn.Session, txn.Cxid, txn.Err, txn.Ops)
}

func (r *logRecord) describe() string {
	switch r.kind {
	case recAppend:
		return fmt.Sprintf("append %v", r.ent.Zxid)
	case recPromise:
		return fmt.Sprintf("promise %v", r.promise)
	case recTruncate:
		return fmt.Sprintf("truncate %v", r.upto)
	case recHint:
		return fmt.Sprintf("hint %v", r.upto)
	case recInstall:
		return fmt.Sprintf("install %v", r.snap.zxid)
	case recNotes:
		return fmt.Sprintf("notes of %d servers", len(r.notes.Sightings))
	case recIncarnation:
		return fmt.Sprintf("incarnation %x", r.incarnation[:4])
	case recForget:
		return fmt.Sprintf("forget what is before %v", r.upto)
	default:
		return fmt.Sprintf("snapshot %v", r.snap.zxid)
	}
}
