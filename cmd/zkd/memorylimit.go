package main

import (
	"math"
	"path"
	"strconv"
	"strings"

	"go.uber.org/zap"
)

// memoryLimit is the memory that the process may use.
type memoryLimit struct {
	bytes  int64  // 0 for no limit
	source string // a file, a key, or GOMEMLIMIT
}

// soft returns the limit for the collector, which counts what Go has. The rest is for the kernel's
// memory for the process, such as buffers of sockets.
func (l memoryLimit) soft() int64 { return l.bytes - l.bytes/10 }

// fields are for the log.
func (l memoryLimit) fields() []zap.Field {
	if l.bytes == 0 {
		return nil
	}
	return []zap.Field{zap.Int64("memory_limit", l.bytes), zap.String("memory_limit_from", l.source)}
}

// controller is a controller of control groups with the files that have a limit, in both versions.
type controller struct {
	name   string
	v1, v2 []string
}

var (
	memoryController  = controller{"memory", []string{"memory.limit_in_bytes"}, []string{"memory.max", "memory.high"}}
	threadsController = controller{"pids", []string{"pids.max"}, []string{"pids.max"}}
)

// cgroupLimit returns the least limit of a controller for the process, and the file that has it: of its own
// control groups and those above it, as far as they are visible. 0 is no limit. read reads a file.
func cgroupLimit(c controller, read func(name string) (string, error)) (least int64, source string) {
	groups, _ := read("/proc/self/cgroup")
	mounts, _ := read("/proc/self/mountinfo")
	for line := range strings.Lines(groups) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		kind, files := "", []string{}
		switch {
		case controllers == "":
			kind, files = "cgroup2", c.v2
		case hasWord(controllers, c.name):
			kind, files = "cgroup", c.v1
		}
		for _, m := range cgroupMounts(mounts, kind, c.name) {
			for dir := m.dir(group); ; dir = path.Dir(dir) {
				for _, file := range files {
					name := path.Join(dir, file)
					text, err := read(name)
					if n := limitOf(text); err == nil && n > 0 && (least == 0 || n < least) {
						least, source = n, name
					}
				}
				if len(dir) <= len(m.point) {
					break
				}
			}
		}
	}
	return least, source
}

// limitOf returns the number in a file, or 0 if there is none, or so large a one that it means no limit.
func limitOf(text string) int64 {
	const none = 1 << 60
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 || n >= none {
		return 0
	}
	return n
}

// cgroupMount is where a part of a hierarchy of control groups is mounted.
type cgroupMount struct{ root, point string }

// dir returns the directory of a group. A group outside of the mounted part, as from within some
// containers, is that of the mount.
func (m cgroupMount) dir(group string) string {
	rest, ok := strings.CutPrefix(group, strings.TrimSuffix(m.root, "/"))
	if !ok || rest != "" && rest[0] != '/' || strings.HasPrefix(rest, "/..") {
		return m.point
	}
	return path.Join(m.point, rest)
}

// cgroupMounts returns the mounts of a kind, of version 1 those with a controller, from the text of
// /proc/self/mountinfo.
func cgroupMounts(text, kind, controller string) (list []cgroupMount) {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(line, " - ")
		mount, fs := strings.Fields(before), strings.Fields(after)
		if !ok || len(mount) < 5 || len(fs) < 3 || fs[0] != kind || kind == "cgroup" && !hasWord(fs[2], controller) {
			continue
		}
		list = append(list, cgroupMount{unescape.Replace(mount[3]), unescape.Replace(mount[4])})
	}
	return list
}

// hasWord reports whether a list with commas has a word.
func hasWord(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }

// chosenLimit returns the memory limit of the process: the configured one, if that is not 0; GOMEMLIMIT, which
// Go has read already; that of its control groups; or the memory of the machine.
func chosenLimit(configured int64, env string, current int64, read func(name string) (string, error)) memoryLimit {
	switch {
	case configured > 0:
		return memoryLimit{configured, "zkd.memoryLimit"}
	case configured < 0, env != "" && current == math.MaxInt64: // off
		return memoryLimit{}
	case env != "":
		return memoryLimit{current, "GOMEMLIMIT"}
	}
	if bytes, source := cgroupLimit(memoryController, read); bytes > 0 {
		return memoryLimit{bytes, source}
	}
	return machineLimit(read)
}

func machineLimit(read func(name string) (string, error)) memoryLimit {
	const file = "/proc/meminfo"
	text, err := read(file)
	if err != nil {
		return memoryLimit{}
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			return memoryLimit{limitOf(f[1]) * 1024, file}
		}
	}
	return memoryLimit{}
}
