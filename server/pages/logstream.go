package pages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/admin"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/wal"
)

const (
	// streamBytes is roughly how much of the log is sent at a time.
	streamBytes = 256 << 10
	// streamLook is how often a stream looks for new entries, and streamIdle how often it says
	// that there are none.
	streamLook = 100 * time.Millisecond
	streamIdle = time.Second
)

// logStream reads the committed entries of the log for somebody who keeps them: see package
// archive. It belongs to the goroutine of an HTTP request.
type logStream struct {
	now      func() time.Duration
	stopping <-chan struct{}
	log      *wal.Writer
	state    *state.State
	enc      archive.Encoder
	begun    []byte      // the header, until it is sent
	at       jute.Zxid   // of the last entry that was sent
	reader   *wal.Reader // after at; nil between two looks
	known    jute.Zxid   // the entries of reader up to this one are committed
	told     time.Duration
	behind   bool // no position was sent since the last entry
}

// HistoryID names the history of this server.
func (f *Server) HistoryID() history.ID {
	if cluster, ok := f.State.Cluster(); ok {
		return history.ID(cluster)
	}
	return history.ID(f.Incarnation)
}

// FollowLog implements admin.Server.
func (f *Server) FollowLog(after int64, of string) (admin.LogStream, int, string) {
	id, zxid := f.HistoryID(), jute.Zxid(after)
	if of != "" && of != fmt.Sprintf("%x", id[:]) {
		return nil, http.StatusConflict, fmt.Sprintf("The history of this server is %v, another one", id)
	}
	if applied := f.State.Applied(); zxid > applied {
		return nil, http.StatusServiceUnavailable, fmt.Sprintf("This server has applied what is up to %v", applied)
	}
	l := &logStream{now: f.Now, stopping: f.Stopping, log: f.Log, state: f.State, at: zxid, behind: true}
	l.begun = l.enc.AppendHeader(nil, &archive.Header{History: id, After: zxid})
	switch err := l.open(); {
	case errors.Is(err, wal.ErrPurged):
		return nil, http.StatusGone, fmt.Sprintf("The log of this server does not reach back to %v", zxid)
	case errors.Is(err, wal.ErrDiscontinuous):
		return nil, http.StatusConflict, fmt.Sprintf("There is no entry %v in the history of this server", zxid)
	case err != nil:
		return nil, http.StatusInternalServerError, err.Error()
	}
	return l, 0, ""
}

// open makes a reader of the entries after at.
func (l *logStream) open() (err error) {
	l.reader, err = l.log.NewReader(l.at)
	return err
}

// Close implements admin.LogStream.
func (l *logStream) Close() error {
	if l.reader == nil {
		return nil
	}
	r := l.reader
	l.reader = nil
	return r.Close()
}

// Next implements admin.LogStream.
func (l *logStream) Next(ctx context.Context) ([]byte, error) {
	if b := l.begun; b != nil {
		l.begun = nil
		return b, nil
	}
	look := time.NewTicker(streamLook)
	defer look.Stop()
	for {
		if applied := l.state.Applied(); applied > l.at {
			b, err := l.read(applied)
			if len(b) > 0 || err != nil {
				l.behind = true
				return b, err
			}
		} else if now := l.now(); l.behind || now-l.told >= streamIdle {
			l.behind, l.told = false, now
			return l.enc.AppendPosition(nil, l.at), nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-l.stopping:
			return nil, io.EOF
		}
	}
}

// read returns some entries after at, if there are any that are committed for certain. Up to
// applied they are, but the log may have others there: what a new leader drops may still be in
// it, and the record that drops it is written after a while. Once the log has the entry applied,
// it has the history up to it, and nothing else: each entry names the one before.
func (l *logStream) read(applied jute.Zxid) (b []byte, err error) {
	if l.at >= l.known {
		probe, err := l.log.NewReader(applied)
		if errors.Is(err, wal.ErrDiscontinuous) {
			return nil, nil // it is not written yet
		} else if err != nil {
			return nil, err
		}
		if err := errors.Join(probe.Close(), l.Close()); err != nil {
			return nil, err
		}
		l.known = applied
	}
	if l.reader == nil {
		if err := l.open(); err != nil {
			return nil, err
		}
	}
	records, err := l.reader.Next(streamBytes)
	if errors.Is(err, wal.ErrRewritten) {
		return nil, l.Close()
	}
	for i := range records {
		if records[i].Zxid > l.known {
			return b, l.Close() // it is read again when it is committed
		}
		e := data.EntryOf(&records[i])
		b = l.enc.AppendEntry(b, &e)
		l.at = e.Zxid
	}
	return b, err
}
