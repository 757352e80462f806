package zab

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/jute"
)

// MessageKind is the kind of a message between cores. The numbers are part of
// the peer protocol.
type MessageKind uint8

const (
	// MsgPrevote asks whether the sender would get a promise. It changes nothing.
	// Epoch is the one that it would ask for; Zxid its last; Commit what it knows
	// to be committed; Seq its round.
	MsgPrevote MessageKind = iota + 1
	// MsgPrevoteResp answers: FlagGranted or not; Zxid, Commit and Promise of the sender;
	// Leader and Epoch if it knows one that is alive; Seq repeats the round.
	MsgPrevoteResp
	// MsgNewEpoch asks for a promise: Epoch; Zxid, the sender's last. With
	// FlagTransfer, Promise is the epoch whose leader sends its successor; else, of
	// a leader, the one in which it began. Who followed it from then on, and only he,
	// goes on with his clients: it knows of what he has sent.
	MsgNewEpoch
	// MsgAckEpoch says that the promise of Epoch is durable. A summary: Zxid,
	// Commit, Epochs, and Boot and Nonce to answer it.
	MsgAckEpoch
	// MsgNackEpoch refuses Epoch: Promise and Zxid of the sender.
	MsgNackEpoch
	// MsgFollow asks an established leader to be synchronized: Promise, and to
	// whom it was given in Leader; a summary as in MsgAckEpoch.
	MsgFollow
	// MsgSync tells a learner of Epoch to drop what it has behind Zxid, to stream
	// from there; or with FlagSnapshot to wait for the snapshot with the token
	// Seq. Boot and Nonce are those of the summary answered. Commit is the
	// leader's. With FlagCRC, CRC is that of the entry at Zxid.
	MsgSync
	// MsgAppend has Entries behind Prev, and Commit.
	MsgAppend
	// MsgAck says that the sender's durable history equals the leader's up to Zxid;
	// with FlagUnsure, that it is not to be counted yet.
	MsgAck
	// MsgCommit has the leader's Commit, and in Zxid the last entry that was sent before
	// it.
	MsgCommit
	// MsgPing is the leader's heartbeat: Seq, Commit; Echo is the Seq of the last
	// pong that it got from this learner, and Ms, if it is not 0, how long the
	// leader's lease lasted from then on.
	MsgPing
	// MsgPong answers: Echo repeats the ping's Seq, Seq counts the pongs. Zxid is
	// what is durable there, FlagUnsure as in MsgAck, Ms the age of its oldest
	// unfinished fsync, FlagFull. Nonce is the number of a record of the sender's
	// log up to which that is durable; 0 if it does not say.
	MsgPong
	// MsgReadIndex asks the leader for a point behind all that was completed: Seq.
	MsgReadIndex
	// MsgReadIndexResp answers with Seq, Commit, and FlagGranted if it is one.
	MsgReadIndexResp
	// MsgTimeoutNow tells the learner that has everything up to Zxid to become
	// the leader behind the leader of Epoch.
	MsgTimeoutNow
	// MsgRejoin tells a learner that its stream can't go on: to send MsgFollow
	// again, or if Leader is 0, that the sender does not lead any more.
	MsgRejoin
	// MsgLead tells a server that does not follow the sender that the sender leads
	// Epoch. Zxid is the version of its committed list of members. Promise is not
	// 0 if a quorum has confirmed the sender although it had heard of a leader of
	// that higher epoch.
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

// Bulk reports whether messages of this kind have a place in the stream of entries
// to a learner: they keep their order among each other, and wait for each other.
// All other messages may overtake them. See the package comment.
func (k MessageKind) Bulk() bool { return k == MsgSync || k == MsgAppend || k == MsgCommit }

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
	FlagCounts                         // by its own history the sender may be counted
	FlagAsking                         // the sender can't be elected, it only looks for a leader
	FlagEstablished                    // the sender has a quorum's promises already
	FlagTransfer                       // the leader before wants it so
	FlagListed                         // the sender's first marker lists the receiver's incarnation
	FlagSnapshot
	FlagCRC
	FlagUnsure // the sender does not count, or would not know after a restart that it does
	FlagFull   // the sender's disk is full
	// FlagAnchored says that the sender's history has a list of members: its
	// configuration file does not decide.
	FlagAnchored

	knownFlags = FlagAnchored<<1 - 1
)

var flagNames = [...]string{"granted", "seeded", "damaged", "counts", "asking", "established", "transfer", "listed", "snapshot", "crc", "unsure", "full", "anchored"}

// Message is what one core says to another. Which fields count depends on the
// kind; the others are zero.
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
	// Cluster is what the sender's committed history is called, if it has a name.
	// Messages within a stream are without it.
	Cluster ID
	Epochs  []EpochEnd
	Entries []Entry // each one's Prev is the zxid before it, the first one's is Prev
}

// Bits that say which fields follow: in this order, and only those not zero.
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

	knownFields = fieldEntries<<1 - 1
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

// Append appends the message's encoding to b: its kind in a byte, 16 bits that
// say which fields are not zero, and these.
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
		b = appendBytes(b, e.Data)
	}
	return b
}

// entrySize is the least that an entry takes.
const entrySize = 1 + 8 + 1

// Decode sets m from all of b. The entries' data aliases b; the memory of
// m.Entries and m.Epochs is reused. An entry that only a later version of zkd
// understands is no error here: Entry.Check reports it.
func (m *Message) Decode(b []byte) error {
	d := decoder{b: b}
	*m = Message{Epochs: m.Epochs[:0], Entries: m.Entries[:0]}
	m.Kind = MessageKind(d.u8("message"))
	if d.err == nil && (m.Kind == 0 || m.Kind > lastMessageKind) {
		d.fail("message of an unknown kind")
	}
	var bits uint16
	if p := d.bytes(2, "message"); p != nil {
		bits = binary.BigEndian.Uint16(p)
	}
	m.decodeFields(&d, bits)
	if d.err == nil && (m.fields() != bits || m.Flags&^knownFlags != 0) {
		d.fail(m.Kind.String())
	}
	if err := d.end(m.Kind.String()); err != nil {
		*m = Message{}
		return err
	}
	return nil
}

func (m *Message) decodeFields(d *decoder, bits uint16) {
	const what = "message"
	if bits&fieldLeader != 0 {
		m.Leader = SID(d.u8(what))
	}
	if bits&fieldFlags != 0 {
		v := d.u32(what)
		if v > 1<<16-1 {
			d.fail("flags")
		}
		m.Flags = uint16(v)
	}
	for i, p := range [...]*uint32{&m.Epoch, &m.Promise, &m.CRC, &m.Ms} {
		if bits&(fieldEpoch<<i) != 0 {
			*p = d.u32(what)
		}
	}
	for i, p := range [...]*jute.Zxid{&m.Zxid, &m.Prev, &m.Commit} {
		if bits&(fieldZxid<<i) != 0 {
			*p = d.zxid(what)
		}
	}
	for i, p := range [...]*uint64{&m.Seq, &m.Echo, &m.Boot, &m.Nonce} {
		if bits&(fieldSeq<<i) != 0 {
			*p = d.uvarint(what)
		}
	}
	if bits&fieldCluster != 0 {
		m.Cluster = d.id(what)
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
	for range d.count(entrySize, "entries") {
		e := Entry{Prev: prev, Type: EntryType(d.u8("entry")), Zxid: d.zxid("entry"), Data: d.text("entry")}
		if d.err != nil {
			return
		}
		if err := e.Check(); err != nil && !isNewer(err) {
			d.fail(err.Error())
			return
		}
		m.Entries = append(m.Entries, e)
		prev = e.Zxid
	}
}

// isNewer reports whether a later version of zkd made what err is about.
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
