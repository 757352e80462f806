package datadirs

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/server/zab"
)

// TestDecide tests the decision about the directories, without any files.
func TestDecide(t *testing.T) {
	id := func(server, incarnation, replaced byte) *Identity {
		return &Identity{Format: 2, Server: zab.SID(server), Incarnation: [16]byte{incarnation}, Replaced: [16]byte{replaced}}
	}
	own := func(server, incarnation byte) *Owner {
		return &Owner{Server: zab.SID(server), Incarnation: [16]byte{incarnation}}
	}
	old := id(0, 5, 0)
	old.Format = 1
	for _, tt := range []struct {
		name  string
		dirs  Found
		myid  zab.SID // 0 for a single server
		order string
		aside bool
		want  string // part of the refusal
	}{
		{name: "nothing"},
		{name: "an interrupted import", dirs: Found{Exists: true, Log: id(0, 5, 0), Owner: own(0, 5), Unfinished: true}, want: "run it again"},
		{name: "an interrupted import, approved", dirs: Found{Unfinished: true, Approved: true}, want: "run it again"},
		{name: "a mirror", dirs: Found{Exists: true, Log: id(101, 5, 0), Owner: &Owner{Server: 101, Incarnation: [16]byte{5}, Copy: OfApache}}, myid: 101, want: "zkd takeover finish"},
		{name: "a standby", dirs: Found{Exists: true, Log: id(101, 5, 0), Owner: &Owner{Server: 101, Incarnation: [16]byte{5}, Copy: OfZkd}}, myid: 101, want: "zkd standby promote"},
		{name: "a mirror without its log", dirs: Found{Owner: &Owner{Server: 101, Copy: OfApache}}, order: "00000000", myid: 101, want: "zkd takeover finish"},
		{name: "Apache's data", dirs: Found{DataDir: "/d", LogDir: "/d", ForeignFiles: []string{"/d/version-2"}}, want: "zkd import --from /d --to DIR"},
		{name: "Apache's data and log", dirs: Found{DataDir: "/d", LogDir: "/l", ForeignFiles: []string{"/l/version-2"}}, want: "zkd import --from /d --log-dir /l --to DIR"},
		{name: "Apache's data of a member", dirs: Found{DataDir: "/d", LogDir: "/d", ForeignFiles: []string{"/d/version-2"}}, myid: 2, want: "--members"},
		{name: "Apache's data beside ours", dirs: Found{Exists: true, Log: id(0, 5, 0), Owner: own(0, 5), ForeignFiles: []string{"/d/version-2"}}},
		{name: "exchanged directories", dirs: Found{DataDir: "/l", LogDir: "/d", LogInDataDir: true, DataInLogDir: true}, myid: 1, want: "Write dataDir=/d and dataLogDir=/l"},
		{name: "exchanged directories, approved", dirs: Found{LogInDataDir: true, DataInLogDir: true, Approved: true}, want: "have been exchanged"},
		{name: "the log as dataDir", dirs: Found{DataDir: "/l", LogDir: "/new", LogInDataDir: true}, myid: 1, want: "dataDir (/l) has a log"},
		{name: "the data as dataLogDir", dirs: Found{DataDir: "/new", LogDir: "/d", DataInLogDir: true}, myid: 1, want: "dataLogDir (/d) has a file IDENTITY"},
		{name: "its data, and a log beside it", dirs: Found{Exists: true, Log: id(2, 5, 0), Owner: own(2, 5), LogInDataDir: true}, myid: 2, want: "move it away"},
		{name: "an order for exchanged data", dirs: Found{Owner: own(1, 5), LogInDataDir: true}, myid: 1, order: "05000000", want: "has a log"},
		{name: "its data", dirs: Found{Exists: true, Log: id(2, 5, 0), Owner: own(2, 5)}, myid: 2},
		{name: "another member's", dirs: Found{Exists: true, Log: id(2, 5, 0), Owner: own(2, 5)}, myid: 1,
			want: "belongs to server 2 (05000000), and this is server 1"},
		{name: "another member's dataDir", dirs: Found{Owner: own(3, 5)}, myid: 1, want: "belongs to server 3 (05000000), and this is server 1"},
		{name: "a member's, by a single server", dirs: Found{Exists: true, Log: id(2, 5, 0), Owner: own(2, 5)}},
		{name: "a single server's, by a member", dirs: Found{Exists: true, Log: id(0, 5, 0), Owner: own(0, 5)}, myid: 3},
		{name: "that do not belong together", dirs: Found{Exists: true, Log: id(0, 5, 0), Owner: own(0, 6)}, want: "do not belong together"},
		{name: "set aside, and interrupted", dirs: Found{Exists: true, Log: id(1, 6, 5), Owner: own(1, 5)}, myid: 1},
		{name: "a log alone", dirs: Found{Exists: true, Log: id(1, 5, 0)}, myid: 1, want: "has no file IDENTITY"},
		{name: "a log alone, approved", dirs: Found{Exists: true, Log: id(1, 5, 0), Approved: true}, myid: 1},
		{name: "a log alone, without a record", dirs: Found{Exists: true, Blank: true, Log: id(1, 5, 0)}, myid: 1},
		{name: "a log of format 1", dirs: Found{Exists: true, Log: old}, myid: 1},
		{name: "a log whose headers are damaged", dirs: Found{Exists: true, Owner: own(1, 5)}, myid: 1},
		{name: "a damaged IDENTITY", dirs: Found{Exists: true, Log: id(1, 5, 0), OwnerError: fs.ErrInvalid}, myid: 1},
		{name: "no log", dirs: Found{Owner: own(1, 5)}, myid: 1, want: "start once with --set-data-aside=05000000"},
		{name: "no log, approved", dirs: Found{Owner: own(1, 5), Approved: true}, myid: 1, want: "there is no log"},
		{name: "no log, single", dirs: Found{Owner: own(0, 5)}, want: "restore both directories from a backup"},
		{name: "snapshots alone", dirs: Found{Snapshots: 1}, want: "there is no log"},
		{name: "an order", dirs: Found{Owner: own(1, 5)}, myid: 1, order: "05000000", aside: true},
		{name: "an order for a sound log", dirs: Found{Exists: true, Log: id(1, 5, 0), Owner: own(1, 5)}, myid: 1, order: "05000000", aside: true},
		{name: "an order that was carried out", dirs: Found{Exists: true, Log: id(1, 6, 5), Owner: own(1, 6)}, myid: 1, order: "05000000"},
		{name: "an order for other data", dirs: Found{Exists: true, Log: id(1, 6, 0), Owner: own(1, 6)}, myid: 1, order: "05000000",
			want: "the data here is 06000000"},
		{name: "an order for another member's data", dirs: Found{Exists: true, Log: id(2, 5, 0)}, myid: 1, order: "05000000", want: "belongs to server 2"},
		{name: "an order for nothing", myid: 1, order: "05000000", want: "no data here that has a name"},
		{name: "nothing, and db.autocreate=false", dirs: Found{NoAutoCreate: true}, want: "make the file /initialize"},
		{name: "an order to a single server", dirs: Found{Owner: own(0, 5)}, order: "05000000", want: "a single server has nothing else"},
	} {
		tt.dirs.Self = tt.myid
		start, err := tt.dirs.Decide(tt.order)
		if start.Aside != tt.aside || (err != nil) != (tt.want != "") || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: set aside: %t, %v; want %t, %q", tt.name, start.Aside, err, tt.aside, tt.want)
		}
	}
}
