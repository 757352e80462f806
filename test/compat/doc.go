// Package compat runs other people's ZooKeeper clients against a server, and
// compares zkd with Apache ZooKeeper reply by reply.
//
// The suites are behind the build tag "compat", because they need Debian
// packages (install.sh) and minutes rather than seconds:
//
//	go test -tags compat ./test/compat -target zkd
//
// What each suite does:
//
//   - TestKazoo: kazoo's own test-suite, with the server behind it swapped. As
//     many tests must pass on the target as on Apache.
//   - TestZkCli: one scripted zkCli.sh session; what it prints must be the same.
//   - TestJava, TestCurator, TestC, TestGoZookeeper: client programs that check
//     what their libraries report.
//   - TestDifferential*: the same bytes to Apache and to the target; replies are
//     rendered as text, one line each, and compared. Differences that are meant
//     are in testdata/known*.txt; an unlisted difference fails, and so does a listed
//     one that is gone. docs/dev/compat.md gives the reasons.
//   - TestMalformed39: the same for seeded malformed requests of every opcode.
//
// Apache is 3.8.0, as Debian 12 has it, and in tests with 39 in their names the 3.9 in the
// directory that the environment variable ZOOKEEPER39 names, which test/world/fetch.sh makes.
// Without it these tests are skipped.
//
// Applications that keep their state in ZooKeeper run as they are: TestPatroni is a
// PostgreSQL cluster whose leader is elected in an ensemble, TestTooz and TestTaskflow are
// the test-suites of OpenStack's libraries, and, with the build tag "apps" as well, TestNode
// and TestGoApps use the clients of Node.js and the stores of Vitess and Valkeyrie (apps/,
// a separate module). With -full, as in `make apps`, Apache's servers get the same.
//
// Recipes of ours, of Curator, Apache and kazoo contend at the same paths (TestContend), and
// ours run all their tests with Apache as well: TestRecipes, TestEnsembleRecipes.
//
// Our own client is held against both kinds of servers: TestClient and
// TestEnsembleClient run the tests of client/ whose names have Suite in them with
// ZKD_TEST_SERVERS set; and TestSurvivors is a program that writes, watches and keeps ephemeral
// nodes while the leader is killed, and misses nothing. TestOutlive kills the leader, or has it hand
// over, under programs of six libraries, none of which may lose its connection to a server that lives.
//
// TestClientReconfig, TestKazooReconfig, TestCReconfig and TestZkCliReconfig change the
// members of ensembles of both kinds, and TestEnsembleReconfig39 compares how changes are
// refused.
//
// TestEnsemble* do this with three servers: the client programs with a follower,
// with the leader, or with all in the connect string; kazoo's suite; one session
// of zkCli.sh with a follower; scenarios that compare what is seen of ensembles,
// when sessions move and servers are lost; and TestEnsembleFaults, Curator's
// recipes while the leader is killed and started again every second or two.
//
// TestTakeover*, and TestKerberosTakeover, make an ensemble of zkd's of a running one of Apache's,
// under writers, kazoo, Curator and applications.
//
// The target is a flag: zkd (built from the tree, or the binary named by -zkd)
// or apache (3.8) or apache39. Running everything with -target apache compares Apache
// with itself, which proves that the comparison is sound.
//
// # Goroutines
//
// Each server is a child process owned by the test that started it, and dies
// with it: on return, on failure, and when the test binary itself is killed. The one
// exception is PostgreSQL, which stays when its Patroni dies: TestPatroni ends it.
package compat
