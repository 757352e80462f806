package zab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/internal/wire"
	"github.com/zkd-project/zkd/jute"
)

// MessageKind is the kind of a message between cores. The numbers are part of
// the peer protocol.
type MessageKind uint8

const (
	// MsgPrevote asks whether the sender would get a promise. It changes nothing. Epoch is the
	// epoch that it would ask for, Zxid its last zxid, Commit its committed zxid, Seq its round.
	MsgPrevote MessageKind = iota + 1
	// MsgPrevoteResp answers MsgPrevote: FlagGranted or not; Zxid, Commit and Promise of the
	// sender; Leader and Epoch if it knows a live leader; Seq repeats the round.
	MsgPrevoteResp
	// MsgNewEpoch asks for a promise of Epoch; Zxid is the sender's last. With FlagTransfer,
	// Promise is the epoch whose leader chose the sender as its successor. Otherwise, from a
	// leader, Promise is the epoch in which it began to lead. Only a server that has followed it
	// since then keeps its clients: the leader knows all that this server has sent.
	MsgNewEpoch
	// MsgAckEpoch says that the promise of Epoch is durable. It carries a summary: Zxid, Commit,
	// Epochs, and Boot and Nonce for the answer.
	MsgAckEpoch
	// MsgNackEpoch refuses Epoch. It carries Promise and Zxid of the sender.
	MsgNackEpoch
	// MsgFollow asks an established leader for synchronization. It carries Promise, in Leader the
	// server that it was given to, and a summary as in MsgAckEpoch.
	MsgFollow
	// MsgSync tells a learner of Epoch to drop its entries after Zxid and to stream from there;
	// or with FlagSnapshot to wait for the snapshot with the token Seq. Boot and Nonce are those
	// of the summary that it answers. Commit is the leader's. With FlagCRC, CRC is that of the
	// entry at Zxid.
	MsgSync
	// MsgAppend carries Entries after Prev, and Commit.
	MsgAppend
	// MsgAck says that the sender's durable history equals the leader's up to Zxid. With
	// FlagUncounted the sender must not be counted yet.
	MsgAck
	// MsgCommit carries the leader's Commit, and in Zxid the last entry sent before it.
	MsgCommit
	// MsgPing is the leader's heartbeat: Seq, Commit; Echo is the Seq of the last pong received
	// from this learner, and Ms, if not 0, how long the leader's lease lasted from then on.
	MsgPing
	// MsgPong answers MsgPing: Echo repeats the ping's Seq, Seq counts the pongs. Zxid is the
	// sender's durable zxid, FlagUncounted as in MsgAck, Ms the age of its oldest unfinished fsync,
	// FlagFull says that its disk is full. Nonce is the number of a record up to which its log is
	// durable; 0 if it does not say. Boot is how much memory its tree may take, in bytes; 0 if
	// that has no bound.
	MsgPong
	// MsgReadIndex asks the leader for a point after everything completed so far: Seq.
	MsgReadIndex
	// MsgReadIndexResp answers with Seq and Commit, and FlagGranted if Commit is such a point.
	MsgReadIndexResp
	// MsgTimeoutNow tells the learner that has everything up to Zxid to become the leader after
	// the leader of Epoch.
	MsgTimeoutNow
	// MsgRejoin tells a learner that its stream can't continue. It has to send MsgFollow again;
	// or if Leader is 0, the sender does not lead any more. Promise is then the epoch that it has
	// promised to its successor, or 0.
	MsgRejoin
	// MsgLead tells a server that does not follow the sender that the sender leads Epoch. Zxid is
	// the version of its committed list of members. Promise is not 0 if a quorum has confirmed
	// the sender although it had heard of a leader of that higher epoch.
	MsgLead
	// MsgDoubt tells a server that its data is an old copy: the sender has seen
	// the record number Seq of its log. Boot is that of the receiver's process.
	MsgDoubt

	lastMessageKind = MsgDoubt
)

var messageNames = [...]string{
	MsgPrevote: "PREVOTE", MsgPrevoteResp: "PREVOTE_RESP", MsgNewEpoch: "NEWEPOCH", MsgAckEpoch: "ACKEPOCH",
	MsgNackEpoch: "NACKEPOCH", MsgFollow: "FOLLOW", MsgSync: "SYNC", MsgAppend: "APPEND", MsgAck: "ACK",
	MsgCommit: "COMMIT", MsgPing: "PING", MsgPong: "PONG", MsgReadIndex: "READINDEX",
	MsgReadIndexResp: "READINDEX_RESP", MsgTimeoutNow: "TIMEOUT_NOW", MsgRejoin: "REJOIN",
	MsgLead: "LEAD", MsgDoubt: "DOUBT",
}

// Bulk reports whether messages of this kind are ordered in the stream of entries to a
// learner: they keep their order and wait for each other. All other messages may overtake
// them. See the package comment.
func (k MessageKind) Bulk() bool {
	ordered := k == MsgSync || k == MsgAppend || k == MsgCommit
	return ordered || oneLane.Planted()
}

func (k MessageKind) String() string {
	if k == 0 || k > lastMessageKind {
		return fmt.Sprintf("MESSAGE(%d)", uint8(k))
	}
	return messageNames[k]
}

// Flags of a message.
const (
	FlagGranted     uint16 = 1 << iota // the answer is yes
	FlagSeeded                         // the sender's history has a first marker
	FlagDamaged                        // the sender's log was damaged and it has not been admitted since
	FlagCounts                         // by its own history the sender counts
	FlagAsking                         // the sender can't be elected and only looks for a leader
	FlagEstablished                    // the sender has a quorum's promises already
	FlagTransfer                       // the previous leader requested it
	FlagListed                         // the sender's first marker lists the receiver's incarnation
	FlagSnapshot
	FlagCRC
	FlagUncounted // the sender does not count, or would not know after a restart that it does
	FlagFull      // the sender's disk is full
	// FlagAnchored means that the sender's history has a list of members, so its configuration
	// file does not decide.
	FlagAnchored

	knownFlags = FlagAnchored<<1 - 1
)

var flagNames = [...]string{"granted", "seeded", "damaged", "counts", "asking", "established", "transfer", "listed", "snapshot", "crc", "uncounted", "full", "anchored"}

// Message is a message from one core to another. Its kind determines which fields are used;
// the others are zero.
type Message struct {
	Kind    MessageKind
	Leader  SID
	Flags   uint16
	Epoch   uint32
	Promise uint32
	CRC     uint32
	Ms      uint32
	Zxid    jute.Zxid
	Prev    jute.Zxid
	Commit  jute.Zxid
	Seq     uint64
	Echo    uint64
	Boot    uint64
	Nonce   uint64
	// Cluster is the id of the sender's committed history, if it has one. Messages within a
	// stream omit it.
	Cluster ID
	Epochs  []EpochEnd
	Entries []Entry // the Prev of each is the zxid before it; that of the first is Prev
}

// Bits for the fields that follow: in this order, and only those that are not zero.
const (
	fieldLeader = 1 << iota
	fieldFlags
	fieldEpoch
	fieldPromise
	fieldCRC
	fieldMs
	fieldZxid
	fieldPrev
	fieldCommit
	fieldSeq
	fieldEcho
	fieldBoot
	fieldNonce
	fieldCluster
	fieldEpochs
	fieldEntries
)

// fields returns the bits of the fields that are not zero.
func (m *Message) fields() (bits uint16) {
	set := func(bit uint16, is bool) {
		if is {
			bits |= bit
		}
	}
	set(fieldLeader, m.Leader != 0)
	set(fieldFlags, m.Flags != 0)
	set(fieldEpoch, m.Epoch != 0)
	set(fieldPromise, m.Promise != 0)
	set(fieldCRC, m.CRC != 0)
	set(fieldMs, m.Ms != 0)
	set(fieldZxid, m.Zxid != 0)
	set(fieldPrev, m.Prev != 0)
	set(fieldCommit, m.Commit != 0)
	set(fieldSeq, m.Seq != 0)
	set(fieldEcho, m.Echo != 0)
	set(fieldBoot, m.Boot != 0)
	set(fieldNonce, m.Nonce != 0)
	set(fieldCluster, m.Cluster != ID{})
	set(fieldEpochs, len(m.Epochs) > 0)
	set(fieldEntries, len(m.Entries) > 0)
	return bits
}

// Append appends the message's encoding to b: its kind in a byte, 16 bits for the fields
// that are not zero, and these fields.
func (m *Message) Append(b []byte) []byte {
	bits := m.fields()
	b = append(b, byte(m.Kind))
	b = binary.BigEndian.AppendUint16(b, bits)
	if bits&fieldLeader != 0 {
		b = append(b, byte(m.Leader))
	}
	for i, v := range [...]uint64{uint64(m.Flags), uint64(m.Epoch), uint64(m.Promise), uint64(m.CRC), uint64(m.Ms)} {
		if bits&(fieldFlags<<i) != 0 {
			b = binary.AppendUvarint(b, v)
		}
	}
	for i, v := range [...]uint64{uint64(m.Zxid), uint64(m.Prev), uint64(m.Commit)} {
		if bits&(fieldZxid<<i) != 0 {
			b = binary.BigEndian.AppendUint64(b, v)
		}
	}
	for i, v := range [...]uint64{m.Seq, m.Echo, m.Boot, m.Nonce} {
		if bits&(fieldSeq<<i) != 0 {
			b = binary.AppendUvarint(b, v)
		}
	}
	if bits&fieldCluster != 0 {
		b = append(b, m.Cluster[:]...)
	}
	if bits&fieldEpochs != 0 {
		b = appendEpochs(b, m.Epochs)
	}
	if bits&fieldEntries != 0 {
		b = appendEntries(b, m.Entries)
	}
	return b
}

func appendEntries(b []byte, entries []Entry) []byte {
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for i := range entries {
		e := &entries[i]
		b = append(b, byte(e.Type))
		b = binary.BigEndian.AppendUint64(b, uint64(e.Zxid))
		b = wire.AppendBytes(b, e.Data)
	}
	return b
}

// entrySize is the minimum size of an encoded entry.
const entrySize = 1 + 8 + 1

// Decode sets m from all of b. The entries' data aliases b; the memory of m.Entries and
// m.Epochs is reused. An entry that only a later version of zkd understands is no error
// here: Entry.Check reports it.
func (m *Message) Decode(b []byte) error {
	d := decoder{wire.NewReader(b)}
	*m = Message{Epochs: m.Epochs[:0], Entries: m.Entries[:0]}
	m.Kind = MessageKind(d.Byte())
	if d.Err() == nil && (m.Kind == 0 || m.Kind > lastMessageKind) {
		d.Malformed("message of an unknown kind")
	}
	bits := d.BigUint16()
	m.decodeFields(&d, bits)
	if d.Err() == nil && (m.fields() != bits || m.Flags&^knownFlags != 0) {
		d.Malformed("fields that the kind does not have, or zero ones")
	}
	if err := d.end(m.Kind.String()); err != nil {
		*m = Message{}
		return err
	}
	return nil
}

func (m *Message) decodeFields(d *decoder, bits uint16) {
	if bits&fieldLeader != 0 {
		m.Leader = SIDOf(d.Byte())
	}
	if bits&fieldFlags != 0 {
		m.Flags = uint16(d.UvarintTo(math.MaxUint16))
	}
	for i, p := range [...]*uint32{&m.Epoch, &m.Promise, &m.CRC, &m.Ms} {
		if bits&(fieldEpoch<<i) != 0 {
			*p = d.u32()
		}
	}
	for i, p := range [...]*jute.Zxid{&m.Zxid, &m.Prev, &m.Commit} {
		if bits&(fieldZxid<<i) != 0 {
			*p = d.zxid()
		}
	}
	for i, p := range [...]*uint64{&m.Seq, &m.Echo, &m.Boot, &m.Nonce} {
		if bits&(fieldSeq<<i) != 0 {
			*p = d.Uvarint()
		}
	}
	if bits&fieldCluster != 0 {
		m.Cluster = d.id()
	}
	if bits&fieldEpochs != 0 {
		m.Epochs = d.epochs(m.Epochs)
	}
	if bits&fieldEntries != 0 {
		m.decodeEntries(d)
	}
}

func (m *Message) decodeEntries(d *decoder) {
	prev := m.Prev
	for range d.Count(entrySize) {
		e := Entry{Prev: prev, Type: EntryType(d.Byte()), Zxid: d.zxid(), Data: d.Bytes()}
		if d.Err() != nil {
			return
		}
		if err := e.Check(); err != nil && !isNewer(err) {
			d.Malformed(err.Error())
			return
		}
		m.Entries = append(m.Entries, e)
		prev = e.Zxid
	}
}

// isNewer reports whether err is about data of a later version of zkd.
func isNewer(err error) bool {
	_, ok := errors.AsType[*format.VersionError](err)
	return ok
}

// String describes the message for traces.
func (m *Message) String() string {
	b := []byte(m.Kind.String())
	number := func(name string, v uint64) {
		if v != 0 {
			b = fmt.Appendf(b, " %s=%d", name, v)
		}
	}
	zxid := func(name string, z jute.Zxid) {
		if z != 0 {
			b = fmt.Appendf(b, " %s=%v", name, z)
		}
	}
	number("epoch", uint64(m.Epoch))
	number("promise", uint64(m.Promise))
	number("leader", uint64(m.Leader))
	zxid("zxid", m.Zxid)
	zxid("prev", m.Prev)
	if n := len(m.Entries); n > 0 {
		b = fmt.Appendf(b, " entries=%v..%v", m.Entries[0].Zxid, m.Entries[n-1].Zxid)
	}
	zxid("commit", m.Commit)
	number("seq", m.Seq)
	number("echo", m.Echo)
	number("nonce", m.Nonce)
	for i, name := range flagNames {
		if m.Flags&(1<<i) != 0 {
			b = append(append(b, ' '), name...)
		}
	}
	return string(b)
}
