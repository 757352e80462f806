//go:build unix && !linux

package command

import "os"

func ownPath() (string, error) { return os.Executable() }

func hideName() {}
