package zab

import (
	"testing"

	"github.com/zkd-project/zkd/internal/testing/golden"
)

// record is what the log or a hello has of the package.
type record interface {
	Append([]byte) []byte
	Decode([]byte) error
}

// kept reads a record, and writes it again.
func kept[R any, P interface {
	*R
	record
}](b []byte) (any, []byte, error) {
	v := P(new(R))
	err := v.Decode(b)
	return v, v.Append([]byte{}), err
}

// TestFormats reads records as they were written once: those of the log and of hellos, and each message.
func TestFormats(t *testing.T) {
	message := func(b []byte) (any, []byte, error) {
		var m Message
		err := m.Decode(b)
		return m, m.Append(nil), err
	}
	formats := map[string]golden.Format{
		"admission": kept[Admission],
		"marker":    kept[Marker],
		"members":   kept[Members],
		"state":     kept[State],
		"notes":     kept[Notes],
		"starts": func(b []byte) (any, []byte, error) {
			list, err := DecodeStarts(b)
			return list, AppendStarts(nil, list), err
		},
	}
	for k := MessageKind(1); k <= lastMessageKind; k++ {
		formats[k.String()] = message
	}
	golden.Run(t, "testdata/formats.golden", formats)
}
