package history

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// TransactionOf sets txn to the effect of an entry on the tree. Its slices share the
// entry's memory. An entry that is not a client's transaction advances the tree's zxid,
// and writes the list of members that clients can read if it has changed or was commanded.
func TransactionOf(e *zab.Entry, tree *datatree.Tree, txn *datatree.Txn) error {
	if data := e.Txn(); data != nil {
		return decodeTxn(e, data, txn)
	}
	*txn = datatree.Txn{Zxid: e.Zxid, Ops: txn.Ops[:0]}
	text, commanded, err := configText(e, txn)
	if err != nil {
		return err
	}
	if data, _ := tree.Data(datatree.ConfigPath); len(text) > 0 && (commanded || !sameConfig(data, text)) {
		data := fmt.Appendf(nil, "%sversion=%x", text, uint64(e.Zxid))
		txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpSetData, Path: datatree.ConfigPath, Data: data, Version: -1})
	}
	return nil
}

// decodeTxn sets txn to the transaction that an entry has as data.
func decodeTxn(e *zab.Entry, data []byte, txn *datatree.Txn) error {
	if err := txn.Decode(data); err != nil {
		return fmt.Errorf("transaction %v: %w", e.Zxid, err)
	}
	return nil
}

// configText returns the text of the list of members in an entry, or nil, and whether a
// command made the list. It sets the time of txn.
func configText(e *zab.Entry, txn *datatree.Txn) (text []byte, commanded bool, err error) {
	switch e.Type {
	case zab.EntryMarker:
		var m zab.Marker
		if err := m.Decode(e.Data); err != nil {
			return nil, false, fmt.Errorf("marker %v: %w", e.Zxid, err)
		}
		txn.Time = m.TimeMs
		return m.App, false, nil
	case zab.EntryMembers:
		var m zab.Members
		if err := m.Decode(e.Data); err != nil {
			return nil, false, fmt.Errorf("members %v: %w", e.Zxid, err)
		}
		txn.Time = m.TimeMs
		return slices.Concat(m.Text, demotedLine(&m)), m.Commanded, nil
	}
	return nil, false, nil
}

// demotedLine returns the line that tells clients which members autopilot has made observers,
// or nothing. It is a comment: other clients than zkcli skip it.
func demotedLine(m *zab.Members) (line []byte) {
	for i, id := range m.Demoted() {
		if i == 0 {
			line = []byte("# demoted by autopilot:")
		}
		line = fmt.Appendf(line, " %d", id)
	}
	if len(line) > 0 && len(m.Text) > 0 {
		line = append(line, '\n')
	}
	return line
}

// CheckReadable returns the reason why this version of zkd does not understand an entry, or
// nil.
func CheckReadable(e *zab.Entry) error {
	if err := e.Check(); err != nil {
		return err
	}
	if data := e.Txn(); data != nil {
		return datatree.CheckTxn(data)
	}
	return nil
}

// FormatOf returns the version of format.History that a server must read to have an entry, which
// is readable here.
func FormatOf(e *zab.Entry) uint32 {
	var list zab.Members
	switch data := e.Txn(); {
	case len(data) > 0:
		return uint32(data[0])
	case e.Type == zab.EntryMembers && list.Decode(e.Data) == nil:
		return list.Format()
	}
	return 1
}

// sameConfig reports whether the znode's data is text followed by a version.
func sameConfig(data, text []byte) bool {
	rest, ok := bytes.CutPrefix(data, text)
	return ok && bytes.HasPrefix(rest, []byte("version="))
}
