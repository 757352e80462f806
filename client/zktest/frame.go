package zktest

import (
	"github.com/zkd-project/zkd/internal/frames"
	"github.com/zkd-project/zkd/jute"
)

// maxFrame is the largest valid length of a frame. Anything larger begins another protocol: a
// four-letter word, or TLS.
const maxFrame = 256 << 20

// splitter cuts one direction of a connection into frames. Bytes that are not frames make it
// opaque: it then returns what has arrived.
type splitter struct {
	buf    []byte // not returned yet
	opaque bool
}

// feed adds a copy of what was read.
func (s *splitter) feed(b []byte) { s.buf = append(s.buf, b...) }

// next returns the next frame with its length, or nil if it is not complete yet. The frame is
// valid until the next feed.
func (s *splitter) next() []byte {
	n := len(s.buf)
	if !s.opaque {
		payload, _, ok, err := frames.Cut(s.buf, maxFrame, "")
		switch s.opaque = err != nil; {
		case ok:
			n = 4 + len(payload)
		case !s.opaque:
			return nil
		}
	}
	if n == 0 {
		return nil
	}
	frame := s.buf[:n:n]
	s.buf = s.buf[n:]
	return frame
}

// request is a client's request.
type request struct {
	xid   int32
	op    jute.OpCode
	paths []string // one, or several of a multi; "" for operations without a path
	watch bool     // it is a read that sets a watch
}

// parseRequest reads a frame of a client with its length. Fields that it can't read stay
// zero.
func parseRequest(frame []byte) (r request) {
	d := jute.NewDecoder(frame[4:])
	var h jute.RequestHeader
	h.Decode(&d)
	if d.Err() != nil {
		return request{paths: []string{""}}
	}
	r.xid, r.op = h.Xid, h.Type
	switch h.Type {
	case jute.OpMulti, jute.OpMultiRead:
		var m jute.MultiRequest
		m.Decode(&d)
		for _, op := range m.Ops {
			r.paths = append(r.paths, op.Path)
		}
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpExists,
		jute.OpGetData, jute.OpSetData, jute.OpGetACL, jute.OpSetACL, jute.OpGetChildren, jute.OpGetChildren2,
		jute.OpSync, jute.OpCheck, jute.OpCheckWatches, jute.OpRemoveWatches, jute.OpAddWatch,
		jute.OpGetEphemerals, jute.OpGetAllChildrenNumber, jute.OpChildrenPage, jute.OpSubtreePage, jute.OpPast, jute.OpSubscribe:
		if path, ok := d.NullString(); ok && d.Err() == nil {
			r.paths = []string{path}
			switch h.Type {
			case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
				r.watch = d.Bool()
			}
		}
	}
	if len(r.paths) == 0 {
		r.paths = []string{""}
	}
	return r
}

// parseReply reads the header of a frame of a server with its length.
func parseReply(frame []byte) (h jute.ReplyHeader, ok bool) {
	d := jute.NewDecoder(frame[4:])
	h.Decode(&d)
	return h, d.Err() == nil
}

// parseEvent reads an event of a watch with its length.
func parseEvent(frame []byte) (e jute.WatcherEvent, ok bool) {
	d := jute.NewDecoder(frame[4:])
	var h jute.ReplyHeader
	h.Decode(&d)
	e.Decode(&d)
	return e, d.Err() == nil
}

// parseConnected reads a server's answer to a connect request.
func parseConnected(frame []byte) (r jute.ConnectResponse, ok bool) {
	d := jute.NewDecoder(frame[4:])
	r.Decode(&d)
	return r, d.Err() == nil
}
