package data

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// DumpLog writes a line for each segment and record of a log, with the effect of each
// transaction but without data. path is dataLogDir, the directory of the segments, or one
// segment. DumpLog changes nothing, and works on a damaged log and on that of a running
// server.
func DumpLog(w io.Writer, path string) error {
	fsys := vfs.OS{}
	info, err := fsys.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("dump log: %w", err)
	case !info.IsDir():
		return wal.DumpSegment(w, fsys, path, describe)
	case !wal.HasSegments(fsys, path):
		path = LogDir(path)
	}
	if !wal.HasSegments(fsys, path) {
		return fmt.Errorf("dump log: there are no segments of a log in %s", path)
	}
	return wal.Dump(w, fsys, path, describe)
}

// describe renders the payload of a record, without secrets.
func describe(r wal.Record) string {
	text, err := "", error(nil)
	switch r.Kind {
	case wal.Append:
		text, err = describeEntry(EntryOf(&r))
	case wal.Promise:
		text, err = describePromise(r.Payload)
	case wal.Ident:
		text, err = describeIdent(r.Payload)
	case wal.Snapshot:
		text, err = describeSnapshot(&r)
	case wal.Notes:
		text, err = describeNotes(r.Payload)
	case wal.Truncate:
		text = "the entries after it are dropped"
	case wal.CommitHint:
		text = "it and what is before it is committed"
	case wal.Forget:
		text = "the snapshots before it are forgotten"
	}
	if err != nil {
		return err.Error()
	}
	return text
}

func describePromise(b []byte) (string, error) {
	if len(b) == 0 {
		return "none", nil
	}
	p, err := decodePromise(b)
	return fmt.Sprintf("epoch %d to server %d", p.Epoch, p.To), err
}

func describeIdent(b []byte) (string, error) {
	id, err := datadirs.DecodeIdentity(b)
	text := fmt.Sprintf("incarnation %x of %s, cluster %x", id.Incarnation, datadirs.BelongsTo(id.Server, id.Incarnation), id.Cluster)
	if id.Replaced != (zab.ID{}) {
		text += fmt.Sprintf(", in the place of %x", id.Replaced)
	}
	if id.Unproven {
		text += ", made without its data"
	}
	return text, err
}

func describeNotes(b []byte) (string, error) {
	var n zab.Notes
	err := n.Decode(b)
	var text strings.Builder
	fmt.Fprintf(&text, "%d starts", len(n.Starts))
	if len(n.Starts) > 0 {
		fmt.Fprintf(&text, ", the last one at record %d", n.Starts[len(n.Starts)-1].Position)
	}
	for _, s := range n.Sightings {
		fmt.Fprintf(&text, "; server %d (%s) was seen at record %d of its log", s.Server, datadirs.ShortID(s.Incarnation), s.Position)
	}
	return text.String(), err
}

func describeSnapshot(r *wal.Record) (string, error) {
	ref, err := r.SnapRef()
	text := fmt.Sprintf("%s, %d bytes, CRC32C %08x", ref.Name, ref.Size, ref.CRC)
	if ref.Installed {
		text += ", installed: it replaces the history before it"
	}
	return text, err
}

// describeEntry renders an entry of any type.
func describeEntry(e zab.Entry) (text string, err error) {
	if err := e.Check(); err != nil {
		return "", err
	}
	switch e.Type {
	case zab.EntryMarker:
		return describeMarker(e.Data)
	case zab.EntryMembers:
		var m zab.Members
		err := m.Decode(e.Data)
		return fmt.Sprintf("members: %d servers", len(m.List)), err
	}
	if e.Type != zab.EntryTxn { // it begins with an admission
		var a zab.Admission
		if err := a.Decode(e.Data); err != nil {
			return "", err
		}
		text = fmt.Sprintf("admits server %d with incarnation %x", a.Server, a.Incarnation)
	}
	if data := e.Txn(); data != nil {
		var txn string
		if txn, err = describeTxn(data); text != "" {
			text += "; "
		}
		text += txn
	}
	return text, err
}

func describeMarker(data []byte) (string, error) {
	var m zab.Marker
	err := m.Decode(data)
	text := fmt.Sprintf("begin of the epoch, %s, leader %d", logTime(m.TimeMs), m.Leader)
	if m.Init != nil {
		text += fmt.Sprintf(", begin of ensemble %x with", m.Init.Cluster)
		for _, a := range m.Admitted {
			text += fmt.Sprintf(" server %d (%s)", a.Server, datadirs.ShortID(a.Incarnation))
		}
	}
	if m.Alone {
		text += ", of a server alone"
	}
	return text, err
}

func logTime(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

func describeTxn(data []byte) (string, error) {
	txn, err := datatree.DecodeTxn(data)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s session %v cxid %d", logTime(txn.Time), txn.Session, txn.Cxid)
	if txn.Err != 0 {
		fmt.Fprintf(&b, " refused: %v", txn.Err)
	}
	for i := range txn.Ops {
		b.WriteString("; " + describeOp(&txn.Ops[i]))
	}
	return b.String(), nil
}

func describeOp(op *datatree.Op) string {
	switch op.Kind {
	case datatree.OpNone:
		return "nothing"
	case datatree.OpCreate:
		return fmt.Sprintf("create %q, %d bytes", op.Path, len(op.Data))
	case datatree.OpDelete:
		return fmt.Sprintf("delete %q", op.Path)
	case datatree.OpSetData:
		return fmt.Sprintf("set %q, %d bytes, version %d", op.Path, len(op.Data), op.Version)
	case datatree.OpSetACL:
		return fmt.Sprintf("set ACL of %q, version %d", op.Path, op.Version)
	case datatree.OpCheck:
		return "check"
	case datatree.OpError:
		return fmt.Sprintf("refused: %d", int32(op.Code))
	case datatree.OpCreateSession:
		return fmt.Sprintf("create session, timeout %d ms", op.TimeoutMs)
	case datatree.OpCloseSession:
		if len(op.Paths) == 0 {
			return "close session"
		}
		return fmt.Sprintf("close session, %d ephemerals", len(op.Paths))
	case datatree.OpAdoptSession:
		return fmt.Sprintf("create session of Apache's server, timeout %d ms", op.TimeoutMs)
	case datatree.OpSetTimeout:
		return fmt.Sprintf("resume session, timeout %d ms", op.TimeoutMs)
	case datatree.OpSetOwner:
		return "the connection owns the session"
	case datatree.OpExactlyOnce:
		return "the session is exactly-once"
	}
	return fmt.Sprintf("op %d", op.Kind)
}
