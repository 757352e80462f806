package pages

import (
	"errors"
	"io/fs"
	"net/http"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/api"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// A member is shown with its role, and the members that it knows: those of the file before others have told it.
func TestPeer(t *testing.T) {
	file := []string{"initLimit=10", "multiAddress.enabled=true", "syncLimit=5", "zkd.myid=2", "server.1=a:2888:3888", "server.2=b:2888:3888|b2:2889:3889", "server.3=c:2888:3888", "server.4=d:2888:3888:observer"}
	ofFile := []show.Member{
		{ID: 1, Quorum: []string{"a:2888"}, Election: []string{"a:3888"}},
		{ID: 2, Quorum: []string{"b:2888", "b2:2889"}, Election: []string{"b:3888", "b2:3889"}, Client: "0.0.0.0:2181"},
		{ID: 3, Quorum: []string{"c:2888"}, Election: []string{"c:3888"}},
		{ID: 4, Quorum: []string{"d:2888"}, Election: []string{"d:3888"}, Observer: true},
	}
	told := "server.1=x:1:2:participant;y:2181\nserver.2=z:1:2:participant\nversion=5"
	ofTree := func(client string) []show.Member {
		return []show.Member{
			{ID: 1, Quorum: []string{"x:1"}, Election: []string{"x:2"}, Client: "y:2181"},
			{ID: 2, Quorum: []string{"z:1"}, Election: []string{"z:2"}, Client: client},
		}
	}
	for _, tt := range []struct {
		name   string
		lines  []string
		tree   string
		status zab.Status
		want   *show.Peer
	}{
		{name: "alone"},
		{name: "looking", lines: file, want: &show.Peer{ID: 2, Leader: -1, Voter: true, Activity: "election", Members: ofFile}},
		{name: "not a list", lines: file, tree: "members", want: &show.Peer{ID: 2, Leader: -1, Voter: true, Activity: "election", Members: ofFile}},
		{name: "told", lines: file, tree: told, status: zab.Status{Role: zab.Following, Leader: zab.SIDOf(1), Observer: true},
			want: &show.Peer{ID: 2, Leader: 1, Activity: "broadcast", Members: ofTree("0.0.0.0:2181")}},
		{name: "leader at an address", lines: append(file, "clientPortAddress=10.0.0.2"), tree: told, status: zab.Status{Role: zab.Leading, Leader: zab.SIDOf(2)},
			want: &show.Peer{ID: 2, Leads: true, Leader: 2, Voter: true, Activity: "broadcast", Members: ofTree("10.0.0.2:2181")}},
		{name: "without a port", lines: append(file, "clientPort=-1"), tree: told, want: &show.Peer{ID: 2, Leader: -1, Voter: true, Activity: "election", Members: ofTree("")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, _, err := config.Parse(strings.NewReader(strings.Join(append([]string{"dataDir=/data", "clientPort=2181"}, tt.lines...), "\n")), "zoo.cfg")
			if err != nil {
				t.Fatal(err)
			}
			tree := datatree.New()
			if tt.tree != "" {
				tree.Apply(&datatree.Txn{Zxid: 1, Ops: []datatree.Op{{Kind: datatree.OpSetData, Path: datatree.ConfigPath, Data: []byte(tt.tree), Version: 1}}}, new(datatree.Applied))
			}
			f := &Server{Config: cfg, ID: zab.SIDOf(2), State: &state.State{Tree: tree}, Role: func() *zab.Status { return &tt.status }, Peers: func() *[]zab.PeerStatus { return nil }}
			if got := f.peer(); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// Apache's names of what a member does.
func TestActivities(t *testing.T) {
	for role, want := range map[zab.Role]string{
		zab.Looking: "election", zab.Candidate: "discovery", zab.SyncingLeader: "synchronization", zab.SyncingFollower: "synchronization",
		zab.Leading: "broadcast", zab.Following: "broadcast",
	} {
		if got := activityOf(&zab.Status{Role: role}); got != want {
			t.Errorf("%v is %q, want %q", role, got, want)
		}
	}
}

type noSnapshots struct{ Snapshots }

func (noSnapshots) Last() (wal.SnapRef, bool) { return wal.SnapRef{}, false }

func TestNoSnapshot(t *testing.T) {
	if got := (&Server{Snapshots: noSnapshots{}}).lastSnapshot(); got != (show.Snapshot{}) {
		t.Errorf("%+v", got)
	}
}

// TestBackupBesideTheLog: a backup over HTTP leaves the log what it needs on a disk that both are on.
func TestBackupBesideTheLog(t *testing.T) {
	const mib = 1 << 20
	disk := func(free int64) vfs.Space { return vfs.Space{Device: 1, Total: 10_000 * mib, Free: free} }
	stop := wal.StopFree(disk(0), 64*mib, 100*mib)
	if err := fitsBeside(disk(200*mib+stop), 200*mib, stop); err != nil {
		t.Error(err)
	}
	if p, ok := errors.AsType[*api.Problem](problem(fitsBeside(disk(200*mib+stop-1), 200*mib, stop))); !ok || p.Status != http.StatusServiceUnavailable {
		t.Errorf("%+v", p)
	}
}

// TestShortageIsNoVerdict: without a descriptor to read it, a backup is not called unsound, and the caller is told to come again.
func TestShortageIsNoVerdict(t *testing.T) {
	for err, want := range map[error]int{
		&fs.PathError{Op: "open", Path: "/archive/zkd", Err: syscall.EMFILE}:  http.StatusServiceUnavailable,
		&fs.PathError{Op: "write", Path: "/archive/zkd", Err: syscall.ENOSPC}: http.StatusServiceUnavailable,
		&fs.PathError{Op: "read", Path: "/archive/zkd", Err: syscall.EIO}:     0,
		errors.New("a checksum is wrong"):                                     0,
		nil:                                                                   0,
	} {
		status := 0
		if p, ok := errors.AsType[*api.Problem](unverified(err)); ok {
			status = p.Status
		}
		if status != want {
			t.Errorf("%v: %d, want %d", err, status, want)
		}
	}
}
