# make run3 starts an ensemble, make test runs the tests. All that they need is Go;
# modules come through GOPROXY. `make help` lists the rest.

GO   ?= go
PKG  ?= ./...
TIME ?= 30s
SHELL = /bin/sh
SOURCES = client cmd deploy edge examples fourletter internal jute migrate recipes server test tools

.DEFAULT_GOAL := help
.PHONY: help build campaign run run3 test test-zkd test-modules processes nightly race race-build race-one race-others scenario fuzz sim costs mutants mutate orders crash cluster standby members alerts links roll upgrade soak exhaust compat compat-all console kerberos moving takeover apps world spec bench benchcmp bench-night lint fmt tidy cover check vuln release verify reproduce image charts site clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

BIN ?= bin
build: ## the programs, static, into bin/
	CGO_ENABLED=0 $(GO) build -o $(BIN)/ ./cmd/...

campaign: ## bin/bench, which compares two servers: test/bench, a module of its own
	CGO_ENABLED=0 $(GO) build -C test/bench -o $(abspath $(BIN))/bench .

run3: build ## an ensemble of three servers: client ports 2181 to 2183, data in ./build/run3
	@bin/zkd demo --servers-only --dir build/run3

# The four-letter words and the metrics are off by default; here somebody looks.
PORT ?= 2181
DATA ?= ./build/run
METRICS_PORT ?= 7000
run: build ## one server on conf/zoo_sample.cfg, its data in ./build/run (PORT=2181 DATA=dir METRICS_PORT=7000)
	@echo
	@echo 'Starting a server in the foreground; Ctrl-C stops it, and the data stays in $(DATA).'
	@echo 'In another terminal:'
	@echo '  printf stat | nc 127.0.0.1 $(PORT)          or: telnet 127.0.0.1 $(PORT), then type: stat'
	@echo '  bin/zkcli -server 127.0.0.1:$(PORT)         or zkCli.sh, or any other ZooKeeper client'
	@echo '  curl http://127.0.0.1:$(METRICS_PORT)/metrics'
	@echo '  bin/zkbench set 127.0.0.1:$(PORT)           load for 5 s, with each reply checked'
	@echo
	@exec bin/zkd --port $(PORT) --data-dir $(DATA) --set '4lw.commands.whitelist=*' \
		--set metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider \
		--set metricsProvider.httpPort=$(METRICS_PORT) conf/zoo_sample.cfg

# Tests end early only when something hangs: how long they take is the machine's.
LIMIT = -timeout 30m
# Many packages wait for the disk, for programs and for clocks, so there are more at a time than processors.
AT_ONCE = -p $(shell echo $$((3 * $$(getconf _NPROCESSORS_ONLN))))
# In short runs the random tests have fewer seeds, the tests of recipes one of the four faults at
# each request, and the largest requests 8 MiB. Real processes have a target of their own; those
# packages that take longest begin first. The project's own rules are part of lint.
# Memory is cheaper than the collector's time, a fifth of the processors' here, in the compiler as in the tests.
build campaign test lint race-build race-one race-others sim mutants: export GOGC := 400
QUICK = $(GO) test -short $(LIMIT) $(AT_ONCE)
# Vet is part of lint, and nobody reads the tests' debug information and symbols, a seventh of the
# compiler's time and a quarter of the linker's. With the same flags here and there, and without C, each
# package is compiled once.
lint test mutate race-build race-one race-others sim mutants: export GOFLAGS := $(strip $(GOFLAGS) -vet=off -gcflags=all=-dwarf=false -ldflags=-s)
lint test mutate: export CGO_ENABLED := 0
PROCESSES = ./test/crash ./test/cluster
test: ## the tests, in short runs; all that PKG=./server/wal has
	$(if $(findstring command,$(origin PKG)),$(GO) test $(LIMIT) $(PKG),$(MAKE) -j 2 test-zkd test-modules)

# The modules beside zkd's have few packages: alone, these would leave processors idle.
test-zkd:
	$(QUICK) ./server ./client $$($(GO) list ./... | grep -v '/test/crash$$\|/test/cluster$$\|/internal/lint$$')

test-modules:
	cd test/bench && $(QUICK) ./...
	cd tools && $(QUICK) ./...

processes: ## real servers that are killed, cut off, and out of disk: the main faults once
	$(GO) test -count=1 $(LIMIT) $(PROCESSES)

# It runs a target, and keeps what that has found for docs/trust.md.
TRUST = $(GO) run ./test/trust
# Of what deadcode finds, AwaitWrite is called by test/bench, another module.
nightly: ## everything in full, and what CI leaves out: hours; before each release
	$(STATICCHECK) ./...
	unreachable=$$($(DEADCODE) -test ./... | grep -v ': AwaitWrite$$'); test -z "$$unreachable" || { echo "$$unreachable" >&2; exit 1; }
	$(GO) test -count=1 -timeout 2h ./...
	$(MAKE) race
	$(TRUST) sim SEED=100000 SEEDS=20000
	$(TRUST) mutants
	$(TRUST) spec MODELS=nightly TRACES=1000
	$(TRUST) crash
	$(TRUST) cluster
	$(TRUST) standby
	$(TRUST) upgrade
	test/compat/run.sh -full
	$(MAKE) console world

# Where several goroutines share something.
RACE = ./client ./edge ./internal/mux ./internal/stdio ./server/feed ./client/cache ./client/zktest ./cmd/zkcli/servers ./cmd/zkcli/shell ./cmd/zkcli/subtree ./server/clients ./server/monitor ./server/show ./server/zab/transport ./server/session ./server/watch ./cmd/zkbench/bench
# The race detector of Go 1.26 crashes where timers of testing/synctest fire on two
# processors (golang/go#78156), as they do by the thousand here: so on one, and with fewer
# seeds. What it finds it finds by the order of events, not by their happening at once.
RACE_ONE = ./server
# They take long there, and what they are about is no race.
RACE_SKIP = ^Test(HistoryHours|QuotasAreCountedAgain|FewQuotasAreCountedAtATime|JoinerIsServedToTheEnd|ARenegotiatedTimeoutOutlivesTheLeader|ARackExpires|GrowInAnyOrderUnderPartitions|MultiReadIsBounded|NewServersFoundNothing|DifferentFilesFoundNothing|EverySetting|PairsOfSettings|Volumes|LargestRequests|APIIsAsDescribed|ATurnOfTheLeaderIsShort|NothingAcknowledgedIsLost|ReconfigCutApart|NoisyNeighbour.*|StormsLeaveNothingBehind|LongWritesAlone|TheEndOfALargeSessionHoldsNothingForLong|ExactlyOnceBounds|LostSnapshotsAreRepaired|Pages|FullDisk|LogFillsTheDisk|SynchronizedOnAFullDisk|NoRoomAtAll|BurstsOverSlowLinks|SnapshotWithoutMemoryForTwoTrees|MemoryOfOneMember|EveryRequestIsLinear|SnapshotToALateServer)$$
# They break the connection at each of their requests: of these one in four is enough here, not
# the same as in make test, and of the recipes those in which most happens at once. The log is
# compared with its model for fewer steps.
RACE_SHORT = ./recipes/election ./recipes/lock ./recipes/queue ./server/wal
# These of the others have one goroutine alone, or are about large numbers, and take long.
RACE_ALONE = ^Test(ManyWatchesAreSetAgain|Suite(ManyWatches|LargeListing)|Crash|EveryInterleavingOfThree|EveryPartOfTheRuleIsNeeded|ByteDamage|SetAside(Crash|ByteDamage|Random)|Memory|Twin|HistoryTwin)$$
race: ## tests under the race detector, of the packages with goroutines (or PKG=); needs a C compiler
	$(if $(findstring command,$(origin PKG)),CGO_ENABLED=1 $(GO) test $(LIMIT) -race $(PKG),$(MAKE) race-build && $(MAKE) -j 2 race-one race-others)

# Both would compile at the same time what they share, which is nearly all.
race-build:
	CGO_ENABLED=1 $(GO) build -race $(RACE_ONE) $(RACE) $(RACE_SHORT)

race-one:
	CGO_ENABLED=1 $(QUICK) -race -cpu 1 -skip '$(RACE_SKIP)' $(RACE_ONE)

race-others:
	CGO_ENABLED=1 $(GO) test $(LIMIT) -race -skip '$(RACE_ALONE)' $(RACE)
	CGO_ENABLED=1 $(QUICK) -race -skip '$(RACE_ALONE)' $(RACE_SHORT)

# Packages whose tests compare with files and can rewrite these.
SCENARIOS = ./cmd/zkcli/command ./jute ./server/archive ./server/clients/line ./server/config ./server/datadirs ./server/datatree ./server/evaluate ./server/limits/shares ./server/replica ./server/session ./server/show ./server/sim ./server/snapshot ./server/wal ./server/watch ./server/zab ./server/zab/transport
scenario: ## text scenarios and golden files; REWRITE=1 writes the actual output into them
	$(GO) test -count=1 -run '^Test(Docs|Formats|Golden|Scenarios|Scripts|Vectors)$$' $(SCENARIOS) $(if $(REWRITE),-args -rewrite)

# Up to Go 1.26 a target may fail at the end of its time, without an input that fails (golang/go#75804).
fuzz: ## each fuzz target for TIME=30s, or TIME=10000x inputs (FUZZ=Multi for those whose name has it)
	@grep -rHo '^func Fuzz[[:alnum:]_]*$(FUZZ)[[:alnum:]_]*' --include='*_test.go' $(SOURCES) | sort | while IFS=: read -r file func; do \
		target=$${func#func }; dir=$$(dirname "$$file"); \
		echo "== $$target in $$dir"; \
		{ $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(TIME) -fuzzminimizetime 1s "./$$dir" </dev/null; echo "status: $$?"; } | \
			awk '/^status: /{exit} {print} /execs: /{inputs = $$5} /^    context deadline exceeded$$/{late = 1} /Failing input/{found = 1} \
				END{printf "counts: targets=1 inputs=%d\n", inputs; exit late && !found ? 0 : $$2}' || exit 1; \
	done

SEED  ?= 1
SEEDS ?= 1
STEPS ?= 10000
sim: ## random ensembles in simulation, checked after each step (SEED=1 SEEDS=1 STEPS=10000)
	$(GO) test -count=1 -timeout 24h -v -run 'TestSim$$' ./server/sim -args -seed $(SEED) -seeds $(SEEDS) -steps $(STEPS)

costs: ## what each kind of request costs for each byte, where trees are deep, wide and large
	$(GO) test -count=1 -v -run '^TestEveryRequestIsLinear$$' ./server | sed -n 's/^ *costs_test.go:[0-9]*: //p'

RUNS ?= 300
mutants: ## are the faults planted into the core and the nodes found, and by how many of RUNS=300 random runs? minutes; seconds with RUNS=0 (MUTANT=name)
	$(GO) test -count=1 -v -tags zabmutants -run '^TestMutants' ./client ./internal/mux ./server/zab ./server/copies ./server/datatree ./server/evaluate ./server/clients/line ./server/limits ./server/watch ./server/auth ./edge ./server/away ./internal/subtrees ./server
	$(GO) test -count=1 -timeout 24h -v -tags zabmutants -run '^TestMutants|^TestFinders' ./server/sim -args -mutant '$(MUTANT)' -mutantseeds $(RUNS)

BUDGET   ?= 10m
PACKAGES ?= $(addprefix internal/,exact mux/streams resume) $(addprefix server/,auth clients/line copies datatree evaluate feed replica session snapshot wal watch zab) \
	$(addprefix server/clients/line/,pending register views)
mutate: ## faults by rule, one at a time: which of them does no test find? (PACKAGES='server/zab' BUDGET=10m SEED=1 EACH=20 SINCE=commit ONLY=file.go:12 WHOLE=1)
	@mkdir -p build
	$(GO) -C tools build -o $(abspath build)/mutate ./mutate
	@build/mutate -known tools/mutate/known.txt -results build/mutate.json -budget $(BUDGET) -seed $(SEED) \
		-each $(or $(EACH),0) -since '$(SINCE)' -only '$(ONLY)' $(if $(WHOLE),-whole) $(PACKAGES)

orders: ## starts with every order of volumes that are present, absent, empty, another server's, a later version's or exchanged: minutes
	$(GO) test -count=1 -timeout 2h -v -run '^TestVolumes$$' ./server -args -orders

FROM ?= release
ROUNDS ?= 100
crash: ## kill -9 and restart under load, checking all that was acknowledged (ROUNDS=100)
	ZKD_SEED=fresh $(GO) test -count=1 -timeout 120m -v -run 'TestKill|TestLossIsNoticed' ./test/crash -args -rounds $(ROUNDS)

cluster: ## ensembles of real servers: all faults once, kill -9 over and over (ROUNDS=100)
	ZKD_SEED=fresh $(GO) test -count=1 -timeout 12h -parallel 3 -v ./test/cluster -args -fault . -rounds $(ROUNDS)

standby: ## the site of an ensemble is lost, or retired, under load, and its standbys take its place (ROUNDS=100 FAR=40ms)
	ZKD_SEED=fresh $(GO) test -count=1 -timeout 12h -v -run '^(TestStandby|TestPlannedChange)$$' ./test/cluster -args -losses $(ROUNDS) $(if $(FAR),-far $(FAR))

members: build ## the walk-through of docs/members.md: a real ensemble changes its members while a client writes
	@scripts/members.sh

alerts: ## makes each alert of deploy/prometheus fire; a module of its own, minutes to build for the first time
	cd deploy/prometheus && GOFLAGS= $(GO) test ./...

links: ## servers join over links of 0.5 to 12 MB/s, with each load: some ten minutes
	$(GO) test -count=1 -timeout 2h -v -run '^TestSlowLinks$$' ./test/cluster -args -links

roll: ## real servers of the last release become servers of this version, and go back, while clients write (FROM=a commit or tag)
	$(GO) test -count=1 -timeout 30m -v -run '^TestRoll$$' ./test/cluster -args -roll $(FROM)

upgrade: ## the same from the last version before each change of a format: half an hour
	$(GO) test -count=1 -timeout 3h -v -run '^TestRoll$$' ./test/cluster -args -roll formats

soak: ## ensembles under one random fault after the other, for TIME=8h
	ZKD_SEED=fresh $(GO) test -count=1 -timeout 0 -v -run TestSoak ./test/cluster -args -fault . -time $(TIME)

exhaust: ## an ensemble whose memory, disks, inodes and descriptors clients use up, for TIME=1h; needs root
	ZKD_SEED=fresh $(GO) test -count=1 -timeout 0 -v -run TestExhaustion ./test/cluster -args -fault . -time $(TIME)

compat: ## other people's clients, and a comparison with Apache's server of 3.9: what each change must pass
	test/compat/run.sh

compat-all: ## compat, and the comparison with 3.8, kazoo's suite, moves and takeovers
	test/compat/run.sh -all

kerberos: ## logins with Kerberos, good and bad, beside Apache's server; with a key distribution center of its own
	test/compat/run.sh -run TestKerberos

moving: ## Apache's data to zkd and back, of 3.8 and 3.9, with longer storms
	test/compat/run.sh -full -run '^TestMoving'

takeover: ## running ensembles of Apache's become zkd's, twenty in a row, with kills at each step
	test/compat/run.sh -full -run '^TestTakeover'

apps: ## applications that keep their state in ZooKeeper: Patroni, Vitess and more; minutes, and a network
	test/compat/run.sh -apps

# Node is not needed to build or to run zkd.
console: build ## the console in Chromium, on three real servers; needs Node, Chromium, and a network once (CHILDREN=1000000 REWRITE=1)
	cd test/console && npm ci --ignore-scripts --no-audit --no-fund && node --test --test-concurrency=1

ON  ?= zkd,apache
FOR ?= 0
JOBS ?= 1
world: ## programs of other people while servers are killed under them, and their test suites: hours, and a network (ONE=kazoo ON=zkd, FOR=1h, JOBS=2)
	$(GO) run ./test/world -one '$(ONE)' -on '$(ON)' -for $(FOR) -jobs $(JOBS); outcome=$$?; $(GO) run ./test/world -write && exit $$outcome

MODELS ?= quick
spec: ## the specifications of the replication and the interlude, checked by TLC: a minute; needs Java, Maven, and a network once (TRACES=20 SEED=1 MODELS=nightly)
	TRACES='$(TRACES)' SEED='$(SEED)' scripts/spec.sh $(MODELS)

BENCH ?= .
bench: ## benchmarks (PKG=./server/datatree BENCH=Txn)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $(PKG)

# Both sides in turn, on one machine in one run: else the difference is the machine's.
COUNT ?= 6
BENCHSTAT = golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
benchcmp: ## benchmarks of REF=commit against this tree (PKG=./jute BENCH=. COUNT=6)
	@test -n "$(REF)" || { echo 'usage: make benchcmp REF=<commit> PKG=./jute [BENCH=name] [COUNT=6]' >&2; exit 2; }
	rm -rf build/benchcmp && mkdir -p build/benchcmp/old
	git archive $(REF) | tar -x -C build/benchcmp/old
	@for i in $$(seq $(COUNT)); do \
		echo "round $$i of $(COUNT)"; \
		(cd build/benchcmp/old && $(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $(PKG)) >> build/benchcmp/old.txt || exit 1; \
		$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $(PKG) >> build/benchcmp/new.txt || exit 1; \
	done
	$(GO) run $(BENCHSTAT) build/benchcmp/old.txt build/benchcmp/new.txt

# What requests pass through. A figure is worse if benchstat finds that it is not so by chance.
HOT = ./jute ./server/evaluate ./server/datatree ./server/wal ./server/watch ./server/zab ./server/zab/transport
HOTS = ServeRead|DecodeCreate|Evaluate/^(setData|create)/^pending=100|Million/^(getData|setData|delete)|Txn/decode|Encode|FireDistinct|Broadcast/batch=64|Entries/batch=60
ROUNDS ?= 10
bench-night: ## twelve hot figures of REF=commit (default: of a week ago) against this tree; fails if one is worse by 5 % (ROUNDS=10)
	$(MAKE) benchcmp REF=$(or $(REF),$$(git rev-list -1 --before='7 days ago' HEAD)) COUNT=$(ROUNDS) PKG='$(HOT)' BENCH='$(HOTS)'
	@$(GO) run $(BENCHSTAT) -format csv build/benchcmp/old.txt build/benchcmp/new.txt | awk -F, ' \
		$$2 ~ "/" { unit = $$2 } \
		$$1 != "geomean" && unit != "B/s" && $$6 ~ /^[+]/ && $$6 + 0 >= 5 { print $$1 ": " $$6 " " unit " (" $$7 ")"; worse = 1 } \
		END { exit worse }'

# go tool would compile them, and the standard library, with other flags than the rest.
STATICCHECK = $(GO) run -modfile=tools/go.mod honnef.co/go/tools/cmd/staticcheck
DEADCODE    = $(GO) run -modfile=tools/go.mod golang.org/x/tools/cmd/deadcode
lint: ## vet, staticcheck, and the project's own rules
	$(GO) vet -tags compat,apps ./...
	$(GO) -C test/bench vet ./...
	$(GO) -C tools vet ./...
	$(STATICCHECK) -tests=false ./...
	$(QUICK) ./internal/lint

fmt: ## format the code
	gofmt -w $(SOURCES)

tidy: ## what go.mod needs, no more and no less
	$(GO) mod tidy
	$(GO) -C test/bench mod tidy
	$(GO) -C tools mod tidy

cover: ## which statements the tests run, into build/cover.out
	@mkdir -p build
	$(GO) test -coverprofile=build/cover.out -coverpkg=./... $(PKG)
	$(GO) tool cover -func=build/cover.out | tail -n 1
	@echo 'line by line: $(GO) tool cover -html=build/cover.out'

check: ## what .ci/run begins with: format, vet, rules, go.mod, tests, race
	@unformatted=$$(gofmt -l $(SOURCES)); \
		test -z "$$unformatted" || { echo "not formatted; make fmt: $$unformatted" >&2; exit 1; }
	$(GO) mod tidy -diff
	$(GO) -C test/bench mod tidy -diff
	$(MAKE) lint test race

# The database of vulnerabilities is on the network: VULNDB=URL, or file:///DIR, names another copy.
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
vuln: ## known vulnerabilities in what the programs call; needs a network (VULNDB=file:///dir)
	@$(GO) run $(GOVULNCHECK) $(if $(VULNDB),-db $(VULNDB)) ./cmd/... || { \
		echo 'vuln: the check has found something, or could not be done: see above. VULNDB=file:///dir names a copy of the database.' >&2; \
		echo '  make release UNCHECKED=yes builds without it, and the release says so.' >&2; exit 1; }

PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
# The scripts have VERSION and the others from the environment: make passes on what its command line sets.
release: $(if $(filter yes,$(UNCHECKED)),,vuln) ## all that a release has, into build/release (VERSION=v0.1.0 KEY=file PLATFORMS=linux/amd64 UNCHECKED=yes)
	scripts/release.sh $(PLATFORMS)

verify: ## verifies, installs, runs and upgrades what is in build/release, on a copy of this system: needs root and Debian (SIGNERS=file)
	scripts/try-release.sh

reproduce: ## is a release the same when it is made twice, in two places? minutes (VERSION=v0.1.0 PLATFORMS=linux/amd64)
	scripts/reproduce.sh $(PLATFORMS)

image: ## the files of deploy/docker/Dockerfile, run as an ensemble of three without Docker: needs root
	scripts/try-image.sh

# -mod=mod: that module contains zkd's, and takes newer versions as soon as zkd does.
KUBECTL_VALIDATE = sigs.k8s.io/kubectl-validate@v0.0.4
MANIFESTS = deploy/kubernetes/zkd.yaml $(filter-out %.values.yaml,$(wildcard deploy/kubernetes/check/testdata/*.yaml))
charts: ## render the Helm chart and the base for Kustomize, and check them, also by schemas of Kubernetes; REWRITE=1 writes the manifests
	$(GO) -C deploy/kubernetes/check vet -mod=mod .
	$(GO) -C deploy/kubernetes/check test -mod=mod -count=1 . $(if $(REWRITE),-args -rewrite)
	$(GO) run $(KUBECTL_VALIDATE) --version 1.25 $(MANIFESTS)
	$(GO) run $(KUBECTL_VALIDATE) --version 1.30 $(MANIFESTS) deploy/kubernetes/edge-sidecar.yaml

site: ## the pages of docs/ as a site with a search, into build/site; needs Python, and PyPI once
	[ -x build/site-tools/bin/mkdocs ] || python3 -m venv build/site-tools
	build/site-tools/bin/pip install --quiet --disable-pip-version-check -r scripts/site.txt
	NO_MKDOCS_2_WARNING=1 build/site-tools/bin/mkdocs build --quiet

clean: ## remove bin/ and build/, with the data of make run
	rm -rf bin build
