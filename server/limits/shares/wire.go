package shares

import (
	"encoding/binary"

	"github.com/zkd-project/zkd/internal/wire"
)

// AppendUses appends a report.
func AppendUses(b []byte, uses []Use) []byte {
	for i := range uses {
		u := &uses[i]
		b = append(b, u.Key[:]...)
		b = binary.AppendUvarint(b, uint64(u.Limit))
		b = binary.AppendUvarint(b, uint64(u.Used))
		short := byte(0)
		if u.Short {
			short = 1
		}
		b = append(b, short)
	}
	return b
}

// DecodeUses decodes a report.
func DecodeUses(b []byte) (uses []Use, err error) {
	f := wire.NewReader(b)
	for f.More() {
		if len(uses) == MostUses {
			return nil, wire.ErrMalformed
		}
		uses = append(uses, Use{readKey(&f), int64(f.UvarintTo(mostLimit)), int64(f.UvarintTo(mostLimit)), f.Bool()})
	}
	return uses, f.Err()
}

// AppendShares appends an answer.
func AppendShares(b []byte, list []Share) []byte {
	for i := range list {
		b = append(b, list[i].Key[:]...)
		b = binary.AppendUvarint(b, uint64(list[i].Rate))
	}
	return b
}

// DecodeShares decodes an answer.
func DecodeShares(b []byte) (list []Share, err error) {
	f := wire.NewReader(b)
	for f.More() {
		if len(list) == MostDivided {
			return nil, wire.ErrMalformed
		}
		list = append(list, Share{readKey(&f), int64(f.UvarintTo(2 * Scale * mostLimit))})
	}
	return list, f.Err()
}

func readKey(f *wire.Reader) (key Key) {
	copy(key[:], f.Take(len(key)))
	return key
}
