package sim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/zab"
)

// Volumes: a server's log and its dataDir are on two disks. One of them, or both, or the
// directory of the snapshots, may be missing at a start and come back later, or be lost. Each
// start decides by package datadirs, as servers do.

// dataDir is the content of a server's dataDir. It never loses what was written there.
type dataDir struct {
	owner    *datadirs.Owner
	files    []snapFile
	approved bool // there is a file initialize
}

// snapFile is a snapshot in dataDir.
type snapFile struct {
	*snapshot
	moved bool // out of the way, because no log referred to it
}

// keep makes the files of the snapshots exist.
func (d *dataDir) keep(snaps ...*snapshot) {
	for _, snap := range snaps {
		if d.find(snap) == nil {
			d.files = append(d.files, snapFile{snapshot: snap})
		}
	}
}

func (d *dataDir) find(snap *snapshot) *snapFile {
	for i := range d.files {
		if d.files[i].snapshot == snap {
			return &d.files[i]
		}
	}
	return nil
}

func (d *dataDir) remove(snap *snapshot) {
	d.files = slices.DeleteFunc(d.files, func(f snapFile) bool { return f.snapshot == snap })
}

// removeBefore removes the snapshots that a purge of the log covers.
func (d *dataDir) removeBefore(z jute.Zxid) {
	d.files = slices.DeleteFunc(d.files, func(f snapFile) bool { return !f.moved && f.zxid < z })
}

// volumes is a set of directories that a server lacks.
type volumes uint8

const (
	lacksLog   volumes = 1 << iota
	lacksData          // with the snapshots
	lacksSnaps         // the snapshots alone
	exchanged          // nothing, but each directory is in the place of the other
)

var volumeNames = map[volumes]string{lacksLog: "log", lacksData: "data", lacksLog | lacksData: "both", lacksSnaps: "snapshots", exchanged: "exchanged"}

// away is what a server lacks while volumes are missing.
type away struct {
	which volumes
	log   logVolume
	data  dataDir
	fresh bool // the server has started without: what it has now may be worth more
}

// loseVolumes takes volumes away from a server, until the operator acts.
func (s *Sim) loseVolumes(n *node) {
	which := pick(s.rng, lacksLog, lacksData, lacksLog|lacksData, lacksSnaps)
	if !s.ghost.state.Seeded() || n.away != nil || n.old || n.torn || n.badSnaps || n.badNewest || !n.disk.durable.exists ||
		which == lacksLog|lacksData && s.couldFound(n) {
		return
	}
	s.trace(n, "fault: missing volumes: %s", volumeNames[which])
	s.crash(n, s.percent(50))
	s.unmount(n, which)
	s.restartLater(n)
}

// unmount takes volumes away from a server that is down.
func (s *Sim) unmount(n *node, which volumes) {
	d := &n.disk
	a := &away{which: which}
	if which&(lacksLog|exchanged) != 0 {
		a.log, d.logVolume = d.logVolume, logVolume{}
		s.ghost.tops[n.id] = 0
	}
	if which&(lacksData|exchanged) != 0 {
		a.data, d.data = d.data, dataDir{}
	}
	if which&lacksSnaps != 0 {
		a.data.files, d.data.files = d.data.files, nil
	}
	n.away = a
}

// mount puts the missing volumes of a server that is down back. A log without which the
// server has been admitted again is out of date, and as good as lost. So is one without data,
// if the servers without data could then found another ensemble.
func (s *Sim) mount(n *node) {
	a, d := n.away, &n.disk
	n.away = nil
	if a == nil || a.which&lacksLog != 0 && (s.counts(n) || d.durable.exists && a.log.durable.empty() && s.couldFound(n)) {
		return
	}
	s.trace(n, "the volumes are back: %s", volumeNames[a.which])
	if a.which&(lacksLog|exchanged) != 0 {
		d.logVolume = a.log
		s.ghost.tops[n.id] = d.durable.promise.Epoch
	}
	switch a.which {
	case lacksLog | lacksData, exchanged:
		d.data = a.data
	case lacksData, lacksSnaps:
		for _, f := range a.data.files {
			d.data.keep(f.snapshot)
		}
		if d.data.owner == nil {
			d.data.owner = a.data.owner
		}
	}
	d.data.approved = false
	if o, h := d.data.owner, &d.written; h.exists && (o == nil || o.Incarnation != h.incarnation && o.Incarnation != h.replaced) {
		d.data = dataDir{approved: true} // the operator has ordered other data since, twice, or the owner was not yet written
	}
}

// mountAll puts the missing volumes of all servers back, and returns these servers.
func (s *Sim) mountAll() (back []*node) {
	for _, n := range s.nodes {
		if n.away == nil {
			continue
		}
		if n.alive {
			s.crash(n, true)
			s.restartLater(n)
		}
		s.mount(n)
		back = append(back, n)
	}
	return back
}

// open decides whether a server may start with its directories, and makes a log where there is
// none. It reports whether the server starts.
func (s *Sim) open(n *node) bool {
	d := &n.disk
	s.openLog(n)
	f := n.found()
	start, err := f.Decide(n.order)
	if err != nil {
		return s.refused(n, err)
	}
	if f.CatchUp() {
		d.data.owner = f.Owner
	}
	drawn := datadirs.Identity{Incarnation: s.newID()}
	if start.New {
		s.beginLog(n, f.NewLog(start, drawn))
	} else if n.torn {
		id := f.Replacement(drawn)
		for _, h := range []*history{&d.written, &d.durable} {
			h.incarnation, h.replaced, h.damaged = id.Incarnation, id.Replaced, id.Unproven
		}
	}
	if err := s.useSnapshots(n, f, drawn); err != nil {
		return s.refused(n, f.AddAdvice(err))
	}
	if n.next.unsettled || s.cfg.Faults[FaultVolumes] > 0 && (start.New || n.torn) && s.percent(10) {
		s.trace(n, "crash before the directories are settled")
		n.torn, n.next.unsettled = false, false
		s.endStart(n)
		return false
	}
	n.torn = false
	s.settleOwner(n, f)
	if n.away != nil {
		n.away.fresh = true
	}
	if s.percent(50) {
		n.order = ""
	}
	return true
}

func (s *Sim) settleOwner(n *node, f *datadirs.Found) {
	d := &n.disk
	id, owner := f.Settle(d.identity(n.id))
	d.written.damaged, d.durable.damaged = id.Unproven, id.Unproven
	d.data.owner, d.data.approved = &owner, false
}

// refused handles a start that failed: an operator acts, or waits. It returns false.
func (s *Sim) refused(n *node, err error) bool {
	s.trace(n, "does not start: %v", err)
	s.stats.RefusedStarts++
	if n.order == "" && n.away == nil {
		s.fail("V1", "server %d has all its directories, and does not start: %v", n.id, err)
	}
	n.order = "" // it may name what is no longer there
	s.endStart(n)
	s.operate(n)
	return false
}

// endStart ends a start that has failed, and tries again later.
func (s *Sim) endStart(n *node) {
	if r := n.disk.real; r != nil {
		r.end(false, nil)
	}
	s.restartLater(n)
}

// operate does what an operator may do about a server that does not start.
func (s *Sim) operate(n *node) {
	if n.away == nil {
		return
	}
	switch s.rng.IntN(8) {
	case 0, 1:
		s.mount(n)
	case 2:
		n.disk.data.approved = true
	case 3, 4:
		s.orderAside(n)
	case 5:
		if s.mayLoseDisk(n) && !s.couldFound(n) {
			s.trace(n, "the operator empties the directories")
			n.disk.logVolume, n.disk.data, n.away = logVolume{}, dataDir{}, nil
			s.ghost.tops[n.id] = 0
		}
	}
}

// orderAside orders the data of a server to be set aside, and gives up a missing log. In few
// runs operators do so although the others need it: they must then wait for it forever.
func (s *Sim) orderAside(n *node) {
	id, known := n.found().Incarnation()
	if !known || !s.mayLoseDisk(n) && !s.percent(2) {
		return
	}
	n.order = datadirs.ShortID(id)
	s.trace(n, "the operator orders --set-data-aside=%s", n.order)
	if n.away.which&lacksLog != 0 {
		n.away = nil
	}
	s.start(n)
}

// found is what a start finds in the directories.
func (n *node) found() *datadirs.Found {
	d := &n.disk
	f := &datadirs.Found{Self: n.id, Exists: d.written.exists, Blank: d.written.records == 0 && d.written.promise.Epoch == 0,
		Owner: d.data.owner, Approved: d.data.approved}
	if f.Exists {
		id := d.identity(n.id)
		f.Log = &id
	}
	if n.away != nil && n.away.which == exchanged {
		f.LogInDataDir, f.DataInLogDir = true, true
	}
	for _, file := range d.data.files {
		if !file.moved {
			f.Snapshots++
		}
	}
	return f
}

// identity returns the identity in a server's log.
func (d *disk) identity(self zab.SID) datadirs.Identity {
	h := &d.written
	return datadirs.Identity{Format: 2, Server: self, Incarnation: h.incarnation, Replaced: h.replaced, Unproven: h.damaged}
}

// beginLog gives a server an empty log. The promise of one that is set aside is kept.
func (s *Sim) beginLog(n *node, id datadirs.Identity) {
	d := &n.disk
	h := history{exists: true, incarnation: id.Incarnation, replaced: id.Replaced, damaged: id.Unproven, promise: d.written.promise}
	d.logVolume = logVolume{durable: h, written: h.clone()}
	s.ghost.tops[n.id] = h.promise.Epoch
	s.stats.NewLogs++
	s.trace(n, "a new log of incarnation %x, unproven %v", h.incarnation[:4], h.damaged)
	if s.cfg.WAL {
		s.newReal(n)
		s.openLog(n)
	}
	if s.ghost.last > 0 {
		s.checkDurable(s.ghost.last, "server %d lost what it had", n.id)
	}
}

// useSnapshots drops the references to snapshots that can't be used. If the state can't be
// built from what is left, it replaces the log, or returns the reason why it may not.
func (s *Sim) useSnapshots(n *node, f *datadirs.Found, drawn datadirs.Identity) error {
	d := &n.disk
	used, reasons, err := datadirs.NewestUsable(d.written.snaps, func(snap *snapshot) error {
		file := d.data.find(snap)
		switch {
		case file == nil:
			return fault.New(fault.Missing, f.DataDir, errors.New("a snapshot is missing"))
		case n.badSnaps, n.badNewest && snap == d.written.base():
			return fault.New(fault.Damaged, f.DataDir, errors.New("a snapshot is damaged"))
		}
		file.moved = false // taken back
		return nil
	})
	list := d.written.snaps[:used+1]
	switch {
	case err != nil:
		return err
	case len(reasons) == 0:
	case len(list) > 0 || d.written.start == 0:
		d.written.snaps, d.durable.snaps = slices.Clone(list), slices.Clone(list)
	case !f.MayReplace(reasons):
		return fmt.Errorf("no snapshot can be used, and the log does not reach back to the beginning: %w", reasons[0])
	case slices.ContainsFunc(reasons, func(err error) bool { return fault.KindOf(err) == fault.Missing }):
		s.fail("V2", "server %d gives up its log, because its snapshots are missing", n.id)
	default:
		s.beginLog(n, f.Replacement(drawn))
	}
	n.badSnaps, n.badNewest = false, false
	return nil
}

// tidy moves the snapshots that the log does not refer to out of the way.
func (s *Sim) tidy(n *node) {
	d := &n.disk
	id := d.identity(n.id)
	d.data.files = slices.DeleteFunc(d.data.files, func(f snapFile) bool {
		if f.moved || slices.Contains(d.written.snaps, f.snapshot) || !datadirs.Superseded(&id, f.by[:], n.state.Contains(f.zxid)) {
			return false
		}
		if !d.written.has(f.zxid) || n.applied < f.zxid {
			s.fail("V3", "server %d removes a snapshot at %v, and has only %v", n.id, f.zxid, n.applied)
		}
		return true
	})
	for i := range d.data.files {
		f := &d.data.files[i]
		f.moved = f.moved || !slices.Contains(d.written.snaps, f.snapshot)
	}
}

// votingLog returns the log of a server that counts, or nil. It may be on a volume that is
// missing now.
func (s *Sim) votingLog(n *node) *history {
	if s.counts(n) {
		return &n.disk.durable
	}
	if a := n.away; a != nil && a.which&lacksLog != 0 && s.ghost.state.Admits(n.id, a.log.durable.incarnation) {
		return &a.log.durable
	}
	return nil
}
