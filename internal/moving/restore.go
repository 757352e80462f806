package moving

import (
	"context"

	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/server/zab"
)

// Restore says which backup to restore, and where to.
type Restore struct {
	From string // a snapshot
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
	state, err := server.ReadSnapshot(ctx, m.From)
	if err != nil {
		return nil, err
	}
	if len(m.Members) > 0 {
		state.Epoch += epochsAhead
	}
	r := &Report{}
	r.DataDir, r.LogDir = m.From, m.From
	r.describe(state)
	if err := server.WriteState(ctx, state, places...); err != nil {
		return r, err
	}
	for _, p := range places {
		r.Written = append(r.Written, p.DataDir)
	}
	return r, nil
}
