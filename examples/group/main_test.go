package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/examples/internal/process"
)

func TestMain(m *testing.M) {
	process.Main(main)
	goleak.VerifyTestMain(m)
}

func TestSignals(t *testing.T) {
	process.EndsOnSignals(t, "m", 0, func(servers string) []string { return []string{"-servers", servers, "m"} })
}

// program is one that runs, and what it prints.
type program struct {
	t     *testing.T
	proxy *zktest.Proxy // before it alone
	lines chan string
	end   context.CancelFunc
	done  chan struct{}
	err   error // once done
}

// Write takes a line.
func (p *program) Write(line []byte) (int, error) {
	p.lines <- string(line)
	return len(line), nil
}

// start starts a member.
func start(t *testing.T, servers *zktest.Proxy, args ...string) *program {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	p := &program{t: t, proxy: zktest.NewProxy(t, strings.Split(servers.ConnectString(), ",")...), lines: make(chan string, 1000), end: end, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = run(ctx, append([]string{"-servers", p.proxy.ConnectString(), "-path", "/group"}, args...), p)
	}()
	t.Cleanup(func() { p.stop() })
	return p
}

// stop ends the program as Ctrl-C does, and returns its error.
func (p *program) stop() error {
	p.proxy.Accept() // so that it can leave
	p.end()
	<-p.done
	return p.err
}

// die ends the session of the program's member, as that of a program does which was
// killed, and lets it have no other.
func (p *program) die(look *client.Client, name string) {
	p.t.Helper()
	found, err := look.Steady().Exists(p.t.Context(), "/group/"+name)
	if err != nil {
		p.t.Fatal(err)
	}
	p.proxy.Refuse()
	p.proxy.ExpireSession(found.Stat.EphemeralOwner)
}

// await waits until the program has printed the lines, in that order.
func (p *program) await(want ...string) {
	p.t.Helper()
	deadline := time.After(5 * time.Minute) // ends what hangs
	var got []string
	for len(want) > 0 {
		select {
		case line := <-p.lines:
			got = append(got, line)
			if line == want[0]+"\n" {
				want = want[1:]
			}
		case <-p.done:
			p.t.Fatalf("it has ended with %v, and printed %q, but not %q", p.err, got, want)
		case <-deadline:
			p.t.Fatalf("it has printed %q, but not %q", got, want)
		}
	}
}

func TestMembersComeAndGo(t *testing.T) {
	servers := zktest.StartEnsemble(t, 3)
	ann := start(t, servers.Proxy, "ann")
	ann.await("+ ann", "1 members: ann")
	bob := start(t, servers.Proxy, "bob", "on the second floor")
	ann.await("+ bob (on the second floor)", "2 members: ann, bob")
	bob.await("+ ann", "+ bob (on the second floor)", "2 members: ann, bob")
	if err := bob.stop(); err != nil {
		t.Errorf("bob ends with %v", err)
	}
	ann.await("- bob (on the second floor)", "1 members: ann")

	// The leader dies.
	servers.Restart(servers.KillLeader())
	cat := start(t, servers.Proxy, "cat")
	ann.await("+ cat", "2 members: ann, cat")
	cat.await("2 members: ann, cat")

	// Cat's connection breaks: nobody takes notice. Then she dies, and is started again.
	cat.proxy.CutConnections()
	dan := start(t, servers.Proxy, "dan")
	ann.await("+ dan", "3 members: ann, cat, dan")
	cat.await("+ dan", "3 members: ann, cat, dan")
	dan.await("3 members: ann, cat, dan")
	cat.die(servers.Client(t), "cat")
	dan.await("- cat", "2 members: ann, dan")
	again := start(t, servers.Proxy, "cat", "is back")
	again.await("3 members: ann, cat, dan")
	ann.await("- cat", "+ cat (is back)", "3 members: ann, cat, dan")
}

// A member that is started again while the session of the one before lives on waits for
// its name.
func TestStartedAnew(t *testing.T) {
	servers := zktest.Start(t)
	before := start(t, servers.Proxy, "ann", "before")
	before.await("1 members: ann")
	after := start(t, servers.Proxy, "ann", "after")
	before.die(servers.Client(t), "ann")
	after.await("+ ann (after)", "1 members: ann")
}

// Its own session ends: it says that it doesn't know, and is back in the next one.
func TestSessionEnds(t *testing.T) {
	servers := zktest.Start(t)
	ann := start(t, servers.Proxy, "ann")
	bob := start(t, servers.Proxy, "bob")
	ann.await("2 members: ann, bob")
	bob.await("2 members: ann, bob")
	bob.die(servers.Client(t), "bob")
	ann.await("- bob", "1 members: ann")
	bob.await("no connection: what follows is as it was")
	bob.proxy.Accept()
	bob.await("connected again")
	ann.await("+ bob", "2 members: ann, bob")
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"a", "b", "c"}, {"-x"}} {
		if err := run(t.Context(), args, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("run %q = %v", args, err)
		}
	}
	if err := run(t.Context(), []string{"-path", "x", "-servers", zktest.Start(t).ConnectString(), "ann"}, io.Discard); err == nil || !strings.Contains(err.Error(), "path") {
		t.Errorf("run = %v", err)
	}
}
