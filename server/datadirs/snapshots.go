package datadirs

import (
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
	if member {
		return hint
	}
	return last
}

// FirstKept returns the index of the first one to keep of the snapshots to which a log refers, oldest
// first, with the log after it: the newest retain are kept, and more if learners need the log after
// needed. held is how many are kept for the learners alone.
func FirstKept[S any](snaps []S, zxid func(S) jute.Zxid, retain int, needed jute.Zxid) (first, held int) {
	from := max(0, len(snaps)-retain)
	for first = from; first > 0 && zxid(snaps[first]) > needed; {
		first--
	}
	return first, from - first
}
