// Package buildinfo reports the source that a program was built from.
package buildinfo

import (
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// stamp is "VERSION,COMMIT,SECONDS" if the build sets it:
//
//	go build -ldflags '-X github.com/zkd-project/zkd/internal/buildinfo.stamp=v1.2.3,0123456789ab,1767323045'
//
// It takes the place of what Go records about the source, for builds outside of a Git
// checkout, and for those with -buildvcs=false.
var stamp string

// unknown is the commit of a program that does not have it.
const unknown = "devel"

// Build is the source of a program.
type Build struct {
	Version string    // of the release, such as v1.2.3; "" if the commit is not released
	Commit  string    // the first 12 digits, or "devel"
	Time    time.Time // of the commit, in UTC; 1970 if it is unknown
}

// Read returns the build of this program.
func Read() Build {
	info, _ := debug.ReadBuildInfo()
	return parse(stamp, info)
}

// String returns the build in one line: "v1.2.3 0123456789ab (2026-01-02)".
func (b Build) String() string {
	if b.Version != "" && b.Commit == unknown { // installed by go install
		return b.Version
	}
	return strings.TrimSpace(b.Version + " " + b.Commit + " (" + b.Time.Format(time.DateOnly) + ")")
}

// Revision returns the commit, or the version if the commit is unknown.
func (b Build) Revision() string {
	if b.Version != "" && b.Commit == unknown {
		return b.Version
	}
	return b.Commit
}

func parse(stamp string, info *debug.BuildInfo) Build {
	b := Build{Commit: unknown, Time: time.Unix(0, 0).UTC()}
	if parts := strings.Split(stamp, ","); len(parts) == 3 {
		b.setVersion(parts[0])
		b.setCommit(parts[1])
		if seconds, err := strconv.ParseInt(parts[2], 10, 64); err == nil {
			b.Time = time.Unix(seconds, 0).UTC()
		}
		return b
	}
	if info == nil {
		return b
	}
	b.setVersion(info.Main.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.setCommit(s.Value)
		case "vcs.time":
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
				b.Time = t.UTC()
			}
		}
	}
	return b
}

// setVersion sets the version of a release. Go makes up a version for another commit, which
// ends in the time and the commit: v0.0.0-20260102030405-0123456789ab.
func (b *Build) setVersion(v string) {
	parts := strings.Split(strings.TrimSuffix(v, "+dirty"), "-")
	last := len(parts) - 1
	switch {
	case !strings.HasPrefix(v, "v"):
	case last >= 2 && len(parts[last]) == 12 && len(parts[last-1]) >= 14:
		b.setCommit(parts[last])
		digits := parts[last-1]
		if t, err := time.Parse("20060102150405", digits[len(digits)-14:]); err == nil {
			b.Time = t
		}
	default:
		b.Version = v
	}
}

func (b *Build) setCommit(c string) {
	if c != "" {
		b.Commit = c[:min(12, len(c))]
	}
}
