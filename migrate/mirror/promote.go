package mirror

import (
	"context"
	"slices"

	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/datatree"
)

// Complete reports whether the ensemble was retired for a successor, and the copy has everything.
func (m *Mirror) Complete() bool { return copies.Complete(m.Tree(), m.Durable()) }

// MayBePromoted reports whether what operators say covers what the copy may lack.
func (m *Mirror) MayBePromoted(c copies.Consent) bool { return c.Covers(m.Tree(), m.Durable()) }

// Promoted reports whether Promote has begun to make the data that of a member.
func (m *Mirror) Promoted() bool { return slices.Contains(m.ensemble.Admitted, m.Founder()) }

// promotedOnly reports whether no leader has begun an epoch since Promote.
func (m *Mirror) promotedOnly() bool { return m.Promoted() && m.ensemble.Members == nil }

// Promote makes the copy of an ensemble of zkd the data of a member of a new ensemble. members have
// equal copies, and are promoted with the same members; this one is among them. Sessions keep their passwords.
// Promote may be called again until a server has started with the data.
func (m *Mirror) Promote(ctx context.Context, members []Founder) error {
	if !m.Promoted() {
		next := copies.Succeed(&m.ensemble, m.Tree(), members)
		if next.Serves != nil {
			m.applyTo(next.Serves)
		}
		if err := m.Accept(next.Epoch); err != nil {
			return err
		}
		if err := m.InstallState(ctx, m.Tree(), next.State); err != nil {
			return err
		}
	}
	if m.member {
		return nil
	}
	return m.endMirror()
}

// applyTo applies a transaction to the state that is about to be installed.
func (m *Mirror) applyTo(txn *datatree.Txn) {
	var applied datatree.Applied
	m.state.Lock()
	m.Tree().Apply(txn, &applied)
	m.state.Unlock()
}
