package zab

import "github.com/zkd-project/zkd/jute"

// SID is the id of a server, 1 to 255: the number in its myid file.
type SID uint8

// Member is a server of the ensemble.
type Member struct {
	ID       SID
	Observer bool
	// Weight is its number of votes in its group; 0 is never counted.
	Weight uint32
	Group  uint32
}

// Members is a configuration of the ensemble, as far as quorums depend on it.
type Members struct {
	// Version is the zxid of the entry that made it, 0 for the configuration
	// file's.
	Version jute.Zxid
	List    []Member // sorted by id
	// Hierarchical counts groups: a quorum has a majority of the weights in a
	// majority of the groups. Otherwise each voter counts one.
	Hierarchical bool
	// Text is what the shell knows besides: addresses. Opaque.
	Text []byte
}
