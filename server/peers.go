package server

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/transport"
)

// handle processes an event.
func (l *loop) handle(ev *peerEvent) {
	core := l.replica.Core
	switch ev.kind {
	case evUp:
		l.replica.PeerUp(ev.peer, ev.gen, ev.intro)
		l.tellMembers(ev.peer, ev.gen, ev.intro.List)
	case evDown:
		l.learners.forget(ev.peer)
		l.arrivals.drop(ev.peer, errLinkLost)
		l.replica.PeerDown(ev.peer, ev.gen)
	case evMessage:
		core.Recv(ev.peer, ev.gen, &ev.msg)
	case evApp:
		switch ev.app {
		case frameMembers:
			l.hearMembers(ev.peer, ev.body)
			return
		case frameUses, frameShares:
			l.hearSharing(ev.peer, ev.app, ev.body)
			return
		}
		if err := l.replica.Frame(ev.peer, ev.gen, ev.app, ev.body); err != nil {
			l.log.Error("frame of another server is wrong; is it of another version?",
				zap.Uint8("peer", uint8(ev.peer)), zap.Uint8("kind", ev.app), zap.Error(err))
		}
	case evDrained: // handled by the turn
	case evRead:
		core.LogRead(ev.peer, ev.gen, ev.zxid, ev.entries, !ev.ok)
	case evBegun:
		core.SnapshotBegun(ev.peer, ev.gen, ev.token, ev.zxid)
	case evSent:
		core.SnapshotSent(ev.peer, ev.gen, ev.token, ev.zxid, ev.ok)
	case evReceived:
		ev.taken <- l.take(ev.peer, ev.received)
	case evTaken:
		core.SnapshotTaken(ev.zxid, ev.bytes)
	case evPurged:
		core.LogPurged(ev.zxid, ev.bytes)
	case evDigest:
		l.replica.Digest(ev.zxid, ev.digest)
	case evExpire:
		l.replica.WatchRoom()
		l.showRoom()
		l.replica.Expire(ev.at)
	case evTransfer:
		core.Transfer()
		if l.replica.Status().Role != zab.Leading {
			close(ev.done)
		} else {
			l.left = append(l.left, ev.done)
		}
	case evReserveIDs:
		l.reserveIDs()
	case evUses:
		l.shareLimits(ev.uses)
	case evPing:
		close(ev.done)
	case evReload:
		cfg := l.live()
		l.replica.Tune(cfg.ThrottledOpWaitTime, evaluateOptions(cfg, l.metrics))
	case evRefused:
		core.Heard(ev.peer, ev.intro)
	}
}

// links is a server's transport.Handler: it queues messages for the peer loop.
type links struct {
	*loop
	ctx context.Context // ends when the server stops
}

func (l links) PeerUp(peer zab.SID, gen uint64, h transport.Hello) {
	l.events.Put(peerEvent{kind: evUp, peer: peer, gen: gen, intro: h.Introduction})
}

func (l links) PeerDown(peer zab.SID, gen uint64, _ error) {
	l.events.Put(peerEvent{kind: evDown, peer: peer, gen: gen})
}

// Receive receives a message of a core. Entries that this version of zkd does not
// understand end the server before its core sees them: it can neither acknowledge nor
// apply them, and its disk stays as a later version can use it.
func (l links) Receive(peer zab.SID, gen uint64, m *zab.Message) {
	if err := checkAllReadable(m.Entries); err != nil {
		l.failOn(peer, err)
		return
	}
	l.events.Put(peerEvent{kind: evMessage, peer: peer, gen: gen, msg: *m})
	m.Entries, m.Epochs = nil, nil // they are the core's
}

// checkAllReadable returns the reason why this version of zkd does not understand one of the
// entries, or nil.
func checkAllReadable(entries []zab.Entry) error {
	for i := range entries {
		if err := history.CheckReadable(&entries[i]); err != nil {
			return fmt.Errorf("entry %v: %w", entries[i].Zxid, err)
		}
	}
	return nil
}

// failOn ends this server because it can't read a message from another one.
func (l links) failOn(peer zab.SID, err error) {
	if l.ctx.Err() == nil {
		l.fail(fmt.Errorf("server %d sent what this server can't read: %w. Nothing of it was stored or acknowledged: "+
			"start this server with the version of zkd that server %d has, or a later one", peer, err, peer))
	}
}

func (l links) ReceiveApp(peer zab.SID, gen uint64, kind uint8, body []byte) {
	l.events.Put(peerEvent{kind: evApp, peer: peer, gen: gen, app: kind, body: body})
}

func (l links) Drained(peer zab.SID, gen uint64) {
	l.events.Put(peerEvent{kind: evDrained, peer: peer, gen: gen})
}

// Stream receives a snapshot from the leader.
func (l links) Stream(peer zab.SID, header []byte, r io.Reader) error {
	err := l.arrivals.receive(peer, header, r)
	if err != nil {
		l.log.Warn("snapshot of another server was not received", zap.Uint8("peer", uint8(peer)), zap.Error(err))
		if fault.KindOf(err) == fault.Newer {
			l.failOn(peer, err)
		}
	}
	return err
}

// AskPeer asks another server of the ensemble whether this version of zkd, with a history of the format needs,
// could be linked with it. mismatch is the reason why not.
func AskPeer(ctx context.Context, cfg *config.Config, peer *config.Server, needs uint32) (v transport.Versions, mismatch string, err error) {
	q := transport.Question{Self: zab.SIDOf(uint8(cfg.MyID)), To: zab.SIDOf(uint8(peer.ID)), Needs: cmp.Or(needs, format.History.Writes()), TLS: peerTLS(&cfg.QuorumTLS)}
	for _, q.Addr = range quorumAddrs(peer) {
		if v, mismatch, err = q.Ask(ctx); err == nil {
			break
		}
	}
	return v, mismatch, err
}
