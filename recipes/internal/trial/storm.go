package trial

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Weather configures storms.
type Weather struct {
	Seeds   int // how many storms; 0 is 4, and with -short 1
	Servers int // 0 is 3
	Clients int // 0 is 4
	Faults  int // 0 is 12
	// Renew makes the clients begin a new session when one ends.
	Renew bool
}

// Storm is a run of several clients with faults that the seed chooses.
type Storm struct {
	*testing.T
	Ctx  context.Context // ends what hangs
	Seed uint64
	// Look is a client without faults, except those of the servers.
	Look *client.Client
	// Calm is closed when no more faults come. The clients should work until then.
	Calm <-chan struct{}

	servers  *zktest.Proxy
	ensemble *zktest.Ensemble // nil if the servers are others'
	dir      string
	renew    bool
	lanes    []*lane
}

// lane is a client's way to the servers.
type lane struct {
	proxy *zktest.Proxy
	mu    sync.Mutex
	c     *client.Client
}

var seedFlag = flag.Uint64("storm", 0, "the seed of the only storm to run; 0 runs a few")

// Storms runs fn in storms, one after the other. Each is a subtest with its own seed as the
// name; one that fails says how to repeat it. Faults are broken connections (before or after a
// request, or while the client waits), ended sessions and, if the test has started the
// servers, killed leaders, which are started again. The seed does not decide how the clients
// interleave.
func Storms(t *testing.T, o Weather, fn func(s *Storm)) {
	t.Helper()
	if o.Seeds == 0 {
		o.Seeds = 4
	}
	if testing.Short() {
		o.Seeds = 1
	}
	if o.Servers == 0 {
		o.Servers = 3
	}
	if o.Clients == 0 {
		o.Clients = 4
	}
	if o.Faults == 0 {
		o.Faults = 12
	}
	t.Parallel()
	first := seeds.First(t)
	if *seedFlag != 0 {
		first, o.Seeds = *seedFlag, 1
	}
	repeat := command(t.Name())
	for i := range o.Seeds {
		seed := first + uint64(i)
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("to repeat it: %s -storm %d", repeat, seed)
				}
			})
			fn(newStorm(t, o, seed))
		})
	}
}

// command returns the command that runs one test of this program.
func command(test string) string {
	pkg := "."
	if info, ok := debug.ReadBuildInfo(); ok {
		pkg = strings.TrimSuffix(info.Path, ".test")
	}
	var levels []string
	for level := range strings.SplitSeq(test, "/") {
		levels = append(levels, "^"+regexp.QuoteMeta(level)+"$")
	}
	return fmt.Sprintf("go test %s -run '%s'", pkg, strings.Join(levels, "/"))
}

func newStorm(t *testing.T, o Weather, seed uint64) *Storm {
	s := &Storm{T: t, Seed: seed, dir: "/trial-" + line.NewID(), renew: o.Renew}
	switch {
	case zktest.External(): // however many there are
		s.servers = zktest.Target(t, 1+strings.Count(os.Getenv(zktest.ServersVariable), ","))
	case o.Servers == 1:
		s.servers = zktest.Start(t, zktest.CleanUp()).Proxy
	default:
		s.ensemble = zktest.StartEnsemble(t, o.Servers, zktest.CleanUp())
		s.servers = s.ensemble.Proxy
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s.Ctx = Patient(ctx)
	w := &World{T: t, servers: s.servers, dir: s.dir}
	look := s.servers.Client(t).WithRetry(Quick())
	if _, err := settle.Create(ctx, look, s.dir, nil, settle.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.remove(look) })
	s.Look = look.Namespace(s.dir)
	for range o.Clients {
		s.lanes = append(s.lanes, &lane{proxy: zktest.NewProxy(t, addresses(s.servers)...)})
	}
	for i := range s.lanes {
		s.Client(i)
	}
	s.begin(o.Faults)
	return s
}

// Client returns the i-th client, or a new one if its session has ended and is not renewed. Every
// other one has a plain session.
func (s *Storm) Client(i int) *client.Client {
	s.Helper()
	l := s.lanes[i]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c == nil || !s.renew && l.c.State().Final() {
		l.c = l.proxy.Client(s.T, renewing(s.renew), func(o *client.Options) { o.PlainSession = i%2 == 0 }).WithRetry(Quick()).Namespace(s.dir)
	}
	return l.c
}

// Expire ends the session of the i-th client, as servers do when its process is suspended for longer than
// its timeout.
func (s *Storm) Expire(i int) { s.lanes[i].expire() }

// Clients returns how many there are.
func (s *Storm) Clients() int { return len(s.lanes) }

// Over reports whether the storm is.
func (s *Storm) Over() bool {
	select {
	case <-s.Calm:
		return true
	default:
		return s.Ctx.Err() != nil
	}
}

// begin causes n faults in the background, until the test ends.
func (s *Storm) begin(n int) {
	rng := rand.New(rand.NewPCG(s.Seed, 0))
	calm := make(chan struct{})
	s.Calm = calm
	ctx, cancel := context.WithCancel(s.Ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(calm)
		for range n {
			s.fault(ctx, rng)
		}
	}()
	s.Cleanup(func() {
		cancel()
		<-done
	})
}

// fault causes one fault.
func (s *Storm) fault(ctx context.Context, rng *rand.Rand) {
	l, nth, kind := s.lanes[rng.IntN(len(s.lanes))], 1+rng.IntN(6), rng.IntN(10)
	if kind == 9 && s.ensemble != nil {
		s.ensemble.Restart(s.ensemble.KillLeader())
		return
	}
	m := zktest.Nth(nth, zktest.Any())
	cut := l.proxy.CutBefore(m)
	if kind%2 == 1 {
		cut.Cancel()
		cut = l.proxy.CutAfter(m)
	}
	others, done := s.others(l)
	defer done()
	select {
	case <-cut.Done():
	case <-others: // it waits for them, and makes no requests
		cut.Cancel()
		l.proxy.CutConnections()
	case <-time.After(quiet):
		cut.Cancel()
		l.proxy.CutConnections()
	case <-ctx.Done():
		cut.Cancel()
	}
	if kind >= 6 && ctx.Err() == nil {
		l.expire()
	}
}

// expire ends the session, if there is one.
func (l *lane) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id := l.c.Session().ID(); id != 0 && !l.c.State().Final() {
		l.proxy.ExpireSession(id)
	}
}

// quiet is how long a fault waits for requests if there are hardly any.
const quiet = 100 * time.Millisecond

// others returns a channel that is closed when the other clients have made several requests
// each, on average. The caller must call done.
func (s *Storm) others(l *lane) (busy <-chan struct{}, done func()) {
	some := zktest.Nth(6*len(s.lanes), zktest.Any())
	reached := make(chan struct{})
	var counts []*zktest.Cut
	for _, other := range s.lanes {
		if other == l {
			continue
		}
		counts = append(counts, other.proxy.CutBefore(func(op client.OpCode, path string) bool {
			if some(op, path) {
				close(reached)
			}
			return false
		}))
	}
	return reached, func() {
		for _, c := range counts {
			c.Cancel()
		}
	}
}

// Passing reports whether a storm explains err: the work should be started again, with Client
// if the session has ended.
func Passing(err error) bool {
	for _, e := range []error{client.ErrSessionExpired, client.ErrConnectionLoss, client.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
