package server

import (
	"cmp"
	"errors"
	"net"
	"slices"
	"strconv"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/zab"
	"github.com/zkd-project/zkd/server/zab/transport"
)

// introduce publishes the content of hellos, and the members that decide.
func (l *loop) introduce() {
	in := l.replica.Core.Introduction()
	l.standing.intro.Store(&in)
	l.showLists()
}

// showLists publishes the lists of members. The list of a configuration file makes no member.
func (l *loop) showLists() {
	var lists memberLists
	lists.settled, lists.newest = l.replica.Core.Lists()
	was := l.standing.lists.Load()
	lists.served = was != nil && was.served || l.service.serving.Load() && lists.settled.Version != 0 && lists.settled.Find(l.id) != nil
	l.standing.lists.Store(&lists)
}

// listsChanged adds the servers that are new in the lists of members. Removed servers are
// dropped later, so that they can learn of it.
func (l *loop) listsChanged() {
	if l.transport == nil {
		return
	}
	l.addPeers()
	for peer, gen := range l.replica.Links() {
		l.tellMembers(peer, gen, 0) // a link may have begun before
	}
	l.listsNew()
}

// addPeers links the listed servers, and drops the others later.
func (l *loop) addPeers() {
	peers := l.peersOf(l.standing.lists.Load())
	for _, p := range l.transport.Peers() {
		if !slices.ContainsFunc(peers, func(q transport.Peer) bool { return q.ID == p.ID }) {
			peers = append(peers, transport.Peer{ID: p.ID, Addrs: p.Addrs, Moves: true})
		}
	}
	l.setPeers(peers)
	l.dropPeers = l.now() + l.cfg.ElectionTimeout
}

// frameMembers carries a list of members to a server that has an older one. That server may
// be no member and know none of the servers that can lead. The number is none of package
// replica's.
const frameMembers = 128

// tellMembers tells the members to a server whose newest list has the version theirs.
func (l *loop) tellMembers(peer zab.SID, gen uint64, theirs jute.Zxid) {
	if list := l.replica.Core.News(theirs); list != nil {
		l.transport.SendApp(peer, gen, transport.Bulk, frameMembers, list.Append(nil))
	}
}

// hearMembers receives what tellMembers sends.
func (l *loop) hearMembers(peer zab.SID, body []byte) {
	var list zab.Members
	if err := list.Decode(body); err != nil {
		l.log.Error("can't decode the list of members from another server", zap.Uint8("peer", uint8(peer)), zap.Error(err))
		return
	}
	known := l.transport.Peers()
	linked := func(id zab.SID) bool {
		return id == l.id || slices.ContainsFunc(known, func(p transport.PeerStatus) bool { return p.ID == id })
	}
	if list.Leads(max(l.standing.lists.Load().newest.Version, l.heard.Version), linked) {
		l.log.Info("another server has a newer list of the members: looking for them", zap.Uint8("peer", uint8(peer)),
			zap.Stringer("members", &list), zap.Stringer("version", list.Version))
		l.heard = list
		l.addPeers()
	}
}

// dropUnlisted drops the servers that are in neither the lists of members nor the
// configuration file. With reconfigEnabled, linked ones stay as learners: they are about to
// be added, or have been removed and have clients.
func (l *loop) dropUnlisted() {
	if l.dropPeers == 0 || l.now() < l.dropPeers {
		return
	}
	l.dropPeers = 0
	peers := l.peersOf(l.standing.lists.Load())
	for _, p := range l.transport.Peers() {
		listed := slices.ContainsFunc(peers, func(q transport.Peer) bool { return q.ID == p.ID })
		if !listed && p.Up && l.cfg.ReconfigEnabled {
			peers = append(peers, transport.Peer{ID: p.ID, Addrs: p.Addrs, Moves: true})
			l.dropPeers = l.now() + l.cfg.ElectionTimeout // until its link is down
		}
	}
	l.setPeers(peers)
}

func (l *loop) setPeers(peers []transport.Peer) {
	if err := l.transport.SetPeers(peers); err != nil && !errors.Is(err, transport.ErrClosed) {
		l.log.Error("the servers of the ensemble can't all be linked", zap.Error(err))
	}
}

// peersOf returns the servers of the configuration file, of the lists of members, and of a
// newer list received from another server. A server in several of them has the addresses of
// the first: of the file, or, once a command has made the members, of the newest list. Then a
// server may be elsewhere, by a command that this server or that one has missed.
func (l *loop) peersOf(lists *memberLists) []transport.Peer {
	sources := [][]config.Server{l.cfg.Members.Servers, l.serversOf(lists.newest), l.serversOf(lists.settled)}
	if lists.newest.Commanded {
		sources = append(sources[1:], sources[0])
	}
	switch heard := l.serversOf(&l.heard); {
	case l.heard.Version <= lists.newest.Version:
	case l.heard.Commanded:
		sources = append([][]config.Server{heard}, sources...)
	default:
		sources = append(sources, heard)
	}
	var peers []transport.Peer
	for _, servers := range sources {
		for i := range servers {
			id := zab.SIDOf(uint8(servers[i].ID))
			if id != l.id && !slices.ContainsFunc(peers, func(p transport.Peer) bool { return p.ID == id }) {
				peers = append(peers, transport.Peer{ID: id, Addrs: quorumAddrs(&servers[i]), Moves: l.cfg.ReconfigEnabled || lists.newest.Commanded})
			}
		}
	}
	return peers
}

// serversOf returns the servers in a list, with their addresses.
func (l *loop) serversOf(list *zab.Members) []config.Server {
	m, err := config.ParseMembers(string(list.Text))
	if err != nil {
		l.log.Error("can't parse the members' addresses", zap.Stringer("version", list.Version), zap.Error(err))
	}
	return m.Servers
}

// quorumAddrs returns the addresses on which a server listens for other servers, each once.
func quorumAddrs(s *config.Server) []string {
	var addrs []string
	for _, a := range s.Addrs {
		if addr := net.JoinHostPort(a.Host, strconv.Itoa(a.QuorumPort)); !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// peerAddrs returns the addresses at which the server of a line listens for others, and
// those that it tells them.
func peerAddrs(cfg *config.Config, line *config.Server) (listen, advertise []string) {
	advertise = quorumAddrs(line)
	if cfg.QuorumListenOnAllIPs {
		everywhere := config.Server{Addrs: slices.Clone(line.Addrs)}
		for i := range everywhere.Addrs {
			everywhere.Addrs[i].Host = ""
		}
		return quorumAddrs(&everywhere), advertise
	}
	return advertise, advertise
}

// members returns a list of servers as far as quorums depend on it, with its text.
func members(c *config.Members) zab.Members {
	m := zab.Members{Hierarchical: c.Hierarchical, Text: []byte(c.Text())}
	for _, srv := range c.Servers {
		group, _ := c.Group(srv.ID)
		m.List = append(m.List, zab.Member{
			ID:       zab.SIDOf(uint8(srv.ID)),
			Observer: srv.Observer,
			Weight:   uint32(srv.Weight),
			Group:    uint32(group),
		})
	}
	slices.SortFunc(m.List, func(a, b zab.Member) int { return cmp.Compare(a.ID, b.ID) })
	return m
}
