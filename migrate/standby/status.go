package standby

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/mirror"
	"github.com/zkd-project/zkd/server/archive/source"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/zab"
)

// StatusFile is the file in the directory of a standby with its Status. It counts for nothing but the
// status.
const StatusFile = "standby.status"

// Status is how far a standby is.
type Status struct {
	Dir    string   `json:"dir"`
	Of     []string `json:"of"`
	Server uint8    `json:"server"`
	// Member names the member to be for zkd standby promote.
	Member  string `json:"member"`
	Running bool   `json:"running"`
	// State is connecting, fetching, following, silent, waiting, stopped or unknown.
	State string `json:"state"`
	From  string `json:"from,omitempty"` // the server that is followed
	// Since is when it began to follow this server, or none.
	Since time.Time `json:"since"`
	// Problem is why no server is followed, or why the rest may not be so any more. Refused means that they refuse it, which an operator has to mend.
	Problem string `json:"problem,omitempty"`
	Refused bool   `json:"refused,omitempty"`
	// Fetched are the bytes that are here of a whole state, and FetchSize those that it has, 0 if that is not known.
	Fetched   int64  `json:"fetched,omitempty"`
	FetchSize int64  `json:"fetchSize,omitempty"`
	Cluster   string `json:"cluster"` // names the ensemble
	Zxid      string `json:"zxid"`
	Durable   string `json:"durableZxid"`
	// Retired means that the ensemble is retired, and the copy has everything that was acknowledged before that. It may have been retired
	// again since: RetiredSince is the zxid at which it was.
	Retired      bool   `json:"retired"`
	RetiredSince string `json:"retiredSince,omitempty"`
	// Current is when the copy last had all that the ensemble had, and LagMs how long before Written that was. BehindMs is
	// the part of it that the followed server has, if that is a standby itself.
	Current  time.Time `json:"current"`
	LagMs    int64     `json:"lagMs"`
	BehindMs int64     `json:"behindMs,omitempty"`
	// LagEntries and LagBytes, of the log, are what the copy did not have when the followed server was asked, about each second; -1 if that
	// is not known.
	LagEntries int64 `json:"lagEntries"`
	LagBytes   int64 `json:"lagBytes"`

	Entries    int64     `json:"entries"`
	States     int64     `json:"states"` // that were fetched whole
	Znodes     int       `json:"znodes"`
	Sessions   int       `json:"sessions"`
	Ephemerals int       `json:"ephemerals"`
	Written    time.Time `json:"written"`

	Followed bool `json:"-"` // a server, in this run
}

// reporter keeps the status of a running standby.
type reporter struct {
	writer *mirror.StatusWriter // nil before start
	data   *mirror.Mirror       // likewise; of other goroutines it takes Durable, Founder and Waits alone

	begun time.Time

	mu  sync.Mutex
	log *source.Log // that is followed, or nil
	s   Status
	age copies.Age // of the copy, since begun
	via []zab.ID   // of copies.Left
	has jute.Zxid  // of the copy
}

func newReporter(o *Options) *reporter {
	return &reporter{begun: time.Now(), s: Status{Dir: o.Place.DataDir, Of: slices.Clone(o.Of.Admins), Server: uint8(o.Place.Server), State: "connecting", Since: time.Now(), LagEntries: -1, LagBytes: -1}}
}

// start writes the status from now on. The copy is as old as the last run has left it.
func (r *reporter) start(m *mirror.Mirror) {
	r.data = m
	r.copied(m) // before the first write, which replaces what the last run has left
	if last, err := ReadStatus(r.s.Dir); err == nil && last.Cluster == r.s.Cluster && !last.Current.IsZero() && last.Current.Before(time.Now()) {
		r.change(func(*Status) { r.age.Had(last.Current.Sub(r.begun)) })
	}
	r.writer = mirror.WriteStatus(filepath.Join(r.s.Dir, StatusFile), r.status)
}

func (r *reporter) status() any {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.s
	if r.data != nil {
		durable := r.data.Durable()
		s.Member = copies.Member{Admission: r.data.Founder(), Last: durable}.String()
		s.Zxid, s.Durable = r.has.String(), durable.String()
	}
	s.Written = time.Now()
	s.LagMs = max(s.lag(s.Written), 0).Milliseconds()
	if silent := r.silent(); silent > 0 {
		s.State, s.Problem = "silent", fmt.Sprintf("nothing was heard of it for %v", silent.Round(time.Second))
		s.LagEntries, s.LagBytes = -1, -1
	}
	if r.data != nil && s.State != "stopped" {
		if waits := r.data.Waits(); waits != nil {
			s.State, s.Problem = "waiting", fmt.Sprintf("nothing more gets onto the disk: %v", waits)
		}
	}
	return &s
}

// silentAfter is how long nothing may be heard of a server that is followed: it says each second that there is nothing.
const silentAfter = 5 * time.Second

// silent returns for how long nothing was heard of the server that is followed, 0 unless that is too long.
func (r *reporter) silent() time.Duration {
	if r.log == nil {
		return 0
	}
	silent := r.log.Silent()
	if silent < silentAfter {
		return 0
	}
	return silent
}

// lag returns how long before a time the copy last had all; -1 if it never had.
func (s *Status) lag(at time.Time) time.Duration {
	if s.Current.IsZero() {
		return -1
	}
	return at.Sub(s.Current)
}

// standing is what metrics show.
func (r *reporter) standing() show.Standby {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, now := &r.s, time.Now()
	v := show.Standby{Of: strings.Join(s.Of, ","), From: s.From, Since: now.Sub(s.Since), Fetches: s.State == "fetching", Fetched: s.Fetched, FetchSize: s.FetchSize, Silent: r.silent(), Problem: s.Problem, Refused: s.Refused,
		Lag: s.lag(now), LagEntries: s.LagEntries, LagBytes: s.LagBytes, Via: r.via, Behind: time.Duration(s.BehindMs) * time.Millisecond, Entries: s.Entries, States: s.States, Retired: s.Retired}
	if v.Silent > 0 {
		v.LagEntries, v.LagBytes = -1, -1
	}
	return v
}

// followed reports whether a server was followed in this run.
func (r *reporter) followed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.s.Followed
}

func (r *reporter) close() {
	r.change(func(s *Status) {
		r.log = nil
		s.State, s.From = "stopped", ""
	})
	r.writer.Close()
}

func (r *reporter) change(f func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.s)
	if at, known := r.age.At(); known {
		r.s.Current = r.begun.Add(at)
	}
}

// copied notes what the copy has.
func (r *reporter) copied(m *mirror.Mirror) {
	stats, ensemble := m.Tree().Stats(), m.Ensemble()
	r.change(func(s *Status) {
		s.Retired = m.Complete()
		if s.RetiredSince = ""; s.Retired {
			s.RetiredSince = m.Tree().RetiredSince().String()
		}
		r.has = m.Last()
		r.age.Has(r.has)
		s.Znodes, s.Sessions, s.Ephemerals = stats.Nodes, stats.Sessions, stats.Ephemerals
		if ensemble.Seeded() {
			s.Cluster = fmt.Sprintf("%x", ensemble.Init.Cluster[:])
		}
	})
}

// heard notes an entry.
func (r *reporter) heard(zxid jute.Zxid) {
	r.change(func(s *Status) {
		s.Entries++
		r.has = zxid
		r.age.Has(zxid)
	})
}

// at returns up to which zxid the copy has everything.
func (r *reporter) at() jute.Zxid {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.has
}

// current notes that the copy has all that the server has, which had not all itself for so long.
func (r *reporter) current(m *mirror.Mirror, behind time.Duration) {
	r.copied(m)
	r.change(func(s *Status) {
		r.age.All(time.Since(r.begun) - behind)
		s.BehindMs = behind.Milliseconds()
	})
}

// told notes what the copy lacked when the server was asked at a time.
func (r *reporter) told(l copies.Left, asked time.Time) {
	r.change(func(s *Status) {
		s.LagEntries, s.LagBytes, r.via = l.Entries, l.Bytes, l.Via
		r.age.Answered(l, asked.Sub(r.begun), r.has)
	})
}

func (r *reporter) fetching() {
	r.change(func(s *Status) { s.State, s.Fetched, s.FetchSize = "fetching", 0, 0 })
}

// progress notes how much of a whole state is here.
func (r *reporter) progress(done, size int64) {
	r.change(func(s *Status) { s.Fetched, s.FetchSize = done, size })
}

func (r *reporter) fetched(m *mirror.Mirror) {
	r.copied(m)
	r.change(func(s *Status) {
		s.States++
		s.Fetched, s.FetchSize = 0, 0
	})
}

func (r *reporter) following(log *source.Log) {
	r.change(func(s *Status) {
		r.log = log
		s.State, s.From, s.Problem, s.Refused, s.Followed, s.Since = "following", log.Admin, "", false, true, time.Now()
	})
}

// lost notes why no server is followed.
func (r *reporter) lost(why error) {
	r.change(func(s *Status) {
		if s.From != "" {
			s.Since = time.Now()
		}
		s.State, s.From, s.Problem, s.Refused, s.BehindMs = "connecting", "", why.Error(), errors.As(why, new(source.Refused)), 0
		s.LagEntries, s.LagBytes, s.Fetched, s.FetchSize = -1, -1, 0, 0
		r.log, r.via = nil, nil
	})
}

// ReadStatus returns the status of the standby in dir.
func ReadStatus(dir string) (s *Status, err error) {
	s = &Status{LagEntries: -1, LagBytes: -1} // one of an earlier version does not tell
	if s.Running, err = mirror.ReadStatus(dir, StatusFile, s); err != nil {
		return nil, err
	}
	if !s.Running {
		s.State, s.From = "stopped", ""
	} else if why := mirror.Unwritten(s.Written); why != "" {
		s.State, s.Problem = "unknown", why
	}
	return s, nil
}

// Text returns the status for people.
func (s *Status) Text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s"+format+"\n", append([]any{name}, args...)...)
	}
	some := func(are bool, name, format string, args ...any) {
		if are {
			line(name, format, args...)
		}
	}
	line("standby", "%s, of server %d", s.Dir, s.Server)
	line("of", "%s, ensemble %s", strings.Join(s.Of, ","), s.Cluster)
	line("state", "%s, since %s", strings.TrimSpace(s.State+" "+s.From), s.Since.Format(time.RFC3339))
	some(s.Problem != "", "problem", "%s", s.Problem)
	some(s.State == "fetching", "fetched", "%d of %d bytes", s.Fetched, s.FetchSize)
	line("member", "%s", s.Member)
	line("zxid", "%s, on disk %s", s.Zxid, s.Durable)
	some(s.Retired, "retired", "since zxid %s: the copy has everything that the ensemble acknowledged before that", s.RetiredSince)
	if s.Current.IsZero() {
		line("lag", "it did not have all yet")
	} else {
		line("lag", "%d ms, at %s", s.LagMs, s.Written.Format(time.RFC3339))
	}
	some(s.LagEntries >= 0, "lacks", "%d entries, %d bytes of the log", s.LagEntries, s.LagBytes)
	some(s.BehindMs > 0, "of these", "%d ms of %s, a standby itself", s.BehindMs, s.From)
	line("received", "%d entries, %d states", s.Entries, s.States)
	line("state has", "%d znodes, %d ephemerals, %d sessions", s.Znodes, s.Ephemerals, s.Sessions)
	return b.String()
}
