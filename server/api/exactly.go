package api

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/jute"
)

// In an exactly-once session the key of a write is its number in the protocol (docs/extensions.md), so that the ensemble
// remembers its outcome, and each server that the session comes to learns of it. The writes of a session are sent one after the
// other: each confirms those before. Requests that are no writes have the xids from firstOther on.
const (
	firstOther = 1 << 30
	maxKey     = firstOther - 1
)

var errNotExact = errors.New("the session is not an exactly-once session: its server does not grant that")

// numbered has the outcomes of an exactly-once session's writes that are not confirmed.
type numbered struct {
	turn     chan struct{} // has one element while a write has its turn: a lock that one may stop waiting for
	done     int64         // the number of the last write that was sent, or has an outcome
	outcomes map[int64]outcome
}

// outcome is the reply to a write, and the sum of its request, which is zero if that is not known.
type outcome struct {
	reply
	sum [sha256.Size]byte
}

// readOutcomes reads those of earlier connections.
func readOutcomes(in io.Reader, granted *jute.ExtensionResponse) (*numbered, error) {
	n := &numbered{turn: make(chan struct{}, 1), done: granted.Done, outcomes: make(map[int64]outcome)}
	for range granted.Replies {
		frame, err := jute.ReadFrame(in, math.MaxInt32)
		if err != nil {
			return nil, ErrRefused
		}
		var o outcome
		d := jute.NewAliasDecoder(frame)
		if o.Decode(&d); d.Err() != nil {
			return nil, d.Err()
		}
		o.body = d.Rest()
		n.outcomes[int64(o.Xid)] = o // numbers are up to maxKey
	}
	return n, nil
}

// write does a write with a number, or returns the reply to it that there is. It is sent to its end, even if ctx ends.
func (l *link) write(ctx context.Context, number int64, q request) ([]reply, error) {
	n := l.exact
	select {
	case n.turn <- struct{}{}:
	case <-l.ended:
		return nil, errUnsent
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-n.turn }()
	body := q.body.Append(nil)
	sum := sha256.Sum256(binary.BigEndian.AppendUint32(body[:len(body):len(body)], uint32(q.op)))
	o, known := n.outcomes[number]
	switch {
	case known && o.sum != sum && o.sum != [sha256.Size]byte{}:
		return nil, refuse(http.StatusUnprocessableEntity, "the key %d is that of another request", number)
	case known:
		return []reply{o.reply}, nil
	case number == n.done:
		return nil, refuse(http.StatusConflict, "the write with the key %d was refused, and not done; why is not known any more", number)
	case number < n.done:
		return nil, refuse(http.StatusConflict, "the key %d is not above the last one, %d, and its outcome is not kept any more", number, n.done)
	}
	select {
	case l.sending <- struct{}{}:
	case <-l.ended:
		return nil, errUnsent
	}
	frame, mark := jute.BeginFrame(nil)
	h := jute.RequestHeader{Xid: exact.Xid(number), Type: q.op}
	frame = jute.EndFrame(jute.AppendInt64(append(h.Append(frame), body...), number-1), mark)
	answer := make(chan reply, 1)
	l.mu.Lock()
	l.waiting[h.Xid] = answer
	l.mu.Unlock()
	n.done = number
	clear(n.outcomes) // they are confirmed
	_, err := l.conn.Write(frame)
	<-l.sending
	if err != nil {
		<-l.ended
		return nil, errLost
	}
	r, err := l.await(context.WithoutCancel(ctx), answer)
	if err != nil {
		return nil, err
	}
	n.outcomes[number] = outcome{r, sum}
	return []reply{r}, nil
}

// writeNumber returns the number of a request that is a write of an exactly-once session, otherwise 0.
func (c *call) writeNumber(op jute.OpCode) (int64, error) {
	key := strings.Trim(c.arg("Idempotency-Key"), `"`)
	exactly := c.token != nil && c.token.exact
	if key == "" && !(exactly && exact.Covers(op)) || key != "" && !exact.Covers(op) {
		return 0, nil
	}
	number, _ := strconv.ParseInt(key, 10, 64) // it was checked
	switch {
	case !exactly:
		return 0, refuse(http.StatusBadRequest, "a key is for a session that was opened with exactly=once: no other outcome is remembered")
	case number < 1 || number > maxKey:
		return 0, refuse(http.StatusBadRequest, "a write of an exactly-once session needs an Idempotency-Key from 1 to %d", maxKey)
	}
	return number, nil
}
