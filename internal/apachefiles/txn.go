package apachefiles

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// The types of transactions.
const (
	txnError           = -1
	txnCreate          = 1
	txnDelete          = 2
	txnSetData         = 5
	txnSetACL          = 7
	txnCheck           = 13
	txnMulti           = 14
	txnCreate2         = 15
	txnReconfig        = 16
	txnCreateContainer = 19
	txnDeleteContainer = 20
	txnCreateTTL       = 21
	txnCreateSession   = -10
	txnCloseSession    = -11
)

// txn is a transaction of the log.
type txn struct {
	session jute.SessionID
	zxid    jute.Zxid
	time    int64 // ms since the Unix epoch
	ops     []op  // none if the request was refused
	digest  *uint64
}

// op is one change of a transaction. Types that have the same effect have the same kind.
type op struct {
	kind    int32 // txnCreate, txnDelete, txnSetData, txnSetACL, or one of a session
	path    string
	data    []byte
	acl     []jute.ACL
	owner   jute.Owner
	version int32    // of data or ACL; of a create: the parent's counter of children, -1 if not known
	timeout int32    // ms
	paths   []string // ephemerals of a closed session; none in logs before 3.6
}

const (
	txnHeader  = 8 + 4 + 8 + 8 + 4
	digestSize = 4 + 8
)

// decodeTxn decodes the payload of a record.
func decodeTxn(b []byte) (*txn, error) {
	d := jute.NewDecoder(b)
	t := &txn{session: jute.SessionID(d.Int64())}
	d.Int32() // cxid
	t.zxid = jute.Zxid(d.Int64())
	t.time = d.Int64()
	kind := d.Int32()
	if d.Err() != nil {
		return nil, d.Err()
	}
	var err error
	switch kind {
	case txnMulti:
		err = t.decodeMulti(&d)
	case txnCloseSession:
		b, err = t.decodeClose(b[txnHeader:])
		d = jute.NewDecoder(b)
	default:
		err = t.decodeOp(&d, kind, len(b)-txnHeader)
	}
	if err == nil {
		err = t.decodeDigest(d.Rest())
	}
	return t, errors.Join(d.Err(), err)
}

// decodeDigest decodes what follows the body.
func (t *txn) decodeDigest(b []byte) error {
	switch {
	case len(b) == 0:
	case len(b) != digestSize:
		return fmt.Errorf("%d bytes after the transaction", len(b))
	case binary.BigEndian.Uint32(b) == 2:
		digest := binary.BigEndian.Uint64(b[4:])
		t.digest = &digest
	}
	return nil
}

// decodeClose decodes the body of closeSession, which may be absent, and returns the rest.
func (t *txn) decodeClose(b []byte) ([]byte, error) {
	t.ops = []op{{kind: txnCloseSession}}
	for _, digest := range []int{0, digestSize} {
		if len(b) == digest {
			return b, nil
		}
		if len(b) < digest {
			break
		}
		d := jute.NewDecoder(b[:len(b)-digest])
		paths := d.Strings()
		if d.Err() == nil && len(d.Rest()) == 0 && checkPaths(paths...) == nil {
			t.ops[0].paths = paths
			return b[len(b)-digest:], nil
		}
	}
	return nil, errors.New("a closeSession with impossible paths")
}

// decodeMulti decodes the elements of a multi. One error voids all of them, although those
// before it look valid.
func (t *txn) decodeMulti(d *jute.Decoder) error {
	n, _ := d.Count(4 + 4)
	failed := false
	for range n {
		kind, body := d.Int32(), d.Buffer()
		if d.Err() != nil {
			return d.Err()
		}
		e := jute.NewDecoder(body)
		if kind == txnMulti || kind < txnError {
			return fmt.Errorf("a multi with an element of type %d", kind)
		}
		if err := t.decodeOp(&e, kind, len(body)); err != nil {
			return err
		}
		if len(e.Rest()) > 0 {
			return fmt.Errorf("%d bytes after an element of a multi", len(e.Rest()))
		}
		failed = failed || kind == txnError
	}
	if failed {
		t.ops = nil
	}
	return nil
}

// decodeOp decodes the body, of up to size bytes, of a transaction or of an element of a multi.
func (t *txn) decodeOp(d *jute.Decoder, kind int32, size int) error {
	o := op{kind: kind}
	switch kind {
	case txnCreate, txnCreate2, txnCreateContainer, txnCreateTTL:
		o.kind = txnCreate
		o.decodeCreate(d, kind, t.session)
	case txnDelete, txnDeleteContainer:
		o.kind, o.path = txnDelete, d.String()
	case txnSetData, txnReconfig:
		o.kind, o.path, o.data, o.version = txnSetData, d.String(), d.Buffer(), d.Int32()
	case txnSetACL:
		o.path, o.acl, o.version = d.String(), d.ACLs(), d.Int32()
	case txnCreateSession:
		o.timeout = d.Int32()
		t.ops = append(t.ops, o)
		return d.Err()
	case txnCheck:
		d.NullString()
		d.Int32()
		return d.Err()
	case txnError:
		d.Int32()
		return d.Err()
	default:
		return fmt.Errorf("a transaction of unknown type %d, of %d bytes", kind, size)
	}
	if d.Err() != nil {
		return d.Err()
	}
	t.ops = append(t.ops, o)
	return checkPaths(o.path)
}

func (o *op) decodeCreate(d *jute.Decoder, kind int32, session jute.SessionID) {
	o.path, o.data, o.acl = d.String(), d.Buffer(), d.ACLs()
	switch kind {
	case txnCreateContainer:
		o.owner = jute.OwnerContainer
	case txnCreate, txnCreate2:
		if d.Bool() {
			o.owner = jute.OwnerSession(session)
		}
	}
	if kind == txnCreate && len(d.Rest()) == 0 { // a log of 3.3
		o.version = -1
		return
	}
	o.version = d.Int32()
	if kind == txnCreateTTL {
		ttl := d.Int64()
		if ttl <= 0 || ttl > jute.MaxTTL {
			d.Fail(fmt.Errorf("a time to live of %d ms", ttl))
		}
		o.owner = jute.OwnerTTL(ttl)
	}
}

func checkPaths(paths ...string) error {
	for _, path := range paths {
		if path == "" || path[0] != '/' {
			return fmt.Errorf("%.100q is not a path", path)
		}
	}
	return nil
}
