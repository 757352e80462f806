package moving

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/zab"
)

// Restore says which backup to restore, or whose data, and where to.
type Restore struct {
	// From is a backup in a file, a directory of backups and segments, or the dataDir of a stopped
	// server or a copy of one. LogDir is the dataLogDir of that, From if it is empty.
	From, LogDir string
	// At is the moment to go back to. It needs a log, and so a directory.
	At history.Moment
	// To, ToLog and Members are those of Import.
	To, ToLog string
	Members   []zab.SID
}

// epochsAhead is by how many epochs a restored ensemble is ahead of its backup. The lost one
// may have had some leaders after the backup: clients that have seen their zxids are refused by
// servers with smaller ones.
const epochsAhead = 1000

// Run writes the data of a new server, or of all members of a new ensemble: its servers can't
// be mixed with those of the one that was backed up.
func (m *Restore) Run(ctx context.Context) (*Report, error) {
	places, err := placesIn(m.To, m.ToLog, m.Members)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	state, err := m.read(ctx, r)
	if err != nil {
		return nil, err
	}
	if len(m.Members) > 0 {
		state.Epoch += epochsAhead
	}
	r.DataDir, r.LogDir = m.From, cmp.Or(m.LogDir, m.From)
	r.describe(state)
	if err := data.Write(ctx, state, places...); err != nil {
		return r, err
	}
	for _, p := range places {
		r.Written = append(r.Written, p.DataDir)
	}
	return r, nil
}

func (m *Restore) read(ctx context.Context, r *Report) (*data.Contents, error) {
	info, err := os.Stat(m.From)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		a, err := archive.Read(ctx, archive.Dir(m.From))
		if err != nil {
			return nil, err
		}
		if len(a.Bases) > 0 {
			return m.readArchive(ctx, a, r)
		}
		return data.ReadAt(ctx, data.Place{DataDir: m.From, LogDir: cmp.Or(m.LogDir, m.From)}, m.At)
	case m.At != (history.Moment{}):
		return nil, fmt.Errorf("%s has one state, without a log: name a dataDir to go back to another", m.From)
	}
	if strings.HasSuffix(m.From, archive.ZstdSuffix) {
		a, err := archive.One(ctx, m.From)
		if err != nil {
			return nil, err
		}
		return m.readArchive(ctx, a, r)
	}
	return data.ReadSnapshot(ctx, m.From)
}

// readArchive returns the state of an archive at the moment.
func (m *Restore) readArchive(ctx context.Context, a *archive.Archive, r *Report) (*data.Contents, error) {
	f, err := a.StateAt(ctx, m.At)
	if err != nil {
		return nil, err
	}
	r.Chosen = f.String()
	if f.Unusable != nil {
		r.Warnings = append(r.Warnings, f.Unusable.Error())
	}
	return data.ContentsOf(f.Tree, &f.Ensemble, f.Secret), nil
}
