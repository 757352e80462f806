package server

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/wal"
)

// DumpLog writes a line for each segment and record of the log in dataLogDir:
// what each transaction did, without data. It changes nothing, and works on a
// damaged log and on that of a running server.
func DumpLog(w io.Writer, dataLogDir string) error {
	return wal.Dump(w, vfs.OS{}, logDir(dataLogDir), describe)
}

// describe renders the transaction of a record.
func describe(r wal.Record) string {
	if r.Kind != wal.Append {
		return ""
	}
	txn, err := datatree.DecodeTxn(r.Payload)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s session %v cxid %d", time.UnixMilli(txn.Time).UTC().Format("2006-01-02T15:04:05.000Z"), txn.Session, txn.Cxid)
	if txn.Err != 0 {
		fmt.Fprintf(&b, " refused: %v", txn.Err)
	}
	for i := range txn.Ops {
		b.WriteString("; " + describeOp(&txn.Ops[i]))
	}
	return b.String()
}

func describeOp(op *datatree.Op) string {
	switch op.Kind {
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
	case datatree.OpSetTimeout:
		return fmt.Sprintf("resume session, timeout %d ms", op.TimeoutMs)
	}
	return fmt.Sprintf("op %d", op.Kind)
}
