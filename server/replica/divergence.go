package replica

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// The servers' trees must be the same at each zxid. Each server reports the digest of its
// tree to the leader from time to time. If digests differ, a majority is right, and a
// server that is not part of it must not serve wrong data: it stops with an error. No
// server is presumed right, not even the leader (zab.md section D.6).

// digestReports are the servers' digests of their trees at one zxid.
type digestReports struct {
	zxid    jute.Zxid
	digests map[zab.SID]datatree.Digest
	judged  int // how many reports there were when they were found to differ
}

// keptReports is the number of zxids for which reports are kept.
const keptReports = 16

// reportDigest records a report, at the leader.
func (r *Replica) reportDigest(from zab.SID, zxid jute.Zxid, digest datatree.Digest) {
	list := r.leading.reports
	for i := range list {
		if list[i].zxid == zxid {
			list[i].digests[from] = digest
			r.compareDigests(&list[i])
			return
		}
	}
	if len(list) == keptReports {
		list = list[:copy(list, list[1:])]
	}
	r.leading.reports = append(list, digestReports{zxid: zxid, digests: map[zab.SID]datatree.Digest{from: digest}})
}

// compareDigests compares the reports of one zxid.
func (r *Replica) compareDigests(rep *digestReports) {
	differ := false
	for _, d := range rep.digests {
		differ = differ || d != rep.digests[r.o.ID]
	}
	if _, own := rep.digests[r.o.ID]; !own || !differ || rep.judged == len(rep.digests) {
		return
	}
	rep.judged = len(rep.digests)
	r.stats.DigestMismatches++
	right, ok := r.majorityDigest(rep)
	if !ok {
		r.event(zab.Error, 0, fmt.Sprintf("the trees of servers differ at %v, and no majority agrees yet: compare their digests (four-letter word hash)", rep.zxid))
		return
	}
	for _, id := range slices.Sorted(maps.Keys(rep.digests)) {
		switch {
		case rep.digests[id] == right:
		case id == r.o.ID:
			r.Core.Transfer() // if no server can take over, an election follows
			r.diverged(rep.zxid)
		default:
			r.event(zab.Error, id, fmt.Sprintf("the tree of the server at %v differs from those of a majority: it has to stop", rep.zxid))
			r.send(id, r.links[id], frameDiverged, appendDigest(beginFrame(nil, r.status.Epoch), rep.zxid, right))
		}
	}
}

// majorityDigest returns the digest that a majority of all voters has reported.
func (r *Replica) majorityDigest(rep *digestReports) (datatree.Digest, bool) {
	list, _ := r.Core.Lists()
	voters := list.NumVoters()
	votes := make(map[datatree.Digest]int)
	for _, one := range list.List {
		if d, ok := rep.digests[one.ID]; ok && !one.Observer {
			if votes[d]++; 2*votes[d] > voters {
				return d, true
			}
		}
	}
	return datatree.Digest{}, false
}

// Digest reports this server's digest at a zxid to the leader.
func (r *Replica) Digest(zxid jute.Zxid, digest datatree.Digest) {
	switch r.status.Role {
	case zab.Following:
		begin := r.beginFrame()
		r.buf = appendDigest(r.buf, zxid, digest)
		r.toLeader(frameDigest, begin)
	case zab.Leading:
		r.reportDigest(r.o.ID, zxid, digest)
	}
}

func (r *Replica) hearDigest(peer zab.SID, b []byte) error {
	zxid, digest, err := decodeDigest(b)
	if errors.Is(err, errOtherFormula) {
		return nil // a server of another version: the two can't be compared
	}
	if err == nil && r.status.Role == zab.Leading {
		r.reportDigest(peer, zxid, digest)
	}
	return err
}

// hearDiverged ends this server if its tree at the zxid differs from the leader's report
// of the majority.
func (r *Replica) hearDiverged(peer zab.SID, gen uint64, b []byte) error {
	zxid, right, err := decodeDigest(b)
	if mine, ok := r.o.State.DigestAt(zxid); err == nil && r.fromLeader(peer, gen) && ok && mine != right {
		r.diverged(zxid)
	}
	if errors.Is(err, errOtherFormula) {
		return nil
	}
	return err
}

func (r *Replica) diverged(zxid jute.Zxid) {
	r.fatal = fmt.Sprintf("the tree of this server at %v is not that of the majority; its memory or its disk is not to be trusted. "+
		"Started again, it compares its tree again. If that happens again, empty dataDir and dataLogDir (but for myid) and start it: it gets everything from the others", zxid)
}
