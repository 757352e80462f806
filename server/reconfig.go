package server

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/transport"
)

// reconfigure is replica.Options.Reconfigure.
func (s *Server) reconfigure(now *zab.Members, change jute.ReconfigRequest) (zab.Members, error) {
	present := s.cfg.Members // has the addresses if the history has none
	if len(now.Text) > 0 {
		var err error
		if present, err = config.ParseMembers(string(now.Text)); err != nil {
			return zab.Members{}, fmt.Errorf("the present members: %w: %w", err, jute.ErrSystemError)
		}
	}
	next, err := config.Change{Joining: change.Joining, Leaving: change.Leaving, Whole: change.NewMembers}.Apply(present, s.cfg.ChangeOptions())
	switch {
	case errors.Is(err, config.ErrLeavingID):
		return zab.Members{}, fmt.Errorf("%w: %w", err, jute.ErrMarshalling)
	case err != nil:
		return zab.Members{}, fmt.Errorf("%w: %w", err, jute.ErrBadArguments)
	}
	return members(&next), nil
}

// membership makes this server follow the members that a command has made: its ports move
// to the addresses in its line.
type membership struct {
	*lifecycle
	*published
	id        zab.SID
	clients   *clients.Clients
	transport *transport.Transport

	version jute.Zxid // followed last
	line    config.Server
	failed  string // the last error that was logged
}

// membersRetry is the time between two attempts to follow the members.
const membersRetry = 5 * time.Second

func newMembership(s *Server) *membership {
	return &membership{lifecycle: s.lifecycle, published: s.published, id: s.id, clients: s.clients, transport: s.transport, line: s.cfg.Self()}
}

func (m *membership) run() {
	notify(m.membersChanged) // the configuration file may be older than the history
	retry := time.NewTicker(membersRetry)
	defer retry.Stop()
	for {
		select {
		case <-m.membersChanged:
		case <-retry.C:
			if m.failed == "" {
				continue
			}
		case <-m.stopping:
			return
		}
		err := m.follow(m.lists.Load().settled)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != m.failed && text != "" {
			m.log.Error("can't follow the change of the members yet; trying again", zap.String("err", text))
		}
		m.failed = text
	}
}

// follow moves the ports. A server that is no longer a member stays where it is.
func (m *membership) follow(list *zab.Members) error {
	if !list.Commanded || list.Version == m.version && m.failed == "" {
		return nil
	}
	parsed, err := config.ParseMembers(string(list.Text))
	if err != nil {
		return err
	}
	line, listed := parsed.Server(int64(m.id))
	if !listed {
		m.version = list.Version
		return nil
	}
	err = errors.Join(m.moveQuorumPort(&line), m.moveClientPort(&line))
	if err == nil {
		m.version, m.line = list.Version, line
	}
	return err
}

func (m *membership) moveQuorumPort(line *config.Server) error {
	listen, advertise := peerAddrs(m.cfg, line)
	return m.transport.Listen(listen, advertise)
}

func (m *membership) moveClientPort(line *config.Server) error {
	if line.Client.Port == 0 || line.Client == m.line.Client {
		return nil
	}
	m.log.Info("the client port moves", zap.Stringer("from", m.line.Client), zap.Stringer("to", line.Client))
	return m.clients.Listen(line.Client.Host, line.Client.Port)
}

// peerAddrs returns the addresses at which the server of a line listens for others, and
// those that it tells them.
func peerAddrs(cfg *config.Config, line *config.Server) (listen, advertise []string) {
	advertise = quorumAddrs(line)
	if cfg.QuorumListenOnAllIPs {
		return []string{net.JoinHostPort("", strconv.Itoa(line.Addrs[0].QuorumPort))}, advertise
	}
	return advertise, advertise
}
