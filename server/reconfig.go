package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/transport"
)

// reconfigure is replica.Options.Reconfigure of a server with a configuration.
func reconfigure(cfg *config.Config, now *zab.Members, change jute.ReconfigRequest) (_ zab.Members, remarks []string, _ error) {
	present, err := presentMembers(cfg, now)
	if err != nil {
		return zab.Members{}, nil, fmt.Errorf("the present members: %w: %w", err, jute.ErrSystemError)
	}
	if change.EmptyMembers {
		return zab.Members{}, nil, fmt.Errorf("the list of all members is empty: %w", jute.ErrBadArguments)
	}
	asked := config.Change{Joining: change.Joining, Leaving: change.Leaving, Whole: change.NewMembers}
	next, warnings, err := asked.Apply(present, cfg.ChangeOptions())
	switch {
	case errors.Is(err, config.ErrNoNumber):
		return zab.Members{}, nil, fmt.Errorf("%w: %w", err, jute.ErrMarshalling)
	case errors.Is(err, config.ErrIDRange):
		return zab.Members{}, nil, fmt.Errorf("%w: %w: %w", err, replica.ErrOwnLimit, jute.ErrBadArguments)
	case err != nil: // it may have several lines
		return zab.Members{}, nil, fmt.Errorf("%s: %w", strings.ReplaceAll(err.Error(), "\n", "; "), jute.ErrBadArguments)
	}
	for _, w := range warnings {
		remarks = append(remarks, "a change of the members has a server that may not get its ports: "+w.String())
	}
	list := members(&next)
	replica.KeepMarks(now, &list, func(id zab.SID) bool { return asked.Names(int64(id.Number())) })
	return list, remarks, nil
}

// membership makes this server follow the members that a command has made: its ports move
// to the addresses in its line, and its configuration file gets the members.
type membership struct {
	cfg       *config.Config
	log       *zap.Logger
	fail      func(error)
	lists     func() *memberLists
	following *following
	id        zab.SID
	fs        vfs.FS
	clients   *clients.Clients
	transport *transport.Transport

	joins   bool            // Options.Join, until it is a member
	away    bool            // this server was removed, and keeps clients away
	version jute.Zxid       // followed last
	client  config.Endpoint // clientPort
	secure  config.Endpoint // secureClientPort
	failed  string          // the last error that was logged

	secureByLine bool // the line of this server has secureClientPort
}

// membersRetry is the time between two attempts to follow the members.
const membersRetry = 5 * time.Second

func (m *membership) run(ctx context.Context) {
	base.Notify(m.following.changed) // the configuration file may be older than the history
	retry := time.NewTicker(membersRetry)
	defer retry.Stop()
	for {
		select {
		case <-m.following.changed:
		case <-retry.C:
			if m.failed == "" {
				continue
			}
		case <-ctx.Done():
			return
		}
		err := m.follow(m.lists())
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != m.failed && text != "" {
			m.log.Error("can't follow the change of the members yet; trying again", zap.String("err", text))
		}
		m.failed = text
		m.following.problem.Store(&text)
	}
}

// follow moves the ports and saves the members. A server that was removed moves its clients to
// the others. It stays where it is, and keeps its file: with a file that does not list it, it
// could not start. One that nobody has added yet serves clients, as an observer does.
func (m *membership) follow(lists *memberLists) error {
	list := lists.settled
	if !list.Commanded || list.Version == m.version && m.failed == "" {
		return nil
	}
	parsed, err := config.ParseMembers(string(list.Text))
	if err != nil {
		return err
	}
	line, listed := parsed.Server(int64(m.id.Number()))
	switch {
	case !listed && lists.served && !m.away:
		m.away = true
		m.clients.Drain().KeepAway()
	case listed && m.away:
		m.away = false
		m.clients.Drain().LetIn()
	}
	if !listed {
		m.version = list.Version
		return nil
	}
	if self := m.cfg.Self(); m.joins && !slices.Equal(line.Addrs, self.Addrs) {
		m.fail(&HaltError{Reason: fmt.Sprintf("another server joined as server %d, at %v, before this one did at %v: "+
			"empty the data directory and start again, so that this server takes another id", m.id, line.Addrs[0], self.Addrs[0])})
		return nil
	}
	m.joins = false
	parsed.Version = uint64(list.Version)
	if err := errors.Join(m.moveQuorumPort(&line), m.moveClientPort(&line), m.moveSecurePort(&line)); err != nil {
		return err // with such ports in its file it might not start
	}
	if err = m.save(parsed); err == nil {
		m.version = list.Version
	}
	return err
}

func (m *membership) moveQuorumPort(line *config.Server) error {
	listen, advertise := peerAddrs(m.cfg, line)
	return m.transport.Listen(listen, advertise)
}

func (m *membership) moveClientPort(line *config.Server) error {
	return m.move("the client port moves", &m.client, line.Client, m.clients.Ports().Listen)
}

// moveSecurePort moves the secure port, and opens or closes it if the server's line now has
// one, or no longer. A server that was started without keys for clients can't open one.
func (m *membership) moveSecurePort(line *config.Server) error {
	to := line.SecureClient
	switch {
	case to.Port == 0 && m.secureByLine:
		to.Port = -1
	case to.Port != 0 && !m.cfg.ClientTLS.Used():
		m.log.Warn("the secure client port of this server stays closed, since it was started without keys for it: "+
			"set ssl.keyStore.location and ssl.trustStore.location, and restart it", zap.Stringer("port", to))
		return nil
	}
	err := m.move("the secure client port moves", &m.secure, to, m.clients.Ports().ListenSecure)
	if err == nil {
		m.secureByLine = line.SecureClient.Port != 0
	}
	return err
}

func (m *membership) move(what string, from *config.Endpoint, to config.Endpoint, listen func(string, int) error) error {
	if to.Port == 0 || to.Port == from.Port && (to.Port < 0 || sameHost(to.Host, from.Host)) {
		return nil
	}
	m.log.Info(what, zap.Stringer("from", *from), zap.Stringer("to", to))
	if err := listen(to.Host, to.Port); err != nil {
		return err
	}
	*from = to
	return nil
}

// sameHost reports whether two hosts are the same address to listen at.
func sameHost(a, b string) bool {
	all := func(host string) bool { return host == "" || host == "0.0.0.0" || host == "::" }
	return a == b || all(a) && all(b)
}

// save writes the members to the configuration file. The history decides, whatever the file
// says: the file shows them to operators and tools, and helps a server that starts after a
// long time to find the others.
func (m *membership) save(members config.Members) error {
	if m.cfg.File == "" || !m.cfg.ReconfigEnabled {
		return nil
	}
	return config.SaveMembers(m.fs, m.cfg.File, members, int64(m.id.Number()))
}
