package queue

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/recipes"
)

// The items of a TwoPhase queue are called "_c_", the ID, label and the number; the ID as
// line.Escape has it. Their data is one character, the flag, and what was offered. An
// item becomes consumable once, by the one change of its node, from version 0 to 1.
const (
	label        = "-item-"
	isDraft      = '0'
	isConsumable = '1'
)

// errDraft is that an item can't be taken yet.
var errDraft = errors.New("the item is a draft")

// flag returns what the node of an item has in it.
func flag(f byte, data []byte) []byte { return append([]byte{f}, data...) }

// unflag returns the item in a node, or errDraft. path is for other errors.
func unflag(path string, b []byte) ([]byte, error) {
	switch {
	case len(b) > 0 && b[0] == isConsumable:
		return b[1:], nil
	case len(b) > 0 && b[0] == isDraft:
		return nil, errDraft
	}
	return nil, fmt.Errorf("%w: %s has no flag before its data, as those of two-phase queues have; delete it", recipes.ErrLayout, path)
}
