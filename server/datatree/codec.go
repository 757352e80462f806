package datatree

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/jute"
)

// A transaction in the log:
//
//	byte     format, the least that has the kinds of all ops, and the number (format.History)
//	varint   zxid
//	varint   time
//	8 bytes  session, big-endian
//	varint   cxid
//	8 bytes  origin, big-endian
//	varint   err
//	byte     1 for a multi, else 0
//	uvarint  from format 6 on: number, or 0
//	uvarint  from format 6 on: number minus confirmed
//	uvarint  number of ops, and these
//
// and an op:
//
//	byte     kind
//	varint   result
//	fields   those that the kind has, in the order of Op
//
// Varints are those of encoding/binary, in their shortest form. Strings are a
// uvarint length and the bytes; data is a uvarint, 0 for null and else the length
// plus 1, and the bytes. An ACL list is a uvarint, 0 for world:anyone with all
// permissions and else the number of entries plus 1, and for each entry its
// permissions as a varint, scheme and id. There is one encoding for a
// transaction, and decoding accepts no other.

// MaxTxn bounds the encoding of a transaction, in bytes. The evaluator makes none that
// could be longer, and the log and the frames between servers accept that length: see
// server/limits.go.
const MaxTxn = 96 << 20

// MaxSize returns an upper bound of the length of txn's encoding, usually a little more
// than the length.
func (txn *Txn) MaxSize() int {
	const (
		fixed    = 96 // format to number of ops
		perOp    = 48 // all of an op but strings, data and lists
		perEntry = 16 // of an ACL: permissions and two lengths
		perPath  = 5  // its length
	)
	n := fixed
	for i := range txn.Ops {
		op := &txn.Ops[i]
		n += perOp + len(op.Path) + len(op.Data)
		for j := range op.ACL {
			n += perEntry + len(op.ACL[j].ID.Scheme) + len(op.ACL[j].ID.ID)
		}
		for _, path := range op.Paths {
			n += perPath + len(path)
		}
	}
	return n
}

// ErrTxn is wrapped by each error of decoding a transaction or a snapshot's row, unless
// the error is a *format.VersionError: then a later version of zkd wrote it, and it may
// be valid.
var ErrTxn = errors.New("malformed record")

// Append appends the encoding of txn to b and returns the longer slice. It allocates only
// to grow b.
func (txn *Txn) Append(b []byte) []byte {
	least := txn.format()
	b = append(b, least)
	b = binary.AppendVarint(b, int64(txn.Zxid))
	b = binary.AppendVarint(b, txn.Time)
	b = binary.BigEndian.AppendUint64(b, uint64(txn.Session))
	b = binary.AppendVarint(b, int64(txn.Cxid))
	b = binary.BigEndian.AppendUint64(b, txn.Origin)
	b = binary.AppendVarint(b, int64(txn.Err))
	b = jute.AppendBool(b, txn.Multi)
	if least >= FormatExact {
		b = binary.AppendUvarint(b, uint64(txn.Number))
		b = binary.AppendUvarint(b, uint64(txn.Number-txn.Confirmed))
	}
	b = binary.AppendUvarint(b, uint64(len(txn.Ops)))
	for i := range txn.Ops {
		b = txn.Ops[i].append(b)
	}
	return b
}

// format returns the least version of format.History that has the kinds of all ops, and the
// number.
func (txn *Txn) format() byte {
	least := formatOf(txn.Number)
	for i := range txn.Ops {
		least = max(least, txn.Ops[i].Kind.format())
	}
	return least
}

// format returns the first version of format.History that has the kind.
func (k OpKind) format() byte {
	switch k {
	case OpSetTimeout:
		return 2
	case OpAdoptSession:
		return 4
	case OpSetOwner:
		return FormatOwner
	case OpExactlyOnce:
		return FormatExact
	}
	return 1
}

// formatOf returns the least version of format.History with the number of a transaction.
func formatOf(number int64) byte {
	if number != 0 {
		return FormatExact
	}
	return 1
}

func (op *Op) append(b []byte) []byte {
	b = append(b, byte(op.Kind))
	b = binary.AppendVarint(b, int64(op.Result))
	switch op.Kind {
	case OpCreate:
		b = appendString(b, op.Path)
		b = appendData(b, op.Data)
		b = appendACL(b, op.ACL)
		b = binary.AppendVarint(b, int64(op.Owner))
		b = binary.AppendVarint(b, int64(op.Cversion))
	case OpDelete:
		b = appendString(b, op.Path)
	case OpSetData:
		b = appendString(b, op.Path)
		b = appendData(b, op.Data)
		b = binary.AppendVarint(b, int64(op.Version))
	case OpSetACL:
		b = appendString(b, op.Path)
		b = appendACL(b, op.ACL)
		b = binary.AppendVarint(b, int64(op.Version))
	case OpError:
		b = binary.AppendVarint(b, int64(op.Code))
	case OpCreateSession, OpSetTimeout, OpAdoptSession:
		b = binary.AppendVarint(b, int64(op.TimeoutMs))
	case OpCloseSession:
		b = binary.AppendUvarint(b, uint64(len(op.Paths)))
		for _, path := range op.Paths {
			b = appendString(b, path)
		}
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendData(b, data []byte) []byte {
	if data == nil {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(data))+1), data...)
}

func appendACL(b []byte, list []jute.ACL) []byte {
	if isOpenACL(list) {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(list))+1)
	for _, a := range list {
		b = binary.AppendVarint(b, int64(a.Perms))
		b = appendString(b, a.ID.Scheme)
		b = appendString(b, a.ID.ID)
	}
	return b
}

// DecodeTxn decodes the output of Append. The strings and data of the transaction share
// the memory of b, so b must not change while the transaction or the results and events
// of applying it are in use. Errors wrap ErrTxn or are a *format.VersionError.
func DecodeTxn(b []byte) (Txn, error) {
	var txn Txn
	err := txn.Decode(b)
	return txn, err
}

// Decode is like DecodeTxn but reuses txn.Ops: reading a log of transactions of one op
// does not allocate.
func (txn *Txn) Decode(b []byte) error {
	r := newReader(b)
	version := r.byte()
	if r.err == nil {
		if err := format.History.Check(uint32(version)); err != nil {
			return fmt.Errorf("decode txn: %w", err)
		}
	}
	clear(txn.Ops)
	*txn = Txn{
		Zxid:    jute.Zxid(r.varint()),
		Time:    r.varint(),
		Session: jute.SessionID(r.uint64()),
		Cxid:    r.int32(),
		Origin:  r.uint64(),
		Err:     jute.Code(r.int32()),
		Multi:   r.bool(),
		Ops:     txn.Ops[:0],
	}
	txn.Number, txn.Confirmed = r.numbers(version)
	for n := r.count(2); n > 0 && r.err == nil; n-- {
		txn.Ops = append(txn.Ops, Op{})
		r.op(&txn.Ops[len(txn.Ops)-1])
	}
	return r.end(version, txn.format())
}

// CheckTxn returns the error of DecodeTxn, and keeps nothing of the transaction. It is
// called for each entry that a server receives.
func CheckTxn(b []byte) error {
	r := newReader(b)
	version := r.byte()
	if r.err == nil {
		if err := format.History.Check(uint32(version)); err != nil {
			return fmt.Errorf("decode txn: %w", err)
		}
	}
	r.varint() // Zxid
	r.varint() // Time
	r.uint64() // Session
	r.int32()  // Cxid
	r.uint64() // Origin
	r.int32()  // Err
	r.bool()   // Multi
	number, _ := r.numbers(version)
	least := formatOf(number)
	for n := r.count(2); n > 0 && r.err == nil; n-- {
		var op Op
		r.op(&op)
		least = max(least, op.Kind.format())
	}
	return r.end(version, least)
}

// numbers reads Txn.Number and Txn.Confirmed.
func (r *reader) numbers(version byte) (number, confirmed int64) {
	if version < FormatExact || r.err != nil {
		return 0, 0
	}
	number = r.number()
	confirmed = number - r.number()
	if confirmed < 0 || number != 0 && confirmed == number {
		r.fail("impossible number")
		return 0, 0
	}
	return number, confirmed
}

// end returns an error unless the transaction ends here and its format is the lowest one
// with its kinds of ops and its number.
func (r *reader) end(version, least byte) error {
	switch {
	case r.left() > 0:
		r.fail("bytes after the end")
	case version != least:
		r.fail("an op that its format does not have, or a higher format than it needs")
	}
	if r.err != nil {
		return fmt.Errorf("decode txn: %w", r.err)
	}
	return nil
}

// reader decodes a string, which its results share. After the first error it returns zero
// values.
type reader struct {
	s   string
	at  int // offset in s of the next byte
	err error
}

func newReader(b []byte) reader { return reader{s: unsafe.String(unsafe.SliceData(b), len(b))} }

// left returns the number of unread bytes.
func (r *reader) left() int { return len(r.s) - r.at }

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w", what, ErrTxn)
	}
	r.at = len(r.s)
}

func (r *reader) take(n int) string {
	if n > r.left() {
		r.fail("truncated")
		return ""
	}
	r.at += n
	return r.s[r.at-n : r.at]
}

func (r *reader) byte() byte {
	if r.at < len(r.s) {
		r.at++
		return r.s[r.at-1]
	}
	r.fail("truncated")
	return 0
}

func (r *reader) bool() bool {
	v := r.byte()
	if v > 1 {
		r.fail("flag is neither 0 nor 1")
	}
	return v == 1
}

func (r *reader) uint64() uint64 {
	if r.left() < 8 {
		r.fail("truncated")
		return 0
	}
	r.at += 8
	return binary.BigEndian.Uint64([]byte(r.s[r.at-8 : r.at]))
}

func (r *reader) uvarint() uint64 {
	s := r.s[r.at:]
	if s != "" && s[0] < 0x80 { // the most common case
		r.at++
		return uint64(s[0])
	}
	var v uint64
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x80 && i < 9 {
			v |= uint64(c&0x7f) << (7 * i & 63)
			continue
		}
		if i == 9 && c > 1 || c == 0 { // it would not fit, or fewer bytes would do
			r.fail("varint too long")
			return 0
		}
		r.at += i + 1
		return v | uint64(c)<<(7*i&63)
	}
	r.fail("truncated")
	return 0
}

func (r *reader) varint() int64 {
	u := r.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

func (r *reader) int32() int32 {
	v := r.varint()
	if v < math.MinInt32 || v > math.MaxInt32 {
		r.fail("number out of range")
		return 0
	}
	return int32(v)
}

// count reads the number of the elements that follow, each of at least size bytes.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(r.left()/size) {
		r.fail("impossible count")
		return 0
	}
	return int(n)
}

func (r *reader) string() string { return r.take(r.count(1)) }

func (r *reader) data() []byte {
	n := r.uvarint()
	switch {
	case n == 0:
		return nil
	case n == 1:
		return []byte{}
	case n-1 > uint64(r.left()):
		r.fail("truncated")
		return nil
	}
	s := r.take(int(n - 1))
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

func (r *reader) acl() []jute.ACL {
	n := r.uvarint()
	if n == 0 {
		return openACL
	}
	if n--; n > uint64(r.left()/3) {
		r.fail("impossible count")
		return nil
	}
	list := make([]jute.ACL, n)
	for i := range list {
		list[i] = jute.ACL{Perms: jute.Perms(r.int32()), ID: jute.ID{Scheme: r.string(), ID: r.string()}}
	}
	if isOpenACL(list) {
		r.fail("long form of the open ACL")
	}
	return list
}

// op reads an op into a zero Op.
func (r *reader) op(op *Op) {
	op.Kind, op.Result = OpKind(r.byte()), jute.OpCode(r.int32())
	switch op.Kind {
	case OpCreate:
		op.Path, op.Data, op.ACL = r.string(), r.data(), r.acl()
		op.Owner, op.Cversion = jute.Owner(r.varint()), r.int32()
	case OpDelete:
		op.Path = r.string()
	case OpSetData:
		op.Path, op.Data, op.Version = r.string(), r.data(), r.int32()
	case OpSetACL:
		op.Path, op.ACL, op.Version = r.string(), r.acl(), r.int32()
	case OpNone, OpCheck, OpSetOwner, OpExactlyOnce:
	case OpError:
		op.Code = jute.Code(r.int32())
	case OpCreateSession, OpSetTimeout, OpAdoptSession:
		op.TimeoutMs = r.int32()
	case OpCloseSession:
		if n := r.count(1); n > 0 {
			op.Paths = make([]string, n)
		}
		for i := range op.Paths {
			op.Paths[i] = r.string()
		}
	default:
		if r.err == nil {
			r.err = &format.VersionError{What: "transaction operation kind", Found: uint32(op.Kind), Most: uint32(OpExactlyOnce)}
		}
		r.at = len(r.s)
	}
}
