package lint

import (
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// atTheEnd names, for each row of the table of docs/limits.md that says what happens at the end of a resource, the tests that use
// it up, with their directories.
var atTheEnd = map[string][]string{
	"[memory](#memory)": {"server.TestMemoryOfOneMember", "server.TestMemoryIsShort", "test/cluster.TestExhaustion"},
	"bytes or inodes of the log's [disk](failures.md#full-disk)": {"server.TestFullDisk", "server.TestFullDisksOfAnEnsemble", "server.TestDiskWithoutInodes"},
	"room, inodes or descriptors for the next file of the log":   {"server/wal.TestShortageAtARoll", "server/wal.TestMakesRoomWhileItWaits", "server.TestLogFillsTheDisk"},
	"the same for a snapshot, its own or one for another server": {"server/snapshot.TestNoSpace", "server.TestNoSnapshotWithoutDescriptors", "server.TestSynchronizedOnAFullDisk"},
	"the same for the [audit log](monitor.md#audit-log)":         {"server.TestAuditDiskFull"},
	"descriptors":                    {"server/base.TestDescriptorsAreReserved", "server/clients.TestDescriptorsAreShared", "server/clients.TestPortWithoutDescriptors", "cmd/zkd.TestHTTPWithoutDescriptors", "internal/keystore.TestSourceWithoutDescriptors"},
	"connections":                    {"server/clients.TestMostConnections", "server/clients.TestOperatorsGetIn"},
	"connections to a port for HTTP": {"cmd/zkd.TestHTTPConnectionsAreBounded", "cmd/zkd.TestSilentConnectionsGiveWay"},
	"local ports":                    {"server/zab/transport.TestNoLocalPort"},
	"threads":                        {"cmd/zkd.TestThreadLimit"},
	"time of a server":               {"server.TestATurnOfTheLeaderIsShort", "server.TestALargeMultiHoldsNothingForLong", "server.TestManyWatchesAreRestored"},
	"a leader, by a request at which zkd fails": {"server.TestBrokenRequest"},
	"time of a certificate":                     {"server/secure.TestExpiring", "cmd/zkd.TestCertificateRemarks"},
	"time of a revocation list":                 {"server/secure.TestBadLists"},
	"agreement of clocks":                       {"server/zab/transport.TestClocksAreCompared", "server.TestAClockThatJumps"},
}

// TestEachLimitHasItsTest: what docs/limits.md says of the end of a resource is tested.
func TestEachLimitHasItsTest(t *testing.T) {
	text, err := os.ReadFile(path.Join(root, "docs/limits.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n|---|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var rows []string
	for line := range strings.Lines(table) {
		row, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		rows = append(rows, row)
	}
	slices.Sort(rows)
	if want := slices.Sorted(maps.Keys(atTheEnd)); !slices.Equal(rows, want) {
		t.Errorf("docs/limits.md has the rows\n%s\nand tests are named here for\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}
	tests := testsByDir(t)
	for row, names := range atTheEnd {
		for _, name := range names {
			dir, test, _ := strings.Cut(name, ".")
			if !tests[dir][test] {
				t.Errorf("%s: there is no test %s in %s: name the one that uses it up now", row, test, dir)
			}
		}
	}
}
