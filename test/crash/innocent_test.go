package crash

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

// unbearable is how long nobody may have to wait for a reply, whatever others do
// to the server. It is far more than it takes, as tests share their machine.
const unbearable = 30 * time.Second

// innocent is a client that works while others misbehave: it must see no error,
// no wrong value and no unbearable delay.
type innocent struct {
	t       testing.TB
	c       *client
	stop    chan struct{}
	wg      sync.WaitGroup
	longest time.Duration
	count   int
}

// watchOver starts an innocent client. end ends it and checks that the server is
// as before.
func watchOver(t testing.TB, s *server) (end func()) {
	t.Helper()
	in := &innocent{t: t, c: s.connect(), stop: make(chan struct{})}
	path, err := in.c.create("/innocent-", nil, jute.ModePersistentSequential)
	if err != nil {
		t.Fatal(err)
	}
	in.wg.Go(func() { in.work(path) })
	return func() {
		t.Helper()
		close(in.stop)
		in.wg.Wait()
		t.Logf("innocent client: %d pairs of set and get, the slowest took %v", in.count, in.longest.Round(time.Millisecond))
		if in.longest > unbearable {
			t.Errorf("a set and a get took %v", in.longest)
		}
		if !s.Running() {
			t.Fatalf("the server has ended:\n%s", process.Tail(s.LogNow(), 4000))
		}
	}
}

func (in *innocent) work(path string) {
	for {
		select {
		case <-in.stop:
			return
		default:
		}
		began := time.Now()
		want := fmt.Sprint(in.count)
		if err := in.c.set(path, []byte(want)); err != nil {
			in.t.Errorf("innocent client: %v", err)
			return
		}
		got, err := in.c.get(path)
		if err != nil || string(got) != want {
			in.t.Errorf("innocent client: got %q, %v, want %q", got, err, want)
			return
		}
		in.count++
		in.longest = max(in.longest, time.Since(began))
	}
}
