package auth

import (
	"errors"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// ErrOtherEnsemble means that the client expects another ensemble. Its connection must be
// closed without an answer, so that it tries another server: an answer would be fatal to
// the client.
var ErrOtherEnsemble = errors.New("client expects an ensemble with another name")

// Ensemble is the scheme by which clients check that they have reached the right
// ensemble. It proves no identity, and no ACL may name it.
type Ensemble struct{ names []string }

// NewEnsemble returns the scheme for an ensemble with these names. Without names it
// accepts every client.
func NewEnsemble(names ...string) *Ensemble { return &Ensemble{names} }

// Scheme returns "ensemble".
func (*Ensemble) Scheme() string { return "ensemble" }

// Personal returns false.
func (*Ensemble) Personal() bool { return false }

// Valid returns false.
func (*Ensemble) Valid(string) bool { return false }

// Match returns false.
func (*Ensemble) Match(id, expr string) bool { return false }

// ProvePacket fails with ErrOtherEnsemble if data is a name that the ensemble does not
// have.
func (e *Ensemble) ProvePacket(data []byte) (Proof, error) {
	if len(data) > 0 && len(e.names) > 0 && !slices.Contains(e.names, jute.Text(data)) {
		return Proof{}, ErrOtherEnsemble
	}
	return Proof{}, nil
}
