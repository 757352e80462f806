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

// modesOf lists the modes that a type of checkWatches and removeWatches
// selects; none for an unknown type.
func modesOf(typ jute.WatchType) []Mode {
	switch typ {
	case jute.WatchChildren:
		return childMode[:]
	case jute.WatchData:
		return dataMode[:]
	case jute.WatchAny:
		return allModes[:]
	case jute.WatchPersistent:
		return persistentMode[:]
	case jute.WatchPersistentRecursive:
		return recursiveMode[:]
	}
	return nil
}

var (
	dataMode       = [...]Mode{Data}
	childMode      = [...]Mode{Child}
	persistentMode = [...]Mode{Persistent}
	recursiveMode  = [...]Mode{PersistentRecursive}
	allModes       = [...]Mode{Data, Child, Persistent, PersistentRecursive}
)
