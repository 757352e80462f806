package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// The versions of the protocol that this server speaks.
var minVersion, maxVersion = format.Protocol.Range().Least, format.Protocol.Range().Most

const (
	magic     = "zkd-peer"
	mostHello = 16 << 10 // bytes
	nonceSize = 32
)

// purpose is the purpose of a connection.
type purpose uint8

const (
	forLink   purpose = 1
	forStream purpose = 2
	// forCall asks the peer, whose id is larger, to dial.
	forCall purpose = 3
)

// helloRecord is a hello as it is sent. Fields are added, never changed: a receiver skips
// fields that it does not know.
type helloRecord struct {
	Min         uint32  `codec:"min"`
	Max         uint32  `codec:"max"`
	From        uint8   `codec:"from"`
	To          uint8   `codec:"to"`
	Purpose     purpose `codec:"for"`
	Cluster     []byte  `codec:"cluster"`
	Incarnation []byte  `codec:"incarnation"`
	Boot        uint64  `codec:"boot"`
	Nonce       []byte  `codec:"nonce"`
	Secret      bool    `codec:"secret"` // requires a proof that the peer knows it
	Reads       uint32  `codec:"reads"`  // Options.Reads; absent means 1
	Needs       uint32  `codec:"needs"`  // Options.Needs; absent means 1

	Members []byte   `codec:"members"` // zab.Members.Append of the list in the configuration file
	List    uint64   `codec:"list"`    // version of the list of members in the history
	Starts  []byte   `codec:"starts"`  // zab.AppendStarts
	Vouched bool     `codec:"vouched"`
	Listen  []string `codec:"listen"`
	Shares  bool     `codec:"shares"` // Options.Shares
}

// introduction returns the sender's introduction.
func (h *helloRecord) introduction() (zab.Introduction, error) {
	in := zab.Introduction{Cluster: zab.ID(h.Cluster), Incarnation: zab.ID(h.Incarnation), Boot: h.Boot,
		Vouched: h.Vouched, List: jute.Zxid(h.List)}
	var err error
	if in.Starts, err = zab.DecodeStarts(h.Starts); err == nil {
		err = in.Members.Decode(h.Members)
	}
	return in, err
}

// verdictRecord is the answer of each side to the peer's hello.
type verdictRecord struct {
	Cause string `codec:"cause"` // of a refusal; empty accepts
	Text  string `codec:"text"`
	Proof []byte `codec:"proof"`
}

func newHandle() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{WriteExt: true}
	h.Canonical = true
	h.MaxInitLen = 64
	h.MapType = reflect.TypeFor[map[string]any]()
	return h
}

// appendRecord appends the length of a record and the record.
func appendRecord(b []byte, v any) ([]byte, error) {
	var rec []byte
	if err := codec.NewEncoderBytes(&rec, newHandle()).Encode(v); err != nil {
		return b, fmt.Errorf("encode %T: %w", v, err)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(rec)))
	return append(b, rec...), nil
}

// readRecord reads a record into v and returns its bytes.
func readRecord(r io.Reader, v any) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > mostHello {
		return nil, &reason{"stranger", "a hello is longer than possible"}
	}
	rec := make([]byte, n)
	if _, err := io.ReadFull(r, rec); err != nil {
		return nil, midFrame(err)
	}
	if err := decodeRecord(rec, v); err != nil {
		return nil, &reason{"stranger", "a hello that makes no sense: " + printable(err.Error())}
	}
	return rec, nil
}

func decodeRecord(rec []byte, v any) error {
	d := codec.NewDecoderBytes(rec, newHandle())
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.NumBytesRead() != len(rec) {
		return errors.New("bytes after its end")
	}
	return nil
}

// readHello reads the peer's hello and also returns its bytes.
func readHello(r io.Reader) (h helloRecord, rec []byte, err error) {
	var head [len(magic)]byte
	for n := 0; n < len(head); {
		k, err := r.Read(head[n:])
		n += k
		if strange := stranger(head[:n]); strange != "" {
			return h, nil, &reason{"stranger", strange}
		}
		if err != nil && n < len(head) {
			return h, nil, midHello(err, n)
		}
	}
	if rec, err = readRecord(r, &h); err != nil {
		return h, nil, err
	}
	if len(h.Cluster) != len(zab.ID{}) || len(h.Incarnation) != len(zab.ID{}) || len(h.Nonce) != nonceSize {
		return h, nil, &reason{"stranger", "a hello with an id of wrong size"}
	}
	return h, rec, nil
}

func midHello(err error, n int) error {
	if n > 0 {
		return midFrame(err)
	}
	return err
}

// aClient says that the sender is a client.
const aClient = "it is a ZooKeeper client: that belongs to the client port"

// stranger returns a description of the sender if these first bytes are not those of a
// hello. It returns "" as long as they may be.
func stranger(b []byte) string {
	if len(b) == 0 || bytes.HasPrefix([]byte(magic), b) {
		return ""
	}
	begins := func(words ...string) bool {
		for _, w := range words {
			if bytes.HasPrefix(b, []byte(w)) {
				return true
			}
		}
		return false
	}
	switch {
	case b[0] == 0x16:
		return "it speaks TLS, and this server does not: sslQuorum must be the same on all servers"
	case b[0] == 0x15:
		return "it wants TLS: sslQuorum must be the same on all servers"
	case begins("HTTP", "GET ", "POST", "HEAD", "PUT ", "OPTI", "DELE", "PRI "):
		return "it speaks HTTP: not a server of an ensemble"
	case begins("\xff\xff\xff\xff\xff\xff\x00\x00", "\xff\xff\xff\xff\xff\xff\x00\x01"):
		return "it is an Apache ZooKeeper server in its election: the two can't form one ensemble"
	case begins("\x00\x00\x00\x0b", "\x00\x00\x00\x10"):
		return "it is an Apache ZooKeeper server that wants to follow: the two can't form one ensemble"
	case begins("\x00\x00\x00"):
		return aClient
	case len(b) >= 4 && isWord(b[:4]):
		return "it sent a four-letter word, " + string(b[:4]) + ": that belongs to the client port"
	}
	if len(b) < len(magic) {
		return "" // the following bytes may tell
	}
	return "it does not speak zkd's protocol, but " + printable(string(b))
}

func isWord(b []byte) bool {
	for _, c := range b {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}
