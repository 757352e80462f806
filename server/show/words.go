package show

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/zkd-project/zkd/fourletter"
)

// Source is a server, as one connection sees it.
type Source interface {
	// Serving reports whether the server serves clients: it is standalone, belongs to a
	// quorum, or is read-only.
	Serving() bool
	// ReadOnly reports whether the server has no quorum and serves read-only.
	ReadOnly() bool
	// View looks at the server.
	View() *View

	// SetTraceMask sets View.TraceMask, initially 306. It has no other effect.
	SetTraceMask(mask int64)
	// ResetServerStats zeroes the latencies and packet counts of the server.
	ResetServerStats()
	// ResetConnectionStats zeroes the statistics of each connection.
	ResetConnectionStats()
}

// Execute writes the answer to a command to w. arg should have [fourletter.Command.ArgLen] bytes; the answer to an
// allowed command with a shorter one says so. The error is that of w. The caller closes the connection
// in any case.
func Execute(w io.Writer, c fourletter.Command, arg []byte, wl fourletter.Whitelist, src Source) error {
	b := bufio.NewWriter(w)
	p := printer{b}
	switch {
	case !wl.Allows(c):
		p.printf("%v is not executed because it is not in the whitelist.\n", c)
	case needsService(c) && !src.Serving() && !tellsWhy(c, src):
		p.printf("This ZooKeeper instance is not currently serving requests")
		if c != fourletter.Hash { // Apache's server has no line end there for hash
			p.printf("\n")
		}
	case len(arg) < c.ArgLen():
		p.printf("%v needs %d bytes after it.\n", c, c.ArgLen())
	default:
		p.answer(c, arg, src)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("answer %v: %w", c, err)
	}
	return nil
}

// needsService reports whether c has no answer while there is no quorum.
func needsService(c fourletter.Command) bool {
	switch c {
	case fourletter.Ruok, fourletter.Isro, fourletter.Gtmk, fourletter.Stmk, fourletter.Envi, fourletter.Conf, fourletter.TelnetClose:
		return false
	}
	return true
}

// tellsWhy reports whether c says why the server does not serve: it is a standby without a copy yet.
func tellsWhy(c fourletter.Command, src Source) bool {
	return (c == fourletter.Srvr || c == fourletter.Mntr) && src.View().Standby.Of != ""
}

// printer writes answers. Flushing the buffer returns write errors.
type printer struct{ w *bufio.Writer }

func (p printer) printf(format string, args ...any) { fmt.Fprintf(p.w, format, args...) }

func (p printer) answer(c fourletter.Command, arg []byte, src Source) {
	switch c {
	case fourletter.Ruok:
		p.printf("imok")
	case fourletter.Isro:
		p.isro(src)
	case fourletter.Gtmk:
		p.printf("%d", src.View().TraceMask)
	case fourletter.Stmk:
		mask := int64(binary.BigEndian.Uint64(arg))
		src.SetTraceMask(mask)
		p.printf("%d", mask)
	case fourletter.Crst:
		src.ResetConnectionStats()
		p.printf("Connection stats reset.\n")
	case fourletter.Srst:
		src.ResetServerStats()
		p.printf("Server stats reset.\n")
	case fourletter.Conf:
		p.conf(src.View().Settings())
	case fourletter.Envi:
		p.envi(src.View().Environment())
	case fourletter.Dirs:
		size := src.View().DirSizes()
		p.printf("datadir_size: %d\nlogdir_size: %d\n", size.Data, size.Log)
	case fourletter.Hash:
		p.hash(src.View().Digests())
	case fourletter.Srvr, fourletter.Stat:
		p.server(src.View(), c == fourletter.Stat)
	case fourletter.Cons:
		p.cons(src.View().Conns())
	case fourletter.Topc:
		p.top(src.View().Clients())
	case fourletter.Dump:
		p.dump(src.View())
	case fourletter.Mntr:
		v := src.View()
		p.mntr(v, v.Words())
	case fourletter.Wchs, fourletter.Wchc, fourletter.Wchp:
		p.watches(c, src.View())
	case fourletter.TelnetClose: // no answer
	}
}

func (p printer) isro(src Source) {
	switch {
	case !src.Serving():
		p.printf("null")
	case src.ReadOnly():
		p.printf("ro")
	default:
		p.printf("rw")
	}
}

func (p printer) conf(s Settings) {
	p.printf("clientPort=%d\n", s.ClientPort)
	p.printf("secureClientPort=%d\n", s.SecureClientPort)
	p.printf("dataDir=%s\n", s.DataDir)
	p.printf("dataDirSize=%d\n", s.DataDirBytes)
	p.printf("dataLogDir=%s\n", s.DataLogDir)
	p.printf("dataLogSize=%d\n", s.DataLogBytes)
	p.printf("tickTime=%d\n", s.TickTimeMs)
	p.printf("maxClientCnxns=%d\n", s.MaxClientCnxns)
	p.printf("minSessionTimeout=%d\n", s.MinSessionTimeoutMs)
	p.printf("maxSessionTimeout=%d\n", s.MaxSessionTimeoutMs)
	p.printf("clientPortListenBacklog=%d\n", s.ListenBacklog)
	p.printf("serverId=%d\n", s.ServerID)
	if s.Quorum != nil {
		p.quorum(s.Quorum)
	}
}

func (p printer) quorum(q *Quorum) {
	peerType := 0
	if q.Observer {
		peerType = 1
	}
	p.printf("initLimit=%d\n", q.InitLimit)
	p.printf("syncLimit=%d\n", q.SyncLimit)
	p.printf("electionAlg=%d\n", q.ElectionAlg)
	p.printf("electionPort=%d\n", q.ElectionPort)
	p.printf("quorumPort=%d\n", q.QuorumPort)
	p.printf("peerType=%d\n", peerType)
	if q.Membership != "" {
		p.printf("membership: \n%s", q.Membership)
	}
}

func (p printer) envi(env []KV) {
	p.printf("Environment:\n")
	for _, e := range env {
		p.printf("%s=%s\n", e.Key, e.Value)
	}
}

func (p printer) hash(digests []Digest) {
	for _, d := range digests {
		p.printf("%x: %d\n", uint64(d.Zxid), d.Value)
	}
}
