package server

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/transport"
)

// learners does the work of a leader for lagging servers outside the peer loop: it reads
// the log for them, and sends them snapshots.
//
// Bounds: for each learner one request for entries, one place in the log, and one
// snapshot. All of them end with the link to the learner, and with the role.
type learners struct {
	log       *zap.Logger
	metrics   *monitor.Metrics
	life      *base.Life // of the work for learners
	events    *base.Queue[peerEvent]
	logWriter *logWriter
	snapshots *snapshotter
	transport *transport.Transport // set by the start

	reads   *base.Queue[zab.LogRead]
	waiting atomic.Int64                   // requests for entries that are not in the log yet
	sends   map[zab.SID]context.CancelFunc // owned by the peer loop

	mu struct {
		sync.Mutex
		sending map[zab.SID]*sending
	}
}

// sending is a snapshot on its way to a learner.
type sending struct {
	bytes atomic.Int64
	size  int64
}

func newLearners(logger *zap.Logger, m *monitor.Metrics, life *base.Life, events *base.Queue[peerEvent], log *logWriter, snapshots *snapshotter) *learners {
	l := &learners{log: logger, metrics: m, life: life, events: events, logWriter: log, snapshots: snapshots,
		reads: base.NewQueue[zab.LogRead](nil), sends: make(map[zab.SID]context.CancelFunc)}
	l.mu.sending = make(map[zab.SID]*sending)
	return l
}

// serveLearners starts the work that the core requests for learners.
func (l *loop) serveLearners() {
	l.learners.reads.Put(l.out.ReadLog...)
	for _, send := range l.out.SendSnap {
		l.learners.stopSending(send.Peer)
		if send.Stop {
			continue
		}
		ctx, cancel := context.WithCancel(l.learners.life.Context())
		l.learners.sends[send.Peer] = cancel
		l.learners.life.Go(func() { l.learners.sendSnapshot(ctx, send) })
	}
}

// stopSending stops sending a snapshot to a peer.
func (l *learners) stopSending(peer zab.SID) {
	if cancel := l.sends[peer]; cancel != nil {
		cancel()
		delete(l.sends, peer)
	}
}

// forget ends all work for a peer, or for all if peer is 0: the link to it is gone, or
// this server no longer leads.
func (l *learners) forget(peer zab.SID) {
	for id := range l.sends {
		if peer == 0 || id == peer {
			l.stopSending(id)
		}
	}
	l.reads.Put(zab.LogRead{Peer: peer, Gen: forgetReads})
}

// forgetReads, in place of a link's number, makes the log reader forget a peer.
const forgetReads = ^uint64(0)

// logReader reads the log for learners.
type logReader struct {
	*learners
	places  map[zab.SID]*logPlace
	waiting map[zab.SID]zab.LogRead // for entries that are not in the log yet
}

// logPlace is a cursor in the log and the zxid after which it stands.
type logPlace struct {
	*wal.Reader
	after jute.Zxid
}

// run reads the log for learners until the server stops. It keeps a place for each of
// them. A request for entries that are still on their way to the log's writer waits until
// the log has grown.
func (l *learners) run() {
	r := &logReader{learners: l, places: make(map[zab.SID]*logPlace), waiting: make(map[zab.SID]zab.LogRead)}
	defer r.forget(0)
	var batch []zab.LogRead
	for {
		select {
		case <-l.reads.Ready:
			batch = l.reads.Take(batch)
			for _, req := range batch {
				if req.Gen == forgetReads {
					r.forget(req.Peer)
				} else {
					r.read(req)
				}
			}
			batch = l.reads.Done(batch)
		case <-l.logWriter.logged:
			for _, req := range r.waiting {
				r.read(req)
			}
		case <-l.life.Stopping():
			return
		}
		l.waiting.Store(int64(len(r.waiting)))
	}
}

// forget gives up the place and the request of a peer, or of all if peer is 0.
func (r *logReader) forget(peer zab.SID) {
	for id, place := range r.places {
		if peer == 0 || id == peer {
			place.Close()
			delete(r.places, id)
		}
	}
	if delete(r.waiting, peer); peer == 0 {
		clear(r.waiting)
	}
}

// read answers a request. It replaces a request that waits for the same peer.
func (r *logReader) read(req zab.LogRead) {
	delete(r.waiting, req.Peer)
	place, err := r.place(req)
	var records []wal.Record
	if err == nil {
		records, err = place.Next(req.MaxBytes)
	}
	switch {
	case err != nil:
		r.forget(req.Peer)
		r.failed(req, err)
		return
	case len(records) == 0:
		r.waiting[req.Peer] = req
		return
	}
	entries := make([]zab.Entry, len(records))
	for i := range records {
		entries[i] = data.EntryOf(&records[i])
		place.after = records[i].Zxid
	}
	r.events.Put(peerEvent{kind: evRead, peer: req.Peer, gen: req.Gen, zxid: req.After, entries: entries, ok: true})
}

// place returns the place in the log where a request begins.
func (r *logReader) place(req zab.LogRead) (*logPlace, error) {
	if p := r.places[req.Peer]; p != nil {
		if p.after == req.After {
			return p, nil
		}
		p.Close()
		delete(r.places, req.Peer)
	}
	in, err := r.logWriter.NewReader(req.After)
	if err != nil {
		return nil, err
	}
	p := &logPlace{Reader: in, after: req.After}
	r.places[req.Peer] = p
	return p, nil
}

// failed answers a request for entries that the log no longer has. Other errors are
// answered in the same way: the learner then gets a snapshot.
func (r *logReader) failed(req zab.LogRead, err error) {
	if !errors.Is(err, wal.ErrPurged) {
		r.log.Warn("reading the log for another server failed", zap.Uint8("peer", uint8(req.Peer)), zap.Stringer("after", req.After), zap.Error(err))
	}
	r.events.Put(peerEvent{kind: evRead, peer: req.Peer, gen: req.Gen, zxid: req.After})
}

// sendSnapshot streams the newest snapshot to a learner.
func (l *learners) sendSnapshot(ctx context.Context, req zab.SnapSend) {
	zxid, err := l.streamSnapshot(ctx, req)
	if err != nil && ctx.Err() == nil {
		l.log.Warn("snapshot was not sent", zap.Uint8("peer", uint8(req.Peer)), zap.Error(err))
		restAfter(ctx, err)
	}
	l.events.Put(peerEvent{kind: evSent, peer: req.Peer, gen: req.Gen, token: req.Token, zxid: zxid, ok: err == nil})
}

// restAfter waits a second after an error for want of descriptors or room: the learner asks again at once.
func restAfter(ctx context.Context, err error) {
	if !vfs.IsShortage(err) {
		return
	}
	_ = pause.For(ctx, time.Second)
}

func (l *learners) streamSnapshot(ctx context.Context, req zab.SnapSend) (jute.Zxid, error) {
	ref, err := l.snapshots.Newest(ctx, req.AtLeast)
	if err != nil {
		return 0, err
	}
	l.events.Put(peerEvent{kind: evBegun, peer: req.Peer, gen: req.Gen, token: req.Token, zxid: ref.Zxid})
	file, err := l.snapshots.store.Open(data.StoreRef(ref))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	stream, err := l.transport.OpenStream(ctx, req.Peer, appendSnapHeader(nil, req.Token, &ref))
	if err != nil {
		return 0, err
	}
	x := l.beginSending(req.Peer, ref.Size)
	defer l.endSending(req.Peer, x)
	log := l.log.With(zap.Uint8("peer", uint8(req.Peer)), zap.Stringer("zxid", ref.Zxid))
	log.Info("sending snapshot", zap.Int64("bytes", ref.Size))
	if _, err := io.Copy(stream, &countingReader{ctx: ctx, r: file, done: &x.bytes, size: x.size, log: log, text: "sending snapshot"}); err != nil {
		stream.Abort(err)
		return 0, err
	}
	if err := stream.Close(); err != nil {
		return 0, err
	}
	l.metrics.SnapshotsSent.Add(1)
	return ref.Zxid, nil
}

func (l *learners) beginSending(peer zab.SID, size int64) *sending {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := &sending{size: size}
	l.mu.sending[peer] = x
	l.metrics.SendingSnapshots.Observe(len(l.mu.sending))
	return x
}

func (l *learners) endSending(peer zab.SID, x *sending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.sending[peer] == x {
		delete(l.mu.sending, peer)
	}
}

// sizes returns the progress of each snapshot.
func (l *learners) sizes() (list []show.Transfer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for peer, x := range l.mu.sending {
		list = append(list, show.Transfer{Peer: peer, Done: x.bytes.Load(), Size: x.size})
	}
	slices.SortFunc(list, byPeer)
	return list
}
