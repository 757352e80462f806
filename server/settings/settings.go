// Package settings keeps the configuration of a running server, some keys of which change while it
// runs: when the file is read again, and by requests of clients.
//
// # Goroutines
//
// There are none. All methods may be called from any goroutine.
package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
)

// Options say how Settings change.
type Options struct {
	Config *config.Config // at the start
	// Load reads the configuration again, with further settings. Nil means that clients can't
	// change it.
	Load func(...config.Setting) (*config.Config, []config.Warning, error)
	// Prepare is called before a configuration becomes the live one. An error prevents that.
	Prepare func(*config.Config) error
	// Changed tells the parts of a server that a configuration has become the live one. Most
	// parts read it when they need a value.
	Changed func(*config.Config)
}

// Settings are the configuration of a running server.
type Settings struct {
	o    Options
	live atomic.Pointer[config.Config] // changes under mu

	mu  sync.Mutex
	set []config.Setting // by clients, since Reload
	// hear get a token after each change.
	hear []chan struct{}
}

// New returns the settings of a server that starts.
func New(o Options) *Settings {
	s := &Settings{o: o}
	s.live.Store(o.Config)
	return s
}

// Live returns the configuration of the start, with the values that live keys have by now.
func (s *Settings) Live() *config.Config { return s.live.Load() }

// Reload takes over the live keys of another configuration. It returns what has changed. What clients
// have set before no longer counts. An error means that nothing has changed.
func (s *Settings) Reload(cfg *config.Config) ([]config.Difference, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := s.Live().TakeOver(cfg, "")
	if err != nil {
		return nil, err
	}
	changes, err := s.change(next)
	if err == nil {
		s.set = nil
	}
	return changes, err
}

// change makes a configuration the live one. mu is held.
func (s *Settings) change(cfg *config.Config) ([]config.Difference, error) {
	if err := s.o.Prepare(cfg); err != nil {
		return nil, err
	}
	changes := s.Live().Differences(cfg)
	s.live.Store(cfg)
	s.o.Changed(cfg)
	for _, c := range s.hear {
		select {
		case c <- struct{}{}:
		default: // it has one
		}
	}
	return changes, nil
}

// Changes returns a channel for a part that waits for something else, too: it has a token when the live
// configuration has changed.
func (s *Settings) Changes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{}, 1)
	s.hear = append(s.hear, c)
	return c
}

// Configure carries out a client's request about the configuration. A setting is in effect until the
// server ends or reads its configuration again (Reload): the file stays as it is, since it may
// be another program's or read-only, and one place should say what a server starts with.
func (s *Settings) Configure(r jute.ConfigureRequest) (string, error) {
	if r.Action == jute.ConfigureShow {
		var b strings.Builder
		err := s.Live().Describe(&b, true)
		return b.String(), err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.plan(r)
	if err != nil {
		return "", err
	}
	changes, err := s.change(p.next)
	if err != nil {
		return "", err
	}
	s.set = p.set
	return answer(changes, p.warnings, p.key), nil
}

// Try returns what Configure would say to a request to set or unset a key. A part of the server may refuse the change nevertheless.
func (s *Settings) Try(r jute.ConfigureRequest) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.plan(r)
	if err != nil {
		return "", err
	}
	return answer(s.Live().Differences(p.next), p.warnings, p.key), nil
}

// plan is what becomes of a request.
type plan struct {
	key      string
	next     *config.Config
	set      []config.Setting // by clients
	warnings []config.Warning
}

// plan returns what is to become of a request to set or unset a key. mu is held.
func (s *Settings) plan(r jute.ConfigureRequest) (p plan, err error) {
	if p.key, err = keyToChange(r); err != nil {
		return p, err
	}
	if s.o.Load == nil {
		return p, errors.New("the configuration of this server can't change")
	}
	p.set = slices.DeleteFunc(slices.Clone(s.set), func(o config.Setting) bool { return o.Key() == p.key })
	if r.Action == jute.ConfigureSet {
		p.set = append(p.set, config.SetWhileRunning(p.key, r.Value))
	}
	cfg, warnings, err := s.o.Load(p.set...)
	if err != nil {
		return p, err
	}
	p.warnings = warnings
	p.next, err = s.Live().TakeOver(cfg, p.key)
	return p, err
}

// answer says what has become of a change of a key.
func answer(changes []config.Difference, warnings []config.Warning, key string) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "%s=%s (was %s)\n", c.Key, c.After, c.Before)
	}
	for _, w := range warnings {
		if w.Key == key {
			fmt.Fprintf(&b, "warning: %s\n", w.Text)
		}
	}
	return b.String()
}

// keyToChange returns the key that a request sets or unsets.
func keyToChange(r jute.ConfigureRequest) (string, error) {
	if r.Action != jute.ConfigureSet && r.Action != jute.ConfigureUnset {
		return "", errors.New("this server does not know what to do: it is older than the client")
	}
	return config.LiveKey(r.Key)
}
