package takeover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/apachefiles"
	"github.com/zkd-project/zkd/migrate/apachelink"
	"github.com/zkd-project/zkd/migrate/mirror"
	"github.com/zkd-project/zkd/migrate/moving"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
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
	// LossAfter is the zxid at which the mirrors end, if Apache's servers are lost, and neither From nor
	// Decision is given. What they have confirmed after that is given up.
	LossAfter jute.Zxid
	// Dirs are the directories of the mirrors: of all members of the ensemble to be.
	Dirs []string
	// ToLogs are their log directories, in the same order; none if they are the same.
	ToLogs []string
	// Decision is the file of a decision to be carried out for Dirs, which need not be all. From
	// are then directories of Apache's servers, any number, that must have nothing after it. If
	// it is empty, Finish decides itself.
	Decision string
	Logger   *zap.Logger

	followed []string                            // addresses that the mirrors followed
	dial     func(context.Context, string) error // nil for a connection by TCP
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
	// Unread are directories of Apache's servers, named for the decision, that can't be read here.
	Unread []string `json:"unread,omitempty"`
}

func resultOf(m *mirror.Mirror, digest string) *Result {
	return &Result{Digest: digest, Epoch: m.Tree().LastZxid().Epoch(), Znodes: m.Tree().Stats().Nodes, Sessions: m.Tree().NumSessions(),
		Warning: moving.LongLists(m.Tree())}
}

// Run finishes the takeover. Until it decides, the mirrors stay mirrors, whatever happens. After
// a crash it may be called again.
func (f *Finish) Run(ctx context.Context) (r *Result, err error) {
	if f.Decision != "" {
		return f.carryOut(ctx)
	}
	if len(f.From) == 0 {
		return f.giveUp(ctx)
	}
	if len(f.Dirs) < 3 {
		return nil, fmt.Errorf("%d copies: an ensemble needs those of three members or more", len(f.Dirs))
	}
	mirrors, err := f.open(ctx)
	defer closeAll(mirrors, &err)
	if err != nil {
		return nil, err
	}
	best, reason, apache, err := f.choose(mirrors)
	if err != nil {
		return nil, err
	}
	if _, err := f.checkEnded(ctx, apache, mirrors); err != nil {
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
	if _, err := f.checkEnded(ctx, apache, mirrors); err != nil {
		return nil, err
	}
	if err := mirror.MakeEnsemble(mirrors, best.Epoch()); err != nil {
		return nil, err
	}
	r = f.finished(mirrors, tail)
	r.Chosen, r.Last = reason, best.Last().String()
	return r, nil
}

// giveUp makes an ensemble of the mirrors as they are. With one, the other members begin with empty
// directories.
func (f *Finish) giveUp(ctx context.Context) (r *Result, err error) {
	mirrors, err := f.open(ctx)
	defer closeAll(mirrors, &err)
	if err != nil {
		return nil, err
	}
	m := mirrors[0]
	decided := slices.ContainsFunc(mirrors, func(m *mirror.Mirror) bool { return m.Founding() != nil })
	if m.Last() == 0 {
		return nil, fmt.Errorf("there is no copy in %s yet: the mirror has not followed a server of Apache's", f.Dirs[0])
	}
	if f.LossAfter != m.Last() && !decided {
		return nil, fmt.Errorf("the copy in %s ends at zxid %v, of %s: what Apache's servers have confirmed after that would be given up. If you have their directories, name those of a majority with --from. "+
			"If they are lost, repeat the command with --accept-data-loss-after %v", f.Dirs[0], m.Last(), time.UnixMilli(m.Tree().LastTime()).UTC().Format(time.RFC3339Nano), m.Last())
	}
	apache, err := newSource(m.Last(), m.Accepted(), nil, nil, mirrors)
	if err != nil {
		return nil, err
	}
	if _, err := f.checkEnded(ctx, apache, mirrors); err != nil {
		return nil, err
	}
	if err := mirror.MakeEnsemble(mirrors, apache.Epoch); err != nil {
		return nil, err
	}
	return f.finished(mirrors, make([]int, len(mirrors))), nil
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
	apache := d.Apache
	apache.Last, apache.Epoch = d.Source()
	if _, err := f.checkEnded(ctx, &apache, mirrors); err != nil {
		return nil, err
	}
	if err := f.checkNothingAfter(&apache, mirrors); err != nil {
		return nil, err
	}
	var tail []int
	for _, m := range mirrors {
		n, err := d.prepare(m)
		if err != nil {
			return nil, err
		}
		tail = append(tail, n)
	}
	unread, err := f.checkEnded(ctx, &apache, mirrors)
	if err != nil {
		return nil, err
	}
	for _, m := range mirrors {
		if err := m.BecomeMember(&d.Founding); err != nil {
			return nil, err
		}
	}
	r = f.finished(mirrors, tail)
	r.Unread = unread
	return r, nil
}

// checkEnded returns an error if Apache's ensemble runs, or has run since the end of its history that
// apache tells. Members that servers can start with already have no more to wait for. unread are the
// directories of apache that can't be read here.
func (f *Finish) checkEnded(ctx context.Context, apache *source, mirrors []*mirror.Mirror) (unread []string, err error) {
	if !slices.ContainsFunc(mirrors, func(m *mirror.Mirror) bool { return !m.Member() }) {
		return nil, nil
	}
	if err := apache.addPorts(f.followed, mirrors); err != nil {
		return nil, err
	}
	if f.dial == nil {
		f.dial = dial
	}
	if err := apache.checkStopped(ctx, f.dial, f.Logger); err != nil {
		return nil, err
	}
	return apache.checkDirs()
}

// checkNothingAfter returns an error if a mirror, or one of the directories in From, has more than
// what was decided.
func (f *Finish) checkNothingAfter(apache *source, mirrors []*mirror.Mirror) error {
	for i, m := range mirrors {
		if err := apache.checkMirror(m, f.Dirs[i]); err != nil {
			return err
		}
	}
	named := source{Dirs: f.From, LogDirs: f.LogDirs, Last: apache.Last, Epoch: apache.Epoch}
	unread, err := named.checkDirs()
	if err == nil && len(unread) > 0 {
		err = fmt.Errorf("--from: there is no directory version-2 of an Apache server in %s, or it can't be read", strings.Join(unread, ", "))
	}
	return err
}

// finished returns the result for mirrors that have become members.
func (f *Finish) finished(mirrors []*mirror.Mirror, tail []int) *Result {
	r := resultOf(mirrors[0], mirrors[0].Tree().Digest().String())
	r.Tail = tail
	for i, m := range mirrors {
		r.Members = append(r.Members, uint8(m.ID()))
		os.Remove(filepath.Join(f.Dirs[i], StatusFile)) // it counts for nothing
	}
	return r
}

func closeAll(mirrors []*mirror.Mirror, err *error) {
	for _, m := range mirrors {
		if m != nil {
			*err = errors.Join(*err, m.Close())
		}
	}
}

// choose returns the most advanced of Apache's servers, and their ensemble.
func (f *Finish) choose(mirrors []*mirror.Mirror) (best *apachefiles.Server, reason string, apache *source, err error) {
	best, reason, err = moving.Choose(f.From, f.LogDirs)
	if err != nil {
		return nil, "", nil, err
	}
	apache, err = newSource(best.Last(), best.Epoch(), f.From, f.LogDirs, mirrors)
	return best, strings.TrimSuffix(best.DataDir+": "+reason, ": "), apache, err
}

// open opens all mirrors, none of which may run.
func (f *Finish) open(ctx context.Context) ([]*mirror.Mirror, error) {
	for _, dir := range f.Dirs {
		if s, err := ReadStatus(dir); err == nil { // a member has none
			f.followed = append(f.followed, s.From...)
		}
	}
	if len(f.ToLogs) > 0 && len(f.ToLogs) != len(f.Dirs) {
		return nil, fmt.Errorf("%d directories of copies and %d of their logs", len(f.Dirs), len(f.ToLogs))
	}
	mirrors := make([]*mirror.Mirror, len(f.Dirs))
	errs := make([]error, len(f.Dirs))
	var wg sync.WaitGroup
	for i, dir := range f.Dirs {
		place := data.Place{DataDir: dir, LogDir: dir}
		if len(f.ToLogs) > 0 {
			place.LogDir = f.ToLogs[i]
		}
		wg.Go(func() {
			mirrors[i], errs[i] = mirror.Open(ctx, place, datadirs.OfApache, f.Logger)
			if errors.Is(errs[i], vfs.ErrLocked) {
				errs[i] = fmt.Errorf("the mirror in %s is running: stop it first: %w", dir, errs[i])
			}
		})
	}
	wg.Wait()
	return mirrors, errors.Join(errs...)
}

// catchUp gives a mirror what it lacks of the log of the most advanced server, and returns how
// many transactions that were.
func (f *Finish) catchUp(m *mirror.Mirror, best *apachefiles.Server) (n int, err error) {
	if m.Founding() != nil {
		return 0, nil
	}
	config, _ := m.Tree().Data(datatree.ConfigPath)
	if err := moving.CheckMajority(best.Given(config), apachefiles.Voters(config), true, f.Single, best.DataDir); err != nil {
		return 0, err
	}
	if m.Last() > best.Last() {
		return 0, moreThanDisks(fmt.Sprintf("the copy of server %d", m.ID()), m.Last(), best)
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

// moreThanDisks returns the error for a copy that has more than Apache's servers.
func moreThanDisks(who string, last jute.Zxid, best *apachefiles.Server) error {
	return fmt.Errorf("%s has transactions up to %v, all of them confirmed, but Apache's servers only up to %v (%s): "+
		"they have lost some, or they are others, or the directories are copies from before they were stopped", who, last, best.Last(), best.DataDir)
}

// appendTo gives a mirror the next transaction. c is the copy in it.
func appendTo(m *mirror.Mirror, c *apachelink.Copy, x *apachefiles.Txn) error {
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
	for _, dir := range r.Unread {
		fmt.Fprintf(&b, "%s can't be read here: make sure that Apache's server there has not run since the decision\n", dir)
	}
	fmt.Fprintf(&b, "decided: with digest %s, %d znodes and %d sessions an ensemble begins in epoch %d\n", r.Digest, r.Znodes, r.Sessions, r.Epoch)
	if r.Warning != "" {
		fmt.Fprintf(&b, "warning: %s\n", r.Warning)
	}
	return b.String()
}
