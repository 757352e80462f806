package apachefiles

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
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

// Txn is a transaction of the log. A create without the parent's counter, as in logs of 3.3, has
// Cversion -1.
type Txn struct {
	datatree.Txn
	Digest *uint64 // of the tree after it; nil if there is none
}

const (
	txnHeader  = 8 + 4 + 8 + 8 + 4
	digestSize = 4 + 8
)

// DecodeTxn decodes the payload of a record, with which the result shares no memory.
func DecodeTxn(b []byte) (*Txn, error) {
	d := jute.NewDecoder(b)
	t := &Txn{}
	t.Session = jute.SessionID(d.Int64())
	t.Cxid = d.Int32()
	t.Zxid = jute.Zxid(d.Int64())
	t.Time = d.Int64()
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
	case txnError:
		t.Err = jute.Code(d.Int32())
	default:
		err = t.decodeOp(&d, kind, len(b)-txnHeader)
	}
	if err == nil {
		err = t.decodeDigest(d.Rest())
	}
	return t, errors.Join(d.Err(), err)
}

// decodeDigest decodes what follows the body.
func (t *Txn) decodeDigest(b []byte) error {
	switch {
	case len(b) == 0:
	case len(b) != digestSize:
		return fmt.Errorf("%d bytes after the transaction", len(b))
	case binary.BigEndian.Uint32(b) == 2:
		digest := binary.BigEndian.Uint64(b[4:])
		t.Digest = &digest
	}
	return nil
}

// decodeClose decodes the body of closeSession, which may be absent, and returns the rest.
func (t *Txn) decodeClose(b []byte) ([]byte, error) {
	t.Ops = []datatree.Op{{Kind: datatree.OpCloseSession, Result: jute.OpCloseSession}}
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
			t.Ops[0].Paths = paths
			return b[len(b)-digest:], nil
		}
	}
	return nil, errors.New("a closeSession with impossible paths")
}

// decodeMulti decodes the elements of a multi. One error voids all of them, although those
// before it look valid.
func (t *Txn) decodeMulti(d *jute.Decoder) error {
	n, _ := d.Count(4 + 4)
	t.Multi = true
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
	if !failed {
		return nil
	}
	for i := range t.Ops {
		t.Ops[i] = datatree.Op{Kind: datatree.OpError, Result: jute.OpError, Code: t.Ops[i].Code}
	}
	return nil
}

// decodeOp decodes the body, of up to size bytes, of a transaction or of an element of a multi.
func (t *Txn) decodeOp(d *jute.Decoder, kind int32, size int) error {
	o := datatree.Op{Result: jute.OpCode(kind)}
	switch kind {
	case txnCreate, txnCreate2, txnCreateContainer, txnCreateTTL:
		decodeCreate(d, &o, kind, t.Session)
	case txnDelete, txnDeleteContainer:
		o.Kind, o.Result, o.Path = datatree.OpDelete, jute.OpDelete, d.String()
	case txnSetData, txnReconfig:
		o.Kind, o.Result, o.Path, o.Data, o.Version = datatree.OpSetData, jute.OpSetData, d.String(), d.Buffer(), d.Int32()
	case txnSetACL:
		o.Kind, o.Path, o.ACL, o.Version = datatree.OpSetACL, d.String(), d.ACLs(), d.Int32()
	case txnCreateSession:
		o.Kind, o.TimeoutMs = datatree.OpAdoptSession, d.Int32()
	case txnCheck:
		o.Kind = datatree.OpCheck
		d.NullString()
		d.Int32()
	case txnError:
		o.Kind, o.Code = datatree.OpError, jute.Code(d.Int32())
	default:
		return fmt.Errorf("a transaction of unknown type %d, of %d bytes", kind, size)
	}
	if d.Err() != nil {
		return d.Err()
	}
	switch o.Kind {
	case datatree.OpCreate, datatree.OpDelete, datatree.OpSetData, datatree.OpSetACL:
		if err := checkPaths(o.Path); err != nil {
			return err
		}
	}
	if o.Path == "/" { // the tree's name of the root is empty
		o.Path = ""
	}
	t.Ops = append(t.Ops, o)
	return nil
}

func decodeCreate(d *jute.Decoder, o *datatree.Op, kind int32, session jute.SessionID) {
	o.Kind = datatree.OpCreate
	o.Path, o.Data, o.ACL = d.String(), d.Buffer(), d.ACLs()
	switch kind {
	case txnCreateContainer:
		o.Owner, o.Result = jute.OwnerContainer, jute.OpCreate2
	case txnCreate, txnCreate2:
		if d.Bool() {
			o.Owner = jute.OwnerSession(session)
		}
	}
	if kind == txnCreate && len(d.Rest()) == 0 { // a log of 3.3
		o.Cversion = -1
		return
	}
	o.Cversion = d.Int32()
	if kind == txnCreateTTL {
		ttl := d.Int64()
		if ttl <= 0 || ttl > jute.MaxTTL {
			d.Fail(fmt.Errorf("a time to live of %d ms", ttl))
		}
		o.Owner, o.Result = jute.OwnerTTL(ttl), jute.OpCreate2
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
