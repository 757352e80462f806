package lock

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Layout is how a Mutex names the nodes of contenders. The package's documentation says
// which programs share the same lock.
type Layout int

const (
	// Curator is the layout of InterProcessMutex: "_c_", a GUID and "-lock-".
	Curator Layout = iota
	// Kazoo is that of kazoo's Lock: a GUID without hyphens and "__lock__".
	Kazoo
	// WriteLock is that of Apache's WriteLock: "x-", the session's id in decimal and
	// "-". This package appends a GUID, so that one session can have several
	// places; Apache's has one.
	WriteLock
)

// mutexLabels precede the number, by Layout; see mutexStem for the last.
var mutexLabels = []string{"lock-", "__lock__", ""}

// mutexLayout recognises all layouts; the kind of a place is its Layout.
var mutexLayout = &line.Layout{Labels: mutexLabels, Stem: mutexStem, Kind: mutexKind}

func (l Layout) valid() bool { return l >= 0 && int(l) < len(mutexLabels) }

// String returns the name.
func (l Layout) String() string {
	if !l.valid() {
		return fmt.Sprintf("Layout(%d)", int(l))
	}
	return [...]string{"Curator", "Kazoo", "WriteLock"}[l]
}

// mutexStem returns the name of a new place without its number.
func mutexStem(label, id string, session client.SessionID) string {
	short := strings.ReplaceAll(id, "-", "")
	switch label {
	case mutexLabels[Curator]:
		return "_c_" + id + "-" + label
	case mutexLabels[Kazoo]:
		return short + label
	}
	return fmt.Sprintf("x-%d-%s-", int64(session), short)
}

var writeLock = regexp.MustCompile(`^x-(-?[0-9]+)-([0-9a-f]{32}-)?$`)

// mutexKind returns the layout of a place with that stem. It accepts what the libraries
// themselves accept: Curator and kazoo recognise any name that has their label.
func mutexKind(stem string) (kind int, ok bool) {
	switch {
	case strings.HasSuffix(stem, mutexLabels[Kazoo]):
		return int(Kazoo), true
	case strings.HasSuffix(stem, mutexLabels[Curator]):
		return int(Curator), true
	}
	return int(WriteLock), writeLock.MatchString(stem)
}

// Labels of an RWMutex, by Kind: Curator's, and kazoo's, which are recognised too.
var (
	rwLabels      = []string{Read: "__READ__", Write: "__WRIT__"}
	kazooRWLabels = []string{Read: "__rlock__", Write: "__lock__"}
)

// rwLayout is the layout of an RWMutex: the kind of a place is its Kind.
var rwLayout = &line.Layout{Labels: rwLabels, Kind: func(stem string) (int, bool) {
	for kind := range rwLabels {
		if strings.HasSuffix(stem, rwLabels[kind]) || strings.HasSuffix(stem, kazooRWLabels[kind]) {
			return kind, true
		}
	}
	return 0, false
}}
