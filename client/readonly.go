package client

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/zkd-project/zkd/internal/pause"
)

// seekQuorum looks for a server with a quorum while the client is connected to one without.
func (l *link) seekQuorum() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-l.failed
		cancel()
	}()
	list := l.s.hosts.list
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		for _, server := range list {
			if server != l.server && l.s.hasQuorum(ctx, server) {
				l.fail(betterServer(server))
				return
			}
		}
		if pause.For(ctx, wait) != nil {
			return
		}
	}
}

// hasQuorum asks a server by the four-letter word isro.
func (s *session) hasQuorum(ctx context.Context, server string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	addrs, err := s.resolve(ctx, server)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(addrs, func(addr string) bool { return s.saysRW(ctx, server, addr) })
}

func (s *session) saysRW(ctx context.Context, server, addr string) bool {
	nc, err := s.dial(ctx, server, addr)
	if err != nil {
		return false
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, cut(nc))()
	if _, err := io.WriteString(nc, "isro"); err != nil {
		return false
	}
	answer, _ := io.ReadAll(io.LimitReader(nc, 16))
	return string(answer) == "rw"
}
