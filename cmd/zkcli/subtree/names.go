package subtree

import "github.com/zkd-project/zkd/internal/treediff"

// What nodes are, and how they differ, package treediff says.
type (
	Node        = treediff.Node
	Kind        = treediff.Kind
	Difference  = treediff.Difference
	DiffOptions = treediff.DiffOptions
	Counts      = treediff.Counts
	Report      = treediff.Report
	Progress    = treediff.Progress
)

// The kinds.
const (
	Persistent = treediff.Persistent
	Ephemeral  = treediff.Ephemeral
	Container  = treediff.Container
	TTL        = treediff.TTL
)
