package sim

import (
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/behavior"
)

// Behavior runs an ensemble and returns what it did. The specification has one plain list of voters, and disks that lose only
// what is not durable: cfg must have no others.
func Behavior(cfg Config) (behavior.Run, Result) {
	s := newSim(cfg)
	s.behavior = new(behavior.Recorder)
	r := s.run()
	return s.behavior.Run(), r
}

// opKinds are the kinds of the records that a core writes, by those of the disk.
var opKinds = [...]zab.LogOpKind{
	recAppend: zab.LogAppend, recPromise: zab.LogPromise, recTruncate: zab.LogTruncate, recHint: zab.LogCommitHint, recInstall: zab.LogSnapshot, recForget: 0,
}
