package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// reason is an error with a cause, one of a few words, under which it is counted.
type reason struct{ cause, text string }

func (r *reason) Error() string { return r.text }

// refusal is a reason, told by one side to the other, not to have a connection.
type refusal struct {
	reason
	theirs bool // the peer refused
}

func (r *refusal) Error() string {
	if r.theirs {
		return "refused by the other side: " + r.text
	}
	return r.text
}

func refuse(cause, text string) error { return &refusal{reason: reason{cause, text}} }

// causeOf returns the word under which an error is counted.
func causeOf(err error) string {
	var (
		why *reason
		no  *refusal
		dns *net.DNSError
	)
	switch {
	case errors.As(err, &why):
		return why.cause
	case errors.As(err, &no):
		return no.cause
	case errors.As(err, &dns):
		return "name"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed), errors.Is(err, ErrClosed):
		return "closed"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "broken"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "unreachable"
	}
	return "other"
}

// logText returns an error's text without the ports of this side, which differ from attempt
// to attempt.
func logText(err error) string {
	text := err.Error()
	var op *net.OpError
	if errors.As(err, &op) && op.Source != nil {
		text = strings.ReplaceAll(text, op.Source.String()+"->", "")
	}
	return strings.ReplaceAll(text, "\n", "; ")
}

// printable makes a stranger's text fit for a log line.
func printable(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "..."
	}
	q := strconv.QuoteToASCII(s)
	return q[1 : len(q)-1]
}

const (
	repeatAfter = time.Hour       // the same again
	changeAfter = 5 * time.Second // another reason
	mostTopics  = 256
)

// complaints decides what is logged: only a reason that is new for its topic. Attempts come
// several times a second, for weeks.
type complaints struct {
	mu struct {
		sync.Mutex
		last map[string]complaint
	}
}

type complaint struct {
	text string
	at   time.Time
}

// shouldLog reports whether to log text about a topic.
func (c *complaints) shouldLog(topic, text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	last, known := c.mu.last[topic]
	switch age := now.Sub(last.at); {
	case !known && len(c.mu.last) >= mostTopics && !c.forgetLocked(now):
		return false
	case known && age < changeAfter, known && last.text == text && age < repeatAfter:
		return false
	}
	if c.mu.last == nil {
		c.mu.last = make(map[string]complaint)
	}
	c.mu.last[topic] = complaint{text, now}
	return true
}

// forgetLocked drops old topics and reports whether there is room now. Strangers can make
// any number of topics.
func (c *complaints) forgetLocked(now time.Time) bool {
	for topic, last := range c.mu.last {
		if now.Sub(last.at) > time.Minute {
			delete(c.mu.last, topic)
		}
	}
	return len(c.mu.last) < mostTopics
}

// forget forgets a topic: its next complaint is new.
func (c *complaints) forget(topic string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.last, topic)
}
