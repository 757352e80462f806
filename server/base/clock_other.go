//go:build !linux

package base

import "time"

// suspendedTotal is unknown here: the clock stands still while the machine is suspended.
func suspendedTotal() time.Duration { return 0 }
