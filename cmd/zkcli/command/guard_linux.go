package command

import "os"

// ownPath returns the path of the running program, even if another version has replaced it.
func ownPath() (string, error) { return "/proc/self/exe", nil }

// hideName changes the name that killall compares.
func hideName() { _ = os.WriteFile("/proc/self/comm", []byte(guardName), 0) }
