package takeover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/apachefiles"
	"github.com/zkd-project/zkd/migrate/mirror"
	"github.com/zkd-project/zkd/server/datatree"
)

// source is what is known of Apache's ensemble, whose history must have ended.
type source struct {
	// Ports are addresses at which its servers listen for each other.
	Ports []string
	// Dirs are data directories of its servers, and LogDirs their dataLogDirs, in the same order.
	Dirs, LogDirs []string
	// Last is the last transaction, and Epoch the greatest epoch that was promised to a leader. A
	// Founding has them, too.
	Last  jute.Zxid `json:"-"`
	Epoch uint32    `json:"-"`
}

// addPorts adds the addresses that mirrors followed, and those in the configuration that they have copied.
func (s *source) addPorts(followed []string, mirrors []*mirror.Mirror) error {
	s.Ports = append(s.Ports, followed...)
	for _, m := range mirrors {
		config, _ := m.Tree().Data(datatree.ConfigPath)
		s.Ports = append(s.Ports, apachefiles.Ports(config)...)
	}
	slices.Sort(s.Ports)
	s.Ports = slices.Compact(s.Ports)
	if len(s.Ports) == 0 {
		return fmt.Errorf("nothing says where Apache's servers were, so it can't be checked that they are stopped: "+
			"the directories of the copies have no file %s. Start zkd takeover mirror in one of them with --from, and stop it", StatusFile)
	}
	return nil
}

// dial connects to an address, and hangs up.
func dial(ctx context.Context, addr string) error {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", addr)
	if err == nil {
		conn.Close() // it was only tried
	}
	return err
}

// checkStopped returns an error if a server of Apache's can be dialled.
func (s *source) checkStopped(ctx context.Context, dial func(context.Context, string) error, log *zap.Logger) error {
	errs := make([]error, len(s.Ports))
	var wg sync.WaitGroup
	for i, addr := range s.Ports {
		wg.Go(func() { errs[i] = dial(ctx, addr) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	if i := slices.Index(errs, nil); i >= 0 {
		return fmt.Errorf("there is a server at the quorum port %s (or election port): stop all servers of Apache's ensemble first, followers before the leader. "+
			"If it is a server of zkd, it was started before all copies are members: stop it, and repeat the command", s.Ports[i])
	}
	for i, err := range errs {
		if !errors.Is(err, syscall.ECONNREFUSED) {
			log.Warn("can't find out whether a server of Apache's is stopped: make sure that it is", zap.String("address", s.Ports[i]), zap.Error(err))
		}
	}
	return nil
}

// checkMirror returns an error if a mirror has followed Apache's servers after the end of their history.
func (s *source) checkMirror(m *mirror.Mirror, dir string) error {
	if m.Founding() != nil || m.Last() <= s.Last && m.Accepted() <= s.Epoch {
		return nil
	}
	return s.ranAgain("the copy in "+dir, m.Last(), m.Accepted())
}

// checkDirs returns an error if one of the data directories has more than the end of the history. It
// returns those that can't be read here.
func (s *source) checkDirs() (unread []string, err error) {
	for i, dir := range s.Dirs {
		logDir := dir
		if len(s.LogDirs) > 0 {
			logDir = s.LogDirs[i]
		}
		if _, err := os.ReadDir(filepath.Join(dir, "version-2")); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			unread = append(unread, dir)
			continue
		}
		found, err := apachefiles.Find(dir, logDir)
		if err != nil {
			return unread, err
		}
		if found.Last() > s.Last || found.Epoch() > s.Epoch {
			return unread, s.ranAgain("the server of "+dir, found.Last(), found.Epoch())
		}
	}
	return unread, nil
}

// ranAgain returns the error for a directory or mirror with more than the end of the history.
func (s *source) ranAgain(who string, last jute.Zxid, epoch uint32) error {
	return fmt.Errorf("%s has transactions up to %v and epoch %d, and the decision is about %v and epoch %d: Apache's servers have run after it, and may have acknowledged more. "+
		"If no server of zkd has served clients yet, remove the decision and the data of each copy that is a member already; start Apache's servers and the mirrors, wait until these are synced, "+
		"and begin the takeover again. If one has, see \"If Apache's servers ran again\" in docs/moving.md", who, last, epoch, s.Last, s.Epoch)
}

// absolute returns the directories as names for other processes.
func absolute(dirs []string) ([]string, error) {
	list := make([]string, len(dirs))
	var errs []error
	for i, dir := range dirs {
		var err error
		list[i], err = filepath.Abs(dir)
		errs = append(errs, err)
	}
	return list, errors.Join(errs...)
}

// newSource returns the ensemble whose history ends at last, and dirs are directories.
// If some of the mirrors are members already, their founding says where its history has ended.
func newSource(last jute.Zxid, epoch uint32, dirs, logDirs []string, mirrors []*mirror.Mirror) (s *source, err error) {
	s = &source{Last: last, Epoch: epoch}
	for _, m := range mirrors {
		if f := m.Founding(); f != nil {
			s.Last, s.Epoch = f.Source()
			break
		}
		s.Epoch = max(s.Epoch, m.Accepted())
	}
	var err1, err2 error
	s.Dirs, err1 = absolute(dirs)
	s.LogDirs, err2 = absolute(logDirs)
	return s, cmp.Or(err1, err2)
}
