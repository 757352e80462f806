package buildinfo

import (
	"runtime/debug"
	"testing"
)

func TestParse(t *testing.T) {
	recorded := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	at := debug.BuildSetting{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}
	for _, tt := range []struct {
		name           string
		stamp          string
		info           *debug.BuildInfo
		want, revision string
	}{
		{"nothing is known", "", nil, "devel (1970-01-01)", "devel"},
		{"without version control", "", recorded("(devel)"), "devel (1970-01-01)", "devel"},
		{"a commit", "", recorded("v0.0.0-20260102030405-0123456789ab", commit, at), "0123456789ab (2026-01-02)", "0123456789ab"},
		{"after a release", "", recorded("v1.2.4-0.20260102030405-0123456789ab+dirty"), "0123456789ab (2026-01-02)", "0123456789ab"},
		{"a release", "", recorded("v1.2.3", commit, at), "v1.2.3 0123456789ab (2026-01-02)", "0123456789ab"},
		{"a candidate", "", recorded("v1.2.3-rc.1", commit, at), "v1.2.3-rc.1 0123456789ab (2026-01-02)", "0123456789ab"},
		{"go install", "", recorded("v1.2.3"), "v1.2.3", "v1.2.3"},
		{"stamped", "v1.2.3,0123456789abcdef,1767323045", recorded("(devel)"), "v1.2.3 0123456789ab (2026-01-02)", "0123456789ab"},
		{"stamped, no release", ",0123456789ab,1767323045", nil, "0123456789ab (2026-01-02)", "0123456789ab"},
		{"stamped with something else", "v1.2.3", nil, "devel (1970-01-01)", "devel"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := parse(tt.stamp, tt.info)
			if b.String() != tt.want || b.Revision() != tt.revision {
				t.Errorf("got %q, revision %q; want %q, %q", b, b.Revision(), tt.want, tt.revision)
			}
		})
	}
}
