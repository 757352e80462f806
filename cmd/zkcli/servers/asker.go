package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/ask"
)

// Asker asks servers. The zero Asker uses connections without TLS.
type Asker struct {
	// TLS returns the configuration for a connection to a host; nil means no TLS.
	TLS func(host string) (*tls.Config, error)
}

// dial opens a connection to a server.
func (a Asker) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if a.TLS == nil {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	var d tls.Dialer
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if d.Config, err = a.TLS(host); err != nil {
		return nil, err
	}
	return d.DialContext(ctx, network, addr)
}

// Web returns a client for the pages of AdminServers. Those of https are checked as the servers are.
func (a Asker) Web() *http.Client {
	if a.TLS == nil {
		return http.DefaultClient
	}
	return &http.Client{Transport: &http.Transport{DialTLSContext: a.dial, DisableKeepAlives: true}}
}

// word asks a server by a four-letter word. An answer that is none is an error.
func (a Asker) word(ctx context.Context, server, word string) (string, error) {
	answer, err := ask.WordOver(ctx, a.dial, server, word)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%s: no answer in time", word)
	}
	if err != nil {
		return "", err
	}
	switch {
	case strings.Contains(answer, "is not executed because it is not in the whitelist"):
		return "", &notListedError{word}
	case strings.Contains(answer, "not currently serving requests"):
		return "", ErrNotServing
	case answer == "" && word != "cons":
		return "", fmt.Errorf("%s: %w", word, ErrNoAnswer)
	default:
		return answer, nil
	}
}

// notListedError means that the server is configured not to answer a word.
type notListedError struct{ word string }

// Error says what to configure.
func (e *notListedError) Error() string {
	return fmt.Sprintf("%s is not in the server's 4lw.commands.whitelist", e.word)
}

// Why a server that takes connections has no state to show.
var (
	ErrNotServing = errors.New("not serving: no quorum")
	ErrNoAnswer   = errors.New("no answer (is this a port with TLS? then use --tls-ca)")
	ErrNoServer   = errors.New("answers, but not as a server of the protocol")
)

// Reason returns the text of an error, without the addresses of a socket's error.
func Reason(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err
	}
	return err.Error()
}

// Look asks a server by srvr and mntr.
func (a Asker) Look(ctx context.Context, server string) View { return a.look(ctx, server) }

// LookClosely is Look with the server's connections, and with what clients did if the server tells.
func (a Asker) LookClosely(ctx context.Context, server string) View {
	return a.look(ctx, server, "cons", "topc")
}

// look asks a server by srvr, mntr and further words.
func (a Asker) look(ctx context.Context, server string, further ...string) View {
	v := View{Server: server}
	text, err := a.word(ctx, server, "srvr")
	if err == nil {
		v.readSrvr(text)
	}
	if err == nil && v.Mode == "" {
		err = ErrNoServer
	}
	if err != nil {
		_, notListed := errors.AsType[*notListedError](err)
		v.Err, v.Problem = err, err.Error()
		v.Reachable = errors.Is(err, ErrNotServing)
		v.Silent = notListed || errors.Is(err, ErrNoAnswer)
		return v
	}
	v.Reachable = true
	for _, word := range slices.Concat([]string{"mntr"}, further) {
		asked := time.Now()
		text, err := a.word(ctx, server, word)
		if err == nil {
			v.read(word, text, asked, time.Since(asked))
			continue
		}
		if _, notListed := errors.AsType[*notListedError](err); notListed {
			v.Unanswered = append(v.Unanswered, word)
		}
		if v.Problem == "" && word != "topc" { // which Apache's servers do not know
			v.Problem = err.Error()
		}
	}
	return v
}

// LookAll asks all servers at once, each by a function such as Look, and waits for them
// for the limit at most.
func LookAll(ctx context.Context, servers []string, limit time.Duration, one func(context.Context, string) View) []View {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	views := make([]View, len(servers))
	var wg sync.WaitGroup
	for i, server := range servers {
		wg.Go(func() { views[i] = one(ctx, server) })
	}
	wg.Wait()
	measureLag(views)
	return views
}
