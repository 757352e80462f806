package zab

import (
	"github.com/zkd-project/zkd/jute"
)

// ID is a random 128-bit name: of a cluster, or of an incarnation.
type ID [16]byte

// ClusterInit is what the first leader of an ensemble gives it.
type ClusterInit struct {
	Cluster ID       // names the history for ever
	Secret  [32]byte // of the session passwords
}

// Admission says that a server counts, as long as it has the data that it had
// when this incarnation was made.
type Admission struct {
	Server      SID
	Incarnation ID
}

const admissionSize = 1 + 16

// EpochEnd is one row of the table of epochs: where the entries of an epoch end.
type EpochEnd struct {
	Epoch uint32
	Last  uint32 // highest counter
}

// State is what a history says of the ensemble itself, as the tree is what it
// says of znodes. Like the tree it results from applying entries in order, so
// it is part of each snapshot. The zero value is that of an empty history.
type State struct {
	Zxid    jute.Zxid   // of the last entry
	Init    ClusterInit // zero until the first marker
	Epochs  []EpochEnd  // rising
	Members *Members    // nil until an entry changes the members: the configuration file counts
	// Admitted is sorted by server. A server that is not in it with its present
	// incarnation has no weight.
	Admitted []Admission
}

// Marker is the data of a marker.
type Marker struct {
	Leader SID
	Boot   uint64 // of the leader's process
	TimeMs int64  // the leader's wall clock, ms since the Unix epoch
	// Init is set in the first marker of an ensemble, with the servers that
	// promised it: they are admitted.
	Init     *ClusterInit
	Admitted []Admission
	// App is the leader's Options.App.
	App []byte
}
