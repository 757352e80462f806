package datatree

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/internal/wire"
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
var ErrTxn = wire.ErrMalformed

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
	r := reader{wire.NewReader(b)}
	version := r.Byte()
	if r.Err() == nil {
		if err := format.History.Check(uint32(version)); err != nil {
			return fmt.Errorf("decode txn: %w", err)
		}
	}
	clear(txn.Ops)
	*txn = Txn{
		Zxid:    jute.Zxid(r.Varint()),
		Time:    r.Varint(),
		Session: jute.SessionID(r.BigUint64()),
		Cxid:    r.Varint32(),
		Origin:  r.BigUint64(),
		Err:     jute.Code(r.Varint32()),
		Multi:   r.Bool(),
		Ops:     txn.Ops[:0],
	}
	txn.Number, txn.Confirmed = r.numbers(version)
	for n := r.Count(2); n > 0 && r.Err() == nil; n-- {
		txn.Ops = append(txn.Ops, Op{})
		r.op(&txn.Ops[len(txn.Ops)-1])
	}
	return r.end(version, txn.format())
}

// CheckTxn returns the error of DecodeTxn, and keeps nothing of the transaction. It is
// called for each entry that a server receives.
func CheckTxn(b []byte) error {
	r := reader{wire.NewReader(b)}
	version := r.Byte()
	if r.Err() == nil {
		if err := format.History.Check(uint32(version)); err != nil {
			return fmt.Errorf("decode txn: %w", err)
		}
	}
	r.Varint()    // Zxid
	r.Varint()    // Time
	r.BigUint64() // Session
	r.Varint32()  // Cxid
	r.BigUint64() // Origin
	r.Varint32()  // Err
	r.Bool()      // Multi
	number, _ := r.numbers(version)
	least := formatOf(number)
	for n := r.Count(2); n > 0 && r.Err() == nil; n-- {
		var op Op
		r.op(&op)
		least = max(least, op.Kind.format())
	}
	return r.end(version, least)
}

// numbers reads Txn.Number and Txn.Confirmed.
func (r *reader) numbers(version byte) (number, confirmed int64) {
	if version < FormatExact || r.Err() != nil {
		return 0, 0
	}
	number = r.number()
	confirmed = number - r.number()
	if confirmed < 0 || number != 0 && confirmed == number {
		r.Malformed("impossible number")
		return 0, 0
	}
	return number, confirmed
}

// end returns an error unless the transaction ends here and its format is the lowest one
// with its kinds of ops and its number.
func (r *reader) end(version, least byte) error {
	err := r.End()
	if err == nil && version != least {
		r.Malformed("an op that its format does not have, or a higher format than it needs")
		err = r.Err()
	}
	if err != nil {
		return fmt.Errorf("decode txn: %w", err)
	}
	return nil
}

// reader decodes transactions and rows.
type reader struct{ wire.Reader }

func (r *reader) data() []byte {
	n := r.Uvarint()
	switch {
	case n == 0:
		return nil
	case n == 1:
		return []byte{}
	case n-1 > uint64(r.Left()):
		r.Malformed("truncated")
		return nil
	}
	s := r.Take(int(n - 1))
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

func (r *reader) acl() []jute.ACL {
	n := r.Uvarint()
	if n == 0 {
		return openACL
	}
	if n--; n > uint64(r.Left()/3) {
		r.Malformed("impossible count")
		return nil
	}
	list := make([]jute.ACL, n)
	for i := range list {
		list[i] = jute.ACL{Perms: jute.Perms(r.Varint32()), ID: jute.ID{Scheme: r.Text(), ID: r.Text()}}
	}
	if isOpenACL(list) {
		r.Malformed("long form of the open ACL")
	}
	return list
}

// op reads an op into a zero Op.
func (r *reader) op(op *Op) {
	op.Kind, op.Result = OpKind(r.Byte()), jute.OpCode(r.Varint32())
	switch op.Kind {
	case OpCreate:
		op.Path, op.Data, op.ACL = r.Text(), r.data(), r.acl()
		op.Owner, op.Cversion = jute.Owner(r.Varint()), r.Varint32()
	case OpDelete:
		op.Path = r.Text()
	case OpSetData:
		op.Path, op.Data, op.Version = r.Text(), r.data(), r.Varint32()
	case OpSetACL:
		op.Path, op.ACL, op.Version = r.Text(), r.acl(), r.Varint32()
	case OpNone, OpCheck, OpSetOwner, OpExactlyOnce:
	case OpError:
		op.Code = jute.Code(r.Varint32())
	case OpCreateSession, OpSetTimeout, OpAdoptSession:
		op.TimeoutMs = r.Varint32()
	case OpCloseSession:
		if n := r.Count(1); n > 0 {
			op.Paths = make([]string, n)
		}
		for i := range op.Paths {
			op.Paths[i] = r.Text()
		}
	default:
		r.Fail(&format.VersionError{What: "transaction operation kind", Found: uint32(op.Kind), Most: uint32(OpExactlyOnce)})
	}
}
