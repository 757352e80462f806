package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// naming is how the names of items are made and read: a prefix, a rank, "-" or "|" and
// the number. Lower ranks come first.
type naming struct {
	prefix string
	// format has one verb, for the rank, and is what follows the prefix; "" if all
	// items have the same rank.
	format string
	// digits is how many the rank has, 0 if that is open, base what they are to.
	digits, base int
	most         int64 // the highest rank
	framed       bool  // the data is in a frame
	slotted      bool  // the rank is a slot, and does not count
	flagged      bool  // a flag is before the data, and there is an ID in the name: see flag.go
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

// parse returns the item of that name.
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

// compare orders items: by rank, and by number, which wraps around after 2^31-1.
func compare(a, b *entry) int {
	if a.rank != b.rank {
		return cmp.Compare(a.rank, b.rank)
	}
	return cmp.Compare(a.number-b.number, 0)
}
