package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/examples/internal/process"
	"github.com/zkd-project/zkd/recipes/hold"
)

func TestMain(m *testing.M) {
	process.Main(main)
	goleak.VerifyTestMain(m)
}

// The tellers that have the lock, and wait for it, are in order when they are asked to end.
func TestSignals(t *testing.T) {
	process.EndsOnSignals(t, "has the lock", 1, func(servers string) []string { // it fails: the deposits are not made
		return []string{"-servers", servers, "-deposits", "1000000"}
	})
}

// output keeps what is written, and calls a function at each line.
type output struct {
	mu    sync.Mutex
	text  strings.Builder
	lines func(line string)
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lines != nil {
		o.lines(string(p))
	}
	return o.text.Write(p)
}

// Every deposit is in the book once, though the leader of the servers is killed under one
// teller that has the lock, and the session ends of another one that has it.
func TestDeposits(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	e := zktest.StartEnsemble(t, 3)
	look := e.Client(t)
	const tellers, deposits = 4, 10
	holders, killed := 0, 0
	out := &output{lines: func(line string) {
		if !strings.Contains(line, "has the lock") {
			return
		}
		switch holders++; holders {
		case 5:
			killed = e.KillLeader()
		case 15:
			e.Restart(killed)
		case 20:
			if err := look.Steady().Sync(ctx, "/bank"); err != nil {
				t.Error(err)
			}
			who, err := hold.Contenders(ctx, look.Steady(), "/bank/lock")
			if err != nil || len(who) == 0 {
				t.Errorf("contenders: %v, %v", who, err)
				return
			}
			e.ExpireSession(who[0].Session)
		}
	}}
	args := []string{"-servers", e.ConnectString(), "-path", "/bank", "-tellers", fmt.Sprint(tellers), "-deposits", fmt.Sprint(deposits)}
	if err := run(ctx, args, out); err != nil {
		t.Fatalf("%v\n%s", err, out.text.String())
	}
	if killed == 0 || !strings.Contains(out.text.String(), "again, as") {
		t.Errorf("nothing was broken:\n%s", out.text.String())
	}
	if err := look.Steady().Sync(ctx, "/bank"); err != nil { // its server may be a little late
		t.Fatal(err)
	}
	node, err := look.Steady().Get(ctx, "/bank/book")
	if err != nil {
		t.Fatal(err)
	}
	b, err := typed.JSON[book]{}.Decode(node.Data)
	if err != nil || len(b) != tellers || b.balance() != tellers*deposits {
		t.Errorf("the book is %v, %v\n%s", b, err, out.text.String())
	}
	if who, err := hold.Contenders(ctx, look.Steady(), "/bank/lock"); err != nil || len(who) != 0 {
		t.Errorf("still there: %v, %v", who, err)
	}
}

// A second run continues with the book of the first.
func TestSecondRun(t *testing.T) {
	s := zktest.Start(t)
	for want := range 2 {
		out := &output{}
		if err := run(t.Context(), []string{"-servers", s.ConnectString(), "-tellers", "1", "-deposits", "1"}, out); err != nil {
			t.Fatal(err)
		}
		if text, want := out.text.String(), fmt.Sprintf("teller 1: deposit %d, balance %d\n", want+1, want+1); !strings.HasSuffix(text, want) {
			t.Errorf("it says %q, want %q at the end", text, want)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-tellers", "0"}, {"-deposits", "-1"}, {"more"}, {"-nonsense"}} {
		if err := run(t.Context(), args, &output{}); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
	s := zktest.Start(t)
	if err := run(t.Context(), []string{"-servers", s.ConnectString(), "-path", "relative"}, &output{}); err == nil || !strings.Contains(err.Error(), "relative/lock") {
		t.Errorf("a bad path: %v", err)
	}
}
