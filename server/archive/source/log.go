package source

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/zab"
)

const (
	// silence is how long a server may send nothing. Of a log, it says each second that there is nothing.
	silence = 20 * time.Second
	// snapshotWithin is how long a server may take to make a snapshot.
	snapshotWithin = 10 * time.Minute
)

// patience gives a server up that is silent for too long.
type patience struct {
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	quiet  *time.Timer  // runs while something is waited for
	heard  atomic.Int64 // when something came, in ns since begun
	begun  time.Time
}

// newPatience waits for so long for an answer.
func newPatience(ctx context.Context, answer time.Duration) *patience {
	p := &patience{begun: time.Now()}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	p.quiet = time.AfterFunc(answer, func() { p.cancel(errors.New("nothing was heard for too long")) })
	return p
}

// hear notes that something came.
func (p *patience) hear() { p.heard.Store(int64(time.Since(p.begun))) }

// Silent returns how long ago something came of the server. It may be called from any goroutine.
func (p *patience) Silent() time.Duration { return time.Since(p.begun) - time.Duration(p.heard.Load()) }

// end is called when no more is read.
func (p *patience) end() {
	p.quiet.Stop()
	p.cancel(nil)
}

// error returns why the server was given up, if it was, or else err.
func (p *patience) error(err error) error {
	if err != nil && p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	return err
}

// patient is what a server sends. Only the time of a Read counts as waiting: what is done with the bytes may take any time.
type patient struct {
	io.Reader
	*patience
}

func (p patient) Read(b []byte) (int, error) {
	p.quiet.Reset(silence)
	defer p.quiet.Stop()
	n, err := p.Reader.Read(b)
	if n > 0 {
		p.hear()
	}
	return n, err
}

// ErrPurged means that a server has no longer what follows a zxid.
var ErrPurged = errors.New("the server no longer has the log after it")

// Log is what a server sends of its log.
type Log struct {
	Admin string // the URL that was asked

	servers *Servers
	after   copies.Point
	*patience
	body   io.Closer
	frames *archive.Decoder
}

// Another has another server be asked the next time.
func (s *Servers) Another() {
	if len(s.Admins) > 1 {
		s.Admins = append(s.Admins[1:len(s.Admins):len(s.Admins)], s.Admins[0])
	}
}

// Log asks a server for what follows a point of a history. The log must be closed. Its errors are those
// of one server: another one may have what this one lacks. They can be an [ErrPurged], or a [Refused].
func (s *Servers) Log(ctx context.Context, after copies.Point) (*Log, error) {
	admin, err := s.choose(ctx)
	if err != nil {
		return nil, err
	}
	l := &Log{Admin: admin, servers: s, after: after, patience: newPatience(ctx, silence)}
	if err := l.open(s, after); err != nil {
		err = l.named(err)
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Log) open(s *Servers, after copies.Point) error {
	resp, err := s.get(l.ctx, fmt.Sprintf("%s/commands/log?after=%v&history=%x%s", l.Admin, after.Zxid, after.History[:], s.compressed()))
	if err != nil {
		return err
	}
	l.body = resp.Body
	if err := streamRefusal(resp); err != nil {
		return err
	}
	l.frames, err = archive.NewDecoder(bufio.NewReaderSize(s.limit(l.ctx, patient{resp.Body, l.patience}), 256<<10))
	if err == nil && !copies.Begins(after, copies.Point{History: zab.ID(l.frames.History), Zxid: l.frames.After}) {
		err = fmt.Errorf("the server sends what follows %v of history %v", l.frames.After, l.frames.History)
	}
	return err
}

// Behind returns for how long the server has not had all, if it is a copy itself, when it last had nothing more to send.
func (l *Log) Behind() time.Duration { return l.frames.Behind }

// ErrNotTold means that a server is of a version that does not tell what is left of its log.
var ErrNotTold = errors.New("the server does not tell what is left of its log")

// Left asks the server how much it has after a zxid. Another goroutine may call it while the log is read: the answer does not wait for what
// is under way.
func (l *Log) Left(ctx context.Context, after jute.Zxid) (left copies.Left, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	resp, err := l.servers.get(ctx, fmt.Sprintf("%s/commands/log?left=true&after=%v&history=%x", l.Admin, after, l.after.History[:]))
	if err != nil {
		return left, err
	}
	defer resp.Body.Close() // it was only read
	switch {
	case resp.StatusCode != http.StatusOK:
		return left, refusal(resp)
	case resp.Header.Get("Content-Type") != "application/json":
		return left, ErrNotTold // it sends the log
	}
	var answer struct {
		Zxid     string   `json:"zxid"`
		Entries  int64    `json:"entries"`
		Bytes    int64    `json:"bytes"`
		BehindMs int64    `json:"behind_ms"`
		Via      []string `json:"via"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&answer); err != nil {
		return left, err
	}
	l.hear()
	zxid, err := strconv.ParseUint(strings.TrimPrefix(answer.Zxid, "0x"), 16, 63)
	left = copies.Left{Zxid: jute.Zxid(zxid), Entries: answer.Entries, Bytes: answer.Bytes, Behind: time.Duration(answer.BehindMs) * time.Millisecond}
	for _, text := range answer.Via {
		var id zab.ID
		hex.Decode(id[:], []byte(text[:min(len(text), 2*len(id))])) // what is none is nobody's
		left.Via = append(left.Via, id)
	}
	return left, err
}

// GiveUp has Next return an error.
func (l *Log) GiveUp(err error) { l.cancel(err) }

// Next waits for the next entry, which the caller owns. It is nil when the server has nothing more at the
// moment.
func (l *Log) Next() (*zab.Entry, error) {
	e, err := l.frames.Next()
	if errors.Is(err, io.EOF) {
		err = errors.New("the server ended the stream")
	}
	if err != nil {
		return nil, l.named(err)
	}
	return e, nil
}

// named returns the error with the server's name.
func (l *Log) named(err error) error { return fmt.Errorf("%s: %w", l.Admin, l.error(err)) }

// Close ends the stream.
func (l *Log) Close() {
	l.end()
	if l.body != nil {
		l.body.Close() // it was only read
	}
}

// streamRefusal returns the error of an answer that is not a stream.
func streamRefusal(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusOK:
		if resp.Header.Get("Content-Type") == "application/octet-stream" {
			return nil
		} // else it says why not: it does not serve, or has no such command
	case http.StatusGone:
		return ErrPurged
	case http.StatusConflict:
		return Refused{fmt.Errorf("%w: follow this ensemble into another directory", refusal(resp))}
	}
	return refusal(resp)
}
