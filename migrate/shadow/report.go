package shadow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Class says what a difference means.
type Class string

// The classes of differences.
const (
	Difference Class = "difference" // the servers differ
	Known      Class = "known"      // they do, as docs/compat.md says
	Order      Class = "order"      // the protocol leaves it open, or the shadow can't know
)

// Report is a difference, with both answers.
type Report struct {
	Class   Class    `json:"class"`
	ID      string   `json:"id,omitempty"` // of a known one, in docs/compat.md
	Conn    ConnID   `json:"connection,omitempty"`
	Session string   `json:"session,omitempty"` // Apache's
	Op      string   `json:"op"`                // of the request, "event", "connect", "close" or "walk"
	Path    string   `json:"path,omitempty"`
	Request string   `json:"request,omitempty"`
	What    []string `json:"what"` // "field: Apache's value, zkd zkd's value"
	Apache  string   `json:"apache"`
	Zkd     string   `json:"zkd"`
}

// Summary counts what an Engine has done.
type Summary struct {
	Connections int `json:"connections"`
	Compared    int `json:"compared"` // requests
	Events      int `json:"events"`   // compared
	Watching    int `json:"open"`     // connections that are compared now
	Waiting     int `json:"waiting"`  // requests that zkd has not answered yet
	Held        int `json:"heldBytes"`
	// Lag is how long after Apache's zkd's answer came, at most.
	Lag time.Duration `json:"maxLagNanoseconds"`

	Differences int            `json:"differences"`
	Order       int            `json:"order"`
	Known       map[string]int `json:"known"`                   // by id
	NotSent     map[string]int `json:"notSent"`                 // requests that the shadow must not get, by reason
	Stopped     map[string]int `json:"stopped"`                 // connections that are compared no longer, by reason
	Passed      int            `json:"passed"`                  // connections that do not speak the client protocol
	Late        int            `json:"lateWatches"`             // those that late requests may have set: their events are of class Order, until both sides send the same
	Unknown     int            `json:"unknown"`                 // writes whose outcome was lost with a connection
	Blind       bool           `json:"blind"`                   // too much was lost: znodes can't be told apart from those that differ for it
	Missing     int            `json:"missing"`                 // writes that zkd did not get, as their connection is compared no longer
	Repeated    int            `json:"repeated"`                // differences like one that was reported
	Long        int            `json:"longReplies"`             // of Apache, longer than Java's clients accept by default
	LongPath    string         `json:"longReplyPath,omitempty"` // of the last of these
	Walked      int            `json:"walked"`                  // znodes compared by a walk
	WalkDiffers int            `json:"walkDiffers"`
}

// Clean reports whether all that went through the shadow was compared, and nothing differs
// but what is known or open.
func (s *Summary) Clean() bool {
	return s.Differences == 0 && len(s.Stopped) == 0 && !s.Blind && s.Missing == 0
}

// Text returns the summary for people.
func (s *Summary) Text() string {
	var b strings.Builder
	verdict := "clean"
	switch {
	case s.Differences > 0:
		verdict = "DIFFERENT"
	case !s.Clean():
		verdict = "incomplete: not all could be compared"
	case s.Compared == 0:
		verdict = "nothing was compared"
	}
	line := func(name, format string, args ...any) {
		b.WriteString(fmt.Sprintf("%-12s %s\n", name, fmt.Sprintf(format, args...)))
	}
	some := func(are bool, name, format string, args ...any) {
		if are {
			line(name, format, args...)
		}
	}
	line("result", "%s", verdict)
	line("compared", "%d requests and %d events of %d connections, %d of them open", s.Compared, s.Events, s.Connections, s.Watching)
	line("differences", "%d, %d of them like one that is reported", s.Differences, s.Repeated)
	line("order", "%d", s.Order)
	counts := func(name string, m map[string]int) {
		for _, key := range slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(m[b]-m[a], strings.Compare(a, b)) }) {
			line(name, "%d %s", m[key], key)
		}
	}
	counts("known", s.Known)
	counts("not sent", s.NotSent)
	counts("stopped", s.Stopped)
	some(s.Passed > 0, "passed on", "%d connections that are not of the client protocol, such as four-letter words", s.Passed)
	some(s.Late > 0, "late", "%d watches that requests may have set late: what differs in their events counts as order, until both sides send the same event", s.Late)
	some(s.Unknown > 0, "unknown", "%d writes whose answers were lost with a connection", s.Unknown)
	some(s.Missing > 0, "missing", "%d writes that zkd did not get, since their connections are compared no longer", s.Missing)
	some(s.Blind, "blind", "too much was lost: later differences can't be told from its consequences")
	some(s.Long > 0, "long", "%d replies, the last about %q, are longer than jute.maxbuffer of Java's clients, 1 MiB by default: zkd sends them, too, unless zkd.maxReply is set", s.Long, s.LongPath)
	some(s.Walked > 0, "walk", "%d znodes, of which %d differ", s.Walked, s.WalkDiffers)
	line("zkd behind", "%v at most; now %d requests, %d bytes", s.Lag.Round(time.Microsecond), s.Waiting, s.Held)
	return b.String()
}
