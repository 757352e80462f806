package lock

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Layout is what the nodes of contenders are called. The package's documentation says
// which programs take part in the same lock.
type Layout int

const (
	// Curator is the layout of InterProcessMutex: "_c_", a GUID and "-lock-".
	Curator Layout = iota
	// Kazoo is that of kazoo's Lock: a GUID without hyphens and "__lock__".
	Kazoo
	// WriteLock is that of Apache's WriteLock: "x-", the session's id in decimal and
	// "-". This package puts a GUID behind it, so that one session can have several
	// places; Apache's has one.
	WriteLock
)

// labels are by Layout what a name has before its number; see stem for the last.
var labels = []string{"lock-", "__lock__", ""}

// places recognises all layouts; the kind of a place is its Layout.
func places() *line.Layout {
	return &line.Layout{Labels: labels, Stem: stem, Kind: layoutOf}
}

func (l Layout) valid() bool { return l >= 0 && int(l) < len(labels) }

// String returns the name.
func (l Layout) String() string {
	if !l.valid() {
		return fmt.Sprintf("Layout(%d)", int(l))
	}
	return [...]string{"Curator", "Kazoo", "WriteLock"}[l]
}

// stem returns the name of a new place without its number.
func stem(label, id string, session client.SessionID) string {
	short := strings.ReplaceAll(id, "-", "")
	switch label {
	case labels[Curator]:
		return "_c_" + id + "-" + label
	case labels[Kazoo]:
		return short + label
	}
	return fmt.Sprintf("x-%d-%s-", int64(session), short)
}

var writeLock = regexp.MustCompile(`^x-(-?[0-9]+)-([0-9a-f]{32}-)?$`)

// layoutOf tells whose the place is whose name has that stem. It takes what the libraries
// themselves take: Curator's sees any name with its label, and kazoo's does.
func layoutOf(stem string) (kind int, ok bool) {
	switch {
	case strings.HasSuffix(stem, labels[Kazoo]):
		return int(Kazoo), true
	case strings.HasSuffix(stem, labels[Curator]):
		return int(Curator), true
	}
	return int(WriteLock), writeLock.MatchString(stem)
}
