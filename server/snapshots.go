package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/wal"
)

const (
	// snapshotBytes of log are enough for a snapshot, however few transactions they are.
	snapshotBytes = 256 << 20
	// snapshotShare of the last snapshot's size must be in the log before the next one. So
	// writing snapshots costs a bounded share of writing the log, and a start replays the log in
	// about the time that it takes to load the snapshot: an entry of the log takes twice as long
	// as a row of the same size.
	snapshotShare = 2
)

// snapshotter writes snapshots while the server runs, and removes those that they
// supersede. The applier freezes the tree; the snapshotter's goroutine walks the frozen
// view.
type snapshotter struct {
	live      func() *config.Config
	log       *zap.Logger
	metrics   *monitor.Metrics
	now       func() time.Duration
	wall      func() time.Time // base.Clock.Cautious: what is purged does not come back
	ident     datadirs.Identity
	state     *state.State
	disk      *disk
	logWriter *logWriter
	events    *base.Queue[peerEvent]
	askFor    func() // asks the applier to freeze the tree
	store     *snapshot.Store
	views     chan frozen // from the applier; holds one

	reloaded <-chan struct{} // has a token when the live configuration has changed

	most int64 // bytes that may be kept for the snapshot that is being written; 0 for any number

	// Owned by the applier.
	last  frozen // the newest view
	txns  int    // since the last snapshot
	bytes int64  // of their log records
	next  int    // txns at which the next one is due

	// mu is held while a reference is made durable: a reference to a snapshot of the
	// history must not follow one that has replaced the history.
	mu struct {
		sync.Mutex
		refs []wal.SnapRef // durable references to usable files, oldest first
		// received are the files from another server that the core has taken and that are
		// not installed, by name. The log may refer to those that are newer than the
		// installed one.
		received map[string]jute.Zxid
	}
	installs atomic.Int64 // how often the history was replaced; grows under mu

	// needed is a jute.Zxid: learners that are being synchronized need the log after it.
	needed  atomic.Int64
	holding atomic.Bool   // something is kept for them that would have been purged
	tight   chan struct{} // has a token when the disk is getting full meanwhile, and while it is full
	alone   jute.Zxid     // of the snapshot that a purge of a full disk has left; owned by run

	// forRoom says that the next snapshot is to make room on a full disk: all before it goes.
	forRoom atomic.Bool

	// idle has a token while no snapshot is being written, and ended one when one has ended.
	idle, ended chan struct{}
	size        atomic.Int64 // bytes of the last snapshot, 0 if there is none
	taken       atomic.Int64 // its jute.Zxid
	reach       atomic.Pointer[reach]
	measured    chan struct{} // has a token when reach is to be measured again
	dropped     bool          // the last purge has dropped snapshots that zkd.historyKb has no room for; owned by run
	// The last ones failed, and the error of the last one.
	fails   base.Since
	failure atomic.Pointer[string]
}

// frozen is a view of the tree with its accompanying state.
type frozen struct {
	*datatree.View
	ensemble []byte // the ensemble's state at the same zxid
	installs int64
	ctx      context.Context // ends when the view is given up
	giveUp   context.CancelCauseFunc
}

func newFrozen(s *state.State, installs int64) frozen {
	f := frozen{View: s.Tree.Freeze(), ensemble: s.Ensemble.Append(nil), installs: installs}
	f.ctx, f.giveUp = context.WithCancelCause(context.Background())
	return f
}

// schedule picks the number of transactions after which the next snapshot is due. It is
// random, so that the servers do not all write at once.
func (sn *snapshotter) schedule() {
	half := max(sn.live().SnapCount/2, 1)
	sn.next = half + 1 + rand.IntN(half)
}

// applied counts the applied orders, and freezes the tree when a snapshot is due and none
// is being written. The tree is locked for writing.
func (sn *snapshotter) applied(orders []replica.Order) {
	for i := range orders {
		if orders[i].Kind == replica.OrderEntry {
			sn.txns++
			sn.bytes += int64(len(orders[i].Data))
		}
	}
	if r := sn.reach.Load(); r != nil && r.since == 0 { // this may be the first entry
		base.Notify(sn.measured)
	}
	if sn.due() {
		sn.freeze()
	}
}

// freeze starts a snapshot of the current tree, unless one is being written. The tree is
// locked for writing.
func (sn *snapshotter) freeze() {
	select {
	case <-sn.idle:
	default:
		return // one is being written
	}
	sn.txns, sn.bytes = 0, 0
	sn.schedule()
	sn.last = newFrozen(sn.state, sn.installs.Load())
	sn.views <- sn.last
}

var errKeepsTooMuch = errors.New("too much was changed while it was written, for the memory that there is")

// snapshotPatience is how long changes wait for a snapshot.
const snapshotPatience = 3 * time.Second

// await waits for the snapshot that is being written if too much is kept for it: former versions of all that
// was changed meanwhile. If it does not end in time it is given up. The applier calls it, between two changes.
func (sn *snapshotter) await(ctx context.Context) {
	if !sn.keepsTooMuch() {
		return
	}
	timer := time.NewTimer(snapshotPatience)
	defer timer.Stop()
	for sn.keepsTooMuch() {
		select {
		case <-sn.ended:
		case <-timer.C:
			sn.state.Lock()
			sn.giveUp(errKeepsTooMuch)
			sn.state.Unlock()
			return
		case <-ctx.Done():
			return
		}
	}
}

// giveUp ends the snapshot that is being written, and releases the former tree. The tree is locked for
// writing. The applier calls it.
func (sn *snapshotter) giveUp(why error) {
	if sn.last.View != nil {
		sn.last.giveUp(why) // before the view is closed: what is written then is not used
		sn.last.Close()
	}
}

func (sn *snapshotter) keepsTooMuch() bool {
	if sn.most == 0 {
		return false
	}
	sn.state.RLock()
	defer sn.state.RUnlock()
	return sn.state.Tree.Retained() > sn.most
}

// due reports whether enough has happened for a snapshot.
func (sn *snapshotter) due() bool {
	live := sn.live()
	if live.SnapSizeLimit > 0 && sn.bytes >= live.SnapSizeLimit {
		return true
	}
	return sn.bytes >= sn.size.Load()/snapshotShare &&
		(sn.txns >= min(sn.next, live.SnapCount) || sn.bytes >= snapshotBytes)
}

// run writes a snapshot of each view and purges, until the server stops.
func (sn *snapshotter) run(ctx context.Context) {
	purge := base.NewPulse()
	defer purge.Stop()
	for {
		purge.Every(sn.live().PurgeInterval)
		sn.measure(ctx)
		select {
		case view := <-sn.views:
			sn.take(ctx, view)
			sn.idle <- struct{}{}
		case <-purge.C:
			sn.purge(ctx, false)
		case <-sn.tight:
			sn.purgeTight(ctx)
		case <-sn.reloaded:
		case <-sn.measured:
		case <-ctx.Done():
			return
		}
	}
}

// take writes one snapshot. A failure is harmless: the log has all of it, and the next
// snapshot is tried in time.
func (sn *snapshotter) take(ctx context.Context, view frozen) {
	start, forRoom := sn.now(), sn.forRoom.Swap(false) && sn.disk.Full()
	stop := context.AfterFunc(ctx, func() { view.giveUp(context.Cause(ctx)) })
	defer func() {
		stop()
		view.giveUp(nil)
		sn.state.Lock()
		view.Close()
		sn.state.Unlock()
		base.Notify(sn.ended)
	}()
	ref, err := sn.write(view, forRoom)
	if err == nil && forRoom { // soon there is nothing else to start from
		_, err = sn.store.Verify(ctx, data.StoreRef(ref))
	}
	if err != nil {
		if ctx.Err() == nil {
			sn.metrics.SnapshotErrors.Add(1)
			text := err.Error()
			sn.failure.Store(&text)
			sn.fails.Set(true, sn.now())
			sn.log.Error("snapshot failed; the log is complete, and another will be tried later", zap.Error(err))
		}
		return
	}
	sn.fails.Set(false, 0)
	took := sn.now() - start
	sn.metrics.Snapshot.Observe(took, 1)
	sn.log.Info("snapshot written", zap.String("name", ref.Name), zap.Stringer("zxid", ref.Zxid),
		zap.Int64("bytes", ref.Size), zap.Duration("took", took))
	sn.size.Store(ref.Size)
	sn.events.Put(peerEvent{kind: evTaken, zxid: ref.Zxid, bytes: ref.Size})
	if sn.live().PurgeInterval > 0 {
		sn.purge(ctx, forRoom)
	}
}

// write writes the view's rows into a file and makes the reference to it durable in the
// log. Only then the snapshot counts.
func (sn *snapshotter) write(view frozen, forRoom bool) (wal.SnapRef, error) {
	write := sn.store.Write
	if forRoom {
		write = sn.store.WriteForRoom
	}
	ref, err := data.WriteSnapshot(view.ctx, write, sn.state, view.View, view.ensemble, &sn.ident)
	if err != nil {
		return ref, err
	}
	if err := context.Cause(view.ctx); err != nil { // the view may have ended before its last row
		return ref, errors.Join(err, sn.store.Remove(ref.Name))
	}
	err = sn.refer(ref, view)
	if errors.Is(err, errReplaced) { // after another error the reference may be in the log
		err = errors.Join(err, sn.store.Remove(ref.Name))
	}
	return ref, err
}

var errReplaced = errors.New("the history was replaced meanwhile")

// refer makes the reference to a finished snapshot durable.
func (sn *snapshotter) refer(ref wal.SnapRef, view frozen) error {
	sn.mu.Lock()
	defer sn.mu.Unlock()
	if view.installs != sn.installs.Load() {
		return errReplaced
	}
	if err := sn.logWriter.SubmitAhead(ref.Record()); err != nil {
		return err
	}
	sn.mu.refs = append(sn.mu.refs, ref)
	sn.taken.Store(int64(ref.Zxid))
	return nil
}

// Last returns the newest reference, if there is one.
func (sn *snapshotter) Last() (ref wal.SnapRef, ok bool) {
	sn.mu.Lock()
	defer sn.mu.Unlock()
	n := len(sn.mu.refs)
	if n == 0 {
		return ref, false
	}
	return sn.mu.refs[n-1], true
}

// Newest returns the newest reference, for a learner that needs the entries after
// atLeast. If there is none so new, a snapshot is taken.
func (sn *snapshotter) Newest(ctx context.Context, atLeast jute.Zxid) (wal.SnapRef, error) {
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for turn := 0; ; turn++ {
		sn.mu.Lock()
		refs := sn.mu.refs
		sn.mu.Unlock()
		if n := len(refs); n > 0 && refs[n-1].Zxid >= atLeast {
			return refs[n-1], nil
		}
		if turn%20 == 0 { // the one being written now may be too old
			sn.askFor()
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return wal.SnapRef{}, fmt.Errorf("no snapshot at %v or after it: %w", atLeast, context.Cause(ctx))
		}
	}
}

// replacing records that a reference which replaces the history goes to the log.
func (sn *snapshotter) replacing() {
	sn.mu.Lock()
	defer sn.mu.Unlock()
	sn.installs.Add(1)
}

// received records that the core has taken a snapshot from another server: the log is
// about to refer to its file.
func (sn *snapshotter) received(ref wal.SnapRef) {
	sn.mu.Lock()
	defer sn.mu.Unlock()
	sn.mu.received[ref.Name] = ref.Zxid
}

// discard removes the file of a snapshot that the core has not taken, unless the log
// refers to a file of that name, or may come to do so.
func (sn *snapshotter) discard(name string) error {
	sn.mu.Lock()
	_, wanted := sn.mu.received[name]
	wanted = wanted || slices.ContainsFunc(sn.mu.refs, func(r wal.SnapRef) bool { return r.Name == name })
	sn.mu.Unlock()
	if wanted {
		return nil
	}
	return sn.store.Remove(name)
}

// installed records that the tree is now the one of a snapshot from another server. It
// removes the files of the history before it, and older files that were received before:
// the core refuses to install those.
func (sn *snapshotter) installed(ref wal.SnapRef) {
	sn.mu.Lock()
	dropped := sn.mu.refs
	sn.mu.refs = []wal.SnapRef{ref}
	sn.taken.Store(int64(ref.Zxid))
	delete(sn.mu.received, ref.Name)
	for name, zxid := range sn.mu.received {
		if zxid < ref.Zxid {
			dropped = append(slices.Clip(dropped), wal.SnapRef{Name: name})
			delete(sn.mu.received, name)
		}
	}
	sn.mu.Unlock()
	sn.txns, sn.bytes = 0, 0
	sn.size.Store(ref.Size)
	base.Notify(sn.measured)
	if _, err := remove(dropped, ref.Name, sn.store.Remove); err != nil {
		sn.log.Warn("removing the snapshots of the old history is incomplete", zap.Error(err))
	}
}

// remove removes the files of references that the log has dropped, except the one named
// keep, and returns their names.
func remove(dropped []wal.SnapRef, keep string, file func(name string) error) (removed []string, err error) {
	for _, ref := range dropped {
		if ref.Name == keep {
			continue
		}
		if rerr := file(ref.Name); rerr != nil {
			err = errors.Join(err, rerr)
			continue
		}
		removed = append(removed, ref.Name)
	}
	return removed, err
}

func zxidOf(r wal.SnapRef) jute.Zxid { return r.Zxid }

// historyFrom returns the zxid of the oldest reference that is kept for those who look at the past, and 0 if none is.
func (sn *snapshotter) historyFrom(ctx context.Context) jute.Zxid {
	cfg := sn.live()
	if cfg.History == 0 {
		return 0
	}
	sn.mu.Lock()
	refs := slices.Clone(sn.mu.refs)
	sn.mu.Unlock()
	moment := sn.wall().Add(-cfg.History).UnixMilli()
	old := func(r wal.SnapRef) bool {
		meta, err := sn.store.Describe(ctx, r.Name)
		return err == nil && history.LastTimeOf(&meta) <= moment
	}
	later := int64(0) // the log after the snapshot before
	size := func(r wal.SnapRef) int64 {
		after, _ := sn.logWriter.BytesAfter(r.Zxid)
		n := r.Size + after - later
		later = after
		return n
	}
	return datadirs.PlanHistory(refs, zxidOf, old, size, cfg.HistoryBytes)
}

// planPurge plans a purge of references: the newest autopurge.snapRetainCount are kept, those from the zxid past on, if it is not 0, and those that
// learners need that are being synchronized. Such a learner may need one for a long time, and would
// have to start over without it. When the disk is getting full it is purged nevertheless, and so is the past.
func (sn *snapshotter) planPurge(refs []wal.SnapRef, past jute.Zxid, forRoom bool) datadirs.Purge {
	need := datadirs.NeedOf(sn.disk.at() != wal.SpaceOK, forRoom)
	needed := jute.Zxid(sn.needed.Load())
	retain := sn.live().SnapRetainCount
	if i := slices.IndexFunc(refs, func(r wal.SnapRef) bool { return r.Zxid >= past }); past != 0 && i >= 0 && need == datadirs.Routine {
		retain = max(retain, len(refs)-i)
	}
	plan := datadirs.PlanPurge(refs, zxidOf, retain, needed, need)
	began := sn.holding.Swap(plan.Held > 0 && need == datadirs.Routine)
	fields := []zap.Field{zap.Stringer("after", needed), zap.Int("snapshots", plan.Held)}
	switch {
	case plan.Held == 0:
	case need != datadirs.Routine:
		sn.log.Warn("the disk is getting full: purging the log although a server that joins needs it, which now gets another snapshot", fields...)
	case !began:
		sn.log.Info("keeping the log for a server that joins", fields...)
	}
	return plan
}

// purgeForSpace purges what is kept for learners, because the disk is getting full.
func (sn *snapshotter) purgeForSpace() {
	if sn.holding.Load() {
		base.Notify(sn.tight)
	}
}

// purgeTight purges what is kept for learners only. On a full disk the newest snapshot stays alone, if it
// is sound.
func (sn *snapshotter) purgeTight(ctx context.Context) {
	last, ok := sn.Last()
	forRoom := ok && sn.disk.Full() && sn.live().PurgeInterval > 0
	if forRoom && sn.alone == last.Zxid {
		return // it is
	}
	if forRoom {
		sn.alone = last.Zxid
		if _, err := sn.store.Verify(ctx, data.StoreRef(last)); err != nil {
			sn.log.Error("the newest snapshot can't be read: the older ones stay although the disk is full", zap.Error(err))
			forRoom = false
		}
	}
	sn.purge(ctx, forRoom)
}

// room returns what there is to decide how to make room.
func (sn *snapshotter) room() (r datadirs.Room, err error) {
	sn.state.RLock()
	tree := sn.state.Tree.Stats()
	r.Next, r.Applied = datadirs.Estimate(tree.DataSize, tree.Nodes+tree.Sessions), sn.state.Tree.LastZxid()
	sn.state.RUnlock()
	stats := sn.logWriter.Stats()
	r.Waits, r.Old = stats.Lacks != nil, stats.OldBytes
	r.Last, r.Taken = sn.size.Load(), jute.Zxid(sn.taken.Load())
	log, _, err := sn.logWriter.Space(0)
	if err != nil {
		return r, err
	}
	r.LogFree, r.Shared = log.Free, true
	if space, err := sn.store.Space(); err == nil {
		r.Free, r.Shared = space.Free, space.Device == log.Device
	}
	return r, nil
}

// keepRoom returns how many bytes of the log's disk a snapshot of the tree needs, 0 if snapshots are on another disk. It
// has the log leave so much, if it is there.
func (sn *snapshotter) keepRoom() int64 {
	r, err := sn.room()
	if err != nil {
		return sn.size.Load()
	}
	if len(sn.idle) > 0 || !r.Shared { // else one is being written there
		sn.logWriter.Keep(r.Keep())
	}
	if !r.Shared {
		return 0
	}
	return r.Next
}

// makeRoom is called from time to time while the disk is full. All but the newest snapshot goes, and if a new one makes
// room, it is written, and everything before it goes.
func (sn *snapshotter) makeRoom() {
	if sn.live().PurgeInterval == 0 || len(sn.idle) == 0 {
		return
	}
	base.Notify(sn.tight)
	if r, err := sn.room(); err == nil && r.WantsSnapshot() {
		sn.forRoom.Store(true)
		sn.askFor()
	}
}

// purge removes the snapshots that are not to be kept, and the log segments that only
// they needed. forRoom keeps the newest one alone.
func (sn *snapshotter) purge(ctx context.Context, forRoom bool) {
	dropped, plan, err := sn.forget(sn.historyFrom(ctx), forRoom)
	sn.dropped = plan.Drop > 0 && datadirs.NeedOf(sn.disk.at() != wal.SpaceOK, forRoom) == datadirs.Routine
	if err == nil && plan.Log != 0 {
		sn.measure(ctx) // the log and the files go in steps
		err = sn.drop(ctx, dropped, plan.Log)
	}
	if err != nil {
		sn.log.Warn("purge of old snapshots and log segments is incomplete", zap.Error(err))
	}
}

// drop removes the segments of the log that have only entries up to a zxid, and the files of dropped.
func (sn *snapshotter) drop(ctx context.Context, dropped []wal.SnapRef, upTo jute.Zxid) error {
	segments, err := sn.logWriter.Purge(ctx, upTo)
	if err == nil {
		sn.events.Put(peerEvent{kind: evPurged, zxid: upTo})
	}
	removed, rerr := remove(dropped, "", func(name string) error { return sn.store.RemoveInSteps(ctx, name) })
	sn.log.Info("purged", zap.Int("segments", segments), zap.Strings("snapshots", removed))
	return errors.Join(err, rerr)
}

// forget makes the log forget the references that purge drops, before their files go: it never refers
// to a file that is gone. dropped are the references of which nobody needs the file any more.
func (sn *snapshotter) forget(past jute.Zxid, forRoom bool) (dropped []wal.SnapRef, plan datadirs.Purge, err error) {
	sn.mu.Lock()
	defer sn.mu.Unlock()
	plan = sn.planPurge(sn.mu.refs, past, forRoom)
	if plan.Log == 0 {
		return nil, plan, nil
	}
	keep := sn.mu.refs[plan.Drop:]
	if err := sn.logWriter.SubmitAhead(wal.Record{Kind: wal.Forget, Zxid: keep[0].Zxid}); err != nil {
		return nil, plan, err
	}
	for _, ref := range sn.mu.refs[:plan.Drop] {
		if ref.Name != keep[0].Name {
			dropped = append(dropped, ref)
		}
	}
	sn.mu.refs = keep
	return dropped, plan, nil
}
