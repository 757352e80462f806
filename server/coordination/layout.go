package coordination

import (
	"regexp"
	"strconv"
	"sync"
)

// layout is how a recipe of a library names its nodes. A pattern has the number of the node as its last part.
type layout struct {
	pattern func() *regexp.Regexp
	kind    string
	mode    string
	by      []string
}

// family is the library whose contenders wait for each other.
func (l *layout) family() string { return l.by[len(l.by)-1] }

// libraryNames are all libraries, in the order in which they are shown.
var libraryNames = []string{"zkd", "Curator", "go-zookeeper", "kazoo", "Apache"}

const number = `(-?[0-9]{9,10})$`

func row(pattern, kind, mode string, by ...string) layout {
	return layout{compiled("^" + pattern + number), kind, mode, by}
}

// compiled returns a pattern that is compiled when it is first used, as few servers are asked for it.
func compiled(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// layouts are those of nodes that have numbers. The first one that fits is meant.
var layouts = []layout{
	row(`.*-p[0-9]+-read-(held-)?`, ReadWrite, "read", "zkd"),
	row(`.*-p[0-9]+-write-(held-)?`, ReadWrite, "write", "zkd"),
	row(`.*__READ__`, ReadWrite, "read", "zkd", "Curator"),
	row(`.*__WRIT__`, ReadWrite, "write", "zkd", "Curator"),
	row(`.*__rlock__`, ReadWrite, "read", "kazoo"),
	row(`.*__lock__`, Lock, "", "zkd", "kazoo"),
	row(`x-(-?[0-9]+)-([0-9a-f]{32}-)?`, Lock, "", "zkd", "Apache"),
	row(`.*latch-`, Election, "", "zkd", "Curator"),
	row(`(.*-)?n_`, Election, "", "zkd", "Apache"),
	row(`_c_[0-9a-f]{32}-lock-`, Lock, "", "go-zookeeper"),
	row(`.*lease-`, Semaphore, "", "zkd", "Curator"),
	row(`.*lock-`, Lock, "", "zkd", "Curator"),
	row(`qn-([0-9]{6}-)?`, Queue, "", "zkd", "Curator", "Apache"),
	row(`entry-[0-9]{3}-`, Queue, "", "zkd", "kazoo"),
	row(`queue-([01][0-9A-F]{8}|.*[^0-9])?`, Queue, "", "zkd", "Curator"),
	row(`.*-item-`, Queue, "", "zkd"),
	row(`.*-party-of-[0-9]+-`, Barrier, "", "zkd"),
	row(`.*-waiter-`, Barrier, "", "zkd"),
}

// parties are the layouts of groups, which have no numbers.
var (
	party = layout{pattern: compiled(`^[0-9a-f]{32}(__party__|-.+)$`), kind: Group, by: []string{"zkd", "kazoo"}}
	hex32 = compiled(`^[0-9a-f]{32}$`)
	// prioritised has the priority, the mode, and what marks a grant.
	prioritised = compiled(`-p([0-9]+)-(read|write)-(held-)?-?[0-9]{9,10}$`)
	guid        = compiled(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

const longest = 400 // bytes of a name that a recipe makes

// parse returns the layout of a node's name, and its number; nil if there is none.
func parse(name string) (*layout, int32) {
	if len(name) > longest {
		return nil, 0
	}
	for i := range layouts {
		l := &layouts[i]
		if parts := l.pattern().FindStringSubmatch(name); parts != nil {
			n, err := strconv.ParseInt(parts[len(parts)-1], 10, 32)
			if err == nil {
				return l, int32(n)
			}
		}
	}
	if party.pattern().MatchString(name) {
		return &party, 0
	}
	return nil, 0
}
