package server

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/limits/shares"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/transport"
)

// The frames by which the servers share limits: see package shares. Only servers whose hello says so know them. The numbers
// are none of package replica's.
const (
	frameUses   = 129 // to the leader
	frameShares = 130 // from the leader
)

// sharing is what the peer loop knows of the shares in limits.
type sharing struct {
	sums     shares.Sums // of a leader
	reported bool        // the last report to the leader had something
}

// shareLimits does what is due in each shares.Period, given what this server's clients have used. A leader tells the others their
// shares, and any other server reports.
func (l *loop) shareLimits(uses []shares.Use) {
	switch role := l.replica.Status().Role; {
	case role == zab.Leading:
		l.sharing.sums.Hear(uint8(l.id), uses)
		l.divideLimits()
		return
	case role == zab.Following && (len(uses) > 0 || l.sharing.reported):
		l.sharing.reported = len(uses) > 0
		l.sendSharing(l.replica.Status().Leader, frameUses, shares.AppendUses(nil, uses))
	}
	l.sharing.sums = shares.Sums{}
}

// divideLimits tells each server its shares, if there are any.
func (l *loop) divideLimits() {
	servers := []uint8{uint8(l.id)}
	for peer := range l.replica.Links() {
		servers = append(servers, uint8(peer))
	}
	for i, list := range l.sharing.sums.Divide(l.now(), servers) {
		switch {
		case len(list) == 0: // what it had ends by itself
		case i == 0:
			l.clients.SetShares(list)
		default:
			l.sendSharing(zab.SID(servers[i]), frameShares, shares.AppendShares(nil, list))
		}
	}
}

// sendSharing sends a frame to a server that knows it.
func (l *loop) sendSharing(to zab.SID, kind uint8, body []byte) {
	knows := func(p transport.PeerStatus) bool { return p.ID == to && p.Up && p.Hello.Shares }
	if gen := l.replica.Links()[to]; gen != 0 && slices.ContainsFunc(l.transport.Peers(), knows) {
		l.transport.SendApp(to, gen, transport.Bulk, kind, body)
	}
}

// hearSharing receives what sendSharing sends.
func (l *loop) hearSharing(peer zab.SID, kind uint8, body []byte) {
	var err error
	switch role := l.replica.Status().Role; {
	case kind == frameUses && role == zab.Leading:
		var uses []shares.Use
		if uses, err = shares.DecodeUses(body); err == nil {
			l.sharing.sums.Hear(uint8(peer), uses)
		}
	case kind == frameShares && role == zab.Following && peer == l.replica.Status().Leader:
		var list []shares.Share
		if list, err = shares.DecodeShares(body); err == nil {
			l.clients.SetShares(list)
		}
	}
	if err != nil {
		l.log.Error("can't decode the limits that another server shares", zap.Uint8("peer", uint8(peer)), zap.Error(err))
	}
}

// sharingTicker returns the times at which a server of an ensemble looks what its clients have used.
func sharingTicker(shared bool) (tick <-chan time.Time, stop func()) {
	if !shared {
		return nil, func() {}
	}
	t := time.NewTicker(shares.Period)
	return t.C, t.Stop
}
