package client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zkd-project/zkd/internal/frames"
)

// input reads frames from a connection.
type input struct {
	*frames.Reader
	onPart func(xid int32) // a part of a frame has come
}

func newInput(r io.Reader, most int) *input {
	return &input{frames.New(r, most, "Options.MaxReply"), func(int32) {}}
}

// next returns the payload of the next frame, valid until the next call. At the end of the
// input it returns io.EOF.
func (f *input) next() ([]byte, error) {
	for {
		frame, ok, err := f.Next()
		if ok {
			return frame, nil
		}
		ahead := f.Ahead()
		if e, wrong := errors.AsType[*frames.LengthError](err); wrong && (e.Bytes < 0 || isText(ahead[:4])) {
			line, _, _ := bytes.Cut(ahead[:min(len(ahead), 80)], []byte("\r"))
			return nil, fmt.Errorf("%w: it says %q", ErrNotZooKeeper, line)
		}
		if err != nil {
			return nil, err
		}
		if len(ahead) >= 8 {
			f.onPart(int32(binary.BigEndian.Uint32(ahead[4:])))
		}
		if _, err := f.Fill(); err != nil {
			if errors.Is(err, io.EOF) && len(ahead) >= 4 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// isText reports whether the bytes are letters of a text protocol such as HTTP, not a length.
func isText(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c < ' ' || c > '~' })
}
