package subtree

import (
	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/jute"
)

// OpChildren is the operation that Live uses.
const OpChildren = jute.OpChildrenPage

// SameData and SameACL are what Diff goes by.
var (
	SameData = treediff.SameData
	SameACL  = treediff.SameACL
)
