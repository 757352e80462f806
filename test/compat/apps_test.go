//go:build compat && apps

package compat

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// installDeadline is for what comes from a package registry and is compiled here.
const installDeadline = 20 * time.Minute

// TestNode runs the programs in node/, which use the two clients that Node.js has, on one
// server, through a follower, and one of them while the leader is killed over and over.
func TestNode(t *testing.T) {
	dir := installNode(t)
	node := func(t *testing.T, program string, args ...string) {
		t.Helper()
		runProgram(t, "node", append([]string{filepath.Join(dir, program)}, args...)...)
	}
	programs := []string{"pure.js", "native.js"}
	for _, k := range kinds(t) {
		for _, program := range programs {
			t.Run(fmt.Sprintf("%s %s", k, program), func(t *testing.T) { node(t, program, start(t, k, config{}).addr) })
		}
		t.Run(string(k)+" ensemble", func(t *testing.T) {
			e := startEnsemble(t, k, config{})
			roles, ok := e.roles()
			if !ok {
				t.Fatal("the ensemble is not healthy")
			}
			for _, program := range programs {
				node(t, program, roles[follower].addr)
			}
			done, kills := make(chan struct{}), make(chan int)
			go func() { kills <- e.killLeaders(t, done) }()
			node(t, "pure.js", e.hosts(), fmt.Sprint(int(quickFaults.Seconds())))
			close(done)
			if n := <-kills; n < 2 {
				t.Errorf("only %d leaders were killed", n)
			}
		})
	}
}

// installNode copies the programs to a separate directory and has npm put the clients
// beside them.
func installNode(t *testing.T) string {
	t.Helper()
	require(t, need{"node", "nodejs"}, need{"npm", "npm"}, need{"gcc", "gcc"}, need{"make", "make"})
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("node")); err != nil {
		t.Fatal(err)
	}
	out, err := finish(t, dir, nil, "npm", "install", "--no-audit", "--no-fund", "--no-package-lock")
	if err != nil {
		t.Fatalf("npm install: %v\n%s", err, lastLines(out, 40))
	}
	return dir
}

// TestGoApps runs the tests of apps/, a separate module, on one server and through a
// follower.
func TestGoApps(t *testing.T) {
	for _, k := range kinds(t) {
		t.Run(string(k), func(t *testing.T) { goApps(t, start(t, k, config{}).addr) })
		t.Run(string(k)+" ensemble", func(t *testing.T) {
			roles, ok := startEnsemble(t, k, config{}).roles()
			if !ok {
				t.Fatal("the ensemble is not healthy")
			}
			goApps(t, roles[follower].addr)
		})
	}
}

func goApps(t *testing.T, hosts string) {
	t.Helper()
	goAppsIn(t, "apps", hosts)
}

// goAppsIn tries again what failed: Vitess's suite waits for hundredths of a second, and loses
// on a busy machine.
func goAppsIn(t *testing.T, dir, hosts string, flags ...string) {
	t.Helper()
	const attempts = 3
	var out string
	var err error
	for range attempts {
		out, err = finish(t, dir, []string{"ZKD_TEST_SERVERS=" + hosts}, "go", append([]string{"test", "-count=1", "-v", "."}, flags...)...)
		if err == nil {
			break
		}
		t.Logf("go test in apps: %v\n%s", err, lastLines(out, 20))
	}
	passed, failed := strings.Count(out, "--- PASS: "), strings.Count(out, "--- FAIL: ")
	summary(t, t.Name(), passed, failed)
	if err != nil || passed == 0 || strings.Contains(out, "--- SKIP: ") {
		t.Errorf("go test in apps: %v\n%s", err, lastLines(out, 60))
	}
}

// finish runs a program to its end and returns what it prints.
func finish(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), installDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(os.Environ(), env...), 5*time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestClickHouse runs two replicas of a ClickHouse table on the two followers of an ensemble, whose
// leader is killed: they do not notice. Then each server of the ensemble is restarted in turn.
// Each row that was inserted is there once.
func TestClickHouse(t *testing.T) {
	needClickHouse(t)
	for _, k := range kinds(t) {
		t.Run(string(k), func(t *testing.T) {
			e := startEnsemble(t, k, config{})
			roles, ok := e.roles()
			if !ok {
				t.Fatal("the ensemble is not healthy")
			}
			one := newClickHouse(t, "one", roles[follower].addr+","+roles[otherFollower].addr)
			two := newClickHouse(t, "two", roles[follower].addr+","+roles[otherFollower].addr)
			var in insertions
			one.insertWhile(&in, func() {
				roles[leader].kill()
				if err := e.heal(); err != nil {
					t.Fatal(err)
				}
			})
			t.Logf("the leader was killed: %d rows, %d failed inserts (%v), the longest pause %v", in.rows, in.failures, in.failure, in.gap)
			for _, c := range []*clickhouse{one, two} {
				c.checkRows(&in, c == one)
				if lines := c.complaints(); len(lines) > 0 && k == zkd {
					t.Errorf("ClickHouse %s noticed that the leader was killed:\n%s", c.Name, strings.Join(lines, "\n"))
				}
			}
			before := in
			one.insertWhile(&in, func() {
				for _, s := range e.servers {
					s.kill()
					if err := e.heal(); err != nil {
						t.Fatal(err)
					}
				}
			})
			one.insertMore(&in)
			t.Logf("each server was restarted: %d rows, %d failed inserts (%v), the longest pause %v",
				in.rows-before.rows, in.failures-before.failures, in.failure, in.gap)
			one.checkRows(&in, true)
			two.checkRows(&in, false)
			summary(t, t.Name(), 2, 0)
		})
	}
}

// TestRollingRestart restarts one server of zkd after the other under applications that each know one
// server only. Those of the other servers do not notice.
func TestRollingRestart(t *testing.T) {
	needPatroni(t)
	needClickHouse(t)
	e := startEnsemble(t, target(t), config{})
	p := newPatroni(t, e.servers[0].addr, e.servers[1].addr)
	patroniBootstraps(t, p, e)
	replica := newClickHouse(t, "three", e.servers[2].addr)
	complaints := []func() []string{
		func() []string { return p.member("one").complaints(t) },
		func() []string { return p.member("two").complaints(t) },
		replica.complaints,
	}
	var in insertions
	replica.insertMore(&in)
	for i, s := range e.servers {
		before := make([]int, len(complaints))
		for client, lines := range complaints {
			before[client] = len(lines())
		}
		role := s.mode()
		p.writeWhile("one", func() {
			replica.insertWhile(&in, func() {
				s.stop()
				if err := e.heal(); err != nil {
					t.Fatal(err)
				}
				awaitPatroniStatus(t, e)
			})
			replica.insertMore(&in)
		})
		for client, lines := range complaints {
			now := lines()
			t.Logf("server %d, a %s, restarted: the client of server %d wrote %d lines about it", i+1, role, client+1, len(now)-before[client])
			if client != i && len(now) > before[client] {
				t.Errorf("the client of server %d noticed that server %d was restarted:\n%s", client+1, i+1, strings.Join(now[before[client]:], "\n"))
			}
		}
	}
	p.awaitRoles("the rolling restart", "one", map[string]string{"one": "leader", "two": "sync_standby"})
	p.checkRows("two")
	replica.checkRows(&in, true)
	summary(t, t.Name(), len(e.servers), 0)
}

// TestTakeoverApps takes over a running ensemble of Apache's under applications.
func TestTakeoverApps(t *testing.T) {
	t.Run("Patroni", func(t *testing.T) { takeOverPatroni(t, apache) })
	t.Run("ClickHouse", func(t *testing.T) { takeOverClickHouse(t, apache) })
}

// takeOverPatroni takes over the ensemble of a PostgreSQL cluster, whose primary stays so and takes each write.
func takeOverPatroni(t *testing.T, k kind) {
	needPatroni(t)
	x := &takeover{T: t, r: rand.New(rand.NewPCG(1, 1))}
	x.e = startEnsemble(t, k, config{lines: append([]string{"tickTime=500"}, longSessions...)})
	p := newPatroni(t, x.e.hosts())
	patroniBootstraps(t, p, x.e)
	x.mirror()
	before := p.timeline("one")
	p.writeWhile("one", func() {
		began := time.Now()
		x.cut()
		awaitPatroniStatus(t, x.e)
		t.Logf("Patroni wrote to the ensemble again %v after Apache's first server was stopped", time.Since(began))
	})
	t.Logf("the longest time between two writes to PostgreSQL was %v", p.gap)
	p.awaitRoles("the takeover", "one", map[string]string{"one": "leader", "two": "sync_standby"})
	if after := p.timeline("one"); after != before {
		t.Errorf("timeline %s became %s", before, after)
	}
	p.checkRows("two")
	patroniSwitchesOver(t, p, x.e)
}

// takeOverClickHouse takes over the ensemble of a replicated table, in which each row is once afterwards.
func takeOverClickHouse(t *testing.T, k kind) {
	needClickHouse(t)
	x := &takeover{T: t, r: rand.New(rand.NewPCG(1, 1))}
	x.e = startEnsemble(t, k, config{lines: append([]string{"tickTime=500"}, longSessions...)})
	one, two := newClickHouse(t, "one", x.e.hosts()), newClickHouse(t, "two", x.e.hosts())
	var in insertions
	one.insertWhile(&in, x.mirror)
	before := in
	one.insertWhile(&in, func() { x.cut() })
	one.insertMore(&in)
	t.Logf("%d rows, %d failed inserts (%v), the longest pause %v", in.rows-before.rows, in.failures-before.failures, in.failure, in.gap)
	one.checkRows(&in, true)
	two.checkRows(&in, false)
}
