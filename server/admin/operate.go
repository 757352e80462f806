package admin

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/limits"
)

// snapshot takes a snapshot and sends it, or with ?streaming=false only says where it ends. With ?compressed=true it is compressed by gzip.
func (h *handler) snapshot(q query, w http.ResponseWriter, r *http.Request) (object, int, string) {
	allowed, interval := h.Snapshots()
	if !allowed {
		return nil, http.StatusServiceUnavailable, "Snapshot command is disabled"
	}
	if !h.mayTakeSnapshot(time.Now(), interval) {
		return nil, http.StatusTooManyRequests, "Snapshot command is rate limited"
	}
	s, err := q.TakeSnapshot(r.Context())
	if err != nil {
		return nil, http.StatusInternalServerError, "Snapshot command failed: " + err.Error()
	}
	defer s.Close()
	w.Header().Set("last_zxid", "0x"+strconv.FormatInt(s.Zxid, 16))
	w.Header().Set("snapshot_size", strconv.FormatInt(s.Size, 10))
	if r.URL.Query().Get("streaming") == "false" {
		return nil, http.StatusOK, ""
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	body, z := q.body(w)
	if z == nil {
		w.Header().Set("Content-Length", strconv.FormatInt(s.Size, 10))
	}
	_, err = io.Copy(body, permitted{s, q.may})
	if err == nil && z != nil {
		err = z.Close()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client must not take what it has for all
	}
	return nil, 0, ""
}

// body returns where an answer is written, which is compressed by z if ?compressed=true. Otherwise it is not, whatever the client accepts,
// since that would only cost processor time on a fast line.
func (q query) body(w http.ResponseWriter) (body io.Writer, z *gzip.Writer) {
	if q.args.Get("compressed") != "true" {
		return w, nil
	}
	w.Header().Set("Content-Encoding", "gzip")
	z, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // there is such a level
	return z, z
}

// permitted is what is sent as long as its receiver may have it.
type permitted struct {
	io.Reader
	may func() bool
}

func (p permitted) Read(b []byte) (int, error) {
	if !p.may() {
		return 0, ErrUnauthorized
	}
	return p.Reader.Read(b)
}

// mayTakeSnapshot reports whether the last snapshot was long enough ago, and if so counts
// this one.
func (h *handler) mayTakeSnapshot(now time.Time, interval time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.mu.snapshot.IsZero() && now.Sub(h.mu.snapshot) < interval {
		return false
	}
	h.mu.snapshot = now
	return true
}

// maxStreams is how many may follow the log of a server at a time.
const maxStreams = 16

// streamPatience is how long somebody who follows the log may take to read what was sent.
const streamPatience = time.Minute

// log sends what is committed after the zxid of ?after, and continues as long as the client reads. With ?compressed=true it is
// compressed by gzip. With ?left=true it only says how much that is.
func (h *handler) log(q query, w http.ResponseWriter, r *http.Request) (object, int, string) {
	if allowed, _ := h.Snapshots(); !allowed {
		return nil, http.StatusServiceUnavailable, "Log command is disabled, as snapshot is"
	}
	after, err := parseZxid(q.args.Get("after"))
	if err != nil {
		return nil, http.StatusBadRequest, err.Error()
	}
	if q.args.Get("left") == "true" {
		return q.logLeft(after)
	}
	ctx, leave := h.enterStream(r)
	if leave == nil {
		return nil, http.StatusTooManyRequests, fmt.Sprintf("There are %d others who follow the log", maxStreams)
	}
	defer leave()
	s, status, problem := q.FollowLog(int64(after), q.args.Get("history"))
	if s == nil {
		return nil, status, problem
	}
	defer s.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	out := http.NewResponseController(w)
	body, z := q.body(w)
	for {
		b, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			if z != nil && z.Close() != nil {
				panic(http.ErrAbortHandler)
			}
			return nil, 0, ""
		}
		if err == nil && !q.may() {
			err = ErrUnauthorized
		}
		if err == nil {
			err = context.Cause(ctx) // also of a stream that never waits
		}
		if err == nil {
			out.SetWriteDeadline(time.Now().Add(streamPatience)) // not supported by a recorder of tests
			_, err = body.Write(b)
		}
		if err == nil && z != nil {
			err = z.Flush()
		}
		if err == nil {
			err = out.Flush()
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the connection has no other use
		}
	}
}

// logLeft says what there is after a zxid, for a copy that follows the log.
func (q query) logLeft(after jute.Zxid) (object, int, string) {
	l, status, problem := q.LogLeft(int64(after), q.args.Get("history"))
	if status != 0 {
		return nil, status, problem
	}
	behind := int64(-1)
	if l.Behind >= 0 {
		behind = l.Behind.Milliseconds()
	}
	via := list{}
	for _, id := range l.Via {
		via = append(via, fmt.Sprintf("%x", id[:]))
	}
	return object{{"zxid", l.Zxid.String()}, {"entries", l.Entries}, {"bytes", l.Bytes}, {"behind_ms", behind}, {"via", via}}, http.StatusOK, ""
}

// parseZxid parses the parameter after.
func parseZxid(text string) (jute.Zxid, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 63)
	if err != nil {
		//lint:ignore ST1005 it is the page that answers
		return 0, errors.New("The parameter after must be a zxid, in hex")
	}
	return jute.Zxid(n), nil
}

// ErrDisplaced ends a stream whose place a client gets that has fewer.
var ErrDisplaced = errors.New("the place is needed for a client that has fewer")

// enterStream takes a place for a stream, which ends when ctx does, and leave must be called then. leave
// is nil if there is none: addresses that have most give way to others.
func (h *handler) enterStream(r *http.Request) (ctx context.Context, leave func()) {
	ctx, end := context.WithCancelCause(r.Context())
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	place := h.streams.Take(maxStreams, r, []string{limits.Network(host)}, func() { end(ErrDisplaced) })
	if place == nil {
		end(nil)
		return nil, nil
	}
	return ctx, func() {
		h.streams.Leave(place)
		end(nil)
	}
}

// whyNoRestore is the answer to restore. Apache's server replaces its tree by the one of the
// request while it runs: other servers and the clients of its sessions do not know of it, and
// zxids go back. No care of an operator can make that safe in an ensemble.
const whyNoRestore = "Restore command is disabled: a running server does not replace its data. " +
	"Stop the servers and put back a copy of their directories (docs/backup.md), or load a part with zkcli import"

func (h *handler) restore(query, http.ResponseWriter, *http.Request) (object, int, string) {
	return nil, http.StatusServiceUnavailable, whyNoRestore
}

// shed ends a part of the connections: {"percentage": 20}.
func (h *handler) shed(q query, _ http.ResponseWriter, r *http.Request) (object, int, string) {
	var body struct {
		Percentage *int `json:"percentage"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 4096)).Decode(&body); err != nil || body.Percentage == nil {
		return nil, http.StatusBadRequest, `The body must be an object such as {"percentage": 20}`
	}
	percent := *body.Percentage
	if percent < 0 || percent > 100 {
		return nil, http.StatusBadRequest, fmt.Sprintf("The percentage must be between 0 and 100, and is %d", percent)
	}
	shed := 0
	if percent > 0 {
		shed = q.ShedConnections(percent)
	}
	return object{{"connections_shed", shed}, {"percentage_requested", percent}}, http.StatusOK, ""
}
