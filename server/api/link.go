package api

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// Caller is the sender of a request.
type Caller struct {
	From         netip.AddrPort
	Scheme, Data string              // its proof, as of addAuth; empty for none
	Certificates []*x509.Certificate // verified, the sender's first; none without TLS
	Secure       bool                // the request came over TLS
	Via          string              // the door by which it comes, for the audit log
	Operates     bool                // it is let in while the server keeps clients away
}

// Why a caller is not connected.
var (
	ErrUnauthorized    = errors.New("the credentials prove nothing")
	ErrTooManyFailures = errors.New("too many credentials of this address, or for this name, were wrong")
	ErrRefused         = errors.New("this server takes no connection now: it has no leader or, as a standby, no copy, or too many connections, or moves its clients")

	errLost   = errors.New("the connection within the server has ended, so the outcome is not known")
	errUnsent = errors.New("the connection within the server has ended before the request")
)

// token is what its client has of a session: as a ZooKeeper client it may resume it with that at any server.
type token struct {
	id        jute.SessionID
	timeoutMs int32
	password  [jute.PasswordLen]byte
	exact     bool // it is an exactly-once session: see numbered
}

func (t *token) String() string {
	b := binary.BigEndian.AppendUint64(nil, uint64(t.id))
	b = binary.BigEndian.AppendUint32(b, uint32(t.timeoutMs))
	b = append(b, t.password[:]...)
	if t.exact {
		b = append(b, 1)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func (t *token) timeout() time.Duration { return time.Duration(t.timeoutMs) * time.Millisecond }

func parseToken(text string) (*token, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	exact := len(b) == 8+4+jute.PasswordLen+1 && b[len(b)-1] == 1
	if err != nil || len(b) != 8+4+jute.PasswordLen && !exact || binary.BigEndian.Uint64(b) == 0 {
		return nil, errors.New("X-Session is not a token that a server has given")
	}
	t := &token{id: jute.SessionID(binary.BigEndian.Uint64(b)), timeoutMs: int32(binary.BigEndian.Uint32(b[8:])), exact: exact}
	copy(t.password[:], b[12:])
	return t, nil
}

// key says which requests share a link: those with the same address, proof and session.
type key [sha256.Size]byte

func keyOf(c *Caller, t *token) (k key) {
	h := sha256.New()
	part := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	part([]byte(c.From.Addr().String()))
	part([]byte(c.Scheme))
	part([]byte(c.Data))
	part([]byte(c.Via))
	part(fmt.Append(nil, c.Secure, c.Operates))
	for _, cert := range c.Certificates {
		part(cert.Raw)
	}
	if t != nil {
		part([]byte(t.String()))
	}
	h.Sum(k[:0])
	return k
}

// appender and decoder are records of the protocol.
type (
	appender interface{ Append([]byte) []byte }
	decoder  interface{ Decode(*jute.Decoder) }
)

// request is one of the protocol.
type request struct {
	op   jute.OpCode
	body appender
}

// reply is the answer to it.
type reply struct {
	jute.ReplyHeader
	body []byte
}

// decode reads the body into a record.
func (r *reply) decode(into decoder) error {
	d := jute.NewAliasDecoder(r.body)
	into.Decode(&d)
	return d.Err()
}

// link is the client's end of a connection.
type link struct {
	conn    net.Conn
	until   time.Time // when an identity ends; zero for never
	session token
	exact   *numbered     // nil unless the session is an exactly-once session
	sending chan struct{} // has one element while a request is written: a lock that one may stop waiting for
	ended   chan struct{} // closed when the connection has ended

	mu      sync.Mutex
	xid     int32
	waiting map[int32]chan<- reply
}

// features are the extensions that the API needs.
const features = jute.FeaturePaging | jute.FeatureOperations

// open opens or resumes a session on a connection; readOnly: also one that only reads. Its caller closes the connection if that fails, or takes too long.
func open(conn net.Conn, until time.Time, t *token, operates, readOnly bool) (*link, error) {
	b, mark := jute.BeginFrame(nil)
	c := jute.ConnectRequest{TimeoutMs: t.timeoutMs, SessionID: t.id, Password: t.password[:], HasReadOnly: true, ReadOnly: readOnly}
	if operates {
		c.ProtocolVersion = jute.ProtocolOperator
	}
	ext := jute.ExtensionRequest{Features: features}
	if t.exact {
		ext.Features |= jute.FeatureExactlyOnce
	}
	if _, err := conn.Write(jute.EndFrame(ext.Append(c.Append(b)), mark)); err != nil {
		return nil, ErrRefused
	}
	in := bufio.NewReader(conn)
	frame, err := jute.ReadFrame(in, math.MaxInt32)
	if err != nil {
		return nil, ErrRefused
	}
	var r jute.ConnectResponse
	var granted jute.ExtensionResponse
	d := jute.NewDecoder(frame)
	r.Decode(&d)
	if t.exact && r.SessionID != 0 {
		granted.Decode(&d)
	}
	if d.Err() != nil {
		return nil, d.Err()
	}
	if r.SessionID == 0 {
		return nil, jute.ErrSessionExpired
	}
	l := &link{conn: conn, until: until, sending: make(chan struct{}, 1), ended: make(chan struct{}), waiting: make(map[int32]chan<- reply)}
	l.session = token{id: r.SessionID, timeoutMs: r.TimeoutMs, password: [jute.PasswordLen]byte(r.Password), exact: t.exact}
	if t.exact {
		if granted.Features&jute.FeatureExactlyOnce == 0 {
			return nil, errNotExact
		}
		l.xid = firstOther - 1
		if l.exact, err = readOutcomes(in, &granted); err != nil {
			return nil, err
		}
	}
	go l.read(in)
	return l, nil
}

// read hands the replies over until the connection ends.
func (l *link) read(in io.Reader) {
	defer close(l.ended)
	defer l.conn.Close()
	for {
		frame, err := jute.ReadFrame(in, math.MaxInt32)
		if err != nil {
			return
		}
		var r reply
		d := jute.NewAliasDecoder(frame)
		if r.Decode(&d); d.Err() != nil {
			return
		}
		r.body = d.Rest()
		l.mu.Lock()
		to := l.waiting[r.Xid]
		delete(l.waiting, r.Xid)
		l.mu.Unlock()
		if to != nil {
			to <- r // it has room
		}
	}
}

// call sends requests together, of which only the last one may write, and returns their replies. If ctx ends the requests may have effect nevertheless.
func (l *link) call(ctx context.Context, requests ...request) ([]reply, error) {
	select {
	case l.sending <- struct{}{}:
	case <-l.ended:
		return nil, errUnsent
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	frames, answers := l.prepare(requests)
	select {
	case <-l.ended:
		<-l.sending
		return nil, errUnsent
	default:
	}
	_, err := l.conn.Write(frames) // to its end: a part of a frame would end the connection for all
	<-l.sending
	if err != nil { // the server has not got all of the last frame
		<-l.ended
		return nil, errUnsent
	}
	replies := make([]reply, len(requests))
	for i := range replies {
		if replies[i], err = l.await(ctx, answers[i]); err != nil {
			return nil, err
		}
	}
	return replies, nil
}

// prepare gives the requests their numbers, and returns their frames. The caller is the one that sends.
func (l *link) prepare(requests []request) (frames []byte, answers []<-chan reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range requests {
		if l.xid++; l.xid < 0 {
			l.xid = 1
			if l.exact != nil {
				l.xid = firstOther
			}
		}
		var mark int
		frames, mark = jute.BeginFrame(frames)
		h := jute.RequestHeader{Xid: l.xid, Type: r.op}
		frames = h.Append(frames)
		if r.body != nil {
			frames = r.body.Append(frames)
		}
		frames = jute.EndFrame(frames, mark)
		answer := make(chan reply, 1)
		l.waiting[l.xid] = answer
		answers = append(answers, answer)
	}
	return frames, answers
}

// await waits for the reply to a request that was sent. Meanwhile it keeps the session.
func (l *link) await(ctx context.Context, answer <-chan reply) (reply, error) {
	beat := time.NewTicker(max(time.Millisecond, l.session.timeout()/3))
	defer beat.Stop()
	for waits := true; waits; {
		select {
		case r := <-answer:
			return r, nil
		case <-ctx.Done():
			return reply{}, context.Cause(ctx)
		case <-beat.C:
			l.ping()
		case <-l.ended:
			waits = false
		}
	}
	select {
	case r := <-answer: // before the end
		return r, nil
	default:
		return reply{}, errLost
	}
}

// ping has the server hear of the client, unless a request is being written, which does that.
func (l *link) ping() {
	select {
	case l.sending <- struct{}{}:
	default:
		return
	}
	b, mark := jute.BeginFrame(nil)
	h := jute.RequestHeader{Xid: jute.XidPing, Type: jute.OpPing}
	_, _ = l.conn.Write(jute.EndFrame(h.Append(b), mark)) // an error is the end of the connection, which read notices
	<-l.sending
}

// over reports whether the link is of no more use.
func (l *link) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return !l.until.IsZero() && !time.Now().Before(l.until)
	}
}

// close closes the session, and with that the connection.
func (l *link) close() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	if _, err := l.call(ctx, request{op: jute.OpCloseSession}); err != nil {
		l.conn.Close()
	}
}

// goodbye is how long a closing link waits for the server.
const goodbye = 10 * time.Second
