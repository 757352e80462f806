package watch

import "github.com/zkd-project/zkd/jute"

// Mode is the kind of a watch.
type Mode uint8

// The modes.
const (
	Data Mode = iota
	Child
	Persistent
	PersistentRecursive

	modeCount = iota
)

func (m Mode) String() string {
	return [...]string{"Data", "Child", "Persistent", "PersistentRecursive"}[m]
}

// ModeOf returns the mode that an addWatch request asks for, or false for an
// unknown number (the reply is then ErrBadArguments).
func ModeOf(m jute.AddWatchMode) (Mode, bool) {
	switch m {
	case jute.AddPersistent:
		return Persistent, true
	case jute.AddPersistentRecursive:
		return PersistentRecursive, true
	}
	return 0, false
}

// selectedBy reports whether typ, of checkWatches or removeWatches, selects
// watches of mode m. An unknown type selects none.
func (m Mode) selectedBy(typ jute.WatchType) bool {
	switch typ {
	case jute.WatchAny:
		return true
	case jute.WatchData:
		return m == Data
	case jute.WatchChildren:
		return m == Child
	case jute.WatchPersistent:
		return m == Persistent
	case jute.WatchPersistentRecursive:
		return m == PersistentRecursive
	}
	return false
}
