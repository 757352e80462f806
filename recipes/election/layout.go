package election

import (
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Layout is how the nodes of candidates are named. All candidates of an election must have
// the same; the package's documentation says which programs use which.
type Layout int

const (
	// CuratorLatch is the layout of LeaderLatch: "_c_", a GUID and "-latch-".
	CuratorLatch Layout = iota
	// CuratorSelector is that of LeaderSelector, which is InterProcessMutex's: "_c_", a
	// GUID and "-lock-".
	CuratorSelector
	// Kazoo is that of kazoo's Election, which is its Lock's: a GUID without hyphens and
	// "__lock__".
	Kazoo
	// RecipePage is that of ZooKeeper's page of recipes: a GUID and "-n_".
	RecipePage
	// ElectionSupport is that of Apache's LeaderElectionSupport: "n_" alone. As such a
	// name does not identify its creator, candidates of one client must have different Data.
	ElectionSupport
	layouts // the number of layouts
)

// labels precede the number, by Layout; see places for the rest.
var labels = [layouts]string{"latch-", "lock-", "__lock__", "n_", "n_"}

func (l Layout) valid() bool { return l >= 0 && l < layouts }

// String returns the name.
func (l Layout) String() string {
	if !l.valid() {
		return fmt.Sprintf("Layout(%d)", int(l))
	}
	return [layouts]string{"CuratorLatch", "CuratorSelector", "Kazoo", "RecipePage", "ElectionSupport"}[l]
}

// places returns the layout of a line.
func (l Layout) places() *line.Layout {
	places := &line.Layout{Labels: []string{labels[l]}}
	switch l {
	case Kazoo:
		places.Stem = func(label, id string, _ client.SessionID) string {
			return strings.ReplaceAll(id, "-", "") + label
		}
	case RecipePage:
		places.Stem = func(label, id string, _ client.SessionID) string { return id + "-" + label }
	case ElectionSupport:
		places.Anonymous = true
		places.Kind = func(stem string) (int, bool) { return 0, stem == labels[ElectionSupport] }
	}
	return places
}
