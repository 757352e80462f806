package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
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
	process.EndsOnSignals(t, "w says", 0, func(servers string) []string { return []string{"-servers", servers, "worker", "w"} })
}

// program is a run of it.
type program struct {
	*testing.T
	lines *bufio.Scanner
	stop  func() error // returns what it ends with
}

// start runs the program as it would be from a shell, on those servers.
func start(t *testing.T, servers *zktest.Proxy, args ...string) *program {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, append([]string{"-servers", servers.ConnectString()}, args...), w)
		w.Close()
		ended <- err
	}()
	stop := sync.OnceValue(func() error {
		cancel()
		r.Close()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	return &program{t, bufio.NewScanner(r), stop}
}

// await reads lines until one has the text.
func (p *program) await(text string) {
	p.Helper()
	for p.lines.Scan() {
		if strings.Contains(p.lines.Text(), text) {
			return
		}
	}
	p.Fatalf("it ended without saying %q", text)
}

// B22: workers learn of each change and read again. Meanwhile the leader is killed,
// and the workers are cut off.
func TestWorkersFollow(t *testing.T) {
	e := zktest.StartEnsemble(t, 3)
	admin := func(rate int, message string) {
		start(t, e.Proxy, "set", fmt.Sprint(rate), message).await("is set")
	}
	var workers []*program
	var lanes []*zktest.Proxy
	for i := range 3 {
		lane := zktest.NewProxy(t, strings.Split(e.ConnectString(), ",")...)
		lanes = append(lanes, lane)
		workers = append(workers, start(t, lane, "worker", fmt.Sprintf("worker-%d", i)))
	}
	all := func(text string) {
		t.Helper()
		for _, w := range workers {
			w.await(text)
		}
	}
	all(`says "hello" 1 times`)
	admin(5, "set")
	all(`says "set" 5 times`)

	leader := e.KillLeader()
	admin(6, "without that leader")
	all(`says "without that leader" 6 times`)
	e.Restart(leader)

	for _, lane := range lanes {
		lane.Refuse()
		lane.CutConnections()
	}
	admin(7, "cut off")
	for _, lane := range lanes {
		lane.Accept()
	}
	all(`says "cut off" 7 times`)

	c := e.Client(t)
	if _, err := c.Set(t.Context(), "/example/config", []byte(`{"Rate":0}`), client.AnyVersion); err != nil {
		t.Fatal(err)
	}
	all("stays at 7 per second: /example/config: invalid configuration: rate is 0")
	admin(8, "good again")
	all(`says "good again" 8 times`)
	for i, w := range workers {
		if err := w.stop(); err != nil {
			t.Errorf("worker %d ended with %v", i, err)
		}
	}
}

func TestUsage(t *testing.T) {
	s := zktest.Start(t)
	for _, args := range [][]string{{}, {"worker"}, {"set", "1"}, {"sing", "1"}, {"-x"}} {
		if err := start(t, s.Proxy, args...).wait(); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v, want how it is used", args, err)
		}
	}
	for _, rate := range []string{"0", "-1", "many"} {
		if err := start(t, s.Proxy, "set", rate, "x").wait(); err == nil || !strings.Contains(err.Error(), "rate") {
			t.Errorf("set of rate %s: %v, want what is wrong", rate, err)
		}
	}
}

// wait returns what the program ends with of itself.
func (p *program) wait() error {
	for p.lines.Scan() {
	}
	return p.stop()
}
