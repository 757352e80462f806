package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/jute"
)

// Servers are those of an ensemble, or of a part of it. One goroutine at a time may use them.
type Servers struct {
	// Admins are the URLs of AdminServers, without a path. The first one that does not lead
	// is asked, since a leader has other work, or else the leader.
	Admins []string
	// Auth is what authenticates the caller, scheme:data. The server wants all permissions on
	// "/".
	Auth []string
	// Rate is the most bytes to read in a second; 0 is no limit.
	Rate int64
	// Compress has the log and snapshots sent compressed. Rate counts what it is before. A server of an earlier version sends it as it is.
	Compress bool
	// Progress is called now and then, unless it is nil. total is 0 if the server does not
	// tell it.
	Progress func(done, total int64)
	// HTTP makes the requests; nil is http.DefaultClient.
	HTTP *http.Client
}

// Fetched describes a snapshot that was fetched.
type Fetched struct {
	Admin string // the URL that was asked
	Zxid  jute.Zxid
	Bytes int64
}

// Fetch asks a server for a snapshot of the present state, and writes it to w.
func (s *Servers) Fetch(ctx context.Context, w io.Writer) (*Fetched, error) {
	admin, err := s.choose(ctx)
	if err != nil {
		return nil, err
	}
	f := &Fetched{Admin: admin}
	p := newPatience(ctx, snapshotWithin)
	defer p.end()
	if err := s.fetch(p, f, w); err != nil {
		return nil, fmt.Errorf("snapshot from %s: %w", admin, p.error(err))
	}
	return f, nil
}

func (s *Servers) fetch(p *patience, f *Fetched, w io.Writer) error {
	resp, err := s.get(p.ctx, f.Admin+"/commands/snapshot?streaming=true"+s.compressed())
	if err != nil {
		return err
	}
	defer resp.Body.Close() // it was only read
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	zxid, err := strconv.ParseUint(strings.TrimPrefix(resp.Header.Get("last_zxid"), "0x"), 16, 64)
	if err != nil {
		return errors.New("the answer has no zxid: is it an AdminServer?")
	}
	f.Zxid = jute.Zxid(zxid)
	total, _ := strconv.ParseInt(resp.Header.Get("snapshot_size"), 10, 64) // without it 0
	if f.Bytes, err = s.copy(p.ctx, w, patient{resp.Body, p}, total); err != nil {
		return err
	}
	if total > 0 && f.Bytes != total {
		return fmt.Errorf("%d bytes of %d: %w", f.Bytes, total, io.ErrUnexpectedEOF)
	}
	return nil
}

// compressed is the parameter for what is to be compressed: the transport asks for gzip by itself, and reads it.
func (s *Servers) compressed() string {
	if s.Compress {
		return "&compressed=true"
	}
	return ""
}

// choose returns the server to ask.
func (s *Servers) choose(ctx context.Context) (string, error) {
	if len(s.Admins) == 1 {
		return s.Admins[0], nil
	}
	leader, none := "", &noneError{}
	for _, admin := range s.Admins {
		switch leads, err := s.leads(ctx, admin); {
		case err != nil:
			none.add(admin, err)
		case !leads:
			return admin, nil
		default:
			leader = admin
		}
	}
	if leader == "" {
		return "", none
	}
	return leader, nil
}

// noneError means that none of the servers can be asked. It says each reason once.
type noneError struct {
	errs    []error
	reasons []string
	admins  map[string][]string // by reason
}

func (e *noneError) add(admin string, err error) {
	e.errs = append(e.errs, err)
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // it is known what was asked for
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err
	}
	why := err.Error()
	if e.admins == nil {
		e.admins = make(map[string][]string)
	}
	if e.admins[why] == nil {
		e.reasons = append(e.reasons, why)
	}
	e.admins[why] = append(e.admins[why], admin)
}

// Error returns a single reason without the servers.
func (e *noneError) Error() string {
	if len(e.reasons) == 1 {
		return "no server can be asked: " + e.reasons[0]
	}
	var list []string
	for _, why := range e.reasons {
		list = append(list, strings.Join(e.admins[why], ", ")+": "+why)
	}
	return "no server can be asked: " + strings.Join(list, "; ")
}

// Unwrap returns the errors of the servers.
func (e *noneError) Unwrap() []error { return e.errs }

// leads reports whether a server leads, or has no ensemble.
func (s *Servers) leads(ctx context.Context, admin string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	resp, err := s.get(ctx, admin+"/commands/leader")
	if err != nil {
		return false, err
	}
	defer resp.Body.Close() // it was only read
	var answer struct {
		Leads *bool `json:"is_leader"`
	}
	if resp.StatusCode != http.StatusOK {
		return false, refusal(resp)
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&answer)
	return answer.Leads == nil || *answer.Leads, err
}

func (s *Servers) get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	for _, auth := range s.Auth {
		scheme, data, _ := strings.Cut(auth, ":")
		req.Header.Add("Authorization", scheme+" "+data)
	}
	if s.HTTP != nil {
		return s.HTTP.Do(req)
	}
	return http.DefaultClient.Do(req)
}

// Refused is an error that another attempt does not change.
type Refused struct{ Err error }

// Error is that of the error in it.
func (e Refused) Error() string { return e.Err.Error() }

// Unwrap returns the error in it.
func (e Refused) Unwrap() error { return e.Err }

// refusal returns the error of a response that is not OK.
func refusal(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // the status is enough
	var answer struct {
		Error string `json:"error"`
	}
	why := strings.TrimSpace(string(text))
	if json.Unmarshal(text, &answer) == nil {
		why = answer.Error
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return Refused{fmt.Errorf("%s: %s: authenticate as a user with all permissions on / (--auth, --auth-file)", resp.Status, why)}
	case why != "":
		return fmt.Errorf("%s: %s", resp.Status, why)
	}
	return errors.New(resp.Status)
}

// copyStep is how much is copied between two looks at the rate.
const copyStep = 256 << 10

// limited reads at most at a rate.
type limited struct {
	ctx   context.Context
	r     io.Reader
	rate  int64
	begun time.Time
	n     int64
}

// limit returns a reader of r at most at the rate of s.
func (s *Servers) limit(ctx context.Context, r io.Reader) io.Reader {
	if s.Rate <= 0 {
		return r
	}
	return &limited{ctx: ctx, r: r, rate: s.Rate, begun: time.Now()}
}

// Read implements io.Reader. What was not used of the rate before is lost after a second.
func (l *limited) Read(p []byte) (int, error) {
	due := l.begun.Add(time.Duration(float64(l.n) / float64(l.rate) * float64(time.Second)))
	wait := time.Until(due)
	if wait < -time.Second {
		l.begun, l.n = time.Now(), 0
	}
	if wait > 0 {
		if pause.For(l.ctx, wait) != nil {
			return 0, context.Cause(l.ctx)
		}
	}
	n, err := l.r.Read(p[:min(int64(len(p)), max(l.rate/4, 1))])
	l.n += int64(n)
	return n, err
}

// copy copies at most at the rate.
func (s *Servers) copy(ctx context.Context, w io.Writer, r io.Reader, total int64) (n int64, err error) {
	r = s.limit(ctx, r)
	b := make([]byte, copyStep)
	for {
		m, err := r.Read(b)
		if _, werr := w.Write(b[:m]); werr != nil {
			return n, werr
		}
		n += int64(m)
		if s.Progress != nil {
			s.Progress(n, total)
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}
