package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/internal/wire"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// received is a snapshot that another server sent and that is durable.
type received struct {
	token uint64
	ref   wal.SnapRef
	state zab.State
	tree  *datatree.Tree // nil if there is no memory for it beside the present one
}

func (r *received) info() zab.SnapInfo {
	return zab.SnapInfo{Zxid: r.ref.Zxid, State: r.state, Bytes: r.ref.Size, Ref: r}
}

// The header of a stream with a snapshot: token, zxid, size, CRC, name, digest.
func appendSnapHeader(b []byte, token uint64, ref *wal.SnapRef) []byte {
	b = binary.LittleEndian.AppendUint64(b, token)
	b = binary.LittleEndian.AppendUint64(b, uint64(ref.Zxid))
	b = binary.LittleEndian.AppendUint64(b, uint64(ref.Size))
	b = binary.LittleEndian.AppendUint32(b, ref.CRC)
	b = wire.AppendBytes(b, ref.Name)
	return wire.AppendBytes(b, ref.Digest)
}

func decodeSnapHeader(b []byte) (*received, error) {
	f := wire.NewReader(b)
	rec := &received{token: f.Uint64(), ref: wal.SnapRef{
		Zxid: jute.Zxid(f.Uint64()), Size: int64(f.Uint64()), CRC: f.Uint32(), Name: f.String(), Digest: f.Bytes(), Installed: true,
	}}
	if err := f.End(); err != nil {
		return nil, fmt.Errorf("header of a snapshot: %w", err)
	}
	if !rec.ref.Valid() {
		return nil, errors.New("header of a snapshot: reference out of bounds")
	}
	return rec, nil
}

// arrivals are the snapshots that other servers are sending to this one. A leader
// announces its snapshot over the link and sends it on another connection, so either may
// come first. A snapshot that the core does not wait for stays unread: its sender is held
// up after some kilobytes.
//
// Bounds: one arrival from each server, the newest. Bytes are read only of the arrival
// that the core waits for, into a file without a name. It is loaded into memory when it
// is complete and the core still waits for it, one at a time. An arrival that does not
// become this server's history leaves nothing.
type arrivals struct {
	log       *zap.Logger
	ctx       context.Context // ends when the server stops
	patience  time.Duration
	events    *base.Queue[peerEvent]
	snapshots *snapshotter
	memory    *memory
	tree      func() int64  // memory of the present tree
	turn      chan struct{} // has a token while a complete snapshot is loaded and offered to the core

	mu struct {
		sync.Mutex
		from    zab.SID // the core waits for the snapshot of this server
		token   uint64  // and with this token; 0 for none
		changed chan struct{}
		list    map[zab.SID]*arrival
	}
}

// arrival is one snapshot on its way to this server.
type arrival struct {
	from  zab.SID
	token uint64
	size  int64
	bytes atomic.Int64 // received so far
	ctx   context.Context
	end   context.CancelCauseFunc
}

// Reasons why an arrival ends before it is complete.
var (
	errNotWanted   = errors.New("the snapshot is not wanted any more")
	errNotNow      = errors.New("the snapshot is not wanted at the moment")
	errNewerStream = errors.New("the sender has begun to send another snapshot")
	errLinkLost    = errors.New("the link to the sender is gone")
)

func newArrivals(logger *zap.Logger, initLimit time.Duration, ctx context.Context, events *base.Queue[peerEvent], snapshots *snapshotter, memory *memory, tree func() int64) *arrivals {
	a := &arrivals{log: logger, memory: memory, tree: tree, patience: 10 * initLimit, ctx: ctx, events: events, snapshots: snapshots, turn: make(chan struct{}, 1)}
	a.mu.changed = make(chan struct{})
	a.mu.list = make(map[zab.SID]*arrival)
	return a
}

// setWanted sets which snapshot the core waits for, 0 for none. While the core waits for none,
// an arrival under way is kept: the core may want it again.
func (a *arrivals) setWanted(from zab.SID, token uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.from == from && a.mu.token == token {
		return
	}
	a.mu.from, a.mu.token = from, token
	close(a.mu.changed)
	a.mu.changed = make(chan struct{})
	for _, x := range a.mu.list {
		if token != 0 && (x.from != from || x.token != token) {
			x.end(errNotWanted)
		}
	}
}

// drop ends the arrivals from a server, or from all servers if from is 0.
func (a *arrivals) drop(from zab.SID, why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range a.mu.list {
		if from == 0 || x.from == from {
			x.end(why)
		}
	}
}

// begin begins an arrival. It ends the previous one from the same server.
func (a *arrivals) begin(from zab.SID, rec *received) *arrival {
	x := &arrival{from: from, token: rec.token, size: rec.ref.Size}
	x.ctx, x.end = context.WithCancelCause(a.ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.mu.list[from]; old != nil {
		old.end(errNewerStream)
	}
	a.mu.list[from] = x
	return x
}

func (a *arrivals) end(x *arrival) {
	x.end(nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.list[x.from] == x {
		delete(a.mu.list, x.from)
	}
}

// waitUntilWanted waits until the core waits for an arrival.
func (a *arrivals) waitUntilWanted(x *arrival) error {
	late := time.NewTimer(a.patience)
	defer late.Stop()
	for {
		a.mu.Lock()
		wanted, changed := a.mu.from == x.from && a.mu.token == x.token, a.mu.changed
		a.mu.Unlock()
		if wanted && x.ctx.Err() == nil {
			return nil
		}
		select {
		case <-changed:
		case <-x.ctx.Done():
			return context.Cause(x.ctx)
		case <-late.C:
			return errNotWanted
		}
	}
}

// sizes returns the progress of each arrival.
func (a *arrivals) sizes() (list []show.Transfer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range a.mu.list {
		list = append(list, show.Transfer{Peer: x.from, Done: x.bytes.Load(), Size: x.size})
	}
	slices.SortFunc(list, byPeer)
	return list
}

// receive receives the snapshot of a stream.
func (a *arrivals) receive(from zab.SID, header []byte, r io.Reader) (err error) {
	rec, err := decodeSnapHeader(header)
	if err != nil {
		return err
	}
	if !a.memory.holds(rec.ref.Size) {
		a.rest()
		return fmt.Errorf("its snapshot has %d bytes, and the tree of this server may take %d of the %d bytes of memory that the process may use: "+
			"it needs as much memory as the other members", rec.ref.Size, a.memory.tree, a.memory.limit)
	}
	x := a.begin(from, rec)
	defer a.end(x)
	defer func() {
		if err != nil && x.ctx.Err() == nil {
			a.rest()
		}
	}()
	if err := a.waitUntilWanted(x); err != nil {
		return err
	}
	in, err := a.snapshots.store.Receive(data.StoreRef(rec.ref))
	if err != nil {
		return err
	}
	log := a.log.With(zap.Uint8("peer", uint8(from)), zap.Stringer("zxid", rec.ref.Zxid))
	log.Info("receiving snapshot", zap.Int64("bytes", rec.ref.Size))
	if _, err := io.Copy(in, &countingReader{ctx: x.ctx, r: r, done: &x.bytes, size: x.size, log: log, text: "receiving snapshot"}); err != nil {
		return errors.Join(err, in.Abort())
	}
	if err := a.waitUntilWanted(x); err != nil {
		return errors.Join(err, in.Abort())
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-x.ctx.Done():
		return errors.Join(context.Cause(x.ctx), in.Abort())
	}
	ref, err := in.Finish(x.ctx)
	if err != nil {
		return err
	}
	rec.ref.Name = ref.Name // not the sender's
	for err = a.loadAndInstall(x, rec); errors.Is(err, errNotNow); err = a.loadAndInstall(x, rec) {
		if err = a.waitUntilWanted(x); err != nil {
			break
		}
	}
	if err != nil {
		err = errors.Join(err, a.discard(ref.Name))
	}
	return err
}

// loadAndInstall loads a complete snapshot and gives it to the core, which makes it the history. A
// snapshot that can't be loaded must not become the history. Without memory for another tree it is verified
// here, and loaded by the applier. take returns errNotNow if the core does not wait for it at the moment.
func (a *arrivals) loadAndInstall(x *arrival, rec *received) (err error) {
	if a.memory.holds(a.tree(), rec.ref.Size) {
		rec.tree, rec.state, err = history.Load(x.ctx, a.snapshots.store, data.StoreRef(rec.ref))
	} else {
		rec.tree = nil
		rec.state, err = history.StateOf(x.ctx, a.snapshots.store, data.StoreRef(rec.ref))
	}
	if err != nil {
		return err
	}
	taken := make(chan error, 1)
	a.events.Put(peerEvent{kind: evReceived, peer: x.from, received: rec, taken: taken})
	select {
	case err := <-taken:
		return err
	case <-a.ctx.Done():
		return context.Cause(a.ctx)
	}
}

// rest waits before the stream of a snapshot that was not received ends: the leader sends another one at once.
func (a *arrivals) rest() {
	_ = pause.For(a.ctx, time.Second)
}

// take gives a complete snapshot to the core.
func (l *loop) take(from zab.SID, rec *received) error {
	core := l.replica.Core
	if wants, token := core.WantsSnapshot(); wants != from || token != rec.token {
		return errNotNow
	}
	if !core.SnapshotReceived(from, rec.token, rec.info()) {
		return errNotWanted
	}
	l.snapshots.received(rec.ref)
	return nil
}

// discard removes the file of a snapshot that did not become the history. While the
// server stops it is unknown whether it did, so the file is kept.
func (a *arrivals) discard(name string) error {
	if a.ctx.Err() != nil {
		return nil
	}
	return a.snapshots.discard(name)
}

func byPeer(x, y show.Transfer) int { return int(x.Peer) - int(y.Peer) }

// countingReader counts the bytes read, and logs the progress from time to time.
type countingReader struct {
	ctx  context.Context
	r    io.Reader
	done *atomic.Int64
	size int64
	log  *zap.Logger
	text string
	last time.Time
}

// tallyEvery is the time between two lines in the log.
const tallyEvery = 10 * time.Second

func (t *countingReader) Read(p []byte) (int, error) {
	if t.ctx.Err() != nil {
		return 0, context.Cause(t.ctx)
	}
	n, err := t.r.Read(p)
	done := t.done.Add(int64(n))
	switch now := time.Now(); {
	case t.last.IsZero():
		t.last = now
	case now.Sub(t.last) >= tallyEvery:
		t.last = now
		t.log.Info(t.text, zap.Int64("done_bytes", done), zap.Int64("of_bytes", t.size))
	}
	return n, err
}
