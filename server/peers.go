package server

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/transport"
)

// peerEvent is something that the peer loop has to hear of, in its turn.
type peerEvent struct {
	kind     peerEventKind
	peer     zab.SID
	gen      uint64
	msg      zab.Message
	intro    zab.Introduction
	app      uint8
	body     []byte
	entries  []zab.Entry
	zxid     jute.Zxid
	bytes    int64
	ok       bool
	received *received
	done     chan<- struct{}
	at       time.Duration
}

// size is about how much memory an event takes.
func (ev *peerEvent) size() int64 {
	n := int64(len(ev.body)) + 512
	for i := range ev.msg.Entries {
		n += entrySize(&ev.msg.Entries[i])
	}
	for i := range ev.entries {
		n += entrySize(&ev.entries[i])
	}
	return n
}

type peerEventKind uint8

const (
	evUp       peerEventKind = iota // intro
	evDown                          // gen
	evMessage                       // msg
	evApp                           // app, body
	evRead                          // entries behind zxid; !ok: purged
	evSent                          // snapshot at zxid, ok
	evReceived                      // received
	evTaken                         // snapshot at zxid, bytes
	evPurged                        // log begins at zxid, bytes
	evDigest                        // zxid, body: to be told to the leader
	evExpire                        // close the sessions that are due at that time
	evTransfer                      // hand over; done is closed when that is done
	evRefused                       // intro: of a server with which there is no link
)

// handle takes an event in.
func (r *replica) handle(ev *peerEvent) {
	switch ev.kind {
	case evUp:
		r.links[ev.peer] = ev.gen
		r.core.PeerUp(ev.peer, ev.gen, ev.intro)
	case evDown:
		if r.links[ev.peer] == ev.gen {
			delete(r.links, ev.peer)
			r.lostLink(ev.peer)
		}
		r.learners.forget(ev.peer)
		r.core.PeerDown(ev.peer, ev.gen)
	case evMessage:
		r.core.Recv(ev.peer, ev.gen, &ev.msg)
	case evApp:
		if r.links[ev.peer] == ev.gen {
			r.hear(ev)
		}
	case evRead:
		r.core.LogRead(ev.peer, ev.gen, ev.zxid, ev.entries, !ev.ok)
	case evSent:
		r.core.SnapshotSent(ev.peer, ev.gen, ev.zxid, ev.ok)
	case evReceived:
		r.core.SnapshotReceived(ev.peer, ev.received.token, ev.received.info())
	case evTaken:
		r.core.SnapshotTaken(ev.zxid, ev.bytes)
	case evPurged:
		r.core.LogPurged(ev.zxid, ev.bytes)
	case evDigest:
		r.tellDigest(ev.body)
	case evExpire:
		r.expireSessions(ev.at)
		if r.leading.evaluator != nil { // it need not wait for the next request
			r.leading.evaluator.Applied(r.lastApplied())
		}
	case evTransfer:
		r.core.Transfer()
		if r.status.Role != zab.Leading {
			close(ev.done)
		} else {
			r.left = append(r.left, ev.done)
		}
	case evRefused:
		r.core.Heard(ev.peer, ev.intro)
	}
}

// links is the transport.Handler of a server: it queues what comes for the peer
// loop.
type links struct{ *Server }

func (l links) PeerUp(peer zab.SID, gen uint64, h transport.Hello) {
	l.replica.events.put(peerEvent{kind: evUp, peer: peer, gen: gen, intro: h.Introduction})
}

func (l links) PeerDown(peer zab.SID, gen uint64, _ error) {
	l.replica.events.put(peerEvent{kind: evDown, peer: peer, gen: gen})
}

// Receive takes in a message of a core. Entries that this version of zkd does not
// understand end the server before its core hears of them: it can neither
// acknowledge nor apply them, and its disk stays as a later version can use it.
func (l links) Receive(peer zab.SID, gen uint64, m *zab.Message) {
	if err := understandAll(m.Entries); err != nil {
		l.failOn(peer, err)
		return
	}
	l.replica.events.put(peerEvent{kind: evMessage, peer: peer, gen: gen, msg: *m})
	m.Entries, m.Epochs = nil, nil // they are the core's
}

// understandAll returns why this version of zkd does not understand one of some
// entries, or nil.
func understandAll(entries []zab.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	txn := newTxn()
	defer recycleTxn(txn)
	for i := range entries {
		if err := understand(&entries[i], txn); err != nil {
			return fmt.Errorf("entry %v: %w", entries[i].Zxid, err)
		}
	}
	return nil
}

// failOn ends this server because of what another one sent and it can't read.
func (s *Server) failOn(peer zab.SID, err error) {
	if s.ctx.Err() == nil {
		s.fail(fmt.Errorf("server %d sent what this server can't read: %w. Nothing of it was stored or acknowledged: "+
			"start this server with the version of zkd that server %d has, or a later one", peer, err, peer))
	}
}

func (l links) ReceiveApp(peer zab.SID, gen uint64, kind uint8, body []byte) {
	l.replica.events.put(peerEvent{kind: evApp, peer: peer, gen: gen, app: kind, body: body})
}

// Stream takes in a snapshot from the leader.
func (l links) Stream(peer zab.SID, header []byte, r io.Reader) error {
	rec, err := l.receiveSnapshot(header, r)
	if err != nil {
		l.log.Error("snapshot from another server was not received", zap.Uint8("peer", uint8(peer)), zap.Error(err))
		if fault.KindOf(err) == fault.Newer {
			l.failOn(peer, err)
		}
		return err
	}
	l.replica.events.put(peerEvent{kind: evReceived, peer: peer, received: rec})
	return nil
}

// newTransport makes the links to the other servers of the ensemble.
func (s *Server) newTransport() (*transport.Transport, error) {
	o := transport.Options{
		Self:       s.id,
		Introduce:  func() zab.Introduction { return *s.intro.Load() },
		Peers:      s.peersOf(s.lists.Load()),
		Stranger:   s.stranger,
		Refused:    s.refused,
		ListenFunc: s.opts.ListenPeers,
		DialFunc:   s.opts.DialPeer,
		Secret:     s.cfg.QuorumSecret,
		TLS:        peerTLS(&s.cfg.QuorumTLS),
		MaxFrame:   maxPeerFrame,
		QueueBytes: maxPeerQueue,
		Handler:    links{s},
		Logger:     s.log.Named("peers"),
		Registerer: s.registry,
	}
	self := s.cfg.Self()
	o.Advertise = quorumAddrs(&self)
	o.Listen = o.Advertise
	if s.cfg.QuorumListenOnAllIPs {
		o.Listen = []string{net.JoinHostPort("", strconv.Itoa(self.Addrs[0].QuorumPort))}
	}
	return transport.New(o)
}

// peerTLS is the part of the configuration that concerns TLS between servers; nil
// for none.
func peerTLS(c *config.QuorumTLS) *transport.TLS {
	if !c.Dial && !c.Accept {
		return nil
	}
	t := &transport.TLS{
		Mode:        transport.TLSOnly,
		CertFile:    c.KeyStore,
		TrustFile:   c.TrustStore,
		KeyPassword: c.KeyPassword,
		MinVersion:  c.MinVersion,
		MaxVersion:  c.MaxVersion,
		VerifyHost:  c.HostnameVerification,
	}
	switch {
	case !c.Dial:
		t.Mode = transport.AcceptTLS
	case c.AcceptPlain:
		t.Mode = transport.PlainAndTLS
	}
	return t
}

// members is the list of the configuration file, as far as quorums depend on it.
func members(c *config.Config) zab.Members {
	m := zab.Members{Hierarchical: c.Members.Hierarchical, Text: []byte(c.Members.Text())}
	for _, srv := range c.Members.Servers {
		group, _ := c.Members.Group(srv.ID)
		m.List = append(m.List, zab.Member{
			ID:       zab.SID(srv.ID),
			Observer: srv.Observer,
			Weight:   uint32(srv.Weight),
			Group:    uint32(group),
		})
	}
	return m
}

// random64 never fails.
func random64() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// learners is what a leader does for servers that lag, beside the peer loop: it
// reads the log for them, and sends them snapshots.
type learners struct {
	*Server
	reads *queue[zab.LogRead]
	sends map[zab.SID]context.CancelFunc // owned by the peer loop
}

func newLearners(s *Server) *learners {
	return &learners{Server: s, reads: newQueue[zab.LogRead](nil), sends: make(map[zab.SID]context.CancelFunc)}
}

// serveLearners starts what the core wants done for learners.
func (r *replica) serveLearners() {
	r.learners.reads.put(r.out.ReadLog...)
	for _, send := range r.out.SendSnap {
		r.learners.forget(send.Peer)
		if send.Stop {
			continue
		}
		ctx, cancel := context.WithCancel(r.ctx)
		r.learners.sends[send.Peer] = cancel
		r.loops.Go(func() { r.learners.sendSnapshot(ctx, send) })
	}
}

// forget stops the snapshot that is under way to a peer.
func (l *learners) forget(peer zab.SID) {
	if cancel := l.sends[peer]; cancel != nil {
		cancel()
		delete(l.sends, peer)
	}
}

// run reads the log for learners until the server stops. It keeps its place for
// each of them.
func (l *learners) run() {
	readers := make(map[zab.SID]*logReader)
	defer func() {
		for _, r := range readers {
			r.Close()
		}
	}()
	var batch []zab.LogRead
	for {
		select {
		case <-l.reads.ready:
		case <-l.stopping:
			return
		}
		batch = l.reads.take(batch)
		for _, req := range batch {
			l.read(readers, req)
		}
		batch = l.reads.done(batch)
	}
}

// logReader is a cursor in the log and the zxid that it stands behind.
type logReader struct {
	*wal.Reader
	after jute.Zxid
}

func (l *learners) read(readers map[zab.SID]*logReader, req zab.LogRead) {
	rd := readers[req.Peer]
	if rd == nil || rd.after != req.After {
		if rd != nil {
			rd.Close()
			delete(readers, req.Peer)
		}
		r, err := l.logWriter.NewReader(req.After)
		if err != nil {
			l.readFailed(req, err)
			return
		}
		rd = &logReader{Reader: r, after: req.After}
		readers[req.Peer] = rd
	}
	records, err := rd.Next(req.MaxBytes)
	if err != nil {
		rd.Close()
		delete(readers, req.Peer)
		l.readFailed(req, err)
		return
	}
	if len(records) == 0 {
		// They are on their way to the log's writer.
		time.AfterFunc(readAgain, func() { l.reads.put(req) })
		return
	}
	entries := make([]zab.Entry, len(records))
	for i := range records {
		entries[i] = entryOf(&records[i])
		rd.after = records[i].Zxid
	}
	l.replica.events.put(peerEvent{kind: evRead, peer: req.Peer, gen: req.Gen, zxid: req.After, entries: entries, ok: true})
}

// readAgain is how long to wait for entries that are not in the log yet.
const readAgain = 5 * time.Millisecond

// readFailed answers a read that the log has not got any more. Anything else is
// answered likewise: the learner gets a snapshot then.
func (l *learners) readFailed(req zab.LogRead, err error) {
	if !errors.Is(err, wal.ErrPurged) {
		l.log.Warn("reading the log for another server failed", zap.Uint8("peer", uint8(req.Peer)), zap.Stringer("after", req.After), zap.Error(err))
	}
	l.replica.events.put(peerEvent{kind: evRead, peer: req.Peer, gen: req.Gen, zxid: req.After})
}

func entryOf(rec *wal.Record) zab.Entry {
	return zab.Entry{Zxid: rec.Zxid, Prev: rec.Prev, Type: zab.EntryType(rec.Type), Data: rec.Payload}
}

// sendSnapshot streams the newest snapshot to a learner.
func (l *learners) sendSnapshot(ctx context.Context, req zab.SnapSend) {
	zxid, err := l.streamSnapshot(ctx, req)
	if err != nil && ctx.Err() == nil {
		l.log.Warn("snapshot was not sent", zap.Uint8("peer", uint8(req.Peer)), zap.Error(err))
	}
	l.replica.events.put(peerEvent{kind: evSent, peer: req.Peer, gen: req.Gen, zxid: zxid, ok: err == nil})
}

func (l *learners) streamSnapshot(ctx context.Context, req zab.SnapSend) (jute.Zxid, error) {
	ref, err := l.snapshots.newest(ctx, req.AtLeast)
	if err != nil {
		return 0, err
	}
	file, err := l.snapshots.store.Open(storeRef(ref))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	stream, err := l.transport.OpenStream(ctx, req.Peer, appendSnapHeader(nil, req.Token, &ref))
	if err != nil {
		return 0, err
	}
	l.log.Info("sending snapshot", zap.Uint8("peer", uint8(req.Peer)), zap.Stringer("zxid", ref.Zxid), zap.Int64("bytes", ref.Size))
	if _, err := io.Copy(stream, file); err != nil {
		stream.Abort(err)
		return 0, err
	}
	if err := stream.Close(); err != nil {
		return 0, err
	}
	l.metrics.snapshotsSent.Add(1)
	return ref.Zxid, nil
}

// received is a snapshot that has come from another server and is durable.
type received struct {
	token uint64
	ref   wal.SnapRef
	state zab.State
	tree  *datatree.Tree
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
	b = appendBytes(b, ref.Name)
	return appendBytes(b, ref.Digest)
}

func decodeSnapHeader(b []byte) (*received, error) {
	f := fields{b: b}
	rec := &received{token: f.uint64(), ref: wal.SnapRef{
		Zxid: jute.Zxid(f.uint64()), Size: int64(f.uint64()), CRC: f.uint32(), Name: f.string(), Digest: f.bytes(), Installed: true,
	}}
	if f.more() {
		f.fail()
	}
	if err := f.err(); err != nil {
		return nil, fmt.Errorf("header of a snapshot: %w", err)
	}
	if !rec.ref.Valid() {
		return nil, errors.New("header of a snapshot: reference out of bounds")
	}
	return rec, nil
}

func (l links) receiveSnapshot(header []byte, r io.Reader) (*received, error) {
	rec, err := decodeSnapHeader(header)
	if err != nil {
		return nil, err
	}
	l.log.Info("receiving snapshot", zap.Stringer("zxid", rec.ref.Zxid), zap.Int64("bytes", rec.ref.Size))
	in, err := l.snapshots.store.Receive(storeRef(rec.ref))
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(in, r); err != nil {
		in.Abort()
		return nil, err
	}
	ref, err := in.Finish(l.ctx)
	if err != nil {
		return nil, err
	}
	rec.ref.Name = ref.Name // not the sender's
	// What can't be loaded must not become this server's history.
	if rec.tree, rec.state, err = loadSnapshot(l.ctx, l.snapshots.store, rec.ref); err != nil {
		return nil, errors.Join(err, l.snapshots.discard(ref.Name))
	}
	l.snapshots.received(rec.ref)
	return rec, nil
}
