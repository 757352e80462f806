package jute

import "strings"

// Features are extensions of the protocol that a client asks for, or that a server grants to
// a connection: see docs/dev/spec/extensions.md.
type Features uint32

// The features. The numbers are part of the wire format.
const (
	FeatureExactlyOnce Features = 1 << iota // no write of a session is ambiguous while the session lives
	FeatureFeed                             // every change below a path, in order
	FeaturePaging                           // children in pages, subtrees at one zxid
	FeatureOperations                       // checkAbsent, createOrSet and deleteTree in a multi
	FeatureMoved                            // a client learns that another one has taken its session over
	FeaturePast                             // former states of subtrees, and the changes of nodes
	FeaturePings                            // pings of many sessions in one frame of the connection that carries theirs
)

var featureNames = []string{"exactly-once", "feed", "paging", "operations", "moved", "past", "pings"}

// Names returns the names of the features that have one.
func (f Features) Names() []string {
	names := []string{}
	for i, name := range featureNames {
		if f>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String returns the names, separated by commas.
func (f Features) String() string { return strings.Join(f.Names(), ",") }

// extensionOps are the operations of extensions, and the feature that each belongs to.
var extensionOps = map[OpCode]Features{
	OpCheckAbsent:  FeatureOperations,
	OpCreateOrSet:  FeatureOperations,
	OpDeleteTree:   FeatureOperations,
	OpChildrenPage: FeaturePaging,
	OpSubtreePage:  FeaturePaging,
	OpSubscribe:    FeatureFeed,
	OpCredit:       FeatureFeed,
	OpUnsubscribe:  FeatureFeed,
	OpPast:         FeaturePast,
}

// Feature returns the feature that must be granted to a connection that sends op, or 0. The
// opcodes 2001 to 2003 are in the range of extensions too, but need no feature.
func (op OpCode) Feature() Features {
	if op < OpTransferLeader {
		return 0
	}
	return extensionOps[op]
}

// MaxDeleteTree is the largest number of nodes that a deleteTree deletes.
const MaxDeleteTree = 10_000

// MaxDeleteTreePaths is how long the paths of these nodes may be together, in bytes.
const MaxDeleteTreePaths = 4 << 20

// TreeLimit returns how many nodes a deleteTree with a limit may delete.
func TreeLimit(limit int32) int {
	if limit <= 0 || limit > MaxDeleteTree {
		return MaxDeleteTree
	}
	return int(limit)
}

// extensionMark is the beginning of a record that extends a connect request or response.
const extensionMark = "zkdx"

// Extended reports whether an ExtensionRequest or ExtensionResponse follows in d, which has
// read a connect request or response. Servers and clients that know no extensions ignore it.
func Extended(d *Decoder) bool {
	return len(d.buf) >= len(extensionMark) && string(d.buf[:len(extensionMark)]) == extensionMark
}

// ExtensionRequest follows a ConnectRequest, which then has the ReadOnly byte, in its frame.
type ExtensionRequest struct {
	Features Features // that the client wants
	// Confirmed is the number of the last request up to which the client has all replies:
	// see FeatureExactlyOnce.
	Confirmed int64
	Holder    Holder // with FeatureMoved
}

func (r *ExtensionRequest) Append(b []byte) []byte {
	b = AppendInt64(appendFeatures(b, r.Features), r.Confirmed)
	if r.Features&FeatureMoved != 0 {
		b = AppendInt32(b, int32(r.Holder))
	}
	return b
}

// Decode reads the record. It ignores what follows.
func (r *ExtensionRequest) Decode(d *Decoder) {
	r.Features, r.Confirmed = d.features(), d.Int64()
	if r.Features&FeatureMoved != 0 {
		r.Holder = Holder(d.Int32())
	}
}

// Holder names a client that has a session on one connection after another. The number is its own choice, above 1.
type Holder int32

const (
	// HolderTakes is a bit of a Holder in a connect request: the client takes the session over if another one has it. Without
	// it the client continues a session that it has had.
	HolderTakes Holder = 1
	// HolderUnnamed is a client without FeatureMoved.
	HolderUnnamed Holder = -2
)

// Name returns the number without HolderTakes, or HolderUnnamed.
func (h Holder) Name() Holder {
	if h <= HolderTakes {
		return HolderUnnamed
	}
	return h &^ HolderTakes
}

// Lost reports whether a client that asks for a session has lost it to another one, the last that it was given to. Zero is one that
// is not known.
func (h Holder) Lost(last Holder) bool {
	continues := h > HolderTakes && h&HolderTakes == 0
	return continues && last != 0 && last != h.Name()
}

// ExtensionResponse follows the ConnectResponse to a request that was extended, in its frame.
type ExtensionResponse struct {
	Features Features // that the server grants to the connection
	// With FeatureExactlyOnce: Done is the number of the session's last write that has an
	// outcome, and Replies is how many replies to writes of earlier connections follow.
	Done    int64
	Replies int32
}

func (r *ExtensionResponse) Append(b []byte) []byte {
	return AppendInt32(AppendInt64(appendFeatures(b, r.Features), r.Done), r.Replies)
}

// Decode reads the record. It ignores what follows.
func (r *ExtensionResponse) Decode(d *Decoder) {
	r.Features, r.Done, r.Replies = d.features(), d.Int64(), d.Int32()
}

func appendFeatures(b []byte, f Features) []byte {
	return AppendInt32(append(b, extensionMark...), int32(f))
}

// features reads what appendFeatures has written.
func (d *Decoder) features() Features {
	if !Extended(d) {
		d.Fail(ErrTruncated)
		return 0
	}
	d.next(len(extensionMark))
	return Features(d.Int32())
}
