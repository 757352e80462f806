package lint

import (
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// tested names, for each row of the tables of docs/limits.md that say what happens at the end of a resource, the tests that use
// it up, with their directories. A table has the columns of its head.
var tested = map[string]map[string][]string{
	"resource | at its end | clients see | operators see | do": {
		"[memory](#memory)": {"server.TestMemoryOfOneMember", "server.TestMemoryIsShort", "test/cluster.TestExhaustion"},
		"bytes or inodes of the log's [disk](failures.md#full-disk)":      {"server.TestFullDisk", "server.TestFullDisksOfAnEnsemble", "server.TestDiskWithoutInodes"},
		"room, inodes or descriptors for the next file of the log":        {"server/wal.TestShortageAtARoll", "server/wal.TestMakesRoomWhileItWaits", "server.TestLogFillsTheDisk"},
		"the same for a snapshot, its own or one for another server":      {"server/snapshot.TestNoSpace", "server.TestNoSnapshotWithoutDescriptors", "server.TestSynchronizedOnAFullDisk"},
		"the same for the [audit log](monitor.md#audit-log)":              {"server.TestAuditDiskFull"},
		"the same for a backup, or a look at [the past](api.md#the-past)": {"cmd/zkcli/backup.TestFollowerLacksSomething", "cmd/zkcli/backup.TestFollowOnAFullDisk", "cmd/zkcli/backup.TestClaimWithoutInodes", "server/pages.TestShortageIsNoVerdict", "server/pages.TestBackupBesideTheLog"},
		"descriptors":                    {"server/base.TestDescriptorsAreReserved", "server/clients.TestDescriptorsAreShared", "server/clients.TestPortWithoutDescriptors", "cmd/zkd.TestHTTPWithoutDescriptors", "internal/keystore.TestSourceThatCannotRead"},
		"connections":                    {"server/clients/line/register.TestPlaces", "server/clients.TestOperatorsGetIn"},
		"connections to a port for HTTP": {"cmd/zkd.TestHTTPConnectionsAreBounded", "cmd/zkd.TestSilentConnectionsGiveWay"},
		"local ports":                    {"server/zab/transport.TestNoLocalPort"},
		"threads":                        {"cmd/zkd.TestThreadLimit"},
		"time of a server":               {"server.TestATurnOfTheLeaderIsShort", "server.TestALargeMultiHoldsNothingForLong", "server.TestAHerdIsToldInParts", "server.TestManyWatchesAreRestored"},
		"a leader, by a request at which zkd fails": {"server.TestBrokenRequest"},
		"time of a certificate":                     {"server/zab/transport.TestPeerCertificateEnds", "server/secure.TestExpiring", "cmd/zkd.TestCertificateRemarks"},
		"time of a revocation list":                 {"server/secure.TestBadLists"},
		"agreement of clocks":                       {"server/zab/transport.TestClocksAreCompared", "server.TestAClockThatJumps"},
	},
	"what | limit | key": {
		"size of a request":                    {"internal/frames.TestLargestFrame", "server.TestLargestRequests"},
		"what a request can become in the log": {"server/evaluate.TestTooLargeTransactions", "server/evaluate.TestTransactionsStayWithinTheLog"},
		"connections of one address":           {"server/config.TestDefaultLimits", "server.TestConnectionLimits"},
		"[cached](edge.md#cached-subtrees) and [stale](edge.md#while-no-server-is-reached) subtrees of an edge": {"edge.TestCachedIsGivenUp", "client/cache.TestRoom"},
		"sessions on one connection of an [edge](edge.md)":                                                      {"internal/mux.TestHostileFrames", "server.TestCarriedSessions", "server.TestACarriedClientThatDoesNotRead"},
		"connections":     {"server.TestConnectionLimits", "server/clients.TestDescriptorsAreShared"},
		"threads":         {"cmd/zkd.TestThreadLimit"},
		"session timeout": {"server/config.TestDefaultLimits", "server/session.TestNegotiate", "server.TestTimeoutIsNegotiatedAtEachConnect"},
		"requests in work before connections with more than their share of them are not read": {"server/clients.TestThrottlerWeights", "server/clients.TestThrottlerAtTwice", "server.TestWhoHasFewRequestsIsRead"},
		"requests that wait at the leader, of all servers":                                    {"server.TestALeaderEndsWhoHasMostWaiting", "server.TestALeaderRefusesWhatIsTooMuch"},
		"time to begin a session":                                                  {"server.TestBadHandshakesAreClosedWithoutAWord"},
		"requests of a client of an edge without an answer":                        {"client.TestRelayTakesNoMoreThanIsAnswered"},
		"replies that wait for a client that does not read":                        {"server.TestClientThatDoesNotReadIsNotRead"},
		"watch events, and reads after one write, for a client that does not read": {"server.TestClientThatTakesNoEventsIsCutOff", "server.TestClientsThatTakeNothingAreCutOff"},
		"the answer to a multiRead":                                                {"server.TestMultiReadIsBounded"},
	},
	"resource | what counts | beyond the hard limit": {
		"`connections`":   {"server/limits.TestConnections", "server/clients.TestConnectionsAndSessionsRefused"},
		"`sessions`":      {"server/limits.TestSessions", "server/clients.TestConnectionsAndSessionsRefused"},
		"`watches`":       {"server/limits.TestCounts", "server/clients.TestWatchesRefused"},
		"`ephemerals`":    {"server/clients.TestWatchesRefused"},
		"`requests/s`":    {"server/limits.TestRates", "server/clients.TestRateSlowsDown", "server/clients.TestRateRefuses"},
		"`bytes/s`":       {"server/limits.TestRates", "server/clients.TestRateSlowsDown"},
		"`connections/s`": {"server/clients.TestOpeningsSlowDown"},
	},
}

// testedLines names, by their beginnings, the tests of the other lines of docs/limits.md that say what a server does.
var testedLines = map[string][]string{
	"- A **soft limit**":                {"server/limits.TestSoftOnly"},
	"- A rate may be used up":           {"server/clients.TestRateSlowsDown", "server/clients.TestRateRefuses"},
	"- A request that has to wait":      {"server/clients.TestSubtreeHoldsUpItsConnection"},
	"- A request that a rate refuses":   {"server/clients.TestRateRefuses"},
	"- A connection counts for":         {"server.TestLimitsOfEveryIdentity", "server/limits.TestEveryIdentityCounts"},
	"- **Rates are those":               {"server.TestLimitsOverTheEnsemble", "server/limits.TestSharesOverTheEnsemble"},
	"- A server counts rates by itself": {"server.TestLimitsBesideAnEarlierVersion", "server/limits.TestKeysOfRules"},
	"- **Connections, sessions":         {"server/limits.TestConnections", "server/limits.TestSessions", "server/limits.TestCounts"},
	"- Changes of the rules":            {"server/limits.TestFollow", "server/clients.TestLimitsInQuota"},
	"  The leader divides up to":        {"server/limits.TestUsesAreBounded", "server/limits/shares.TestDividedAreBounded"},
	"Limits hold on an idle ensemble":   {"server/limits.TestWeights", "server/limits.TestSubjectOf"},
	"There are turns in two places":     {"server.TestNoisyNeighbour", "server/clients.TestThrottlerWeights", "server/clients.TestHandshakesHaveTurns"},
	"A server knows how much memory":    {"cmd/zkd.TestMemoryLimit", "cmd/zkd.TestLimitOfARealGroup"},
	"* the tree may take a part":        {"server.TestTreeShare"},
	"* each member tells the leader":    {"server.TestMemoryOfOneMember"},
	"* watches may take an eighth":      {"server.TestWatchesTakeTooMuchMemory"},
	"* a member whose process uses":     {"server.TestMemoryIsShort"},
	"* a snapshot that is being":        {"server.TestSnapshotIsGivenUp"},
}

// TestEachLimitHasItsTest: what docs/limits.md says of the end of a resource is tested.
func TestEachLimitHasItsTest(t *testing.T) {
	text, err := os.ReadFile(path.Join(root, "docs/limits.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := testsByDir(t)
	for head, want := range tested {
		columns := strings.Count(head, " | ") + 1
		_, table, ok := strings.Cut(string(text), "| "+head+" |\n|"+strings.Repeat("---|", columns)+"\n")
		if !ok {
			t.Errorf("docs/limits.md has no table %q", head)
		}
		table, _, _ = strings.Cut(table, "\n\n")
		var rows []string
		for line := range strings.Lines(table) {
			row, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
			rows = append(rows, row)
		}
		slices.Sort(rows)
		if want := slices.Sorted(maps.Keys(want)); !slices.Equal(rows, want) {
			t.Errorf("docs/limits.md has the rows\n%s\nand tests are named here for\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
		}
		for row, names := range want {
			haveTests(t, tests, row, names)
		}
	}
	for begin, names := range testedLines {
		if !strings.Contains(string(text), "\n"+begin) {
			t.Errorf("docs/limits.md has no line that begins with %q", begin)
		}
		haveTests(t, tests, begin, names)
	}
	for line := range strings.Lines(string(text)) {
		item := strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ")
		if item && !slices.ContainsFunc(slices.Collect(maps.Keys(testedLines)), func(begin string) bool { return strings.HasPrefix(line, begin) }) {
			t.Errorf("docs/limits.md: name the tests of %q here", line)
		}
	}
}

// haveTests checks that there are tests with these names.
func haveTests(t *testing.T, tests map[string]map[string]bool, of string, names []string) {
	t.Helper()
	for _, name := range names {
		dir, test, _ := strings.Cut(name, ".")
		if !tests[dir][test] {
			t.Errorf("%s: there is no test %s in %s: name the one that uses it up now", of, test, dir)
		}
	}
}
