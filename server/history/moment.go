package history

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// Moment is a point of a history: after the transaction with a zxid, or before the first one
// that is later than a time by the clock of its leader. The zero Moment is the end.
type Moment struct {
	Zxid jute.Zxid // 0 if Time counts
	Time time.Time
}

// ParseMoment reads a zxid in hex or a time; the other one is empty. If both are, the moment is the end.
func ParseMoment(zxid, at string) (m Moment, err error) {
	switch {
	case zxid != "" && at != "":
		return m, errors.New("give a zxid or a time, not both")
	case zxid != "":
		n, err := strconv.ParseInt(strings.TrimPrefix(zxid, "0x"), 16, 64)
		if err != nil || n <= 0 {
			return m, fmt.Errorf("%q is no zxid, such as 0x100000002", zxid)
		}
		m.Zxid = jute.Zxid(n)
	case at != "":
		if m.Time, err = time.Parse(time.RFC3339, at); err != nil {
			return m, fmt.Errorf("%q is no time, such as 2026-11-22T14:05:00Z or 2026-11-22T15:05:00+01:00", at)
		}
	}
	return m, nil
}

// Before reports whether the moment is before an entry.
func (m *Moment) Before(e *zab.Entry) (bool, error) {
	if m.Zxid != 0 {
		return e.Zxid > m.Zxid, nil
	}
	ms, err := TimeOf(e)
	return ms > m.Time.UnixMilli(), err
}

// TimeOf returns the time of an entry by the clock of its leader, in ms since the Unix epoch, or
// 0 if it has none.
func TimeOf(e *zab.Entry) (int64, error) {
	switch e.Type {
	case zab.EntryMarker:
		var m zab.Marker
		err := m.Decode(e.Data)
		return m.TimeMs, err
	case zab.EntryMembers:
		var m zab.Members
		err := m.Decode(e.Data)
		return m.TimeMs, err
	}
	data := e.Txn()
	if data == nil {
		return 0, nil
	}
	txn, err := datatree.DecodeTxn(data)
	return txn.Time, err
}
