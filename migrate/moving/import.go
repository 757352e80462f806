package moving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/migrate/apachefiles"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// Import says what to import, and where to.
type Import struct {
	// From are the data directories of Apache's servers, and LogDirs their dataLogDirs, in the
	// same order; none if they are the same.
	From, LogDirs []string
	// Single accepts the data of one member of an ensemble, which may lack what the others have
	// confirmed.
	Single bool
	// Epoch is the greatest epoch that the server has promised, if its files can't be used for
	// that; 0 if they can. It is for one server.
	Epoch uint32
	apachefiles.Options

	// To is the dataDir to be written, and ToLog its dataLogDir, To if it is empty. With
	// Members, To has a directory for each of them, named by its id.
	To, ToLog string
	Members   []zab.SID
}

// Run imports. Without To, it only reads and reports.
func (m *Import) Run(ctx context.Context) (*Report, error) {
	source, reason, err := m.choose()
	if err != nil {
		return nil, err
	}
	places, err := m.places()
	if err != nil {
		return nil, err
	}
	if err := data.CheckEmpty(places...); err != nil {
		return nil, err
	}
	tree, sum, err := source.Load(m.Options)
	r := &Report{Summary: *sum, Chosen: reason}
	if err != nil {
		return r, err
	}
	switch err := CheckMajority(source.Given(tree.Config()), apachefiles.Voters(tree.Config()), source.Member(), m.Single, source.DataDir); {
	case err != nil && m.To == "": // nothing is written
		r.Warnings = append(r.Warnings, err.Error())
	case err != nil:
		return r, err
	}
	if len(m.Members) == 0 && uint32(tree.Last) >= 1<<32-2 {
		return r, fmt.Errorf("zxid %v is the last one of its epoch, and a server alone can't begin another: import for an ensemble (--members)", tree.Last)
	}
	ours, err := Convert(tree)
	if err != nil {
		return r, err
	}
	r.Digest = ours.Digest().String()
	if text := LongLists(ours); text != "" {
		r.Warnings = append(r.Warnings, text)
	}
	if len(places) == 0 {
		return r, nil
	}
	if err := data.Write(ctx, &data.Contents{Tree: ours, Epoch: r.Epoch}, places...); err != nil {
		return r, err
	}
	for _, p := range places {
		r.Written = append(r.Written, p.DataDir)
	}
	return r, nil
}

// choose finds the server whose data to import.
func (m *Import) choose() (*apachefiles.Server, string, error) {
	switch {
	case m.Epoch == 0:
		return Choose(m.From, m.LogDirs)
	case m.Epoch >= 1<<31-1:
		return nil, "", fmt.Errorf("epoch %d leaves no later one", m.Epoch)
	case len(m.From) != 1 || len(m.LogDirs) > 1:
		return nil, "", errors.New("--epoch is for one server: of several, the files say which one is the most advanced")
	}
	logDir := ""
	if len(m.LogDirs) > 0 {
		logDir = m.LogDirs[0]
	}
	s, err := apachefiles.FindInEpoch(m.From[0], logDir, m.Epoch)
	return s, "", err
}

// Choose finds the files of servers of an ensemble of Apache's, and returns the most advanced
// one. logDirs are their dataLogDirs, none if they are the same.
func Choose(from, logDirs []string) (best *apachefiles.Server, reason string, err error) {
	if len(logDirs) > 0 && len(logDirs) != len(from) {
		return nil, "", fmt.Errorf("%d directories of data and %d of logs", len(from), len(logDirs))
	}
	var servers []*apachefiles.Server
	for i, dir := range from {
		logDir := dir
		if len(logDirs) > 0 {
			logDir = logDirs[i]
		}
		s, err := apachefiles.Find(dir, logDir)
		if err != nil {
			return nil, "", err
		}
		if slices.ContainsFunc(servers, func(o *apachefiles.Server) bool { return o.DataDir == s.DataDir || o.ID != 0 && o.ID == s.ID }) {
			return nil, "", fmt.Errorf("%s is of a server whose directory comes before", dir)
		}
		servers = append(servers, s)
	}
	return apachefiles.Best(servers)
}

// places returns where to write.
func (m *Import) places() (list []data.Place, err error) {
	if m.To == "" {
		return nil, nil
	}
	if err := m.apart(m.To, cmp.Or(m.ToLog, m.To)); err != nil {
		return nil, err
	}
	return placesIn(m.To, m.ToLog, m.Members)
}

// placesIn returns the directories of a server, or below to those of each member of an ensemble.
func placesIn(to, toLog string, members []zab.SID) (list []data.Place, err error) {
	log := cmp.Or(toLog, to)
	if len(members) == 0 {
		return []data.Place{{DataDir: to, LogDir: log}}, nil
	}
	for _, id := range members {
		name := strconv.Itoa(int(id))
		list = append(list, data.Place{DataDir: filepath.Join(to, name), LogDir: filepath.Join(log, name), Server: id})
	}
	slices.SortFunc(list, func(a, b data.Place) int { return cmp.Compare(a.Server, b.Server) })
	if len(slices.CompactFunc(slices.Clone(list), func(a, b data.Place) bool { return a == b })) < len(list) {
		return nil, errors.New("a member comes twice")
	}
	return list, nil
}

// apart returns an error if one of the directories is one that is read, or lies in one.
func (m *Import) apart(dirs ...string) error {
	for _, from := range slices.Concat(m.From, m.LogDirs) {
		for _, to := range dirs {
			a, err1 := filepath.Abs(from)
			b, err2 := filepath.Abs(to)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			if strings.HasPrefix(b+"/", a+"/") {
				return fmt.Errorf("%s is in %s, which is only read: name another directory", to, from)
			}
		}
	}
	return nil
}

// Convert makes a tree of zkd's of one of Apache's.
func Convert(from *apachefiles.Tree) (*datatree.Tree, error) {
	l := datatree.NewLoader()
	for id, timeoutMs := range from.Sessions {
		if err := l.AddSession(id, timeoutMs, true); err != nil {
			return nil, err
		}
	}
	err := from.Walk(func(path string, n *apachefiles.Node) error {
		return l.AddZnode(path, &datatree.NodeRow{
			Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid, Ctime: n.Ctime, Mtime: n.Mtime, Owner: n.Owner,
			Version: n.Version, Cversion: n.Cversion, Aversion: n.Aversion, Data: n.Data,
		}, n.ACL)
	})
	if err != nil {
		return nil, err
	}
	return l.FinishAt(from.Last)
}
