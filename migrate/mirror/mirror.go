package mirror

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// snapshotBytes of log are enough for a snapshot.
const snapshotBytes = 256 << 20

// Mirror is a future member's data directory that copies a running ensemble. One goroutine at a time may
// use it, but for Durable.
type Mirror struct {
	dirs     *data.Dirs
	place    data.Place
	log      *zap.Logger
	store    *snapshot.Store
	ident    datadirs.Identity
	state    *state.State // its lock is for the goroutine that writes a snapshot, and for readers
	readers  *readers     // nil for none
	ensemble zab.State
	entries  history.State // applies entries
	founding *Founding     // in the last entry; nil if that is the ensemble's
	member   bool          // the owner's file says so
	accepted uint32
	writer   *wal.Writer
	reserve  func() int64 // bytes that the log has room for already
	refs     []wal.SnapRef
	newest   atomic.Pointer[wal.SnapRef] // of refs; nil for none
	durable  atomic.Int64                // jute.Zxid
	failure  atomic.Pointer[error]
	taken    chan struct{} // closed when the snapshot that is being written has ended, whose goroutine has refs; nil for none
	enough   int64         // bytes of log for a snapshot
	unlooked int64         // bytes that were appended since its room was looked at, as after each lookEach of them
	lookEach int64
	maxQueue int64 // bounds what waits for the disk, in bytes. It is less than the room below which a disk is getting full
}

// Open opens the data of a mirror of such an ensemble; one of Apache's also if BecomeMember was interrupted
// or has ended. It must be closed.
func Open(ctx context.Context, p data.Place, of datadirs.Copy, logger *zap.Logger) (*Mirror, error) {
	if logger == nil {
		logger = zap.NewNop()
	}
	dirs, found, is, err := data.OpenMirror(ctx, p, logger)
	if err != nil {
		return nil, err
	}
	m := &Mirror{dirs: dirs, place: p, log: logger, store: found.Store, ident: found.Identity, member: is == 0, enough: snapshotBytes, lookEach: 1 << 20, maxQueue: 16 << 20,
		accepted: found.Core.Promise.Epoch, state: &state.State{Tree: found.Tree}, ensemble: found.Ensemble, refs: found.Snapshots}
	m.place.Server = m.ident.Server
	rec := found.Log
	if n := len(rec.Control); of == datadirs.OfApache && n > 0 && m.ensemble.Seeded() && rec.Control[n-1].Zxid == rec.LastZxid {
		e := &rec.Control[n-1]
		m.founding = &Founding{e.Zxid, e.Prev, e.Payload}
	}
	if is != of && !(is == 0 && (m.founding != nil || of == datadirs.OfZkd && m.promotedOnly())) {
		return nil, errors.Join(notOf(of, p.DataDir), dirs.Close())
	}
	m.refer(m.refs...)
	m.durable.Store(int64(rec.LastZxid))
	m.write(dirs.TakeLog())
	return m, nil
}

// write begins to write the log.
func (m *Mirror) write(l *wal.Log) {
	m.reserve = l.Reserve
	m.writer = wal.NewWriter(l, wal.WriterOptions{
		Durable:  func(d wal.Durable) { m.durable.Store(int64(d.Zxid)) },
		Fatal:    func(err error) { m.failure.Store(&err) },
		MaxQueue: m.maxQueue,
	})
}

// notOf is the error of data that is no copy of such an ensemble.
func notOf(of datadirs.Copy, dir string) error {
	if of == datadirs.OfZkd {
		return fmt.Errorf("the data in %s is no standby's copy of another ensemble: zkd standby makes one in an empty directory. If zkd standby promote was done there, start zkd", dir)
	}
	return fmt.Errorf("the data in %s is not a copy of an ensemble of Apache ZooKeeper: zkd takeover mirror makes one", dir)
}

// Close disconnects readers, makes everything durable and closes the data.
func (m *Mirror) Close() error {
	var err error
	if m.readers != nil {
		err = m.readers.close()
	}
	m.awaitSnapshot()
	return errors.Join(err, m.writer.Close(), m.dirs.Close())
}

// Stop ends what waits for room on the disk, and all that would change the mirror, with an error. It may be called from
// any goroutine. Close follows.
func (m *Mirror) Stop() { m.writer.Stop() }

// Waits returns why the log waits for room on the disk, nil if it does not: nothing is durable after that. It may be
// called from any goroutine.
func (m *Mirror) Waits() error { return m.writer.Stats().Lacks }

// Last returns the zxid of the last transaction, and Durable that of the last durable one.
func (m *Mirror) Last() jute.Zxid    { return m.ensemble.Zxid }
func (m *Mirror) Durable() jute.Zxid { return jute.Zxid(m.durable.Load()) }

// Ensemble returns what the history says of the ensemble.
func (m *Mirror) Ensemble() *zab.State { return &m.ensemble }

// Accepted returns the greatest epoch that Accept has recorded.
func (m *Mirror) Accepted() uint32 { return m.accepted }

// ID returns the id of the server.
func (m *Mirror) ID() zab.SID { return m.ident.Server }

// Tree returns the state. It changes only within Append.
func (m *Mirror) Tree() *datatree.Tree { return m.state.Tree }

// Accept records durably that a leader has begun an epoch.
func (m *Mirror) Accept(epoch uint32) error {
	m.accepted = epoch
	return m.writer.SubmitWait(m.promise())
}

func (m *Mirror) promise() wal.Record {
	return data.PromiseRecord(zab.Promise{Epoch: m.accepted})
}

// Append calls apply, which applies the next transaction to the tree and returns its events, and
// logs it. It does not wait for the disk. After an error of apply nobody reads the tree before
// another one is installed.
func (m *Mirror) Append(x *datatree.Txn, apply func() ([]datatree.Event, error)) error {
	var batch []wal.Record
	add := func(e zab.Entry) error {
		batch = append(batch, data.EntryRecord(&e))
		return m.ensemble.Apply(&e)
	}
	err := m.change(x.Zxid, apply)
	if err == nil && x.Zxid.Epoch() > m.Last().Epoch() {
		marker := zab.Marker{TimeMs: x.Time}
		err = add(zab.Entry{Zxid: jute.MakeZxid(x.Zxid.Epoch(), 0), Prev: m.Last(), Type: zab.EntryMarker, Data: marker.Append(nil)})
	}
	if err == nil {
		err = add(zab.Entry{Zxid: x.Zxid, Prev: m.Last(), Type: zab.EntryTxn, Data: x.Append(nil)})
	}
	if err != nil {
		return err
	}
	if _, err := m.writer.Submit(batch...); err != nil {
		return err
	}
	m.takeSnapshot(len(batch[len(batch)-1].Payload))
	return nil
}

// AppendEntry applies and logs the next entry of an ensemble of zkd as it is. It does not wait for the disk.
// After an error the mirror can only be closed.
func (m *Mirror) AppendEntry(e *zab.Entry) error {
	if err := history.CheckReadable(e); err != nil {
		return err
	}
	if err := m.changeBy(e); err != nil {
		return err
	}
	if _, err := m.writer.Submit(data.EntryRecord(e)); err != nil {
		return err
	}
	m.takeSnapshot(len(e.Data))
	return nil
}

// changeBy applies an entry to the state, and tells the readers.
func (m *Mirror) changeBy(e *zab.Entry) error {
	return m.locked(func() error {
		h := &m.entries
		h.Tree, h.Ensemble = m.state.Tree, m.ensemble
		err := h.Apply(e)
		m.ensemble, m.state.Ensemble = h.Ensemble, h.Ensemble
		if err == nil && e.Type == zab.EntryMarker && m.readers != nil {
			m.state.DeriveKeys()
		}
		return err
	})
}

// change applies a transaction to the tree, and tells the readers.
func (m *Mirror) change(zxid jute.Zxid, apply func() ([]datatree.Event, error)) error {
	return m.locked(func() error {
		events, err := apply()
		if err == nil && m.readers != nil {
			m.readers.changed(zxid, events)
		}
		return err
	})
}

// locked changes the state. After an error readers are not served.
func (m *Mirror) locked(change func() error) error {
	m.state.Lock()
	err := change()
	if err != nil && m.readers != nil {
		m.readers.clients.EndReadOnly()
	}
	m.state.Unlock()
	if m.readers != nil {
		m.readers.changes.Wake()
		m.readers.answers.Wake()
	}
	return err
}

// Sync waits until everything is durable.
func (m *Mirror) Sync() error {
	if m.Last() <= m.Durable() { // a record would need room
		return nil
	}
	return m.writer.SubmitWait(wal.Record{Kind: wal.CommitHint, Zxid: m.Last()})
}

// Failure returns the error after which nothing becomes durable any more, or no reader is served,
// or nil.
func (m *Mirror) Failure() error {
	if m.readers != nil {
		select {
		case err := <-m.readers.life.Failed():
			m.failure.Store(&err)
		default:
		}
	}
	if err := m.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Install replaces the history by a state of Apache's, durably.
func (m *Mirror) Install(ctx context.Context, tree *datatree.Tree) error {
	ensemble := zab.State{Zxid: tree.LastZxid()}
	if z := ensemble.Zxid; z != 0 {
		ensemble.Epochs = []zab.EpochEnd{{Epoch: z.Epoch(), Last: z.Counter()}}
	}
	return m.InstallState(ctx, tree, ensemble)
}

// InstallState replaces the history by a state of an ensemble, durably.
func (m *Mirror) InstallState(ctx context.Context, tree *datatree.Tree, ensemble zab.State) error {
	z := tree.LastZxid()
	if z < m.Last() {
		return fmt.Errorf("a state at %v can't replace the copy, which has committed transactions up to %v", z, m.Last())
	}
	m.awaitSnapshot()
	view := tree.Freeze()
	defer view.Close()
	ref, err := data.WriteSnapshot(ctx, m.store.WriteAnother, &state.State{Tree: tree}, view, ensemble.Append(nil), &m.ident)
	if err != nil {
		return err
	}
	ref.Installed = true
	if err := m.writer.SubmitWait(ref.Record()); err != nil {
		return err
	}
	m.removeSnapshots(m.refs, ref.Name)
	m.ensemble = ensemble
	m.refer(ref)
	m.state.Lock()
	m.state.Tree, m.state.Ensemble = tree, ensemble
	if m.readers != nil {
		m.readers.installed(z)
	}
	m.state.Unlock()
	m.durable.Store(int64(z))
	return nil
}

// takeSnapshot begins a snapshot if enough of the log follows the last one, or if it makes room on a disk that is getting full. more bytes
// were appended since the last call.
func (m *Mirror) takeSnapshot(more int) {
	write, due, last := m.store.Write, m.writer.Stats().SinceSnapRef >= m.enough, false
	if m.unlooked += int64(more); m.unlooked >= m.lookEach {
		m.unlooked = 0
		if r, tight := m.room(); tight && r.WantsSnapshot() {
			write, due, last = m.store.WriteForRoom, true, r.Waits
		}
	}
	select {
	case <-m.taken:
		m.taken = nil
	default:
	}
	// The log may wait for room before the snapshot is there. Its reference goes ahead then, and must not be ahead of the history.
	if !due || m.taken != nil || m.Sync() != nil {
		return
	}
	m.beginSnapshot(write)
	if last {
		m.awaitSnapshot()
	}
}

type writeSnapshot = func(context.Context, snapshot.Meta, ...snapshot.Section) (snapshot.Ref, error)

func (m *Mirror) beginSnapshot(write writeSnapshot) {
	m.state.Lock()
	view := m.state.Tree.Freeze()
	m.state.Unlock()
	ensemble, taken := m.ensemble.Append(nil), make(chan struct{})
	m.taken = taken
	go func() {
		defer close(taken)
		ref, err := data.WriteSnapshot(context.Background(), write, m.state, view, ensemble, &m.ident)
		m.state.Lock()
		view.Close()
		m.state.Unlock()
		if err == nil {
			err = m.supersede(ref)
		}
		if err != nil {
			m.log.Warn("a snapshot failed; the log is complete", zap.Error(err))
		}
	}()
}

// awaitSnapshot waits for the snapshot that is being written.
func (m *Mirror) awaitSnapshot() {
	if m.taken != nil {
		<-m.taken
		m.taken = nil
	}
}

// nextSnapshot returns about how large a snapshot is.
func (m *Mirror) nextSnapshot() int64 {
	tree := m.Tree().Stats()
	return datadirs.Estimate(tree.DataSize, tree.Nodes+tree.Sessions)
}

// room looks at the room on the disk of the log, as takeSnapshot does now and then, and reports whether that is getting full. There the state is
// not to be ahead of the disk: a log without room for what the state has already could only wait, as of such a state no snapshot can be
// taken. So the snapshot that is being written is awaited, and then the log; and the next snapshot is taken while the log has room for what
// is appended until the next look, beside the snapshot.
func (m *Mirror) room() (r datadirs.Room, tight bool) {
	r.Next = m.nextSnapshot()
	_, level, err := m.writer.Space(r.Next)
	if err != nil || level < wal.SpaceStop {
		m.writer.Keep(0)
		return r, false
	}
	m.awaitSnapshot()
	if m.Sync() != nil {
		return r, false
	}
	log, _, err := m.writer.Space(r.Next)
	store, serr := m.store.Space()
	if err != nil || serr != nil {
		return r, false
	}
	r.Shared, r.LogFree, r.Free, r.Applied, r.Old = true, log.Free, store.Free, m.Last(), m.writer.Stats().OldBytes
	if last := m.newest.Load(); last != nil {
		r.Last, r.Taken = last.Size, last.Zxid
	}
	keep := r.Keep()
	m.writer.Keep(keep)
	r.Waits = m.reserve()+max(0, log.Free-keep-leastSegment) < 2*m.lookEach
	return r, true
}

// leastSegment is about the least that the log leaves free beside what is kept, for a restart.
const leastSegment = 1 << 20

// supersede refers to a snapshot that was written, and purges what came before it. A failure is harmless: the log has all of it.
func (m *Mirror) supersede(ref wal.SnapRef) error {
	for _, r := range []wal.Record{ref.Record(), {Kind: wal.Forget, Zxid: ref.Zxid}} {
		if err := m.writer.SubmitAhead(r); err != nil {
			return err
		}
	}
	m.removeSnapshots(m.refs, ref.Name)
	m.refer(ref)
	_, err := m.writer.Purge(context.Background(), ref.Zxid)
	return err
}

// refer notes the snapshots that the log refers to.
func (m *Mirror) refer(refs ...wal.SnapRef) {
	if m.refs = refs; len(refs) > 0 {
		m.newest.Store(&refs[len(refs)-1])
	}
}

func (m *Mirror) removeSnapshots(refs []wal.SnapRef, keep string) {
	for _, ref := range refs {
		if ref.Name == keep {
			continue
		}
		if err := m.store.RemoveInSteps(context.Background(), ref.Name); err != nil {
			m.log.Warn("an old snapshot is left", zap.Error(err))
		}
	}
}

// foundingText takes the place of the members of Apache's ensemble in the history, until the
// first leader writes its own.
const foundingText = "# taken over from an ensemble of Apache ZooKeeper\n"

// Founder is a member of an ensemble that is to be founded: the server of a mirror.
type Founder = zab.Admission

// Founding is how mirrors become the members of an ensemble: the same entry, with the first
// marker of the ensemble, ends the history of each. It has the secret of the ensemble.
type Founding struct {
	Zxid, Prev jute.Zxid
	Data       []byte
}

func (f *Founding) entry() *zab.Entry {
	return &zab.Entry{Zxid: f.Zxid, Prev: f.Prev, Type: zab.EntryMarker, Data: f.Data}
}

// Source returns the last transaction of Apache's ensemble, and the greatest epoch of it that the
// founding knows of.
func (f *Founding) Source() (last jute.Zxid, epoch uint32) {
	return f.Prev, f.Zxid.Epoch() - 1 - copies.EpochMargin
}

// Founder returns the mirror's server.
func (m *Mirror) Founder() Founder {
	return Founder{Server: m.ID(), Incarnation: m.ident.Incarnation}
}

// NewFounding returns how m and others become an ensemble after the last transaction of m, in a
// later epoch than epoch and all that m has accepted.
func (m *Mirror) NewFounding(founders []Founder, epoch uint32) (*Founding, error) {
	founders = slices.Clone(founders)
	slices.SortFunc(founders, func(a, b Founder) int { return cmp.Compare(a.Server, b.Server) })
	for i := range founders[1:] {
		if founders[i].Server == founders[i+1].Server {
			return nil, fmt.Errorf("two of the copies are of server %d", founders[i].Server)
		}
	}
	marker := zab.Marker{
		TimeMs:   time.Now().UnixMilli(),
		Init:     &zab.ClusterInit{Cluster: m.ident.Cluster, Secret: m.ident.Secret},
		Admitted: founders,
		App:      []byte(foundingText),
	}
	epoch = max(epoch, m.accepted, m.Last().Epoch())
	return &Founding{jute.MakeZxid(epoch+1+copies.EpochMargin, 0), m.Last(), marker.Append(nil)}, nil
}

// Founding returns how the mirror has become a member, nil if it has not.
func (m *Mirror) Founding() *Founding { return m.founding }

// ExpectedDigest applies f to the tree only, and returns the digest that a member has after
// BecomeMember. An error means that m can't become a member by f. After ExpectedDigest, m can only
// become a member, or be closed.
func (m *Mirror) ExpectedDigest(f *Founding) (datatree.Digest, error) {
	if m.founding != nil {
		if m.founding.Zxid != f.Zxid || !bytes.Equal(m.founding.Data, f.Data) {
			return datatree.Digest{}, fmt.Errorf("the data in %s is that of a member of another ensemble", m.place.DataDir)
		}
		return m.Tree().Digest(), nil
	}
	if m.Last() != f.Prev {
		return datatree.Digest{}, fmt.Errorf("the copies are not equal: the one in %s ends at %v, and another one at %v", m.place.DataDir, m.Last(), f.Prev)
	}
	var marker zab.Marker
	if err := marker.Decode(f.Data); err != nil {
		return datatree.Digest{}, err
	}
	if !slices.Contains(marker.Admitted, m.Founder()) {
		return datatree.Digest{}, fmt.Errorf("the ensemble was founded without %s: start that member with an empty directory", m.place.DataDir)
	}
	if m.accepted >= f.Zxid.Epoch() {
		return datatree.Digest{}, fmt.Errorf("the copy in %s has accepted epoch %d, and the ensemble was to begin in epoch %d", m.place.DataDir, m.accepted, f.Zxid.Epoch())
	}
	var txn datatree.Txn
	var out datatree.Applied
	if err := history.TransactionOf(f.entry(), m.Tree(), &txn); err != nil {
		return datatree.Digest{}, err
	}
	m.state.Lock() // a snapshot may be being written
	defer m.state.Unlock()
	m.Tree().Apply(&txn, &out)
	return m.Tree().Digest(), nil
}

// BecomeMember makes the data that of a member. It may be called again after a crash.
func (m *Mirror) BecomeMember(f *Founding) error {
	if err := m.logFounding(f); err != nil {
		return err
	}
	return m.endMirror()
}

func (m *Mirror) logFounding(f *Founding) error {
	if m.founding != nil {
		return nil
	}
	e := f.entry()
	if err := m.ensemble.Apply(e); err != nil {
		return err
	}
	m.founding, m.accepted = f, f.Zxid.Epoch()
	return m.writer.SubmitWait(m.promise(),
		data.EntryRecord(e),
		wal.Record{Kind: wal.CommitHint, Zxid: e.Zxid})
}

// endMirror takes away what keeps servers from starting with the data.
func (m *Mirror) endMirror() error {
	err := data.EndMirror(m.place, &m.ident)
	m.member = err == nil
	return err
}

// Member reports whether servers start with the data: BecomeMember has ended.
func (m *Mirror) Member() bool { return m.member }

// MakeEnsemble makes the data of mirrors that of the members of an ensemble of their own, in a
// later epoch than epoch and all that they have accepted. All must be equal, or nothing is
// changed. It may be called again after a crash: what the first call has decided is carried out.
func MakeEnsemble(mirrors []*Mirror, epoch uint32) error {
	var f *Founding
	var founders []Founder
	for _, m := range mirrors {
		epoch = max(epoch, m.accepted)
		founders = append(founders, m.Founder())
		if m.founding != nil {
			f = m.founding
		}
	}
	if f == nil {
		var err error
		if f, err = mirrors[0].NewFounding(founders, epoch); err != nil {
			return err
		}
	}
	var first datatree.Digest
	for i, m := range mirrors {
		d, err := m.ExpectedDigest(f)
		if err != nil {
			return err
		}
		if i == 0 {
			first = d
		}
		if d != first {
			return fmt.Errorf("the copies are not equal: at %v the digest of %s is %v, and that of %s is %v",
				f.Zxid, mirrors[0].place.DataDir, first, m.place.DataDir, d)
		}
	}
	for _, m := range mirrors {
		if err := m.BecomeMember(f); err != nil {
			return fmt.Errorf("%s: %w. The takeover is decided: repeat the command", m.place.DataDir, err)
		}
	}
	return nil
}
