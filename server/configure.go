package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
)

// configure carries out a client's request about the configuration. A setting counts until the
// server ends or reads its configuration again (Reload): the file stays as it is, since it may
// be another program's or read-only, and one place should say what a server starts with.
func (s *Server) configure(r jute.ConfigureRequest) (string, error) {
	if s.opts.Load == nil || r.Action == jute.ConfigureShow {
		return showConfiguration(s.live.Load(), r)
	}
	key, err := keyToChange(r)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	s.configured.Lock()
	defer s.configured.Unlock()
	settings := slices.DeleteFunc(slices.Clone(s.configured.settings), func(o config.Setting) bool { return o.Key() == key })
	if r.Action == jute.ConfigureSet {
		settings = append(settings, config.SetWhileRunning(key, r.Value))
	}
	cfg, warnings, err := s.opts.Load(settings...)
	if err != nil {
		return "", err
	}
	next, err := s.live.Load().TakeOver(cfg, key)
	if err != nil {
		return "", err
	}
	changes, err := s.takeOverLocked(next)
	if err != nil {
		return "", err
	}
	s.configured.settings = settings
	for _, c := range changes {
		fmt.Fprintf(&b, "%s=%s (was %s)\n", c.Key, c.After, c.Before)
	}
	for _, w := range warnings {
		if w.Key == key {
			fmt.Fprintf(&b, "warning: %s\n", w.Text)
		}
	}
	return b.String(), nil
}

// showConfiguration carries out a request about a configuration that can't change.
func showConfiguration(cfg *config.Config, r jute.ConfigureRequest) (string, error) {
	if r.Action == jute.ConfigureShow {
		var b strings.Builder
		err := cfg.Describe(&b, false)
		return b.String(), err
	}
	if _, err := keyToChange(r); err != nil {
		return "", err
	}
	return "", errors.New("the configuration of this server can't change")
}

// keyToChange returns the key that a request sets or unsets.
func keyToChange(r jute.ConfigureRequest) (string, error) {
	if r.Action != jute.ConfigureSet && r.Action != jute.ConfigureUnset {
		return "", errors.New("this server does not know what to do: it is older than the client")
	}
	return config.LiveKey(r.Key)
}
