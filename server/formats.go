package server

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/transport"
)

// peerRules say with which servers this one links, and what the others can read.
type peerRules struct {
	cfg      *config.Config
	log      *zap.Logger
	reads    uint32 // see Options
	standing *standing
	state    *state.State
	peers    func() []transport.PeerStatus
	events   *base.Queue[peerEvent]
}

// allRead is replica.Options.Reads. A server that is gone counts as it was last seen, since it
// may come back before it is upgraded; one that was never seen may read no more than the
// history needs.
func (r *peerRules) allRead() uint32 {
	least := cmp.Or(r.reads, math.MaxUint32)
	for _, p := range r.peers() {
		least = min(least, p.Hello.Reads)
	}
	return max(least, r.historyNeeds())
}

// historyNeeds returns the version of format.History that a server must read to share the
// history of this one.
func (r *peerRules) historyNeeds() uint32 {
	lists := r.standing.lists.Load()
	needs := max(format.History.Writes(), lists.settled.Format(), lists.newest.Format())
	r.state.RLock()
	defer r.state.RUnlock()
	if r.state.Tree.HasOwners() {
		needs = max(needs, datatree.FormatOwner)
	}
	if r.state.Tree.HasExact() {
		needs = max(needs, datatree.FormatExact)
	}
	if r.state.Tree.RetiredSince() != 0 {
		needs = max(needs, datatree.FormatRetired)
	}
	return needs
}

// marksReadable is replica.Autopilot.Readable.
func (r *peerRules) marksReadable() bool {
	for _, p := range r.peers() {
		if p.Up && p.Hello.Reads < zab.FormatDemoted {
			return false
		}
	}
	return true
}

// checkUnlisted decides about a server that is in neither the configuration file nor the
// history: a change that this server has missed may have made it a member. It must have a
// later list of the same ensemble.
func (r *peerRules) checkUnlisted(h transport.Hello) error {
	in := r.standing.intro.Load()
	switch {
	case h.List > in.List && r.sameEnsemble(in, h.Cluster):
		r.log.Info("links with a server that is a member by a later list", zap.Uint8("sid", uint8(h.ID)), zap.Stringer("version", h.List))
		return nil
	case in.List == 0:
		return errors.New("its configuration file does not list it")
	case r.cfg.ReconfigEnabled && h.List <= in.List && (h.Cluster == zab.ID{} || h.Cluster == in.Cluster):
		r.log.Info("links with a server that is no member: it learns, and reconfig can add it", zap.Uint8("sid", uint8(h.ID)))
		return nil
	}
	// The message is short enough for the other side to log it whole.
	return fmt.Errorf("the members are %v since %v, and its file does not list it either; set reconfigEnabled=true here, or put it into the files",
		r.standing.lists.Load().settled, in.List)
}

// sameEnsemble reports whether cluster is that of this server or, while it has no history,
// of a server in its configuration file.
func (r *peerRules) sameEnsemble(in *zab.Introduction, cluster zab.ID) bool {
	if in.Cluster != (zab.ID{}) || cluster == (zab.ID{}) {
		return in.Cluster == cluster && cluster != zab.ID{}
	}
	for _, p := range r.peers() {
		if _, listed := r.cfg.Members.Server(int64(p.ID)); listed && p.Up && p.Hello.Cluster == cluster {
			return true
		}
	}
	return false
}

// refused receives the introduction of a server with which there is no link, because one
// of the two does not list the other.
func (r *peerRules) refused(h transport.Hello) {
	r.events.Put(peerEvent{kind: evRefused, peer: h.ID, intro: h.Introduction})
}
