package zab

import (
	"errors"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/jute"
)

// EntryType is the type of an entry of the history. The numbers are part of the formats of
// the log and of the peer protocol: append new ones, never renumber.
type EntryType uint8

const (
	// EntryTxn is a transaction. Its payload is opaque here.
	EntryTxn EntryType = 0
	// EntryMarker begins an epoch: its counter is 0. Its data is a Marker.
	EntryMarker EntryType = 1
	// EntryMembers changes the members. Its data is an encoded Members.
	EntryMembers EntryType = 2
	// EntryAdmit only admits a server: no client's transaction came in time to carry the
	// admission. Its data is an Admission.
	EntryAdmit EntryType = 3
)

// EntryAdmits is set in the type of a transaction that also carries an admission: the data
// begins with an Admission, and the payload follows. So admitting a server takes no
// separate zxid.
const EntryAdmits EntryType = 0x80

// Entry is one element of the replicated history.
type Entry struct {
	Zxid jute.Zxid
	Prev jute.Zxid // zxid of the previous entry
	Type EntryType
	Data []byte
}

// Txn returns the transaction that the entry holds, or nil if it holds none.
func (e *Entry) Txn() []byte {
	switch e.Type {
	case EntryTxn:
		return e.Data
	case EntryTxn | EntryAdmits:
		if len(e.Data) >= admissionSize {
			return e.Data[admissionSize:]
		}
	}
	return nil
}

// admission returns the admission that the entry holds; ok is false if it holds none.
func (e *Entry) admission() (a Admission, ok bool) {
	if e.Type != EntryAdmit && e.Type != EntryTxn|EntryAdmits {
		return a, false
	}
	return a, a.Decode(e.Data) == nil
}

// Check returns an error if the entry by itself is invalid. It does not check the payload
// of a transaction. For an entry of a later version of zkd it returns a
// *format.VersionError.
func (e *Entry) Check() error {
	switch e.Type {
	case EntryTxn:
	case EntryTxn | EntryAdmits:
		if _, ok := e.admission(); !ok {
			return errors.New("transaction with a malformed admission")
		}
	case EntryAdmit:
		if _, ok := e.admission(); !ok || len(e.Data) != admissionSize {
			return errors.New("malformed admission")
		}
	case EntryMarker:
		if e.Zxid.Counter() != 0 {
			return errors.New("marker within an epoch")
		}
		return new(Marker).Decode(e.Data)
	case EntryMembers:
		return new(Members).Decode(e.Data)
	default:
		return &format.VersionError{What: "entry type", Found: uint32(e.Type), Most: uint32(EntryAdmit)}
	}
	if e.Zxid.Counter() == 0 {
		return errors.New("an epoch begins without a marker")
	}
	return nil
}

// Control reports whether the entry changes the ensemble's State, not only the tree.
func (e *Entry) Control() bool { return e.Type != EntryTxn }
