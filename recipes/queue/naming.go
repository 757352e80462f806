package queue

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// naming is how the nodes of items are called, and what is around their data. A name is a
// prefix, a rank, a separator and the number. Lower ranks come first.
type naming struct {
	prefix string
	// format has one verb, for the rank, and ends with the separator. It is "" if all
	// items have the same rank.
	format string
	// digits is the number of digits of the rank, 0 if that varies; base is their base.
	digits, base int
	most         int64 // the highest rank
	framed       bool  // the rank is a time, and the data is in a frame
	slotted      bool  // the rank is a slot, and does not count
	flagged      bool  // the name has an ID, and the data a flag before it
}

var (
	apacheNaming = naming{prefix: "qn-"}
	kazooNaming  = naming{prefix: "entry-", format: "%03d-", digits: 3, base: 10, most: 999}
	bookNaming   = naming{prefix: "queue-", format: "%02d-", digits: 2, base: 10, most: 99}
	delayNaming  = naming{prefix: "queue-|", format: "%08X|", base: 16, most: 1<<63 - 1, framed: true}
	flagNaming   = naming{prefix: "_c_", flagged: true}
	slotNaming   = naming{prefix: "qn-", format: "%06d-", digits: 6, base: 10, most: 999_999, slotted: true}
)

func (l Layout) naming() naming {
	switch l {
	case Kazoo:
		return kazooNaming
	case Book:
		return bookNaming
	}
	return apacheNaming
}

// stem returns the name of a new item without the number.
func (n naming) stem(rank int64) string {
	if n.format == "" {
		return n.prefix
	}
	return n.prefix + fmt.Sprintf(n.format, rank)
}

// parse returns the item with that name.
func (n naming) parse(name string) (*entry, bool) {
	rest, ok := strings.CutPrefix(name, n.prefix)
	if !ok {
		return nil, false
	}
	if n.flagged {
		i := strings.LastIndex(rest, label)
		if i < 0 {
			return nil, false
		}
		rest = rest[i+len(label):]
	}
	rank := int64(0)
	if n.format != "" {
		separator := n.format[len(n.format)-1:]
		var digits string
		digits, rest, ok = strings.Cut(rest, separator)
		r, err := strconv.ParseUint(digits, n.base, 63)
		if !ok || err != nil || n.digits > 0 && len(digits) != n.digits {
			return nil, false
		}
		rank = int64(r)
	}
	number, ok := line.Number(rest, "")
	e := &entry{name: name, rank: rank, number: number}
	if n.slotted {
		e.rank, e.slot = 0, rank
	}
	return e, ok
}

// parseAll returns the items of a list, the first one first.
func (n naming) parseAll(path string, names []string) ([]*entry, error) {
	entries := make([]*entry, 0, len(names))
	for _, name := range names {
		e, ok := n.parse(name)
		if !ok {
			return nil, fmt.Errorf("%w: %s has a child %q, which is no item; delete it, or use another path", recipes.ErrLayout, path, name)
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, compare)
	return entries, nil
}

// compare orders items by rank, and then by number, which wraps around after 2^31-1.
func compare(a, b *entry) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.number-b.number, 0))
}

// Curator's DistributedQueue, and the queues built on it, have several items in a node:
//
//	version    4 bytes: 0x00010001
//	item       1 byte 0x01, 4 bytes length, the data; any number of them
//	end        1 byte 0x02
//
// Numbers are big-endian. A Delay queue writes one item into a node.
const (
	frameVersion = 0x00010001
	frameItem    = 1
	frameEnd     = 2
	frameHead    = 4 + 1 + 4
)

// The items of a TwoPhase queue are called "_c_", the ID as line.Escape writes it, label
// and the number. Their data is the flag, one character, and the item. An item becomes
// consumable by the only change of its node, from version 0 to 1.
const (
	label        = "-item-"
	isDraft      = '0'
	isConsumable = '1'
)

// errDraft means that an item can't be taken yet.
var errDraft = errors.New("the item is a draft")

// flag returns the data of the node of an item with that flag.
func flag(f byte, item []byte) []byte { return append([]byte{f}, item...) }

// encode returns the data of a new item's node.
func (n naming) encode(item []byte) []byte {
	switch {
	case n.flagged:
		return flag(isDraft, item)
	case n.framed:
		b := binary.BigEndian.AppendUint32(make([]byte, 0, frameHead+len(item)+1), frameVersion)
		b = binary.BigEndian.AppendUint32(append(b, frameItem), uint32(len(item)))
		return append(append(b, item...), frameEnd)
	}
	return item
}

// decode returns the item in the data of the node at path. The error is errDraft, or wraps
// recipes.ErrLayout.
func (n naming) decode(path string, b []byte) ([]byte, error) {
	switch {
	case n.flagged && len(b) > 0 && b[0] == isConsumable:
		return b[1:], nil
	case n.flagged && len(b) > 0 && b[0] == isDraft:
		return nil, errDraft
	case n.flagged:
		return nil, fmt.Errorf("%w: %s has no flag before its data, as those of two-phase queues have; delete it", recipes.ErrLayout, path)
	case !n.framed:
		return b, nil
	case len(b) < frameHead+1 || binary.BigEndian.Uint32(b) != frameVersion || b[4] != frameItem:
		return nil, fmt.Errorf("%w: %s has no item in it as Curator's queues have; delete it", recipes.ErrLayout, path)
	}
	size := int64(binary.BigEndian.Uint32(b[5:]))
	if end := frameHead + size; end != int64(len(b))-1 || b[end] != frameEnd {
		return nil, fmt.Errorf("%w: %s has more than one item in it, or a broken one: use put, not putMulti; delete it", recipes.ErrLayout, path)
	}
	return b[frameHead : frameHead+size], nil
}
