// Package format has the version number of everything that zkd stores or sends
// to other servers: what this version of zkd writes, and what it reads.
//
// A number grows when an older version could not read, or would misread, what a
// newer one writes: a new kind of record, entry or operation counts as much as
// a new layout. A reader calls [Format.Check] before it looks at anything else,
// and before it changes or acknowledges anything. So data of a later version is
// refused by the names of both versions, and is never taken for damage.
//
// To add a kind, raise Most, so that servers can read it, and keep Writes until
// all servers of an ensemble have announced that they read it. Servers announce
// what they read of History, and what theirs needs, in the hello of each link,
// as they do with the versions of the protocol that they speak.
//
// docs/dev/internals.md has a table of the formats, with the places where each is
// checked.
//
// The package is pure.
package format

import "fmt"

// Format is a thing with a version number.
type Format uint8

// The formats.
const (
	Segment   Format = iota // a segment of the log: its header, and the kinds of its records
	Identity                // the identity in the log
	Directory               // the file IDENTITY in dataDir; 2 is of a mirror, 3 of a standby
	Snapshot                // the file of a snapshot: its buckets and their metadata
	Tree                    // the rows of the tree in a snapshot; 2 has sessions of Apache's server, 3 owners of sessions, 4 exactly-once sessions
	History                 // entries and transactions, in the log and between servers; 3 has zab.Member.Demoted, 4 datatree.OpAdoptSession, 5 datatree.OpSetOwner, 6 datatree.OpExactlyOnce, 7 jute.RetiredPath
	Digest                  // the formula of the tree's digest
	Archive                 // entries outside of a log: a segment of a backup, and the stream that it is made of
	Protocol                // hellos, frames and messages between servers; a link has the highest version that both speak
)

// Range is what this version reads, Least to Most, and what it writes.
type Range struct{ Least, Most, Writes uint32 }

var formats = [...]struct {
	name string
	Range
}{
	Segment:   {"log segment", Range{1, 2, 2}},
	Identity:  {"log identity", Range{1, 2, 2}},
	Directory: {"data directory", Range{1, 3, 1}},
	Snapshot:  {"snapshot", Range{1, 2, 2}},
	Tree:      {"snapshot of the tree", Range{1, 4, 1}},
	History:   {"transaction", Range{1, 7, 2}},
	Digest:    {"digest", Range{1, 1, 1}},
	Archive:   {"archived log", Range{1, 1, 1}},
	Protocol:  {"protocol between servers", Range{3, 3, 3}},
}

// All returns all formats.
func All() []Format {
	list := make([]Format, len(formats))
	for i := range list {
		list[i] = Format(i)
	}
	return list
}

// String returns the name of the format, for messages.
func (f Format) String() string { return formats[f].name }

// Range returns the versions that this version of zkd reads and writes.
func (f Format) Range() Range { return formats[f].Range }

// Writes returns the version that this version of zkd writes.
func (f Format) Writes() uint32 { return formats[f].Writes }

// Check returns nil if this version of zkd reads the version found, and a
// *VersionError otherwise.
func (f Format) Check(found uint32) error {
	if r := formats[f].Range; found < r.Least || found > r.Most {
		return &VersionError{What: f.String() + " format", Found: found, Least: r.Least, Most: r.Most}
	}
	return nil
}

// VersionError means that a format, or a kind within it, is not one that this version of zkd
// reads.
type VersionError struct {
	What        string // what has the number, such as "log segment format"
	Found       uint32
	Least, Most uint32 // what this version reads
}

// Error names the version that was found and those that can be read.
func (e *VersionError) Error() string {
	reads := fmt.Sprintf("%d to %d", e.Least, e.Most)
	if e.Least == e.Most {
		reads = fmt.Sprint(e.Most)
	}
	if e.Found < e.Least {
		return fmt.Sprintf("%s %d is none that this version of zkd reads (it reads %s)", e.What, e.Found, reads)
	}
	return fmt.Sprintf("%s %d was written by a later version of zkd; this version reads %s", e.What, e.Found, reads)
}
