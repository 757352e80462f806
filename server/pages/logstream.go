package pages

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/admin"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

const (
	// streamLook is how often a stream looks for new entries, and streamIdle how often it says
	// that there are none.
	streamLook = 20 * time.Millisecond
	streamIdle = time.Second
	// streamAlone is how long a server keeps a stream that neither leads nor follows: the others may have more, and an election takes no
	// longer.
	streamAlone = 10 * time.Second
)

// logStream reads the committed entries of the log for somebody who keeps them: see package
// archive. It belongs to the goroutine of an HTTP request.
type logStream struct {
	*data.Committed
	now      func() time.Duration
	stopping <-chan struct{}
	state    *state.State
	lacks    func() copies.Left // of Server
	alone    func() bool        // isAlone of Server
	served   time.Duration      // when it was not at a look
	enc      archive.Encoder
	begun    []byte        // the header, until it is sent
	told     time.Duration // when a position was sent
	owes     bool          // no position was sent since the last entry
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
	if status, problem := f.sends(id, zxid, of); status != 0 {
		return nil, status, problem
	}
	entries, err := data.ReadCommitted(f.Log, zxid)
	if err != nil {
		status, problem := noLog(id, zxid, err)
		return nil, status, problem
	}
	l := &logStream{Committed: entries, now: f.Now, stopping: f.Stopping, state: f.State, lacks: f.Lacks, alone: f.isAlone, served: f.Now(), owes: true}
	l.begun = l.enc.AppendHeader(nil, &archive.Header{History: id, After: zxid})
	return l, 0, ""
}

// sends returns why a copy at a zxid of the history with the name of, unless that is empty, is not sent what follows.
func (f *Server) sends(id history.ID, zxid jute.Zxid, of string) (status int, problem string) {
	applied, at := f.State.Applied(), copies.Point{History: zab.ID(id), Zxid: zxid}
	if of != "" {
		at.History = parseHistory(of)
	}
	switch copies.Sends(copies.Point{History: zab.ID(id), Zxid: applied}, at) {
	case copies.OtherHistory:
		return http.StatusConflict, fmt.Sprintf("The history of this server is %v, another one", id)
	case copies.Behind:
		return http.StatusServiceUnavailable, fmt.Sprintf("This server has applied what is up to %v", applied)
	}
	return 0, ""
}

// noLog returns what the error means with which the log can't be read after a zxid.
func noLog(id history.ID, zxid jute.Zxid, err error) (status int, problem string) {
	switch {
	case errors.Is(err, wal.ErrPurged):
		return http.StatusGone, fmt.Sprintf("The log of this server does not reach back to %v", zxid)
	case errors.Is(err, wal.ErrDiscontinuous):
		return http.StatusConflict, fmt.Sprintf("There is no entry %v in the history of this server", zxid)
	}
	return http.StatusInternalServerError, err.Error()
}

// LogLeft implements admin.Server.
func (f *Server) LogLeft(after int64, of string) (l copies.Left, status int, problem string) {
	id, zxid := f.HistoryID(), jute.Zxid(after)
	if status, problem := f.sends(id, zxid, of); status != 0 {
		return l, status, problem
	}
	var more copies.Left
	if f.Lacks != nil {
		more = f.Lacks() // before the look at what this copy has
	} else if f.isAlone() {
		more = copies.Left{Entries: -1, Bytes: -1, Behind: -1}
	}
	r, err := f.Log.NewReader(zxid)
	if err != nil {
		status, problem := noLog(id, zxid, err)
		return l, status, problem
	}
	defer r.Close() // it was only read
	f.State.RLock()
	l = copies.LeftAfter(&f.State.Ensemble, zxid, r.Ahead())
	f.State.RUnlock()
	if f.Lacks != nil {
		l.Via = []zab.ID{f.Incarnation}
	}
	return l.Add(more), 0, ""
}

// isAlone reports whether others may have more than this server, which neither leads nor follows.
func (f *Server) isAlone() bool { return f.InService != nil && !f.InService() }

// parseHistory reads the id of a history. What is none gives the zero id, which no history has.
func parseHistory(text string) (id zab.ID) {
	if b, err := hex.DecodeString(text); err == nil && len(b) == len(id) {
		copy(id[:], b)
	}
	return id
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
		if b, err := l.look(); len(b) > 0 || err != nil {
			return b, err
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

// look returns what there is to send: entries, and a position if the receiver has all then. While entries come without
// a pause, there is a position after each look nevertheless. A copy that never had all sends none, and nor does a server that does not know what the
// others have; before long its stream ends.
func (l *logStream) look() (b []byte, err error) {
	lag := time.Duration(0)
	if l.lacks != nil {
		lag = l.lacks().Behind
	}
	now := l.now()
	if l.alone() {
		lag = -1
	} else {
		l.served = now
	}
	applied := l.state.Applied() // after the look at lag, so that this is true of what was applied by then
	if applied > l.At() {
		if b, err = l.read(applied); err != nil {
			return nil, err
		}
		l.owes = l.owes || len(b) > 0
	}
	switch {
	case lag >= 0 && l.At() >= applied && (l.owes || now-l.told >= streamIdle):
		l.owes, l.told = false, now
		b = l.enc.AppendPosition(b, l.At(), lag)
	case len(b) == 0 && now-l.served >= streamAlone:
		return nil, io.EOF
	}
	return b, nil
}

// read returns some entries after at, as they are sent.
func (l *logStream) read(applied jute.Zxid) (b []byte, err error) {
	list, err := l.Committed.Next(applied)
	for i := range list {
		b = l.enc.AppendEntry(b, &list[i])
	}
	return b, err
}
