package takeover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/apachefiles"
	"github.com/zkd-project/zkd/internal/apachelink"
	"github.com/zkd-project/zkd/internal/moving"
	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/server/datatree"
)

// Finish makes mirrors the members of an ensemble, after the servers of Apache's ensemble were
// stopped.
type Finish struct {
	// From are the data directories of a majority of Apache's voters, and LogDirs their
	// dataLogDirs, in the same order; none if they are the same.
	From, LogDirs []string
	// Single accepts fewer than a majority, which may lack what the others have confirmed.
	Single bool
	// Dirs are the directories of the mirrors: of all members of the ensemble to be.
	Dirs []string
	// ToLogs are their log directories, in the same order; none if they are the same.
	ToLogs []string
	// Decision is the file of a decision to be carried out for Dirs, which need not be all; From
	// has no meaning then. If it is empty, Finish decides itself.
	Decision string
	Logger   *zap.Logger
}

// Result is what Finish or Decide has done.
type Result struct {
	Chosen   string  `json:"chosen,omitempty"` // of Apache's servers, and why
	Last     string  `json:"zxid,omitempty"`   // of Apache's last transaction
	Members  []uint8 `json:"members"`
	Tail     []int   `json:"tail"` // transactions that each of them lacked
	Digest   string  `json:"digest"`
	Epoch    uint32  `json:"epoch"`
	Znodes   int     `json:"znodes"`
	Sessions int     `json:"sessions"`
	Warning  string  `json:"warning,omitempty"`
}

func resultOf(m *server.Mirror, digest string) *Result {
	return &Result{Digest: digest, Epoch: m.Tree().LastZxid().Epoch(), Znodes: m.Tree().Stats().Nodes, Sessions: m.Tree().NumSessions(),
		Warning: moving.LongLists(m.Tree())}
}

// Run finishes the takeover. Until it decides, the mirrors stay mirrors, whatever happens. After
// a crash it may be called again.
func (f *Finish) Run(ctx context.Context) (r *Result, err error) {
	if f.Decision != "" {
		return f.carryOut(ctx)
	}
	if len(f.Dirs) < 3 {
		return nil, fmt.Errorf("%d copies: an ensemble needs those of three members or more", len(f.Dirs))
	}
	best, reason, err := f.choose(ctx)
	if err != nil {
		return nil, err
	}
	mirrors, err := f.open(ctx)
	defer closeAll(mirrors, &err)
	if err != nil {
		return nil, err
	}
	var tail []int
	for _, m := range mirrors {
		n, err := f.catchUp(m, best)
		if err != nil {
			return nil, err
		}
		tail = append(tail, n)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := server.FoundEnsemble(mirrors, best.Epoch()); err != nil {
		return nil, err
	}
	r = f.finished(mirrors, tail)
	r.Chosen, r.Last = reason, best.Last().String()
	return r, nil
}

// carryOut carries out what Decide has decided.
func (f *Finish) carryOut(ctx context.Context) (r *Result, err error) {
	d, err := readDecision(f.Decision)
	if err != nil {
		return nil, err
	}
	mirrors, err := f.open(ctx)
	defer closeAll(mirrors, &err)
	if err != nil {
		return nil, err
	}
	var tail []int
	for _, m := range mirrors {
		n, err := d.carryOut(m)
		if err != nil {
			return nil, err
		}
		tail = append(tail, n)
	}
	return f.finished(mirrors, tail), nil
}

// finished returns the result for mirrors that have become members.
func (f *Finish) finished(mirrors []*server.Mirror, tail []int) *Result {
	r := resultOf(mirrors[0], mirrors[0].Tree().Digest().String())
	r.Tail = tail
	for i, m := range mirrors {
		r.Members = append(r.Members, uint8(m.ID()))
		os.Remove(filepath.Join(f.Dirs[i], StatusFile)) //nolint:errcheck // it counts for nothing
	}
	return r
}

func closeAll(mirrors []*server.Mirror, err *error) {
	for _, m := range mirrors {
		if m != nil {
			*err = errors.Join(*err, m.Close())
		}
	}
}

// choose checks that Apache's ensemble is stopped, and returns the most advanced of its servers.
func (f *Finish) choose(ctx context.Context) (best *apachefiles.Server, reason string, err error) {
	if err := f.checkStopped(ctx); err != nil {
		return nil, "", err
	}
	best, reason, err = moving.Choose(f.From, f.LogDirs)
	if err != nil {
		return nil, "", err
	}
	return best, strings.TrimSuffix(best.DataDir+": "+reason, ": "), nil
}

// checkStopped returns an error if a leader of Apache's ensemble accepts connections, at the
// addresses that the mirrors had.
func (f *Finish) checkStopped(ctx context.Context) error {
	addrs := make(map[string]bool)
	for _, dir := range f.Dirs {
		if s, err := ReadStatus(dir); err == nil {
			if s.Running {
				return fmt.Errorf("the mirror in %s is running: stop it first", dir)
			}
			for _, addr := range s.From {
				addrs[addr] = true
			}
		}
	}
	var wg sync.WaitGroup
	open := make(chan string, len(addrs))
	for addr := range addrs {
		wg.Go(func() {
			if conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", addr); err == nil {
				conn.Close() //nolint:errcheck // it was only tried
				open <- addr
			}
		})
	}
	wg.Wait()
	select {
	case addr := <-open:
		return fmt.Errorf("there is a server at the quorum port %s: stop all servers of Apache's ensemble first, followers before the leader", addr)
	default:
		return nil
	}
}

// open opens all mirrors.
func (f *Finish) open(ctx context.Context) ([]*server.Mirror, error) {
	if len(f.ToLogs) > 0 && len(f.ToLogs) != len(f.Dirs) {
		return nil, fmt.Errorf("%d directories of copies and %d of their logs", len(f.Dirs), len(f.ToLogs))
	}
	mirrors := make([]*server.Mirror, len(f.Dirs))
	errs := make([]error, len(f.Dirs))
	var wg sync.WaitGroup
	for i, dir := range f.Dirs {
		place := server.Place{DataDir: dir, LogDir: dir}
		if len(f.ToLogs) > 0 {
			place.LogDir = f.ToLogs[i]
		}
		wg.Go(func() { mirrors[i], errs[i] = server.OpenMirror(ctx, place, f.Logger) })
	}
	wg.Wait()
	return mirrors, errors.Join(errs...)
}

// catchUp gives a mirror what it lacks of the log of the most advanced server, and returns how
// many transactions that were.
func (f *Finish) catchUp(m *server.Mirror, best *apachefiles.Server) (n int, err error) {
	if m.Founding() != nil {
		return 0, nil
	}
	config, _ := m.Tree().Data(datatree.ConfigPath)
	if err := moving.CheckMajority(len(f.From), apachefiles.Voters(config), true, f.Single, best.DataDir); err != nil {
		return 0, err
	}
	if m.Last() > best.Last() {
		return 0, fmt.Errorf("the copy of server %d has transactions up to %v, all of them confirmed, but Apache's servers only up to %v (%s): "+
			"they have lost some, or they are others", m.ID(), m.Last(), best.Last(), best.DataDir)
	}
	c := apachelink.NewCopy(m.Tree())
	err = best.Tail(m.Last(), func(x *apachefiles.Txn) error {
		n++
		return appendTo(m, c, x)
	})
	if err != nil {
		return n, fmt.Errorf("server %d after %v: %w. If the log does not reach back so far, let the mirrors follow a running ensemble again, or use zkd import", m.ID(), m.Last(), err)
	}
	return n, m.Sync()
}

// appendTo gives a mirror the next transaction. c is the copy in it.
func appendTo(m *server.Mirror, c *apachelink.Copy, x *apachefiles.Txn) error {
	return m.Append(&x.Txn, func() ([]datatree.Event, error) {
		err := c.Follows(x)
		if err == nil {
			err = c.Apply(x)
		}
		return c.Events(), err
	})
}

// Text returns the result for people.
func (r *Result) Text() string {
	var b strings.Builder
	if r.Last != "" {
		fmt.Fprintf(&b, "Apache's last transaction is %s, of %s\n", r.Last, r.Chosen)
	}
	for i, id := range r.Members {
		fmt.Fprintf(&b, "server %d lacked %d transactions\n", id, r.Tail[i])
	}
	fmt.Fprintf(&b, "decided: with digest %s, %d znodes and %d sessions an ensemble begins in epoch %d\n", r.Digest, r.Znodes, r.Sessions, r.Epoch)
	if r.Warning != "" {
		fmt.Fprintf(&b, "warning: %s\n", r.Warning)
	}
	return b.String()
}
