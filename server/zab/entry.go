package zab

import "github.com/zkd-project/zkd/jute"

// EntryType says what an entry of the history is. The numbers are part of the
// formats of the log and of the peer protocol: append, never renumber.
type EntryType uint8

const (
	// EntryTxn is a transaction. Its payload is opaque here.
	EntryTxn EntryType = 0
	// EntryMarker begins an epoch: its counter is 0. Its data is a Marker.
	EntryMarker EntryType = 1
	// EntryMembers changes the members. Its data is an encoded Members.
	EntryMembers EntryType = 2
	// EntryAdmit admits a server, and is nothing else: no client's transaction
	// came in time to carry the admission. Its data is an Admission.
	EntryAdmit EntryType = 3
)

// EntryAdmits is set in the type of a transaction that carries an admission as
// well: the data begins with an Admission, and the payload follows. So admitting
// a server takes no zxid of its own.
const EntryAdmits EntryType = 0x80

// Entry is one element of the replicated history.
type Entry struct {
	Zxid jute.Zxid
	Prev jute.Zxid // zxid of the entry before it
	Type EntryType
	Data []byte
}

// Txn returns the transaction that the entry holds, or nil if it holds none.
func (e *Entry) Txn() []byte {
	switch e.Type {
	case EntryTxn:
		return e.Data
	case EntryTxn | EntryAdmits:
		return e.Data[admissionSize:]
	}
	return nil
}

// Control reports whether the entry changes more than the tree: the ensemble's
// own State.
func (e *Entry) Control() bool { return e.Type != EntryTxn }
