package mux

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/mux/streams"
)

// Pings of many streams are one frame, at the earliest time that one of them asks for, and so are the answers of each kind.
func TestPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, err := range wrongPings(t) {
			t.Error(err)
		}
	})
}

func wrongPings(t *testing.T) (wrong []error) {
	heard := 0
	var theirs []*Stream
	c, other := pair(t, func(s *Stream, _ string) {
		n := len(theirs)
		if theirs = append(theirs, s); n < 3 {
			s.OnPing(func() bool { heard++; return n != 1 })
		}
	})
	var ours []*Stream
	for range 5 { // the second one's ping is not enough, the fourth takes none, and the fifth ends before it is told
		s, _ := c.Open("")
		ours = append(ours, s)
	}
	synctest.Wait()
	answers := make([]string, len(ours))
	ping := func(i int, within time.Duration) bool {
		return ours[i].Ping(within, func(enough bool) { answers[i] += fmt.Sprint(enough, " ") })
	}
	came := func() [2]uint64 { return [2]uint64{other.frames(), c.frames()} }
	before := came()
	for i := range ours {
		if !ping(i, time.Duration(5-i)*time.Second) || ping(i, time.Second) {
			wrong = append(wrong, fmt.Errorf("stream %d: not one ping at a time", i))
		}
	}
	ours[4].Close()
	synctest.Wait()
	before[0]++ // the end
	time.Sleep(time.Second - 1)
	if synctest.Wait(); came() != before {
		wrong = append(wrong, errors.New("pings are early"))
	}
	time.Sleep(2)
	synctest.Wait()
	if got, want := came(), [2]uint64{before[0] + 1, before[1] + 2}; got != want || heard != 3 {
		wrong = append(wrong, fmt.Errorf("frames %v, want %v; %d pings were heard", got, want, heard))
	}
	if got, want := fmt.Sprintf("%q", answers), `["true " "false " "true " "false " ""]`; got != want {
		wrong = append(wrong, fmt.Errorf("answers %s, want %s", got, want))
	}
	for n := range uint64(2) { // and so are later ones
		if !ping(0, time.Second) || ping(4, time.Second) {
			wrong = append(wrong, errors.New("no later ping, or one of a stream that has ended"))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := other.frames() - before[0] - 1; got != n+1 {
			wrong = append(wrong, fmt.Errorf("%d frames with later pings, want %d", got, n+1))
		}
	}
	ping(0, time.Second)
	theirs[0].Close()
	time.Sleep(time.Minute)
	synctest.Wait()
	if answers[0] != "true true true " || ping(0, time.Second) {
		wrong = append(wrong, fmt.Errorf("a stream that the other side has ended: answers %q, or it pings", answers[0]))
	}
	return wrong
}

// frames returns how many frames about streams have come.
func (c *Carrier) frames() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.side.Came()
}

// A stream whose ping has no answer shows that its connection is silent.
func TestSilenceAfterAPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := make(chan bool)
		c, _ := pair(t, func(s *Stream, _ string) {
			s.OnPing(func() bool { return <-silent })
		})
		s, _ := c.Open("")
		kept, _ := c.Open("")
		synctest.Wait()
		s.Ping(time.Second, func(bool) {})
		time.Sleep(time.Second + streams.AnswerAfter)
		s.Write([]byte("a")) // since when it has no answer is told by what it has asked first
		s.Close()
		if _, err := c.Open(""); !errors.Is(err, streams.ErrQuits) {
			t.Errorf("another stream: %v", err)
		}
		close(silent)
		synctest.Wait()
		kept.Close()
	})
}

// A stream may end while the pings that came with its own are handled: the answers to these name it no more, as the other side knows of its end.
func TestPingOfAStreamThatEndsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, other := pair(t, func(s *Stream, whose string) {
			s.OnPing(func() bool {
				if whose == "ends" {
					s.Close()
				}
				return true
			})
		})
		ends, _ := c.Open("ends")
		stays, _ := c.Open("stays")
		synctest.Wait()
		heard := false
		ends.Ping(time.Second, func(bool) { t.Error("an answer to a ping of a stream that has ended") })
		stays.Ping(time.Second, func(bool) { heard = true })
		time.Sleep(2 * time.Second)
		if synctest.Wait(); !heard || over(c) || over(other) {
			t.Errorf("the other stream's ping is heard: %v; the connection has ended: %v, %v", heard, over(c), over(other))
		}
		ends.Close()
		stays.Close()
	})
}
