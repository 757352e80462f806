package queue_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/testing/standin"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/queue"
)

// op is an offer or a take of a word. If it is unknown whether it was done ret is never.
type op struct {
	take      bool
	word      string
	call, ret int64
	client    int
}

const never = math.MaxInt64

// history has what was done, by many goroutines.
type history struct {
	mu    sync.Mutex
	start time.Time
	ops   []op
}

func (h *history) now() int64 { return int64(time.Since(h.start)) }

func (h *history) add(client int, take bool, word string, call int64, known bool) {
	o := op{take, word, call, h.now(), client}
	if !known {
		o.ret = never
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
}

// settled returns the history with what was unknown decided: at the end the queue was
// empty, so each item that was in it was taken, once. It fails if one was lost, or
// taken twice.
func (h *history) settled(t *testing.T) []op {
	t.Helper()
	offered, taken := make(map[string]op), make(map[string]op)
	doubt := make(map[string]op)
	for _, o := range h.ops {
		if !o.take {
			offered[o.word] = o
			continue
		}
		if o.ret == never {
			if before, ok := doubt[o.word]; !ok || o.call < before.call {
				doubt[o.word] = o // of several it may have been any
			}
			continue
		}
		if before, ok := taken[o.word]; ok {
			t.Errorf("%s was taken twice, by clients %d and %d", o.word, before.client, o.client)
		}
		taken[o.word] = o
	}
	var all []op
	for word, o := range offered {
		end, ok := taken[word]
		if !ok {
			end, ok = doubt[word]
		}
		switch {
		case ok:
			o.ret = min(o.ret, end.ret)
			all = append(all, o, end)
		case o.ret != never:
			t.Errorf("%s was lost", word)
		}
	}
	for word := range taken {
		if _, ok := offered[word]; !ok {
			t.Errorf("%s was taken, and never offered", word)
		}
	}
	return all
}

// fifo is the model of a queue: its state is the words that are in it, in order.
var fifo = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, in, _ any) (bool, any) {
		words, o := state.(string), in.(op)
		if !o.take {
			return true, words + o.word + " "
		}
		rest, first := strings.CutPrefix(words, o.word+" ")
		return first, rest
	},
}

// checkFIFO has Porcupine look for an order of what was done that a queue explains. That
// may take it too long where much was done at the same time; but where all words are
// different, and each that was offered was taken, there is such an order unless one of
// two patterns is there (Bouajjani et al., "On Reducing Linearizability to State
// Reachability", 2015): so these are looked for, too.
func checkFIFO(t *testing.T, ops []op) {
	t.Helper()
	checkPatterns(t, ops)
	slices.SortFunc(ops, func(a, b op) int { return cmp.Compare(a.call, b.call) })
	var all []porcupine.Operation
	for _, o := range ops {
		all = append(all, porcupine.Operation{ClientId: o.client, Input: o, Call: o.call, Return: o.ret})
	}
	if got := porcupine.CheckOperationsTimeout(fifo, all, 5*time.Second); got == porcupine.Illegal {
		t.Errorf("Porcupine on %d operations: %v", len(all), got)
	}
}

// checkPatterns fails if a word was taken before it was offered, or two were taken in the
// other order than they were offered in.
func checkPatterns(t testing.TB, ops []op) {
	t.Helper()
	type life struct{ offered, taken op }
	lives := make(map[string]*life)
	for _, o := range ops {
		l := lives[o.word]
		if l == nil {
			l = new(life)
			lives[o.word] = l
		}
		if o.take {
			l.taken = o
		} else {
			l.offered = o
		}
	}
	for word, l := range lives {
		if l.taken.ret < l.offered.call {
			t.Errorf("%s was taken before it was offered", word)
		}
		for later, o := range lives {
			if l.offered.ret < o.offered.call && o.taken.ret < l.taken.call {
				t.Errorf("%s was offered before %s, but taken after it", word, later)
			}
		}
	}
}

func TestPatternsAreFound(t *testing.T) {
	for _, c := range []struct {
		name string
		ops  []op
		bad  bool
	}{
		{"in order", []op{{false, "a", 0, 1, 0}, {false, "b", 2, 3, 0}, {true, "a", 4, 5, 0}, {true, "b", 6, 7, 0}}, false},
		{"at the same time", []op{{false, "a", 0, 3, 0}, {false, "b", 1, 2, 0}, {true, "b", 4, 5, 0}, {true, "a", 6, 7, 0}}, false},
		{"out of order", []op{{false, "a", 0, 1, 0}, {false, "b", 2, 3, 0}, {true, "b", 4, 5, 0}, {true, "a", 6, 7, 0}}, true},
		{"too early", []op{{true, "a", 0, 1, 0}, {false, "a", 2, 3, 0}}, true},
	} {
		checked := standin.New()
		checkPatterns(checked, c.ops)
		if checked.Failed() != c.bad {
			t.Errorf("%s: %q", c.name, checked.Failures())
		}
		checked.End()
	}
}

// member is a client of the storm, and its queue: new ones if the session has ended.
type member[Q interface{ Close(context.Context) error }] struct {
	s    *trial.Storm
	i    int
	c    *client.Client
	q    Q
	make func(*client.Client) (Q, error)
}

func (m *member[Q]) queue() Q {
	if c := m.s.Client(m.i); c != m.c {
		m.close()
		q, err := m.make(c)
		if err != nil {
			m.s.Error(err)
		}
		m.c, m.q = c, q
	}
	return m.q
}

func (m *member[Q]) close() {
	if m.c == nil {
		return
	}
	m.s.Explain("close", m.q.Close(m.s.Ctx))
}

// work has each client of a storm do something again and again until it is over. do
// returns the errors that there were.
func work[Q interface{ Close(context.Context) error }](s *trial.Storm, make func(*client.Client) (Q, error), do func(i, round int, q Q) []error) {
	var all sync.WaitGroup
	for i := range s.Clients() {
		all.Go(func() {
			m := &member[Q]{s: s, i: i, make: make}
			defer m.close()
			for round := 0; !s.Over(); round++ {
				for _, err := range do(i, round, m.queue()) {
					if err != nil && !trial.Passing(err) && !errors.Is(err, queue.ErrUnknown) && !errors.Is(err, recipes.ErrLost) {
						s.Errorf("client %d: %v", i, err)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

// Producers and consumers in storms: nothing is lost, nothing is doubled, and what comes
// first goes first.
func TestStormIsFirstInFirstOut(t *testing.T) {
	trial.Storms(t, trial.Weather{Seeds: 2, Faults: 40}, func(s *trial.Storm) {
		h := &history{start: time.Now()}
		make := func(c *client.Client) (*queue.Queue, error) { return queue.New(c, "/q", queue.Options{}) }
		work(s, make, func(i, round int, q *queue.Queue) []error {
			word, call := fmt.Sprintf("%d-%d", i, round), h.now()
			err1 := q.Offer(s.Ctx, []byte(word))
			if err1 == nil || client.IsAmbiguous(err1) {
				h.add(i, false, word, call, err1 == nil)
			}
			call = h.now()
			data, ok, err2 := q.Poll(s.Ctx)
			if ok {
				h.add(i, true, string(data), call, true)
			}
			if u, ok := errors.AsType[*queue.UnknownError](err2); ok {
				h.add(i, true, string(u.Data[0]), call, false)
			}
			return []error{err1, err2}
		})
		last, err := make(s.Look)
		if err != nil {
			s.Fatal(err)
		}
		defer last.Close(s.Ctx)
		if err := s.Look.Sync(s.Ctx, "/q"); err != nil {
			s.Fatal(err)
		}
		for ok := true; ok; {
			var data []byte
			call := h.now()
			if data, ok, err = last.Poll(s.Ctx); err != nil {
				s.Fatal(err)
			}
			if ok {
				h.add(s.Clients(), true, string(data), call, true)
			}
		}
		checkFIFO(s.T, h.settled(s.T))
	})
}

// A bounded queue in storms never has more items than it may, and loses none.
func TestStormOfABoundedQueue(t *testing.T) {
	const capacity = 3
	trial.Storms(t, trial.Weather{Seeds: 2, Faults: 40}, func(s *trial.Storm) {
		h := &history{start: time.Now()}
		make := func(c *client.Client) (*queue.Bounded, error) {
			return queue.NewBounded(c, "/q", capacity, queue.Options{})
		}
		work(s, make, func(i, round int, q *queue.Bounded) []error {
			word := fmt.Sprintf("%d-%d", i, round)
			ok, err1 := q.TryOffer(s.Ctx, []byte(word))
			if ok || client.IsAmbiguous(err1) {
				h.add(i, false, word, 0, ok)
			}
			list, err := s.Look.Children(s.Ctx, "/q/items")
			if err == nil && len(list.Names) > capacity {
				s.Errorf("there are %d items: %q", len(list.Names), list.Names)
			}
			if round%3 == 0 {
				return []error{err1} // else it would hardly ever be full
			}
			data, ok, err2 := q.Poll(s.Ctx)
			if ok {
				h.add(i, true, string(data), 0, true)
			}
			if u, ok := errors.AsType[*queue.UnknownError](err2); ok {
				h.add(i, true, string(u.Data[0]), 0, false)
			}
			return []error{err1, err2}
		})
		last, err := make(s.Look)
		if err != nil {
			s.Fatal(err)
		}
		defer last.Close(s.Ctx)
		if err := s.Look.Sync(s.Ctx, "/q"); err != nil {
			s.Fatal(err)
		}
		items, err := last.PollAll(s.Ctx, 100)
		if err != nil {
			s.Fatal(err)
		}
		for _, data := range items {
			h.add(s.Clients(), true, string(data), 0, true)
		}
		h.settled(s.T)
		if list, err := s.Look.Children(s.Ctx, "/q/slots"); len(list.Names) != 0 || err != nil {
			s.Errorf("slots %q are in use by nothing (%v)", list.Names, err)
		}
	})
}

// fenced is what leased work changes: it refuses lower tokens than it has seen.
type fenced struct {
	mu    sync.Mutex
	token map[string]client.Zxid
	acked map[string]int
}

func (f *fenced) enter(l *queue.Lease) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	word := string(l.Data())
	if l.Token() <= f.token[word] {
		return false
	}
	f.token[word] = l.Token()
	return true
}

func (f *fenced) done(word string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acked[word]++
}

// Leased items in storms: each is acknowledged once, by its last consumer, and none is
// left or lost.
func TestStormOfLeases(t *testing.T) {
	trial.Storms(t, trial.Weather{Seeds: 2, Faults: 40}, func(s *trial.Storm) {
		f := &fenced{token: make(map[string]client.Zxid), acked: make(map[string]int)}
		unsure := &fenced{acked: make(map[string]int)}
		offers := &history{start: time.Now()}
		create := func(c *client.Client) (*queue.Leased, error) { return queue.NewLeased(c, "/q", queue.Options{}) }
		finish := func(l *queue.Lease) error {
			current := f.enter(l)
			err := l.Ack(s.Ctx)
			switch {
			case err == nil && !current:
				s.Errorf("%s was acknowledged by one who had been overtaken", l.Data())
			case err == nil:
				f.done(string(l.Data()))
			case client.IsAmbiguous(err):
				unsure.done(string(l.Data()))
			}
			return err
		}
		work(s, create, func(i, round int, q *queue.Leased) []error {
			word := fmt.Sprintf("%d-%d", i, round)
			err1 := q.Offer(s.Ctx, []byte(word))
			if err1 == nil || client.IsAmbiguous(err1) {
				offers.add(i, false, word, 0, err1 == nil)
			}
			l, ok, err2 := q.Poll(s.Ctx)
			if !ok {
				return []error{err1, err2}
			}
			if round%4 == 0 {
				return []error{err1, l.Release(s.Ctx)}
			}
			return []error{err1, finish(l)}
		})
		last, err := create(s.Look)
		if err != nil {
			s.Fatal(err)
		}
		defer last.Close(s.Ctx)
		if err := s.Look.Sync(s.Ctx, "/q"); err != nil {
			s.Fatal(err)
		}
		for n := 1; n > 0; { // until sessions that have ended are known to have
			if l, ok, err := last.Poll(s.Ctx); err != nil {
				s.Fatal(err)
			} else if ok {
				if err := finish(l); err != nil {
					s.Fatal(err)
				}
			}
			if n, err = last.Len(s.Ctx); err != nil {
				s.Fatal(err)
			}
		}
		for _, o := range offers.ops {
			n, doubt := f.acked[o.word], unsure.acked[o.word]
			if n > 1 || n == 0 && doubt == 0 && o.ret != never {
				s.Errorf("%s was acknowledged %d times, and %d times in doubt", o.word, n, doubt)
			}
		}
	})
}
