package apachefiles

import (
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// Summary is what was read of a server's files, and what the state has.
type Summary struct {
	DataDir, LogDir string
	Version         string // which releases write such a snapshot
	Snapshot        string // file
	SnapshotZxid    jute.Zxid
	Logs            []string // files that were read
	Zxid            jute.Zxid
	Epoch           uint32 // the greatest one that the server has promised, 0 for none

	Records, Skipped, Repeated int    // transactions: applied, in the snapshot, and logged again
	TornEnd                    string // where a crash has interrupted the last write, or empty
	Digests                    int    // compared
	DigestsIgnored             int
	Proven                     jute.Zxid // of the last one; the tree is proven up to there

	Nodes, Sessions, Ephemerals, Containers, TTLs, ACLs, Quotas int

	Dropped  []string // what the state does not have, and why
	Warnings []string
}

func (s *Summary) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

func (s *Summary) drop(path, why string) {
	s.Dropped = append(s.Dropped, fmt.Sprintf("%s: %s", path, why))
}
