package apachefiles

import (
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// dir is the data directory of a server that a test makes.
type dir struct {
	t    testing.TB
	path string
}

func newDir(t testing.TB) dir {
	d := dir{t, t.TempDir()}
	d.check(os.Mkdir(filepath.Join(d.path, "version-2"), 0o700))
	return d
}

func (d dir) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d dir) write(name string, b []byte) {
	d.t.Helper()
	file := filepath.Join(d.path, "version-2", name)
	os.Remove(file) // ext4 waits for the disk where a file is cut off and written again
	d.check(os.WriteFile(file, b, 0o600))
}

func (d dir) load(o Options) (*Tree, *Summary, error) {
	s, err := Find(d.path, "")
	if err != nil {
		return nil, nil, err
	}
	return s.Load(o)
}

func (d dir) mustLoad(o Options) (*Tree, *Summary) {
	d.t.Helper()
	tree, sum, err := d.load(o)
	d.check(err)
	return tree, sum
}

// String renders what the transaction does.
func (x *Txn) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v", x.Zxid)
	for _, o := range x.Ops {
		switch o.Kind {
		case datatree.OpAdoptSession:
			fmt.Fprintf(&b, " %d %d", txnCreateSession, o.TimeoutMs)
		case datatree.OpCloseSession:
			fmt.Fprintf(&b, " %d %v", txnCloseSession, o.Paths)
		case datatree.OpCreate:
			fmt.Fprintf(&b, " %d %s v%d", txnCreate, o.Path, o.Cversion)
		case datatree.OpDelete, datatree.OpSetData, datatree.OpSetACL:
			kinds := map[datatree.OpKind]int{datatree.OpDelete: txnDelete, datatree.OpSetData: txnSetData, datatree.OpSetACL: txnSetACL}
			fmt.Fprintf(&b, " %d %s v%d", kinds[o.Kind], o.Path, o.Version)
		}
		if ttl, ok := o.Owner.TTL(); ok {
			fmt.Fprintf(&b, " ttl=%d", ttl)
		} else if o.Owner.Container() {
			b.WriteString(" container")
		} else if o.Owner.Ephemeral() {
			fmt.Fprintf(&b, " of %v", o.Owner.Session())
		}
	}
	return b.String()
}

// String renders all of the tree.
func (t *Tree) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "zxid %v, digest %x, sessions %v\n", t.Last, t.digest, t.Sessions)
	// fn returns none
	t.Walk(func(path string, n *Node) error {
		fmt.Fprintf(&b, "%s %q %t %v %+v\n", path, n.Data, n.Data == nil, n.ACL, n.Stat)
		return nil
	})
	return b.String()
}

// appendRecord appends a record of a log.
func appendRecord(b, payload []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(adler32.Checksum(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(append(b, payload...), recordEnd)
}

// logHeader returns the header of a log.
func logHeader() []byte {
	b := binary.BigEndian.AppendUint32(nil, logMagic)
	return append(binary.BigEndian.AppendUint32(b, fileVersion), make([]byte, 8)...)
}

// body builds the payload of a transaction.
type body []byte

func header(session jute.SessionID, zxid jute.Zxid, kind int32) body {
	return body(nil).long(int64(session)).int(1).long(int64(zxid)).long(1000 + int64(zxid)).int(kind)
}

func (b body) int(v int32) body       { return jute.AppendInt32(b, v) }
func (b body) long(v int64) body      { return jute.AppendInt64(b, v) }
func (b body) str(v string) body      { return jute.AppendString(b, v) }
func (b body) bytes(v []byte) body    { return jute.AppendBuffer(b, v) }
func (b body) bool(v bool) body       { return jute.AppendBool(b, v) }
func (b body) acls(v []jute.ACL) body { return jute.AppendACLs(b, v) }

func checksum(b []byte) uint32 { return adler32.Checksum(b) }
