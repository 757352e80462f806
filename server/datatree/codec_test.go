package datatree

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/jute"
)

// eachKind is a transaction with an op of each kind, and of each form of it.
var eachKind = Txn{
	Zxid: math.MaxInt64, Time: -1, Session: -2, Cxid: math.MinInt32, Origin: math.MaxUint64, Err: jute.ErrNoNode, Multi: true,
	Ops: []Op{
		{Kind: OpNone},
		{Kind: OpCreate, Result: jute.OpCreate2, Path: "/a", Data: []byte{0}, ACL: openACL, Owner: jute.OwnerContainer, Cversion: math.MinInt32},
		{Kind: OpCreate, Result: jute.OpCreate, Path: "/b", Data: nil, ACL: []jute.ACL{{Perms: -1, ID: jute.ID{Scheme: "s", ID: ""}}}, Owner: jute.OwnerTTL(5)},
		{Kind: OpDelete, Result: jute.OpDelete, Path: strings.Repeat("/long", 100)},
		{Kind: OpSetData, Result: jute.OpSetData, Path: "", Data: []byte{}, Version: math.MaxInt32},
		{Kind: OpSetACL, Result: jute.OpSetACL, Path: "/a", ACL: []jute.ACL{openACL[0], openACL[0]}, Version: -1},
		{Kind: OpCheck, Result: jute.OpCheck},
		{Kind: OpError, Result: jute.OpError, Code: jute.ErrRuntimeInconsistency},
		{Kind: OpCreateSession, Result: jute.OpCreateSession, TimeoutMs: 40000},
		{Kind: OpCloseSession, Result: jute.OpCloseSession, Paths: []string{"/a", "", "/b/c"}},
		{Kind: OpCloseSession},
		{Kind: OpSetTimeout, Result: jute.OpCreateSession, TimeoutMs: 6000},
		{Kind: OpAdoptSession, Result: jute.OpCreateSession, TimeoutMs: 7000},
		{Kind: OpSetOwner, Result: jute.OpCreateSession},
	},
}

func TestTxnRoundTrip(t *testing.T) {
	for _, txn := range []Txn{{}, eachKind, {Zxid: 1, Err: jute.ErrNodeExists}, {Multi: true}, numbered} {
		b := txn.Append([]byte("before"))[len("before"):]
		if bound := txn.MaxSize(); len(b) > bound {
			t.Errorf("%+v takes %d bytes, more than MaxSize says, which is %d", txn, len(b), bound)
		}
		got, err := DecodeTxn(b)
		if err != nil {
			t.Fatalf("decode %+v: %v", txn, err)
		}
		if !reflect.DeepEqual(got, txn) {
			t.Errorf("got %+v, want %+v", got, txn)
		}
	}
}

// TestMaxSize encodes many ops of each kind with the longest numbers and lengths: MaxSize
// must bound the sum.
func TestMaxSize(t *testing.T) {
	long := strings.Repeat("x", 1<<14) // the length takes three bytes
	acl := []jute.ACL{{Perms: math.MinInt32, ID: jute.ID{Scheme: long, ID: long}}, {Perms: math.MaxInt32}}
	txn := Txn{Zxid: math.MinInt64, Time: math.MinInt64, Session: -1, Cxid: math.MinInt32, Origin: math.MaxUint64, Err: math.MinInt32, Number: math.MaxInt64}
	for kind := OpNone; kind <= OpCloseSession; kind++ {
		for range 1000 {
			txn.Ops = append(txn.Ops, Op{
				Kind: kind, Result: math.MinInt32, Path: long, Data: []byte(long), ACL: acl, Owner: math.MinInt64,
				Version: math.MinInt32, Cversion: math.MinInt32, TimeoutMs: math.MinInt32, Code: math.MinInt32,
				Paths: []string{long, "", long},
			})
		}
		if n, bound := len(txn.Append(nil)), txn.MaxSize(); n > bound {
			t.Errorf("1000 ops of kind %d take %d bytes, more than MaxSize says, which is %d", kind, n, bound)
		}
		txn.Ops = txn.Ops[:0]
	}
}

// TestTxnFormat fails when the format of the log changes.
func TestTxnFormat(t *testing.T) {
	txn := Txn{Zxid: 0x100000002, Time: 1700000000000, Session: 0x0100abcd00000001, Cxid: 3, Origin: 1<<56 | 9, Ops: []Op{
		{Kind: OpCreate, Result: jute.OpCreate, Path: "/a", Data: []byte("xy"), ACL: openACL, Cversion: 1},
	}}
	const want = "01" + // format
		"8480808020" + // zxid
		"80a0abfef962" + // time
		"0100abcd00000001" + // session
		"06" + // cxid
		"0100000000000009" + // origin
		"00" + "00" + "01" + // err, multi, number of ops
		"01" + "02" + // create, result
		"02" + "2f61" + "03" + "7879" + "00" + "00" + "02" // path, data, ACL, owner, cversion
	if got := hex.EncodeToString(txn.Append(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDecodeTxnRefuses(t *testing.T) {
	good := eachKind.Append(nil)
	for i := range good {
		if _, err := DecodeTxn(good[:i]); !errors.Is(err, ErrTxn) {
			t.Fatalf("the first %d bytes: %v, want ErrTxn", i, err)
		}
	}
	head := (&Txn{}).Append(nil)
	head = head[:len(head)-1]
	tests := []struct {
		name string
		in   []byte
	}{
		{"longer than the record", append(bytes.Clone(good), 0)},
		{"format 0", append([]byte{0}, good[1:]...)},
		{"later format", append([]byte{3}, good[1:]...)},
		{"op that its format does not have", append([]byte{1}, good[1:]...)},
		{"higher format than it needs", append([]byte{2}, (&Txn{}).Append(nil)[1:]...)},
		{"long varint", append([]byte{1, 0x80, 0}, head[2:]...)},
		{"overlong varint", append([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, head[2:]...)},
		{"count of ops", append(bytes.Clone(head), 0xff, 0xff, 0xff, 0xff, 0x0f)},
		{"unknown kind", append(bytes.Clone(head), 1, 99, 0)},
		{"length of path", append(bytes.Clone(head), 1, byte(OpDelete), 0, 0xff, 0xff, 0x7f)},
		{"count of paths", append(bytes.Clone(head), 1, byte(OpCloseSession), 0, 0xff, 0xff, 0x7f)},
		{"count of ACL entries", append(bytes.Clone(head), 1, byte(OpSetACL), 0, 0, 0xff, 0xff, 0x7f)},
		{"more ACL entries than bytes", append(bytes.Clone(head), 1, byte(OpSetACL), 0, 0, 4, 0)},
		{"long open ACL", append(append(bytes.Clone(head), 1, byte(OpSetACL), 0, 0, 2, 62, 5), "world\x06anyone\x00"...)},
		{"code out of range", append(bytes.Clone(head), 1, byte(OpError), 0, 0xff, 0xff, 0xff, 0xff, 0xff, 1)},
		{"flag of 2", append(bytes.Clone(head[:len(head)-1]), 2, 0)},
	}
	for _, tt := range tests {
		if txn, err := DecodeTxn(tt.in); !refused(err) {
			t.Errorf("%s: %+v, %v; want a refusal", tt.name, txn, err)
		}
	}
	// The error for a later version's record names the version, and does not say that it
	// is malformed.
	for _, tt := range []struct {
		in   []byte
		want string
	}{
		{append([]byte{8}, good[1:]...), "transaction format 8 was written by a later version of zkd; this version reads 1 to 7"},
		{append(bytes.Clone(head), 1, 99, 0), "transaction operation kind 99 was written by a later version of zkd; this version reads 0 to 12"},
	} {
		if _, err := DecodeTxn(tt.in); err == nil || errors.Is(err, ErrTxn) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// refused reports whether a decoder rejected its input in one of its two ways.
func refused(err error) bool {
	_, newer := errors.AsType[*format.VersionError](err)
	return newer || errors.Is(err, ErrTxn)
}

// FuzzDecodeTxn checks that a decoded transaction encodes to the same bytes, and can be
// applied.
func FuzzDecodeTxn(f *testing.F) {
	f.Add(eachKind.Append(nil))
	f.Add((&Txn{}).Append(nil))
	f.Add(numbered.Append(nil))
	f.Add((&Txn{Ops: []Op{{Kind: OpCreateSession}, {Kind: OpSetOwner}, {Kind: OpExactlyOnce}}}).Append(nil))
	g := &generator{rng: rand.New(rand.NewPCG(3, 3))}
	tree := New()
	for range 50 {
		txn := g.txn(tree)
		f.Add(txn.Append(nil))
		tree.Apply(&txn, &Applied{})
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		txn, err := DecodeTxn(b)
		if check := CheckTxn(b); fmt.Sprint(check) != fmt.Sprint(err) {
			t.Fatalf("decoding says %v, and the check says %v", err, check)
		}
		if err != nil {
			if !refused(err) {
				t.Fatalf("error %v neither wraps ErrTxn nor names a version", err)
			}
			return
		}
		if got := txn.Append(nil); !bytes.Equal(got, b) {
			t.Fatalf("decoded from %x, encodes to %x", b, got)
		}
		tree := New()
		tree.Apply(&txn, &Applied{})
		if tree.Digest() != tree.computeDigest() {
			t.Fatal("digest kept differs from digest made")
		}
	})
}

func FuzzDecodeNode(f *testing.F) {
	f.Add(AppendNode(nil, &NodeRow{Czxid: 1, Data: []byte("x"), ACL: 2}))
	f.Add(AppendNode(nil, &NodeRow{Mtime: -1, Owner: jute.OwnerContainer}))
	f.Add(AppendNode(nil, &NodeRow{Data: []byte{}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		row, err := DecodeNode(b)
		if err != nil {
			return
		}
		if got := AppendNode(nil, &row); !bytes.Equal(got, b) {
			t.Fatalf("decoded from %x, encodes to %x", b, got)
		}
	})
}

func TestNodeRowRoundTrip(t *testing.T) {
	rows := []NodeRow{
		{},
		{Data: []byte{}},
		{1, 2, 3, 4, 5, jute.OwnerTTL(7), -1, math.MaxInt32, 3, 9, []byte("data")},
	}
	for _, want := range rows {
		got, err := DecodeNode(AppendNode(nil, &want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
}
