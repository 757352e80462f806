package datatree

import (
	"errors"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/golden"
	"github.com/zkd-project/zkd/internal/wire"
	"github.com/zkd-project/zkd/jute"
)

// TestFormats reads transactions with each operation, and the rows of a snapshot, as they were written once.
func TestFormats(t *testing.T) {
	golden.Run(t, "testdata/formats.golden", map[string]golden.Format{
		"transaction": func(b []byte) (any, []byte, error) {
			txn, err := DecodeTxn(b)
			return txn, txn.Append(nil), err
		},
		"meta": func(b []byte) (any, []byte, error) {
			m, err := DecodeMeta(b)
			return m, AppendMeta(nil, &m), err
		},
		"node": func(b []byte) (any, []byte, error) {
			n, err := DecodeNode(b)
			return n, AppendNode(nil, &n), err
		},
		"outcomes": func(b []byte) (any, []byte, error) {
			list, err := decodeOutcomes(b)
			return list, appendOutcomes(nil, list), err
		},
		"acl": func(b []byte) (any, []byte, error) {
			key, err := decodeACLRow(b)
			if err != nil {
				return nil, nil, err
			}
			r := reader{wire.NewStringReader(key)}
			list := r.acl()
			return list, appendACL([]byte{}, list), nil
		},
		"session": func(b []byte) (any, []byte, error) {
			l := NewLoader()
			if err := l.addSession(jute.AppendInt64(nil, jute.SessionID(7)), b); err != nil {
				return nil, nil, err
			}
			s := l.tree.sessions.get(7)
			v := View{sessions: []session{{id: s.id, timeoutMs: s.timeoutMs, owner: s.owner, apache: s.apache, exact: s.exact, outcomes: s.outcomes}}}
			shown := v.sessions[0]
			var again Batch
			v.writeSession(&again)
			for row := range again.All() {
				return shown, row.Value, nil
			}
			return nil, nil, errors.New("no row")
		},
	})
}
