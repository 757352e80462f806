// The writer of go-zookeeper: see storm.py.
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	gap      = 20 * time.Millisecond
	patience = time.Minute
)

// writer counts what its client does.
type writer struct {
	client                                      *zk.Conn
	own, other                                  string
	sets, creates, events, disconnected, errors atomic.Int64
	longest, atOnce                             atomic.Int64 // milliseconds, and changes
}

func main() {
	servers, own, other := os.Args[1], os.Args[2], os.Args[3]
	client, session, err := zk.Connect(strings.Split(servers, ","), 20*time.Second, zk.WithLogInfo(false))
	if err != nil {
		fmt.Fprintln(os.Stderr, "go:", err)
		os.Exit(1)
	}
	w := &writer{client: client, own: own, other: other}
	go w.see(session)
	over, last := make(chan struct{}), make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	go w.follow(last)
	w.set("first")
	fmt.Fprintln(os.Stdout, "ready")
	w.write(over)
	missed := 0
	select {
	case <-last:
	case <-time.After(patience):
		missed = 1
	}
	fmt.Fprintf(os.Stdout, "sets=%d creates=%d events=%d missed=%d disconnected=%d errors=%d longest-ms=%d at-once=%d\n",
		w.sets.Load(), w.creates.Load(), w.events.Load(), missed, w.disconnected.Load(), w.errors.Load(), w.longest.Load(), w.atOnce.Load())
}

// see counts ends of the connection and of the session.
func (w *writer) see(session <-chan zk.Event) {
	for e := range session {
		if e.State == zk.StateDisconnected || e.State == zk.StateExpired {
			w.disconnected.Add(1)
			fmt.Fprintln(os.Stderr, "go:", e.State)
		}
	}
}

// write sets and adds nodes until it is over.
func (w *writer) write(over <-chan struct{}) {
	for {
		select {
		case <-over:
			w.set("last")
			return
		case <-time.After(gap):
			w.set(strconv.FormatInt(w.sets.Load(), 10))
			began := time.Now()
			_, err := w.client.Create(w.own+"/n-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
			w.done(&w.creates, began, err)
		}
	}
}

func (w *writer) set(value string) {
	began := time.Now()
	_, err := w.client.Set(w.own, []byte(value), -1)
	w.done(&w.sets, began, err)
}

func (w *writer) done(count *atomic.Int64, began time.Time, err error) {
	w.longest.Store(max(w.longest.Load(), time.Since(began).Milliseconds()))
	if err == nil {
		count.Add(1)
		return
	}
	w.failed(err)
}

func (w *writer) failed(err error) {
	w.errors.Add(1)
	fmt.Fprintln(os.Stderr, "go:", err)
}

// follow reads the other node when it has changed, and closes last when it has read its last value.
func (w *writer) follow(last chan<- struct{}) {
	version := int32(0)
	for {
		value, stat, told, err := w.client.GetW(w.other)
		if err != nil {
			w.failed(err)
			return
		}
		if w.events.Load() > 0 {
			w.atOnce.Store(max(w.atOnce.Load(), int64(stat.Version-version)))
		}
		version = stat.Version
		if string(value) == "last" {
			close(last)
			return
		}
		if e := <-told; e.Type == zk.EventNodeDataChanged {
			w.events.Add(1)
		}
	}
}
