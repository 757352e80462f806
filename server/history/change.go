package history

import (
	"fmt"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// Change is what a transaction did to a znode.
type Change struct {
	Zxid    jute.Zxid
	Time    time.Time      // by the clock of the leader
	Session jute.SessionID // 0 for the servers themselves
	Op      string         // create, set, setACL, delete, or expire: its session ended
	Path    string
	Bytes   int   // of the data that a create or a set has written
	Version int32 // of the data or of the ACL, after a set
	Xid     int32 // of the session's request
	Of      int   // how many operations the transaction has
}

// String returns a line for people.
func (c *Change) String() string {
	s := fmt.Sprintf("%s  %v  session 0x%x  %s %s", c.Time.UTC().Format("2006-01-02T15:04:05.000Z"), c.Zxid, int64(c.Session), c.Op, c.Path)
	switch c.Op {
	case "create":
		s += fmt.Sprintf("  %d bytes", c.Bytes)
	case "set":
		s += fmt.Sprintf("  %d bytes, version %d", c.Bytes, c.Version)
	case "setACL":
		s += fmt.Sprintf("  version %d", c.Version)
	}
	return s
}

// ChangeDoc is a Change in JSON.
type ChangeDoc struct {
	Time    time.Time `json:"time"`
	Zxid    string    `json:"zxid"`
	Session string    `json:"session"`
	Op      string    `json:"op"`
	Path    string    `json:"path"`
	Bytes   int       `json:"bytes"`
	Version int32     `json:"version"`
}

// JSON returns the change for an encoder of JSON.
func (c *Change) JSON() ChangeDoc {
	return ChangeDoc{c.Time.UTC(), c.Zxid.String(), c.Session.String(), c.Op, c.Path, c.Bytes, c.Version}
}

// ChangesOf returns what an entry did to the znode at a path and, with below, to those below it.
func ChangesOf(e *zab.Entry, path string, below bool) (list []Change, err error) {
	data := e.Txn()
	if data == nil {
		return nil, nil
	}
	txn, err := datatree.DecodeTxn(data)
	if err != nil {
		return nil, fmt.Errorf("transaction %v: %w", e.Zxid, err)
	}
	add := func(op string, o *datatree.Op, at string) {
		if at == path || below && treediff.Below(at, path) {
			list = append(list, Change{txn.Zxid, time.UnixMilli(txn.Time), txn.Session, op, at, len(o.Data), o.Version, txn.Cxid, len(txn.Ops)})
		}
	}
	for i := range txn.Ops {
		switch o := &txn.Ops[i]; o.Kind {
		case datatree.OpCreate:
			add("create", o, o.Path)
		case datatree.OpDelete:
			add("delete", o, o.Path)
		case datatree.OpSetData:
			add("set", o, o.Path)
		case datatree.OpSetACL:
			add("setACL", o, o.Path)
		case datatree.OpCloseSession:
			for _, p := range o.Paths {
				add("expire", o, p)
			}
		}
	}
	return list, nil
}

// Span is a part of a history without a gap: the entries after a zxid up to another one.
type Span struct{ After, Last jute.Zxid }

// Known says what spans are known, and what is missing between them.
func Known(spans []Span) string {
	if len(spans) == 0 {
		return "no log is known"
	}
	var b strings.Builder
	for i, s := range spans {
		if i == 0 {
			fmt.Fprintf(&b, "known is what happened after zxid %v", s.After)
		} else {
			fmt.Fprintf(&b, ", and after %v", s.After)
		}
		fmt.Fprintf(&b, " up to %v", s.Last)
	}
	return b.String()
}
