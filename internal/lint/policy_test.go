package lint

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// ours says which packages of this module a package imports. Each package has a
// line; "none" is none. What is on the right comes before: there are no cycles
// even among the layers. Tests may also import testHelpers.
const ours = `
	jute:              none

	# Values that are never shown.
	internal/secret:   none

	# The numbers of formats, and the classes of reasons why a file can't be used.
	internal/format:   none
	internal/fault:    internal/format

	# Faults planted into the rules of pure packages, in builds with a tag.
	internal/mutant:   none

	# Waits that a context cuts short.
	internal/child:    none
	internal/freeport: none
	internal/pause:    none

	# Two states of a subtree, and the way from one to the other.
	internal/treediff: jute

	# How ports wait for connections.
	internal/accept:   none

	# What clients send, cut into requests.
	internal/frames:   none

	# Many idle sockets, and what is written without waiting.
	internal/sockets:  none

	# Many connections on one, between an edge and a server.
	internal/mux/streams: internal/mutant
	internal/mux:      internal/mutant internal/mux/streams

	# What clients are told at a port that is for something else.
	internal/misdial:  none

	# When people are told of what expires.
	internal/expiry:   none

	# Counts of the work of a request, for tests.
	internal/steps:    none

	# The core. Pure: see below.
	server/datatree:   jute internal/format internal/mutant internal/steps internal/wire
	server/watch:      jute internal/mutant internal/steps
	server/session:    jute internal/mutant internal/secret
	server/auth:       jute internal/mutant internal/steps
	server/auth/certid: jute server/auth
	server/auth/jwt:   jute server/auth
	server/auth/sasl:  jute internal/digestmd5 internal/scram server/auth
	server/limits/shares: internal/mutant internal/wire
	server/limits:     jute internal/mutant server/limits/shares
	server/fair:       none
	server/feed:       jute internal/mutant internal/steps server/datatree server/fair
	server/evaluate:   jute internal/exact internal/fifo internal/mutant server/auth server/datatree
	server/zab:        jute internal/format internal/mutant internal/secret internal/wire
	# The rules of copies at another site.
	server/copies:     jute internal/mutant server/datatree server/zab
	server/datadirs:   jute internal/fault internal/format internal/mutant internal/secret server/zab
	# What a server does with requests, above zab. The simulator runs it, too.
	server/replica:    jute internal/fifo internal/format internal/mutant internal/wire server/auth server/datatree server/evaluate
	                   server/fair server/limits server/session server/zab
	server/zab/behavior: jute server/zab
	server/zab/transport: jute internal/accept internal/format internal/keystore internal/misdial internal/pause server/limits server/secure server/zab
	server/sim:        jute internal/exact internal/fault internal/mutant internal/mux/streams internal/resume internal/subtrees internal/testing/crashfs internal/vfs server/auth server/away server/clients/line server/clients/line/register server/clients/line/views server/copies server/datadirs server/datatree server/evaluate server/feed server/limits server/replica server/session
	                   server/snapshot server/state server/wal server/watch server/zab server/zab/behavior

	# Lists and records in memory.
	internal/fifo:     none
	internal/wire:     none

	# The rules of exactly-once sessions.
	internal/exact:    jute internal/fifo internal/mutant

	# How a session goes on, on other connections, without its client's knowledge.
	internal/resume:   jute internal/exact internal/fifo internal/mutant

	# Subtrees in memory, and the watches of many sessions in them.
	internal/subtrees: jute internal/mutant internal/resume internal/treediff

	# What a program was built from.
	internal/buildinfo: none

	# The four-letter words' data as JSON, over HTTP.
	server/admin:      fourletter jute server/copies server/fair server/limits server/monitor server/show server/zab
	# What programs have built out of nodes: locks, elections, queues.
	server/coordination: jute
	# The HTTP API: a client of the server around it.
	server/api:        internal/exact internal/treediff jute server/coordination server/fair server/show
	# The console: pages for people, which use the HTTP API.
	server/console:    none
	# Who has signed in to it.
	server/console/login: server/api server/console server/limits
	# The bill of materials of a release.
	# The ids of traces and their spans.
	internal/traceid:  none
	internal/spans:    internal/traceid

	# The configuration that the environment of a container asks for.
	internal/container: none

	# Four-letter words, as their clients send them.
	internal/ask:      none

	# The files of TLS, the server's and the client's, and what a server makes of them.
	internal/keystore: internal/secret internal/smallfile
	server/secure:     internal/expiry internal/keystore internal/ocspstatus
	internal/ocspstatus: none
	internal/tlsconn:  none
	internal/testing/certs:    none

	# The messages of DIGEST-MD5 and SCRAM, the server's and the client's; Java's login configurations.
	internal/digestmd5: none
	internal/scram:    none
	internal/jaas:     none

	# What the programs print on a terminal.
	internal/console:  none
	internal/similar:  none
	internal/commands: internal/console
	internal/stdio:    none

	# Files that people write.
	internal/smallfile: none

	# Files. wal stores bytes, snapshot keys and values: neither knows the tree.
	internal/vfs:      none
	internal/testing/seeds:    none
	server/wal:        jute internal/fault internal/format internal/mutant internal/vfs
	server/snapshot:   jute internal/fault internal/format internal/vfs
	# The state that a snapshot and entries give, and archives of both outside of servers.
	server/history:    jute internal/fault internal/secret internal/treediff server/datatree server/snapshot server/zab
	server/archive/source: jute internal/pause server/archive server/copies server/history server/zab
	server/archive:    jute internal/fault internal/format internal/secret internal/vfs server/history server/snapshot server/zab
	server/config:     internal/console internal/jaas internal/keystore internal/secret internal/similar internal/smallfile internal/vfs server/auth server/auth/sasl server/limits server/secure

	# It declares the view that it renders; the server fills it.
	fourletter:        none

	# What a server counts of itself, by the names that operators know.
	server/monitor:    jute
	# One view of a server, which the words, the pages and the metrics show.
	server/show:       fourletter internal/console jute server/datatree server/limits server/monitor server/zab

	# What it sends of sampled requests to a collector.
	server/traces:     jute internal/spans internal/traceid
	server/traces/otlp:

	# Who did what. It knows nothing of requests.
	server/audit:      jute internal/console internal/vfs server/auth server/config

	# Who a client is, as the configuration says.
	server/identities: internal/secret internal/smallfile server/auth server/auth/certid server/auth/jwt server/auth/sasl server/config

	# The tree with its lock and watches.
	server/state:      jute internal/secret server/datatree server/session server/watch server/zab

	# A server's directories at rest. Tools that read or write data import it, and not server.
	server/data:       jute internal/fault internal/format internal/secret internal/vfs server/archive server/config server/copies server/datadirs server/datatree server/feed
	                   server/history server/snapshot server/state server/wal server/zab

	# Read-only sessions of an edge that reaches no server. Pure, and with the server's watches.
	server/away:       jute internal/mutant internal/resume server/watch
	# The clients' connections. What they ask of the server is clients.Backend.
	server/clients/line/register: jute server/fair server/watch
	server/clients/line/pending: internal/fifo
	server/clients/line/views: jute server/datatree server/fair
	server/clients/line: jute internal/exact internal/mutant server/auth server/clients/line/pending server/clients/line/register server/clients/line/views
	                   server/datatree server/evaluate server/feed server/replica server/session server/show server/state server/watch
	server/clients:    jute fourletter internal/accept internal/fifo internal/frames internal/misdial internal/mux internal/sockets internal/tlsconn internal/treediff server/audit server/auth server/auth/sasl server/clients/line server/clients/line/register server/clients/line/views server/config server/datatree server/evaluate server/fair server/feed server/limits server/limits/shares server/monitor
	                   server/history server/past server/replica server/secure server/session server/show server/state server/traces server/watch

	# Assembly.
	# What the parts of a server may have: its clock, queues, and life.
	server/base:       none
	server/datatree/treetest: jute server/datatree
	server/settings:   jute server/config
	# The past of a server: of a subtree, from snapshots, the log and an archive.
	server/past:       jute internal/fault internal/pause internal/treediff server/archive server/auth server/data server/datatree server/history server/snapshot server/state server/wal server/zab
	server/pages:      jute fourletter internal/treediff internal/vfs server/admin server/api server/archive server/audit server/auth server/clients server/config server/console server/console/login server/copies server/data server/datatree server/feed server/history server/past server/settings server/show server/snapshot server/state server/wal server/words server/zab server/zab/transport
	server/words:      internal/vfs server/base server/clients server/config server/data server/datatree server/monitor server/session server/show server/state
	server:            jute fourletter internal/fault internal/fifo internal/format internal/pause internal/secret internal/vfs internal/wire
	                   server/admin server/api server/archive server/audit server/base server/history server/past
	                   server/auth server/identities
	                   server/config server/data server/datadirs server/datatree server/evaluate server/feed
	                   server/clients server/clients/line server/limits/shares server/monitor server/pages server/replica server/secure server/session server/settings server/show server/snapshot server/state server/traces server/wal server/watch server/words server/zab server/zab/transport
	cmd/zkd/local:     cmd/zkcli/servers internal/child internal/freeport internal/pause
	cmd/zkd/testserver: cmd/zkd/local internal/accept jute
	cmd/zkd/demo:      client client/settle cmd/zkd/local internal/pause recipes recipes/hold recipes/lock
	cmd/zkd:           client client/secure cmd/internal/login cmd/zkd/demo cmd/zkd/local cmd/zkd/testserver edge cmd/zkcli/ensemble cmd/zkcli/member cmd/zkcli/servers cmd/zkcli/shell cmd/zkcli/why fourletter jute internal/accept internal/ask internal/buildinfo internal/commands internal/console internal/container internal/expiry internal/keystore internal/pause migrate/moving migrate/shadow migrate/shadow/proxy internal/stdio migrate/standby migrate/takeover internal/vfs server server/api server/archive server/archive/source server/auth server/auth/sasl server/base server/config server/data server/datadirs server/fair server/history server/limits server/secure server/show server/traces/otlp server/zab

	# The client, and what stands on it: they know nothing of server/, but for
	# zktest, which starts servers inside the tests of others, and backups, which have a server's
	# files.
	client:            jute client/sasl internal/exact internal/fifo internal/frames internal/mutant internal/pause internal/resume
	client/secure:     client internal/keystore internal/ocspstatus internal/secret
	client/sasl:       jute internal/digestmd5
	client/sasl/scram: client/sasl internal/scram
	client/sasl/kerberos: client/sasl
	# Floors above it: writes until their outcome is known, subtrees, values of Go types.
	client/settle:     jute client
	client/tree:       jute client
	client/typed:      client client/settle
	# The API of another library.
	client/gozk:       jute client
	client/internal/trial: client client/settle client/tree client/zktest internal/testing/standin
	client/cache:      jute client client/tree client/typed internal/pause internal/subtrees
	# A proxy on the host of clients.
	edge/memory:       jute client client/cache internal/mutant internal/pause internal/subtrees internal/treediff server/base
	edge:              jute fourletter client client/cache client/secure edge/memory internal/accept internal/console internal/expiry internal/frames internal/mutant internal/mux internal/pause internal/smallfile internal/sockets server/away server/base
	client/oteltrace:  client internal/spans internal/traceid
	client/zktest:     jute internal/frames internal/pause client internal/testing/crashfs server server/config
	cmd/internal/login: client/sasl client/sasl/kerberos client/sasl/scram
	cmd/zkcli:         client cmd/zkcli/command internal/stdio
	cmd/zkcli/backup:  internal/vfs jute internal/fault internal/pause server/archive server/archive/source server/copies server/datatree server/history server/snapshot server/zab
	cmd/zkcli/command: client client/secure internal/treediff client/cache client/settle client/tree cmd/zkcli/backup cmd/zkcli/console cmd/zkcli/member cmd/zkcli/servers cmd/zkcli/shell cmd/zkcli/subtree cmd/zkcli/why internal/child internal/buildinfo internal/console internal/pause internal/similar cmd/internal/login migrate/shadow/proxy internal/stdio internal/vfs server/archive server/archive/source server/history server/zab
	                   recipes recipes/election recipes/hold recipes/lock
	cmd/zkcli/console: jute client cmd/zkcli/ensemble cmd/zkcli/servers server/api server/console server/show
	cmd/zkcli/ensemble: cmd/zkcli/servers cmd/zkcli/why server/api
	cmd/zkcli/member:  client cmd/zkcli/servers internal/pause
	cmd/zkcli/servers: client cmd/zkcli/why internal/ask
	cmd/zkcli/why:     internal/expiry
	cmd/zkcli/shell:   internal/console
	cmd/zkcli/subtree: jute internal/treediff client client/settle client/tree

	# Recipes: conventions among clients. Of each other they use the common core.
	recipes:               none
	recipes/internal/line: jute client client/settle recipes
	recipes/internal/feed: none
	recipes/internal/receipt: client recipes recipes/internal/line
	recipes/internal/trial: client client/settle client/tree client/zktest internal/testing/seeds recipes recipes/internal/line
	recipes/internal/stale: client client/cache recipes/barrier recipes/config
	                       recipes/election recipes/hold
	                       recipes/idempotent recipes/lock recipes/naming recipes/presence recipes/queue
	                       recipes/twopc recipes/value
	recipes/internal/page: client client/zktest recipes recipes/barrier recipes/config
	                       recipes/election recipes/hold
	                       recipes/idempotent recipes/internal/trial recipes/lock recipes/naming
	                       recipes/presence recipes/queue
	                       recipes/twopc recipes/value
	recipes/hold:          jute client client/settle recipes recipes/internal/line
	recipes/lock:          client client/settle recipes recipes/hold recipes/internal/line
	recipes/election:      client client/settle recipes recipes/hold recipes/internal/feed recipes/internal/line
	recipes/barrier:       client client/settle recipes recipes/internal/line
	recipes/queue:         client client/settle client/tree recipes recipes/internal/line recipes/internal/receipt
	recipes/presence:      client client/cache client/settle recipes recipes/hold recipes/internal/line recipes/lock
	recipes/naming:        client client/settle client/typed recipes recipes/internal/line
	recipes/config:        client client/cache client/settle client/typed recipes recipes/internal/feed recipes/internal/line
	recipes/value:         client client/settle client/typed recipes recipes/hold recipes/internal/line recipes/internal/receipt recipes/lock
	recipes/idempotent:    client client/settle client/tree recipes recipes/internal/line
	recipes/twopc:         client client/settle recipes recipes/internal/line

	# Moving from Apache's servers, and back: above server and client. First the files of Apache's server, and
	# what moves them to zkd and back.
	migrate/apachefiles: jute server/datatree
	migrate/apachelink: jute migrate/apachefiles server/datatree
	migrate/moving:   jute migrate/apachefiles internal/vfs server/archive server/data server/datadirs server/datatree server/history server/zab
	migrate/mirror:   jute internal/vfs server/api server/pages server/audit server/base server/clients server/config server/copies server/data server/datadirs server/datatree server/feed
	                  server/history server/identities server/monitor server/replica server/secure server/session server/settings server/show
	                  server/snapshot server/state server/wal server/watch server/words server/zab
	migrate/standby:  jute internal/pause internal/vfs migrate/mirror server/api server/archive server/archive/source internal/secret server/config server/copies server/data server/datadirs server/datatree server/history server/show server/zab
	migrate/takeover: jute migrate/mirror client/sasl/kerberos migrate/apachefiles migrate/apachelink internal/digestmd5 internal/jaas internal/pause internal/smallfile migrate/moving internal/vfs server/config server/copies server/data server/datadirs server/datatree server/secure server/zab

	# The comparison of two ensembles, pure, and the connections that it is about.
	migrate/shadow:   jute internal/fifo internal/frames
	migrate/shadow/proxy: jute internal/frames internal/pause client migrate/shadow

	# Programs of the books. They see what users see.
	examples/masterworker/layout: client
	examples/masterworker: client examples/masterworker/layout
	examples/internal/process: client client/tree client/zktest
	examples/queue:        client recipes/queue
	examples/lock:         client client/settle client/typed recipes recipes/hold recipes/lock
	examples/config:       client recipes/config
	examples/group:        client recipes/presence

	# The load generator is a client: it knows nothing of server/.
	cmd/zkbench/bench:    jute client/sasl internal/frames
	cmd/zkbench:       client client/secure cmd/zkbench/bench internal/buildinfo internal/commands internal/console cmd/internal/login internal/stdio
	test/bench:        client internal/ask jute cmd/zkbench/bench internal/freeport internal/traceid
	test/bench/clients: client/cache cmd/zkbench/bench
	test/bench/etcd:   cmd/zkbench/bench internal/freeport
	test/bench/etcd/server: none
	tools:             none
	tools/sbom:        none
	tools/mutate:      none
	tools/release:     none

	# For tests.
	internal/testing/crashfs:  internal/vfs
	internal/testing/scenario: none
	internal/testing/golden:   internal/testing/scenario
	internal/testing/fastfs: internal/vfs
	cmd/zkbench/bench/fake: jute
	internal/testing/ptytest:  none
	internal/testing/manual:   none
	# The lines of the programs in the documentation.
	internal/testing/doclines: internal/commands
	internal/testing/freeport: internal/freeport
	internal/testing/mempipe: none
	internal/testing/standin:  none
	internal/lint:     none
	test/compat:       server/data server/datatree recipes/barrier recipes/election recipes/hold recipes/lock recipes/presence
	                   recipes/queue recipes/value
	test/compat/apps:  none
	deploy/kubernetes/check: internal/container server/config
	deploy/prometheus: none
	test/internal/results: none
	test/trust:        test/internal/results
	test/world:        client internal/ask internal/freeport test/internal/results
	test/world/programs/dubbo-go: none
	test/world/programs/edge-clients: none
	test/world/programs/gozk-tests: none
	test/internal/process: internal/child jute
	test/crash:        jute cmd/zkbench/bench test/internal/process
	test/cluster:      jute client client/zktest cmd/zkbench/bench test/internal/process migrate/standby
`

// testHelpers may be imported by any test. (jute is the vocabulary of all, and mux that of edges.)
var testHelpers = []string{"jute", "internal/mux", "server/datatree/treetest", "server/zab/behavior", "internal/mutant", "internal/testing/certs", "internal/testing/golden", "internal/testing/scenario", "internal/steps", "internal/testing/crashfs", "internal/testing/fastfs", "cmd/zkbench/bench/fake", "client", "client/zktest", "internal/ask", "internal/testing/freeport", "internal/testing/mempipe", "internal/testing/seeds", "internal/testing/ptytest", "internal/testing/manual", "internal/testing/doclines", "internal/digestmd5", "internal/testing/standin", "recipes", "recipes/internal/trial", "examples/internal/process", "client/sasl", "client/sasl/scram", "client/secure", "client/internal/trial", "client/settle", "client/tree", "client/typed", "client/cache", "edge", "edge/memory", "internal/traceid"}

// theirs says who uses a module that is not ours. A name that ends in / stands
// for all packages below it, and "tests" for the tests of all packages.
const theirs = `
	github.com/jcmturner/gokrb5:        server/auth/sasl client/sasl/kerberos tests
	github.com/hashicorp/go-msgpack:    server/datatree server/snapshot server/zab/transport
	go.etcd.io/bbolt:                   server/snapshot
	github.com/klauspost/compress:      migrate/apachefiles server/archive
	github.com/aws:                     cmd/zkcli/backup
	github.com/johannesboyne/gofakes3:  tests
	github.com/go-jose:                 server/auth/jwt tests
	golang.org/x/sys:                   internal/vfs server/base cmd/zkcli/shell edge test/bench
	golang.org/x/crypto:                client/secure internal/ocspstatus server/secure
	golang.org/x/term:                  cmd/zkcli/shell internal/console
	golang.org/x/tools:                 internal/lint
	golang.org/x/text:                  internal/scram cmd/zkcli/shell
	github.com/creack/pty:              internal/testing/ptytest
	github.com/spf13/pflag:             cmd/
	go.uber.org/zap:                    server server/audit server/identities server/data server/clients server/pages server/secure server/zab/transport server/wal server/snapshot cmd/zkd client/zktest migrate/mirror migrate/standby migrate/takeover
	go.opentelemetry.io:                internal/spans client/oteltrace client/zktest cmd/zkd server server/traces server/traces/otlp test/bench tests
	google.golang.org/protobuf:         test/bench tests
	github.com/prometheus/client_model: server/monitor
	github.com/prometheus/client_golang: server server/audit server/identities server/data server/monitor server/secure server/show server/zab/transport server/wal server/snapshot cmd/zkd migrate/mirror migrate/standby
	github.com/spf13/cobra:             cmd/ internal/commands internal/testing/manual internal/testing/doclines
	github.com/HdrHistogram:            cmd/zkbench/bench test/bench/etcd
	go.etcd.io/etcd:                    test/bench/etcd test/bench/etcd/server
	gonum.org/v1/plot:                  test/bench
	github.com/CycloneDX/cyclonedx-go:  tools/sbom
	golang.org/x/mod:                   tools/release
	dubbo.apache.org/dubbo-go:          test/world/programs/dubbo-go
	go.uber.org/goleak:                 tests
	github.com/go-zookeeper/zk:         test/world/programs/edge-clients tests
	github.com/anishathalye/porcupine:  recipes/internal/trial tests
	github.com/prometheus/prometheus:   deploy/prometheus
	github.com/prometheus/common:       deploy/prometheus
	go.yaml.in/yaml:                    deploy/prometheus
	github.com/kvtools:                 test/compat/apps
	vitess.io/vitess:                   test/compat/apps
	helm.sh/helm:                       deploy/kubernetes/check
	k8s.io:                             deploy/kubernetes/check
	sigs.k8s.io/kustomize:              deploy/kubernetes/check
	sigs.k8s.io/yaml:                   deploy/kubernetes/check
`

// pure are the packages of which the result depends on nothing but the
// arguments: no clock, no files, no sockets, no goroutines of their own, and
// randomness only as it is handed in. That is what lets a test replay them from
// a seed, and what makes all servers of an ensemble compute the same.
var pure = []string{
	"jute", "cmd/zkcli/why", "internal/format", "internal/mutant", "server/auth", "server/auth/certid", "server/away", "server/clients/line", "server/clients/line/views", "server/coordination", "server/copies", "server/datadirs", "server/datatree", "server/evaluate", "server/fair", "server/limits", "server/limits/shares", "server/replica", "server/session", "server/watch", "server/zab", "internal/exact", "internal/expiry", "internal/fifo", "internal/mux/streams", "internal/resume", "internal/subtrees", "internal/wire", "migrate/shadow", "internal/traceid",
}

// pureStd is what pure packages use of the standard library; where names follow
// the colon, only those. It grows by what is pure.
const pureStd = `
	bytes: *
	cmp: *
	container/heap: *
	container/list: *
	crypto/hmac: *
	crypto/md5: *
	crypto/sha1: *
	crypto/sha256: *
	crypto/sha3: *
	crypto/sha512: *
	crypto/subtle: *
	crypto/x509: Certificate
	encoding/asn1: *
	encoding/base64: *
	encoding/binary: *
	encoding/hex: *
	errors: *
	fmt: Errorf Sprintf Sprint Sprintln Sscanf Appendf Append Stringer State
	hash: *
	hash/crc32: *
	hash/fnv: *
	hash/maphash: *
	io: Reader ReadFull EOF ErrUnexpectedEOF
	iter: *
	maps: *
	math: *
	math/bits: *
	math/rand/v2: Rand
	net/netip: *
	regexp: *
	slices: *
	sort: *
	strconv: *
	strings: *
	sync: *
	sync/atomic: *
	time: Duration Nanosecond Microsecond Millisecond Second Minute Hour
	unicode: *
	unicode/utf16: *
	unicode/utf8: *
	unsafe: *
`

// table reads a policy: what stands before a colon, and the words behind it. A
// line without a colon continues the one before.
func table(text string) map[string][]string {
	rows := make(map[string][]string)
	key := ""
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if before, after, ok := strings.Cut(line, ":"); ok {
			key, line = strings.TrimSpace(before), after
			rows[key] = []string{}
		}
		if words := strings.Fields(line); len(words) > 0 {
			rows[key] = append(rows[key], words...)
		}
	}
	return rows
}

func TestImportsOfOurs(t *testing.T) {
	rows := table(ours)
	seen := make(map[string]bool)
	for _, f := range goFiles(t) {
		seen[f.dir()] = true
		for _, msg := range checkOurs(rows, f) {
			t.Errorf("%s: %s", f.path, msg)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(seen)) {
		if _, ok := rows[pkg]; !ok {
			t.Errorf("%s: a package without a line in the import policy: decide what it may import, and add it to policy_test.go", pkg)
		}
	}
}

func checkOurs(rows map[string][]string, f *file) (messages []string) {
	for _, p := range f.imports() {
		pkg, ok := strings.CutPrefix(p, module)
		switch {
		case !ok || pkg == f.dir() || slices.Contains(rows[f.dir()], pkg):
		case f.isTest() && slices.Contains(testHelpers, pkg):
		default:
			messages = append(messages, "imports "+pkg+", which the policy in policy_test.go does not allow: "+
				"declare the interface or the value that you need here, and let the caller bring it")
		}
	}
	return messages
}

// floors are the folders of the top level, from the ground up. Nothing runs back up, whatever ours says:
// a package imports what is on its own floor or below it.
var floors = []string{"jute", "internal", "fourletter", "server", "client", "edge", "recipes", "migrate", "cmd", "examples", "deploy", "test", "tools"}

func TestFloors(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, msg := range checkFloor(f) {
			t.Errorf("%s: %s", f.path, msg)
		}
	}
}

func checkFloor(f *file) (messages []string) {
	top, _, _ := strings.Cut(f.dir(), "/")
	floor := slices.Index(floors, top)
	if floor < 0 {
		return []string{"the folder " + top + " is on no floor: decide what it stands on, and add it to floors in policy_test.go"}
	}
	for _, p := range f.imports() {
		pkg, ok := strings.CutPrefix(p, module)
		if !ok || f.isTest() && slices.Contains(testHelpers, pkg) {
			continue
		}
		if below, _, _ := strings.Cut(pkg, "/"); slices.Index(floors, below) > floor {
			messages = append(messages, "imports "+pkg+", which is on a floor above "+top)
		}
	}
	return messages
}

// TestCheckFloor checks the check.
func TestCheckFloor(t *testing.T) {
	for _, tt := range []struct {
		path, imports string
		want          int
	}{
		{"server/data/x.go", "internal/vfs", 0},
		{"server/data/x.go", "server", 0},
		{"server/data/x.go", "migrate/moving", 1},
		{"internal/x/x.go", "client", 1},
		{"internal/x/x.go", "jute", 0},
		{"server/x_test.go", "client/zktest", 0},
		{"server/x_test.go", "cmd/zkd", 1},
		{"elsewhere/x.go", "jute", 1},
	} {
		f, err := parse(tt.path, "package x\n\nimport _ \""+module+tt.imports+"\"\n")
		if err != nil {
			t.Fatal(err)
		}
		if got := checkFloor(f); len(got) != tt.want {
			t.Errorf("%s imports %s: %q, want %d complaints", tt.path, tt.imports, got, tt.want)
		}
	}
}

func TestImportsOfTheirs(t *testing.T) {
	rows := table(theirs)
	for _, f := range goFiles(t) {
		for _, msg := range checkTheirs(rows, f) {
			t.Errorf("%s: %s", f.path, msg)
		}
	}
}

func checkTheirs(rows map[string][]string, f *file) (messages []string) {
	for _, p := range f.imports() {
		if host, _, _ := strings.Cut(p, "/"); !strings.Contains(host, ".") || strings.HasPrefix(p+"/", module) {
			continue // of the standard library, or ours
		}
		users, known := usersOf(rows, p)
		switch {
		case !known:
			messages = append(messages, "imports "+p+", a module that the policy in policy_test.go does not know: "+
				"is the standard library not enough?")
		case !mayUse(users, f):
			messages = append(messages, "imports "+p+", which is for "+strings.Join(users, ", ")+
				" alone: keep each module behind as few packages as possible")
		}
	}
	return messages
}

func usersOf(rows map[string][]string, p string) (users []string, known bool) {
	for m, users := range rows {
		if p == m || strings.HasPrefix(p, m+"/") {
			return users, true
		}
	}
	return nil, false
}

func mayUse(users []string, f *file) bool {
	return slices.ContainsFunc(users, func(u string) bool {
		return u == "tests" && f.isTest() || f.dir() == u || strings.HasSuffix(u, "/") && strings.HasPrefix(f.dir(), u)
	})
}

func TestPurePackages(t *testing.T) {
	std := table(pureStd)
	for _, pkg := range pure {
		found := false
		for _, f := range goFiles(t) {
			if f.dir() != pkg || f.isTest() {
				continue
			}
			found = true
			for _, msg := range checkPure(std, f) {
				t.Errorf("%s:%s", f.path, msg)
			}
		}
		if !found {
			t.Errorf("pure package %s does not exist", pkg)
		}
	}
}

// TestTable checks the reader of the policies.
func TestTable(t *testing.T) {
	rows := table("a: b c\n\t# d: e\n\tf\n\ng: none # h\n")
	if got := rows["a"]; !slices.Equal(got, []string{"b", "c", "f"}) {
		t.Errorf("a: got %q", got)
	}
	if got := slices.Sorted(maps.Keys(rows)); !slices.Equal(got, []string{"a", "g"}) {
		t.Errorf("keys: got %q", got)
	}
	if path.Base(module) != "zkd" {
		t.Errorf("module %q", module)
	}
}
