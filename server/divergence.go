package server

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// The servers' trees must be the same at each zxid. Each server tells the leader
// the digest of its tree now and then; if they differ, a majority is right, and
// whoever is not part of it stops serving wrong data: it ends, loudly. Nobody is
// presumed right, not even the leader (zab.md section D.6).

// digestReports are what the servers said of their trees at one zxid.
type digestReports struct {
	zxid    jute.Zxid
	digests map[zab.SID]datatree.Digest
	judged  int // how many reports there were when they were found to differ
}

// keptReports is for how many zxids reports are kept.
const keptReports = 16

// reportDigest takes in a report, at the leader.
func (r *replica) reportDigest(from zab.SID, zxid jute.Zxid, digest datatree.Digest) {
	list := r.leading.reports
	for i := range list {
		if list[i].zxid == zxid {
			list[i].digests[from] = digest
			r.judge(&list[i])
			return
		}
	}
	if len(list) == keptReports {
		list = list[:copy(list, list[1:])]
	}
	r.leading.reports = append(list, digestReports{zxid: zxid, digests: map[zab.SID]datatree.Digest{from: digest}})
}

// judge compares the reports of one zxid.
func (r *replica) judge(rep *digestReports) {
	differ := false
	for _, d := range rep.digests {
		differ = differ || d != rep.digests[r.id]
	}
	if _, own := rep.digests[r.id]; !own || !differ || rep.judged == len(rep.digests) {
		return
	}
	rep.judged = len(rep.digests)
	r.metrics.digestMismatches.Add(1)
	right, ok := r.majorityDigest(rep)
	if !ok {
		r.log.Error("the trees of servers differ, and no majority agrees yet: compare their digests (four-letter word hash)",
			zap.Stringer("zxid", rep.zxid), zap.Int("servers", len(rep.digests)))
		return
	}
	for id, d := range rep.digests {
		switch {
		case d == right:
		case id == r.id:
			r.core.Transfer() // and if nobody can take over, an election follows
			r.diverged(rep.zxid)
		default:
			r.log.Error("the tree of a server differs from those of a majority: it has to stop", zap.Uint8("peer", uint8(id)), zap.Stringer("zxid", rep.zxid))
			frame := beginPeerFrame(nil, r.status.Epoch)
			r.sendApp(id, r.links[id], frameDiverged, appendDigest(frame, rep.zxid, right))
		}
	}
}

// majorityDigest returns the digest that a majority of all voters has reported.
func (r *replica) majorityDigest(rep *digestReports) (datatree.Digest, bool) {
	list := r.lists.Load().settled
	votes := make(map[datatree.Digest]int)
	for _, one := range list.List {
		if d, ok := rep.digests[one.ID]; ok && !one.Observer {
			if votes[d]++; 2*votes[d] > voters(list) {
				return d, true
			}
		}
	}
	return datatree.Digest{}, false
}

// hearDiverged ends this server if its tree still is not what the leader says that
// it was.
func (r *replica) hearDiverged(ev *peerEvent, b []byte) error {
	zxid, right, err := decodeDigest(b)
	if mine, ok := r.digests.at(zxid); err == nil && r.fromMyLeader(ev) && ok && mine != right {
		r.diverged(zxid)
	}
	return err
}

func (r *replica) diverged(zxid jute.Zxid) {
	r.fail(&HaltError{Reason: fmt.Sprintf("the tree of this server at %v is not that of the majority; its memory or its disk is not to be trusted. "+
		"Started again, it compares anew. If that happens again, empty dataDir and dataLogDir (but for myid) and start it: it gets everything from the others", zxid)})
}
