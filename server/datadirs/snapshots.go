package datadirs

import (
	"slices"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/jute"
)

// OlderServes reports whether, in the place of a snapshot that can't be used, an older one may be. It
// may not in that of a snapshot of a later version: that shows that a later version has worked with
// the directory, and going back is the operator's decision.
func OlderServes(reason fault.Kind) bool { return reason != 0 && reason != fault.Newer }

// NewestUsable loads the newest one of the snapshots to which a log refers, oldest first, that can be
// loaded. It returns its index, -1 for none, and the errors of those after it, the newest first. What
// is after it does not count any more. err is an error that no older snapshot makes good.
func NewestUsable[S any](snaps []S, load func(S) error) (used int, unusable []error, err error) {
	for used = len(snaps) - 1; used >= 0; used-- {
		err := load(snaps[used])
		switch {
		case err == nil:
			return used, unusable, nil
		case !OlderServes(fault.KindOf(err)):
			return -1, unusable, err
		}
		unusable = append(unusable, err)
	}
	return -1, unusable, nil
}

// Committed returns up to where a server applies its log at a start: a member as far as it knows that
// the entries are committed, a server without an ensemble all of it.
func Committed(member bool, last, hint jute.Zxid) jute.Zxid {
	known := member
	known = known && !allCommitted.Planted()
	if known {
		return hint
	}
	return last
}

// Need says why a purge needs room.
type Need uint8

// The needs.
const (
	Routine Need = iota // the newest snapshots stay, and what learners need
	Tight               // the disk is getting full: what only learners need goes, too
	Full                // the newest snapshot was written to make room: it alone stays
)

// Purge is what a purge drops.
type Purge struct {
	Drop int       // the number of snapshots to which the log refers, from the oldest on
	Log  jute.Zxid // entries up to this zxid; 0 if nothing is to be dropped
	Held int       // how many snapshots learners alone need; they are kept if the purge is Routine
}

// PlanPurge plans a purge that keeps the newest retain snapshots, at least one, and more if learners need
// the log after needed. A start may have to load any of those that it keeps, and the log then has to
// continue from there: it begins at the oldest one. As long as none is dropped all of the log is kept,
// too, if the purge is not to make room.
func PlanPurge[S any](snaps []S, zxid func(S) jute.Zxid, retain int, needed jute.Zxid, need Need) (p Purge) {
	if len(snaps) == 0 {
		return p
	}
	spare := max(0, len(snaps)-retain)
	p.Drop = firstNeeded(snaps[:spare+1], zxid, needed)
	p.Held = spare - p.Drop
	switch need {
	case Tight:
		p.Drop = spare
	case Full:
		p.Drop = len(snaps) - 1
		if twoKept.Planted() {
			p.Drop = max(0, len(snaps)-2)
		}
	}
	if p.Drop == 0 && need != Full {
		return p
	}
	p.Log = zxid(snaps[p.Drop])
	if purgeBase.Planted() {
		p.Log = zxid(snaps[len(snaps)-1])
	}
	return p
}

// PlanHistory returns the zxid of the oldest snapshot that must stay, with all after it, so that the state at a moment can be found: the
// newest one that is as old, or the oldest. But all that stay have no more than room bytes. size is that of a snapshot with the log up to
// the next one. 0 means that none must stay.
func PlanHistory[S any](snaps []S, zxid func(S) jute.Zxid, old func(S) bool, size func(S) int64, room int64) (from jute.Zxid) {
	for _, s := range slices.Backward(snaps) {
		if room -= size(s); room < 0 {
			break
		}
		if from = zxid(s); old(s) {
			break
		}
	}
	return from
}

// firstNeeded returns the index of the newest snapshot at which the log after needed is all there, or 0.
func firstNeeded[S any](snaps []S, zxid func(S) jute.Zxid, needed jute.Zxid) int {
	first := len(snaps) - 1
	if purgeJoiners.Planted() {
		return first
	}
	for first > 0 && zxid(snaps[first]) > needed {
		first--
	}
	return first
}
