package server

import (
	"fmt"
	"runtime"
	"strings"
)

// callers returns the functions of this program that are running, the innermost first.
func callers() string {
	var pcs [64]uintptr
	var names []string
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for more := true; more && len(names) < 12; {
		var f runtime.Frame
		if f, more = frames.Next(); strings.Contains(f.Function, "/zkd/server") {
			names = append(names, fmt.Sprintf("%s:%d", f.Function[strings.LastIndexByte(f.Function, '/')+1:], f.Line))
		}
	}
	return strings.Join(names, " < ")
}
