package main

import (
	"io/fs"
	"math"
	"strings"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	const (
		mib = 1 << 20
		v2  = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		v1  = "31 23 0:28 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n" +
			"34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
			"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	)
	type files map[string]string
	for _, tt := range []struct {
		name   string
		files  files
		bytes  int64
		source string
	}{
		{"no control groups", files{}, 0, ""},
		{"a container", files{"/proc/self/cgroup": "0::/\n", "/proc/self/mountinfo": v2, "/sys/fs/cgroup/memory.max": "134217728\n"}, 128 * mib, "/sys/fs/cgroup/memory.max"},
		{"no limit", files{"/proc/self/cgroup": "0::/\n", "/proc/self/mountinfo": v2, "/sys/fs/cgroup/memory.max": "max\n", "/sys/fs/cgroup/memory.high": "max\n"}, 0, ""},
		{"a unit", files{"/proc/self/cgroup": "0::/system.slice/zkd.service\n", "/proc/self/mountinfo": v2,
			"/sys/fs/cgroup/system.slice/zkd.service/memory.max": "1073741824", "/sys/fs/cgroup/system.slice/memory.max": "max"}, 1024 * mib, "/sys/fs/cgroup/system.slice/zkd.service/memory.max"},
		{"the slice above a unit has less", files{"/proc/self/cgroup": "0::/system.slice/zkd.service\n", "/proc/self/mountinfo": v2,
			"/sys/fs/cgroup/system.slice/zkd.service/memory.max": "1073741824", "/sys/fs/cgroup/system.slice/memory.max": "536870912"}, 512 * mib, "/sys/fs/cgroup/system.slice/memory.max"},
		{"memory.high is less", files{"/proc/self/cgroup": "0::/a\n", "/proc/self/mountinfo": v2,
			"/sys/fs/cgroup/a/memory.max": "1073741824", "/sys/fs/cgroup/a/memory.high": "268435456"}, 256 * mib, "/sys/fs/cgroup/a/memory.high"},
		{"a group outside of the container", files{"/proc/self/cgroup": "0::/../../other\n", "/proc/self/mountinfo": v2, "/sys/fs/cgroup/memory.max": "134217728"}, 128 * mib, "/sys/fs/cgroup/memory.max"},
		{"version 1", files{"/proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/system.slice/zkd\n1:name=systemd:/\n0::/\n", "/proc/self/mountinfo": v1,
			"/sys/fs/cgroup/memory/system.slice/zkd/memory.limit_in_bytes": "134217728\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"},
			128 * mib, "/sys/fs/cgroup/memory/system.slice/zkd/memory.limit_in_bytes"},
		{"version 1 without a limit", files{"/proc/self/cgroup": "4:memory:/\n", "/proc/self/mountinfo": v1, "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0, ""},
		{"version 1 in a container", files{"/proc/self/cgroup": "4:memory:/docker/ab\n",
			"/proc/self/mountinfo":                           "35 31 0:32 /docker/ab /sys/fs/cgroup/memory ro,relatime master:11 - cgroup cgroup rw,memory\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes":    "134217728",
			"/sys/fs/cgroup/memory/ab/memory.limit_in_bytes": "1"}, 128 * mib, "/sys/fs/cgroup/memory/memory.limit_in_bytes"},
		{"version 1 in a container that sees the groups of the host", files{"/proc/self/cgroup": "4:memory:/kubepods/pod1/ab\n",
			"/proc/self/mountinfo": "35 31 0:32 /kubepods/pod1/a /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "134217728"},
			128 * mib, "/sys/fs/cgroup/memory/memory.limit_in_bytes"},
		{"both versions", files{"/proc/self/cgroup": "4:memory:/a\n0::/b\n", "/proc/self/mountinfo": v1 + "36 31 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "268435456", "/sys/fs/cgroup/unified/b/memory.max": "134217728"}, 128 * mib, "/sys/fs/cgroup/unified/b/memory.max"},
		{"a place with a space", files{"/proc/self/cgroup": "0::/\n", "/proc/self/mountinfo": `29 23 0:26 / /my\040groups rw - cgroup2 none rw` + "\n", "/my groups/memory.max": "134217728"}, 128 * mib, "/my groups/memory.max"},
		{"files with something else", files{"/proc/self/cgroup": "0::/\nnonsense\n4:memory\n", "/proc/self/mountinfo": v2 + "short line\n- cgroup2\n", "/sys/fs/cgroup/memory.max": "-5", "/sys/fs/cgroup/memory.high": "many"}, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			read := func(name string) (string, error) {
				text, ok := tt.files[name]
				if !ok {
					return "", fs.ErrNotExist
				}
				return text, nil
			}
			if n, source := cgroupLimit(memoryController, read); n != tt.bytes || source != tt.source {
				t.Errorf("got %d from %q, want %d from %q", n, source, tt.bytes, tt.source)
			}
			for env, want := range map[string]memoryLimit{"": {tt.bytes, tt.source}, "64MiB": {64 * mib, "GOMEMLIMIT"}, "off": {}} {
				current := int64(math.MaxInt64)
				if env == "64MiB" {
					current = 64 * mib
				}
				if got := chosenLimit(0, env, current, read); got != want {
					t.Errorf("with GOMEMLIMIT=%s: %+v, want %+v", env, got, want)
				}
			}
		})
	}
}

// TestThreadLimit finds the limit of threads, of both versions.
func TestThreadLimit(t *testing.T) {
	const user = "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max processes             40                   100                  processes \nMax open files            1024                 4096                 files     \n"
	for _, tt := range []struct {
		group, mount, limits string
		want                 int64
	}{
		{"0::/a\n", "29 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n", "/cg/a/pids.max", 64},
		{"7:pids:/a\n4:memory:/\n", "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n36 31 0:33 / /cg/pids rw - cgroup cgroup rw,pids\n", "/cg/pids/a/pids.max", 64},
		{"7:pids:/a\n", "36 31 0:33 / /cg/pids rw - cgroup cgroup rw,pids\n", "/cg/pids/pids.other", 0},
	} {
		files := map[string]string{"/proc/self/cgroup": tt.group, "/proc/self/mountinfo": tt.mount, tt.limits: "64\n", "/cg/pids/pids.max": "max\n"}
		read := func(name string) (string, error) {
			text, ok := files[name]
			if !ok {
				return "", fs.ErrNotExist
			}
			return text, nil
		}
		check := func(root bool, want int64) {
			t.Helper()
			if got, source := threadLimit(root, read); got != want {
				t.Errorf("%q: %d of %s, want %d", tt.group, got, source, want)
			}
		}
		check(false, tt.want)
		files["/proc/self/limits"] = strings.Replace(user, "40 ", "unlimited ", 1)
		check(false, tt.want)
		files["/proc/self/limits"] = user
		check(true, tt.want)
		check(false, 40)
	}
}

// TestMemoryIsNear checks when the start warns.
func TestMemoryIsNear(t *testing.T) {
	for _, tt := range []struct {
		used, limit int64
		near        bool
	}{{100, 0, false}, {100, 1000, false}, {749, 1000, false}, {750, 1000, true}, {2000, 1000, true}} {
		if got := memoryIsNear(tt.used, tt.limit); got != tt.near {
			t.Errorf("%d of %d: %v", tt.used, tt.limit, got)
		}
	}
}
