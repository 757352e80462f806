//go:build compat

package compat

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	quickResumes, fullResumes = 1500, 20000
	quickConnects             = 300 // of each client
	fullConnects              = 5000
	connecting                = 16 // clients at once
	resumePatience            = 5 * time.Second
)

// TestConnectAndAsk has many clients open sessions at once, each with requests
// right behind the connect request, in the same packet: the moment when a
// session becomes established must not lose a request.
func TestConnectAndAsk(t *testing.T) {
	rounds := quickConnects
	if *fullFlag {
		rounds = fullConnects
	}
	s := start(t, target(t), config{})
	var passed, failed atomic.Int64
	var wg sync.WaitGroup
	for i := range connecting {
		wg.Go(func() {
			w := newWorld(s)
			w.patience = resumePatience
			for range rounds {
				if text := connectAndAsk(w, fmt.Sprintf("c%d", i)); text != "" {
					failed.Add(1)
					t.Error(text)
					return
				}
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	summary(t, t.Name(), int(passed.Load()), int(failed.Load()))
}

// connectAndAsk returns the transcript if not every request was answered.
func connectAndAsk(w *world, name string) string {
	w.lines, w.conns = nil, nil
	c := w.dial(name)
	bytes := frame(connectRequest{timeout: 10000, passwd: make([]byte, 16), readOnly: &no}.encode())
	for i, r := range []request{exists("/zookeeper"), getW("/"), byPath(opSync, "/"), exists("/none"), closeSession()} {
		bytes = append(bytes, c.queue(int32(i+1), r)...)
	}
	c.write(bytes)
	c.handshake()
	c.drain()
	text := strings.Join(w.lines, "\n")
	defer c.close()
	if strings.Contains(text, "silence") || !strings.Contains(text, "closeSession zxid=") {
		return text
	}
	return ""
}

// TestResume takes one session from connection to connection, at once and while
// requests of the old connection are still under way: every new connection must
// serve, every old one must end.
func TestResume(t *testing.T) {
	rounds := quickResumes
	if *fullFlag {
		rounds = fullResumes
	}
	s := start(t, target(t), config{})
	w := newWorld(s)
	w.patience = resumePatience
	c := w.connect("A")
	c.send(create("/resume", "", 0))
	c.drain()
	passed, failed := 0, 0
	for i := range rounds {
		w.lines = nil
		old := c
		if i%2 == 1 { // a write and a read that nobody waits for
			old.send(set("/resume", "x"), getW("/resume"))
		}
		c = w.connectWith("A", resume(old.session, 10000))
		c.send(setWatches(0, "0", []string{"/resume"}, []string{"/none"}, nil), ping(), exists("/resume"))
		c.drain()
		old.waiting = nil
		old.expectEnd()
		w.conns = nil
		if text := strings.Join(w.lines, "\n"); strings.Contains(text, "silence") || c.gone {
			failed++
			t.Errorf("round %d:\n%s", i, text)
			break
		}
		passed++
	}
	c.do(del("/resume", -1), closeSession())
	summary(t, t.Name(), passed, failed)
}
