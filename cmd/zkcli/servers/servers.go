package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
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

// Text asks a server by a four-letter word, and returns the answer as it is. With an error it returns
// what has arrived before.
func (a Asker) Text(ctx context.Context, server, word string) (string, error) {
	return ask.WordOver(ctx, a.dial, server, word)
}

// word asks a server by a four-letter word. An answer that is none is an error.
func (a Asker) word(ctx context.Context, server, word string) (string, error) {
	answer, err := a.Text(ctx, server, word)
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
		return "", errNotServing
	case answer == "" && word != "cons":
		return "", fmt.Errorf("%s: %w", word, errNoAnswer)
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

var (
	errNotServing = errors.New("not serving: no quorum")
	errNoAnswer   = errors.New("no answer (is this a port with TLS? then use --tls-ca)")
)

// View is what a server reports about itself.
type View struct {
	Server    string `json:"server"`
	Reachable bool   `json:"reachable"`
	Mode      string `json:"mode,omitempty"`
	Version   string `json:"version,omitempty"`
	Zxid      string `json:"zxid,omitempty"`
	// Lag is how many transactions the server is behind the leader, or behind the most
	// advanced of the servers. It is nil if the epochs differ.
	Lag         *int64  `json:"lag"`
	LatencyMin  float64 `json:"latencyMinMs"`
	LatencyAvg  float64 `json:"latencyAvgMs"`
	LatencyMax  float64 `json:"latencyMaxMs"`
	Connections int64   `json:"connections"`
	Sessions    *int64  `json:"sessions"` // of the ensemble; nil if mntr does not say
	Watches     *int64  `json:"watches"`
	Nodes       int64   `json:"nodes"`
	Outstanding int64   `json:"outstanding"`
	Received    int64   `json:"received"` // packets, since the start
	Sent        int64   `json:"sent"`
	Problem     string  `json:"problem,omitempty"`

	// Srvr and Mntr are the fields of the two words by their names, those of mntr without zk_.
	Srvr map[string]string `json:"-"`
	Mntr map[string]string `json:"-"`
	// Silent means that the server takes connections, and does not answer srvr.
	Silent bool `json:"-"`
	// NonVoting is how many followers without a vote a leader has; nil if mntr does not say.
	NonVoting *int64 `json:"-"`
	// Drain is what a server says of moving its clients to others, or "".
	Drain string `json:"-"`
	// Joiners are the servers that a leader brings up to date, by their ids.
	Joiners map[int64]Joiner `json:"-"`
	// Conns are the connections, of LookClosely.
	Conns []Conn `json:"-"`
	// Uses are what clients did, likewise, of servers that tell.
	Uses []Use `json:"-"`
}

// Joiner is a server that gets a snapshot, or else the log.
type Joiner struct {
	Snapshot   bool
	Sent, Size int64 // bytes of the snapshot; both 0 before it is sent
	LogLeft    int64 // bytes of the log that the server does not have yet
}

// String says what the server does.
func (j Joiner) String() string {
	const mib = 1 << 20
	switch {
	case j.Snapshot && j.Size > 0:
		return fmt.Sprintf("receives a snapshot: %.1f of %.1f MiB, %d %%", float64(j.Sent)/mib, float64(j.Size)/mib, 100*j.Sent/j.Size)
	case j.Snapshot:
		return "waits for a snapshot"
	}
	return fmt.Sprintf("receives the log: %.1f MiB to go", float64(j.LogLeft)/mib)
}

// LastZxid returns Zxid as a number, or 0.
func (v *View) LastZxid() (z client.Zxid) {
	fmt.Sscanf(v.Zxid, "0x%x", &z)
	return z
}

// Look asks a server by srvr and mntr.
func (a Asker) Look(ctx context.Context, server string) View {
	v := View{Server: server}
	text, err := a.word(ctx, server, "srvr")
	if err != nil {
		v.Problem = err.Error()
		v.Reachable = err == errNotServing
		_, notListed := err.(*notListedError)
		v.Silent = notListed || errors.Is(err, errNoAnswer)
		return v
	}
	v.Reachable = true
	v.ReadSrvr(text)
	text, err = a.word(ctx, server, "mntr")
	if err != nil {
		v.Problem = err.Error()
		return v
	}
	v.ReadMntr(text)
	return v
}

// ReadSrvr reads the answer to srvr. What is missing or not a number stays 0.
func (v *View) ReadSrvr(text string) {
	v.Srvr = ask.Fields(text, ": ")
	fields := v.Srvr
	v.Version, _, _ = strings.Cut(fields["Zookeeper version"], ",")
	v.Mode, v.Zxid = fields["Mode"], fields["Zxid"]
	fmt.Sscanf(fields["Latency min/avg/max"], "%g/%g/%g", &v.LatencyMin, &v.LatencyAvg, &v.LatencyMax)
	fmt.Sscan(fields["Received"], &v.Received)
	fmt.Sscan(fields["Sent"], &v.Sent)
	fmt.Sscan(fields["Connections"], &v.Connections)
	fmt.Sscan(fields["Outstanding"], &v.Outstanding)
	fmt.Sscan(fields["Node count"], &v.Nodes)
	v.Drain = fields["Drain"]
	v.readJoiners(fields)
}

// readJoiners reads lines such as
//
//	Joiner 4: snapshot 1048576/4194304
//	Joiner 5: log 3145728 left
func (v *View) readJoiners(fields map[string]string) {
	for name, value := range fields {
		var id int64
		var j Joiner
		if n, _ := fmt.Sscanf(name, "Joiner %d", &id); n == 0 {
			continue
		}
		if n, _ := fmt.Sscanf(value, "snapshot %d/%d", &j.Sent, &j.Size); n == 2 {
			j.Snapshot = true
		} else if n, _ := fmt.Sscanf(value, "log %d left", &j.LogLeft); n < 1 {
			continue
		}
		if v.Joiners == nil {
			v.Joiners = make(map[int64]Joiner)
		}
		v.Joiners[id] = j
	}
}

// ReadMntr reads the answer to mntr.
func (v *View) ReadMntr(text string) {
	v.Mntr = make(map[string]string)
	for key, value := range ask.Fields(text, "\t") {
		if name, ok := strings.CutPrefix(key, "zk_"); ok {
			v.Mntr[name] = value
		}
	}
	number := func(key string) *int64 {
		var n int64
		if _, err := fmt.Sscan(v.Mntr[key], &n); err != nil {
			return nil
		}
		return &n
	}
	v.Watches, v.Sessions = number("watch_count"), number("global_sessions")
	v.NonVoting = number("synced_non_voting_followers")
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

// measureLag compares the zxids of the servers with that of the leader, or with the
// highest one.
func measureLag(views []View) {
	var head client.Zxid
	for _, v := range views {
		if v.Mode == "leader" {
			head = v.LastZxid()
			break
		}
		head = max(head, v.LastZxid())
	}
	for i := range views {
		v := &views[i]
		if v.Zxid != "" && v.LastZxid().Epoch() == head.Epoch() {
			// The servers answer at different moments, so one may be ahead of the leader.
			lag := max(0, int64(head-v.LastZxid()))
			v.Lag = &lag
		}
	}
}

// Members returns where the Asker reaches the members of which the first server tells that does, or
// nothing. Servers without a quorum tell, too.
func (a Asker) Members(ctx context.Context, servers []string, limit time.Duration) []string {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, server := range servers {
		if text, err := a.word(ctx, server, "conf"); err == nil {
			if list := a.Addresses(text); len(list) > 0 {
				return list
			}
		}
	}
	return nil
}

// Addresses returns where the Asker reaches the servers of an ensemble's configuration. A
// line is server.1=host:2888:3888[|…]:participant;[address:]port[;[address:]port for TLS].
func (a Asker) Addresses(config string) []string {
	var list []string
	for line := range strings.Lines(config) {
		_, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if at := a.Address(value); at != "" && strings.HasPrefix(line, "server.") {
			list = append(list, at)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Address returns where the Asker reaches a server, by the value of its line, or "" if the line
// does not say it. Of a port with TLS and one without it takes the one that suits it, but if
// there is only one, that. The host of a server that listens at all its addresses is that of
// its peer address.
func (a Asker) Address(value string) string {
	peer, ports, _ := strings.Cut(value, ";")
	at, secure, _ := strings.Cut(ports, ";")
	if at == "" || a.TLS != nil && secure != "" {
		at = secure
	}
	if at == "" {
		return ""
	}
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		host, port = "", at
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = peerHost(peer)
	}
	return net.JoinHostPort(host, port)
}

// peerHost returns the host of host:port:port or [v6]:port:port.
func peerHost(peer string) string {
	if rest, ok := strings.CutPrefix(peer, "["); ok {
		host, _, _ := strings.Cut(rest, "]")
		return host
	}
	host, _, _ := strings.Cut(peer, ":")
	return host
}
