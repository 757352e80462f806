package standby

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/migrate/mirror"
	"github.com/zkd-project/zkd/server/api"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/archive/source"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/show"
)

// Options are those of a standby.
type Options struct {
	// Of are the servers to follow.
	Of *source.Servers
	// Place is where the copy is. A copy that exists has the id of a server; it must be the same.
	Place data.Place
	// Readers has the ports where clients may read the copy, and what those are allowed.
	// Version is what srvr shows there.
	Readers *config.Config
	Version string
	// Ensemble asks this standby how it is, for the HTTP API; nil if nobody can.
	Ensemble func(context.Context) *api.Ensemble
	// Serve opens the ports for the pages of the AdminServer, by which others may follow the copy, and for
	// metrics of what view returns.
	Serve  func(pages http.Handler, view func() *show.View) (stop func(), err error)
	Logger *zap.Logger
}

// firstPause and longestPause are the pauses after a stream has ended.
const firstPause, longestPause = 200 * time.Millisecond, 5 * time.Second

// follower is a running standby.
type follower struct {
	o      Options
	log    *zap.Logger
	data   *mirror.Mirror
	status *reporter
}

// Run keeps a copy of a running ensemble until ctx is done, or an operator is needed.
func Run(ctx context.Context, o Options) (err error) {
	of, err := data.MirrorOf(o.Place)
	if err != nil {
		return err
	}
	if of == 0 {
		if err := o.Place.CheckEmpty(); err != nil {
			return err
		}
		if err := data.CreateMirror(o.Place, datadirs.OfZkd); err != nil {
			return err
		}
	}
	m, err := open(ctx, o.Place, o.Logger)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	status := newReporter(&o)
	defer func() {
		err = errors.Join(err, m.Close())
		if status.data != nil {
			status.copied(m)
			status.close()
		}
	}()
	defer context.AfterFunc(ctx, m.Stop)()
	if m.Promoted() {
		return fmt.Errorf("zkd standby promote was interrupted in %s: repeat that command", o.Place.DataDir)
	}
	o.Of.Progress = status.progress
	if err := m.ServeReaders(mirror.Options{Config: o.Readers, Version: o.Version, Standby: status.standing, Logger: o.Logger}); err != nil {
		return err
	}
	end, err := o.Serve(m.Pages(o.Ensemble), m.View)
	if err != nil {
		return err
	}
	defer end()
	f := &follower{o: o, log: o.Logger, data: m, status: status}
	if err := f.removeTemporary(); err != nil {
		return err
	}
	status.start(m)
	return f.run(ctx)
}

// open opens a copy, which must be that of the server.
func open(ctx context.Context, p data.Place, logger *zap.Logger) (*mirror.Mirror, error) {
	m, err := mirror.Open(ctx, p, datadirs.OfZkd, logger)
	if err == nil && m.ID() != p.Server {
		err = errors.Join(fmt.Errorf("the copy in %s is of server %d, not %d", p.DataDir, m.ID(), p.Server), m.Close())
	}
	return m, err
}

// stop is an error that another attempt does not mend.
type stop struct{ error }

func (s stop) Unwrap() error { return s.error }

// lasting returns an error of this machine as one that another attempt does not mend, unless something is short here.
func lasting(err error) error {
	if vfs.IsShortage(err) {
		return err
	}
	return stop{err}
}

// run follows one server after the other.
func (f *follower) run(ctx context.Context) error {
	delay := firstPause
	for {
		last := f.data.Last()
		err := f.step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case f.data.Failure() != nil:
			return f.data.Failure()
		case errors.As(err, new(stop)), errors.As(err, new(source.Refused)) && !f.status.followed(): // with what it was started with it never can
			return err
		}
		if f.data.Last() != last {
			delay = firstPause
		}
		f.o.Of.Another()
		f.status.copied(f.data)
		f.status.lost(err)
		f.log.Warn("the ensemble is not followed", zap.Error(err), zap.Stringer("zxid", f.data.Last()), zap.Duration("again in", delay))
		if pause.For(ctx, delay/2+rand.N(delay)) != nil {
			return nil
		}
		delay = min(2*delay, longestPause)
	}
}

// step gets a state, unless there is one, and follows the log after it as long as that works.
func (f *follower) step(ctx context.Context) error {
	if f.data.Ensemble().Seeded() {
		err := f.follow(ctx)
		if !errors.Is(err, source.ErrPurged) {
			return err
		}
		f.log.Info("the log does not reach back to the copy: getting the state", zap.Stringer("zxid", f.data.Last()))
	}
	if err := f.fetch(ctx); err != nil {
		return err
	}
	return f.follow(ctx)
}

const temporary = "standby-*.tmp"

// removeTemporary removes what an interrupted fetch has left.
func (f *follower) removeTemporary() error {
	left, err := filepath.Glob(filepath.Join(f.o.Place.DataDir, temporary))
	for _, name := range left {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// fetch makes the state of a server that of the copy.
func (f *follower) fetch(ctx context.Context) (err error) {
	f.status.fetching()
	file, err := os.CreateTemp(f.o.Place.DataDir, temporary)
	if err != nil {
		return lasting(err)
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	from, err := f.o.Of.Fetch(ctx, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	a, err := archive.One(ctx, file.Name())
	if err != nil {
		return err
	}
	found, err := a.StateAt(ctx, history.Moment{})
	if err != nil {
		return err
	}
	switch copies.Installs(f.data.Ensemble(), &found.Ensemble) {
	case copies.NoEnsemble:
		return stop{fmt.Errorf("%s is a server without an ensemble: a standby follows an ensemble, which with standaloneEnabled=false may have one member", from.Admin)}
	case copies.OtherHistory:
		return source.Refused{Err: fmt.Errorf("%s has another history than the copy in %s: follow it into another directory", from.Admin, f.o.Place.DataDir)}
	case copies.Behind:
		return fmt.Errorf("%s is at %v, and the copy at %v", from.Admin, found.Ensemble.Zxid, f.data.Last())
	}
	if err := f.data.InstallState(ctx, found.Tree, found.Ensemble); err != nil {
		return lasting(err)
	}
	f.status.fetched(f.data)
	f.log.Info("the state was installed", zap.String("from", from.Admin), zap.Stringer("zxid", f.data.Last()), zap.Int("znodes", found.Tree.Stats().Nodes))
	return nil
}

// follow copies the log of one server until the stream ends.
func (f *follower) follow(ctx context.Context) error {
	log, err := f.o.Of.Log(ctx, copies.PointOf(f.data.Ensemble()))
	if err != nil {
		return err
	}
	defer log.Close()
	more, err := f.ask(ctx, log)
	if err != nil {
		return err
	}
	f.status.following(log)
	ctx, end := context.WithCancel(ctx)
	var asking sync.WaitGroup
	if more {
		asking.Go(func() { f.askAgain(ctx, log) })
	}
	defer asking.Wait()
	defer end()
	f.log.Info("following", zap.String("server", log.Admin), zap.Stringer("after", f.data.Last()))
	for {
		e, err := log.Next()
		if err != nil {
			return err
		}
		if e == nil {
			f.status.current(f.data, log.Behind())
			continue
		}
		if err := f.data.AppendEntry(e); err != nil {
			return stop{fmt.Errorf("entry %v: %w", e.Zxid, err)}
		}
		f.status.heard(e.Zxid)
	}
}

// askEach is how often a server is asked what the copy lacks.
const askEach = time.Second

// askAgain asks the server that is followed what the copy lacks, until ctx is done, and gives the log up if it must not be followed, or
// if the server hangs: neither a part of the log nor an answer comes.
func (f *follower) askAgain(ctx context.Context, log *source.Log) {
	for pause.For(ctx, askEach) == nil {
		_, err := f.ask(ctx, log)
		if silent := log.Silent(); err == nil && silent >= silentAfter {
			err = fmt.Errorf("nothing was heard for %v", silent.Round(time.Second))
		}
		if err != nil {
			log.GiveUp(err)
			return
		}
	}
}

// ask asks a server what the copy lacks. more is false if the server knows no such question. The error is why it must not be followed.
func (f *follower) ask(ctx context.Context, log *source.Log) (more bool, err error) {
	asked := time.Now()
	left, err := log.Left(ctx, f.status.at())
	switch {
	case errors.Is(err, source.ErrNotTold):
		return false, nil
	case err != nil:
		if ctx.Err() == nil {
			f.log.Info("the server does not say what the copy lacks", zap.String("server", log.Admin), zap.Error(err))
		}
	case copies.Circle(f.data.Founder().Incarnation, left.Via):
		return false, fmt.Errorf("%s gets the log from this standby, and can't send it back: name servers of the ensemble in --of, or a standby that follows those", log.Admin)
	default:
		f.status.told(left, asked)
	}
	return true, nil
}
