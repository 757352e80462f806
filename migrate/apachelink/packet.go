package apachelink

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/apachefiles"
)

// Type is the type of a packet.
type Type int32

// The types.
const (
	Proposal          Type = 2
	Ack               Type = 3
	Commit            Type = 4
	Ping              Type = 5
	Revalidate        Type = 6
	Sync              Type = 7
	Inform            Type = 8
	CommitAndActivate Type = 9
	NewLeader         Type = 10
	UpToDate          Type = 12
	Diff              Type = 13
	Trunc             Type = 14
	Snap              Type = 15
	ObserverInfo      Type = 16
	LeaderInfo        Type = 17
	AckEpoch          Type = 18
	InformAndActivate Type = 19
)

var typeNames = map[Type]string{Proposal: "PROPOSAL", Ack: "ACK", Commit: "COMMIT", Ping: "PING", Revalidate: "REVALIDATE",
	Sync: "SYNC", Inform: "INFORM", CommitAndActivate: "COMMITANDACTIVATE", NewLeader: "NEWLEADER", UpToDate: "UPTODATE",
	Diff: "DIFF", Trunc: "TRUNC", Snap: "SNAP", ObserverInfo: "OBSERVERINFO", LeaderInfo: "LEADERINFO", AckEpoch: "ACKEPOCH",
	InformAndActivate: "INFORMANDACTIVATE"}

// String returns the name that the type has in Apache's server.
func (t Type) String() string {
	if name := typeNames[t]; name != "" {
		return name
	}
	return fmt.Sprintf("packet of type %d", int32(t))
}

// Packet is a packet of the link, without credentials: a learner has no use for them.
type Packet struct {
	Type Type
	Zxid jute.Zxid
	Data []byte // nil for null
}

// Append appends the encoding of the packet.
func (p *Packet) Append(b []byte) []byte {
	b = jute.AppendInt64(jute.AppendInt32(b, int32(p.Type)), int64(p.Zxid))
	return jute.AppendInt32(jute.AppendBuffer(b, p.Data), int32(-1))
}

const (
	maxData  = 128 << 20 // of a packet; Apache's limit is jute.maxbuffer
	maxAuth  = 1 << 10   // credentials of a packet
	readStep = 64 << 10
)

// Stream reads what a leader sends.
type Stream struct{ r *bufio.Reader }

// NewStream returns a stream that reads from r.
func NewStream(r io.Reader) *Stream { return &Stream{bufio.NewReaderSize(r, readStep)} }

// Next reads a packet, which the caller owns.
func (s *Stream) Next() (*Packet, error) {
	head, err := s.bytes(4+8, nil)
	if err != nil {
		return nil, err
	}
	p := &Packet{Type: Type(binary.BigEndian.Uint32(head)), Zxid: jute.Zxid(binary.BigEndian.Uint64(head[4:]))}
	if p.Data, err = s.buffer(); err != nil {
		return nil, fmt.Errorf("%v: %w", p.Type, err)
	}
	n, err := s.length(maxAuth)
	for ; n > 0 && err == nil; n-- {
		if _, err = s.buffer(); err == nil { // scheme
			_, err = s.buffer() // id
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%v: credentials: %w", p.Type, err)
	}
	return p, nil
}

// State reads the state that follows a SNAP with this zxid.
func (s *Stream) State(label jute.Zxid) (*apachefiles.Fuzzy, error) {
	f, rest, err := apachefiles.ReadFuzzy(s.r, label)
	if err == nil {
		s.r = bufio.NewReaderSize(rest, readStep)
	}
	return f, err
}

// length reads a length or a count; -1 means null.
func (s *Stream) length(limit int32) (int32, error) {
	b, err := s.bytes(4, nil)
	if err != nil {
		return 0, err
	}
	n := int32(binary.BigEndian.Uint32(b))
	if n < -1 || n > limit {
		return 0, fmt.Errorf("a length of %d", n)
	}
	return n, nil
}

// buffer reads a buffer; nil means null.
func (s *Stream) buffer() ([]byte, error) {
	n, err := s.length(maxData)
	if n < 0 || err != nil {
		return nil, err
	}
	return s.bytes(int(n), make([]byte, 0, min(n, readStep)))
}

// bytes appends the next n bytes to b, which grows only as they arrive.
func (s *Stream) bytes(n int, b []byte) ([]byte, error) {
	for len(b) < n {
		at := len(b)
		b = append(b, make([]byte, min(n-at, readStep))...)
		if _, err := io.ReadFull(s.r, b[at:]); err != nil {
			return nil, err
		}
	}
	return b, nil
}
