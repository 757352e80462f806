package apachefiles

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// Server is the directories of one server, as they were listed.
type Server struct {
	DataDir, LogDir string
	ID              int // of a member of an ensemble, 0 if there is no file myid

	epoch     uint32 // the greatest that this server, or one that Best has seen, has promised
	current   uint32 // of its history
	seen      []int  // ids of this server and those that Best has seen
	snapshots []file // newest first
	logs      []file // oldest first
	last      jute.Zxid
	damaged   error // why last may not be the last one
}

// file is a snapshot or a log.
type file struct {
	path     string
	zxid     jute.Zxid // in its name
	size     int64
	modified int64
}

// Member reports whether the server was a member of an ensemble.
func (s *Server) Member() bool { return s.ID != 0 || s.current != 0 }

// Last returns the zxid of the last transaction.
func (s *Server) Last() jute.Zxid { return s.last }

// Given returns how many servers with a vote Best has chosen from, by the text of a configuration node.
// A server without an id counts as one.
func (s *Server) Given(config []byte) (n int) {
	var voting []int
	for id := range voters(config) {
		voting = append(voting, id)
	}
	for _, id := range s.seen {
		if id == 0 || len(voting) == 0 || slices.Contains(voting, id) {
			n++
		}
	}
	return n
}

// Epoch returns the greatest epoch that the server, or one that Best has seen, has promised.
func (s *Server) Epoch() uint32 { return s.epoch }

// Find returns what a server of Apache's has in its directories. logDir may be empty: then the
// logs are in dataDir, too.
func Find(dataDir, logDir string) (*Server, error) {
	s, err := find(dataDir, logDir)
	if err != nil {
		return nil, err
	}
	return s, s.readEpochs()
}

// FindInEpoch is Find for a member that has promised an epoch, whatever its files say of that.
func FindInEpoch(dataDir, logDir string, epoch uint32) (*Server, error) {
	s, err := find(dataDir, logDir)
	if err == nil && epoch < s.last.Epoch() {
		err = fmt.Errorf("epoch %d is before that of the last transaction in %s, which is %d", epoch, dataDir, s.last.Epoch())
	}
	if err != nil {
		return nil, err
	}
	s.current, s.epoch = epoch, epoch
	return s, nil
}

func find(dataDir, logDir string) (*Server, error) {
	s := &Server{DataDir: dataDir, LogDir: cmp.Or(logDir, dataDir)}
	if err := s.list(); err != nil {
		return nil, err
	}
	if len(s.snapshots)+len(s.logs) == 0 {
		return nil, fmt.Errorf("there are neither snapshots nor logs of Apache ZooKeeper in %s (version-2/snapshot.*, log.*)", strings.Join(s.dirs(), " or "))
	}
	var err error
	if s.ID, err = readNumber(filepath.Join(dataDir, "myid")); err != nil {
		return nil, err
	}
	s.seen = []int{s.ID}
	return s, s.findLast()
}

// dirs returns the directories with version-2.
func (s *Server) dirs() []string {
	dirs := []string{filepath.Clean(s.DataDir)}
	if log := filepath.Clean(s.LogDir); log != dirs[0] {
		dirs = append(dirs, log)
	}
	return dirs
}

// list lists the files. Both directories may have both kinds.
func (s *Server) list() error {
	s.snapshots, s.logs = nil, nil
	for _, dir := range s.dirs() {
		entries, err := os.ReadDir(filepath.Join(dir, "version-2"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			kind, zxid, ok := parseName(e.Name())
			if !ok {
				continue
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			f := file{filepath.Join(dir, "version-2", e.Name()), zxid, info.Size(), info.ModTime().UnixNano()}
			if kind == "log" {
				s.logs = append(s.logs, f)
			} else {
				s.snapshots = append(s.snapshots, f)
			}
		}
	}
	slices.SortFunc(s.logs, func(a, b file) int { return cmp.Compare(a.zxid, b.zxid) })
	slices.SortFunc(s.snapshots, func(a, b file) int { return cmp.Or(cmp.Compare(b.zxid, a.zxid), cmp.Compare(a.path, b.path)) })
	return nil
}

// parseName parses the name of a snapshot or a log. What is after the second dot is the
// compression of a snapshot.
func parseName(name string) (kind string, zxid jute.Zxid, ok bool) {
	kind, rest, _ := strings.Cut(name, ".")
	hex, _, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseInt(hex, 16, 64)
	return kind, jute.Zxid(n), err == nil && (kind == "snapshot" || kind == "log")
}

// readNumber reads a file with a number, of which only the first line counts. It returns 0 if
// there is no such file.
func readNumber(path string) (int, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	line, _, _ := strings.Cut(string(b), "\n")
	n, perr := strconv.ParseUint(strings.TrimSpace(line), 10, 31)
	if err == nil && perr != nil {
		err = fmt.Errorf("%s: %.50q is not a number", path, line)
	}
	return int(n), err
}

// readEpochs reads the files of a member's epochs. They must fit the history.
func (s *Server) readEpochs() error {
	read := func(name string) (uint32, error) {
		n, err := readNumber(filepath.Join(s.DataDir, "version-2", name))
		return uint32(n), err
	}
	current, err1 := read("currentEpoch")
	accepted, err2 := read("acceptedEpoch")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if current != 0 && current < s.last.Epoch() {
		unfinished, err := read("currentEpoch.tmp") // a crash came before its rename
		if err != nil || unfinished < s.last.Epoch() {
			return fmt.Errorf("%s/version-2/currentEpoch is %d, but the history reaches epoch %d: is it of another server? If not, --epoch %d imports it", s.DataDir, current, s.last.Epoch(), s.last.Epoch())
		}
		current = unfinished
	}
	s.current, s.epoch = current, max(accepted, current, s.last.Epoch())
	return nil
}

// findLast finds the last zxid of the history: of the last record, or in the name of the newest
// snapshot that was finished.
func (s *Server) findLast() error {
	var torn []tornFile
	for _, f := range slices.Backward(s.logs) {
		records := 0
		err := f.records(func(r record) error {
			s.last = max(s.last, r.zxid())
			records++
			return nil
		})
		if end, ok := errors.AsType[*endError](err); ok {
			torn = append(torn, tornFile{f, end})
		} else if err != nil {
			return err
		}
		if records > 0 {
			break
		}
	}
	for _, f := range torn {
		s.damaged = cmp.Or(s.damaged, f.check(s.last))
	}
	for _, f := range s.snapshots {
		finished, err := f.finished()
		if err != nil {
			return err
		}
		if finished {
			s.last = max(s.last, f.zxid)
			break
		}
	}
	return nil
}

// records calls fn with each sound record of a log.
func (f *file) records(fn func(record) error) error {
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	l, err := newLogReader(in, f.size)
	for err == nil {
		var r record
		if r, err = l.next(); err == nil {
			err = fn(r)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("%s: %w", f.path, err)
}

// unchanged returns an error if the files are not those that were listed.
func (s *Server) unchanged() error {
	now := *s
	if err := now.list(); err != nil {
		return err
	}
	if !slices.Equal(now.snapshots, s.snapshots) || !slices.Equal(now.logs, s.logs) {
		return fmt.Errorf("the files in %s have changed while they were read: stop the server first", strings.Join(s.dirs(), " and "))
	}
	return nil
}

// history returns the epoch of the server's history: without a file that says it, that of the last
// transaction.
func (s *Server) history() uint32 { return max(s.current, s.last.Epoch()) }

// Best returns the server that an election would choose: the one with the greatest epoch, and
// then with the most transactions. reason says so in words. The error is that another one may have more.
func Best(servers []*Server) (best *Server, reason string, err error) {
	best = slices.MaxFunc(servers, func(a, b *Server) int {
		return cmp.Or(cmp.Compare(a.history(), b.history()), cmp.Compare(a.last, b.last))
	})
	if len(servers) == 1 {
		return best, "", nil
	}
	var others []string
	for _, s := range servers {
		if s == best {
			continue
		}
		if s.damaged != nil {
			return nil, "", fmt.Errorf("%w. So it is unknown what this server has confirmed: leave %s out, if the others are a majority", s.damaged, s.DataDir)
		}
		best.epoch = max(best.epoch, s.epoch)
		best.seen = append(best.seen, s.ID)
		others = append(others, fmt.Sprintf("%s has epoch %d, zxid %v", s.DataDir, s.history(), s.last))
	}
	return best, fmt.Sprintf("it has epoch %d, zxid %v; %s", best.history(), best.last, strings.Join(others, "; ")), nil
}
