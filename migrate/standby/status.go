package standby

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/migrate/mirror"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/show"
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
	// State is connecting, fetching, following or stopped.
	State string `json:"state"`
	From  string `json:"from,omitempty"` // the server that is followed
	// Problem is why no server is followed.
	Problem string `json:"problem,omitempty"`
	Cluster string `json:"cluster"` // names the ensemble
	Zxid    string `json:"zxid"`
	Durable string `json:"durableZxid"`
	// Current is when the copy last had all that the server had, and LagMs how long before Written that was.
	Current time.Time `json:"current"`
	LagMs   int64     `json:"lagMs"`

	Entries    int64     `json:"entries"`
	States     int64     `json:"states"` // that were fetched whole
	Znodes     int       `json:"znodes"`
	Sessions   int       `json:"sessions"`
	Ephemerals int       `json:"ephemerals"`
	Written    time.Time `json:"written"`
}

// reporter writes the status of a running standby into its file, in a separate goroutine.
type reporter struct {
	file string
	stop chan struct{}
	done sync.WaitGroup

	mu sync.Mutex
	s  Status
}

const statusInterval = 500 * time.Millisecond

func newReporter(o *Options) *reporter {
	dir := o.Place.DataDir
	return &reporter{file: filepath.Join(dir, StatusFile), stop: make(chan struct{}),
		s: Status{Dir: dir, Of: o.Of.Admins, Server: uint8(o.Place.Server), State: "connecting"}}
}

func (r *reporter) start(m *mirror.Mirror) {
	r.copied(m) // before the first write, which replaces what the last run has left
	r.done.Go(r.run)
}

func (r *reporter) run() {
	tick := time.NewTicker(statusInterval)
	defer tick.Stop()
	for {
		r.write()
		select {
		case <-tick.C:
		case <-r.stop:
			r.write()
			return
		}
	}
}

func (r *reporter) write() {
	r.mu.Lock()
	s := r.s
	r.mu.Unlock()
	s.Written = time.Now()
	s.LagMs = s.lag(s.Written).Milliseconds()
	b, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = os.WriteFile(r.file+".tmp", append(b, '\n'), 0o600)
	}
	if err == nil {
		os.Rename(r.file+".tmp", r.file) // the next one may work
	}
}

// lag returns how long before a time the copy last had all; 0 if it never had.
func (s *Status) lag(at time.Time) time.Duration {
	if s.Current.IsZero() {
		return 0
	}
	return at.Sub(s.Current)
}

// standing is what metrics show.
func (r *reporter) standing() show.Standby {
	r.mu.Lock()
	defer r.mu.Unlock()
	return show.Standby{Follows: r.s.From != "", Lag: r.s.lag(time.Now()), Entries: r.s.Entries, States: r.s.States}
}

func (r *reporter) close() {
	r.change(func(s *Status) { s.State, s.From = "stopped", "" })
	close(r.stop)
	r.done.Wait()
}

func (r *reporter) change(f func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.s)
}

// copied notes what the copy has.
func (r *reporter) copied(m *mirror.Mirror) {
	stats, ensemble := m.Tree().Stats(), m.Ensemble()
	r.change(func(s *Status) {
		s.Member = mirror.MemberText(m.Founder(), m.Durable())
		s.Zxid, s.Durable = m.Last().String(), m.Durable().String()
		s.Znodes, s.Sessions, s.Ephemerals = stats.Nodes, stats.Sessions, stats.Ephemerals
		if ensemble.Seeded() {
			s.Cluster = fmt.Sprintf("%x", ensemble.Init.Cluster[:])
		}
	})
}

// heard notes an entry, or with current that the server has no more at the moment.
func (r *reporter) heard(m *mirror.Mirror, current bool) {
	if !current {
		r.change(func(s *Status) { s.Entries++ })
		return
	}
	r.copied(m)
	r.change(func(s *Status) { s.Current = time.Now() })
}

func (r *reporter) fetching() { r.change(func(s *Status) { s.State = "fetching" }) }

func (r *reporter) fetched(m *mirror.Mirror) {
	r.copied(m)
	r.change(func(s *Status) { s.States++ })
}

func (r *reporter) following(admin string) {
	r.change(func(s *Status) { s.State, s.From, s.Problem = "following", admin, "" })
}

func (r *reporter) lost(why error) {
	r.change(func(s *Status) { s.State, s.From, s.Problem = "connecting", "", why.Error() })
}

// ReadStatus returns the status of the standby in dir.
func ReadStatus(dir string) (*Status, error) {
	b, err := os.ReadFile(filepath.Join(dir, StatusFile))
	if err != nil {
		return nil, fmt.Errorf("there is no standby in %s: %w", dir, err)
	}
	s := &Status{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, StatusFile), err)
	}
	lock, err := vfs.OS{}.Lock(filepath.Join(dir, datadirs.LockFile))
	switch {
	case errors.Is(err, vfs.ErrLocked):
		s.Running = true
	case err != nil:
		return nil, err
	default:
		lock.Close() // it was only tried
		s.State, s.From = "stopped", ""
	}
	return s, nil
}

// Text returns the status for people.
func (s *Status) Text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s"+format+"\n", append([]any{name}, args...)...)
	}
	line("standby", "%s, of server %d", s.Dir, s.Server)
	line("of", "%s, ensemble %s", strings.Join(s.Of, ","), s.Cluster)
	line("state", "%s", strings.TrimSpace(s.State+" "+s.From))
	if s.Problem != "" {
		line("problem", "%s", s.Problem)
	}
	line("member", "%s", s.Member)
	line("zxid", "%s, on disk %s", s.Zxid, s.Durable)
	if s.Current.IsZero() {
		line("lag", "it did not have all yet")
	} else {
		line("lag", "%d ms, at %s", s.LagMs, s.Written.Format(time.RFC3339))
	}
	line("received", "%d entries, %d states", s.Entries, s.States)
	line("state has", "%d znodes, %d ephemerals, %d sessions", s.Znodes, s.Ephemerals, s.Sessions)
	return b.String()
}
