package source

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/zab"
)

// silence is how long a server may send nothing: it says each second that there is nothing.
const silence = 20 * time.Second

// ErrPurged means that a server has no longer what follows a zxid.
var ErrPurged = errors.New("the server no longer has the log after it")

// Log is what a server sends of its log.
type Log struct {
	Admin string // the URL that was asked

	ctx    context.Context
	cancel context.CancelCauseFunc
	quiet  *time.Timer
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
	l := &Log{Admin: admin}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.quiet = time.AfterFunc(silence, func() { l.cancel(fmt.Errorf("nothing was heard for %v", silence)) })
	if err := l.open(s, after); err != nil {
		err = l.error(err)
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Log) open(s *Servers, after copies.Point) error {
	url := fmt.Sprintf("%s/commands/log?after=%v&history=%x", l.Admin, after.Zxid, after.History[:])
	if s.Compress {
		url += "&compressed=true" // the transport asks for gzip by itself, and reads it
	}
	resp, err := s.get(l.ctx, url)
	if err != nil {
		return err
	}
	l.body = resp.Body
	if err := streamRefusal(resp); err != nil {
		return err
	}
	l.frames, err = archive.NewDecoder(bufio.NewReaderSize(s.limit(l.ctx, resp.Body), 256<<10))
	if err == nil && !copies.Begins(after, copies.Point{History: zab.ID(l.frames.History), Zxid: l.frames.After}) {
		err = fmt.Errorf("the server sends what follows %v of history %v", l.frames.After, l.frames.History)
	}
	return err
}

// Behind returns for how long the server has not had all, if it is a copy itself, when it last had nothing more to send.
func (l *Log) Behind() time.Duration { return l.frames.Behind }

// Next waits for the next entry, which the caller owns. It is nil when the server has nothing more at the
// moment.
func (l *Log) Next() (*zab.Entry, error) {
	l.quiet.Reset(silence)
	e, err := l.frames.Next()
	if errors.Is(err, io.EOF) {
		err = errors.New("the server ended the stream")
	}
	if err != nil {
		return nil, l.error(err)
	}
	return e, nil
}

// error returns why the context ended, if it did, or else err, with the server's name.
func (l *Log) error(err error) error {
	if l.ctx.Err() != nil {
		err = context.Cause(l.ctx)
	}
	return fmt.Errorf("%s: %w", l.Admin, err)
}

// Close ends the stream.
func (l *Log) Close() {
	l.quiet.Stop()
	l.cancel(nil)
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
