package zk

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Mode is what a server does in its ensemble.
type Mode uint8

// The modes. All others, such as observer, are ModeUnknown.
const (
	ModeUnknown Mode = iota
	ModeLeader
	ModeFollower
	ModeStandalone
)

// String returns the word of ZooKeeper's servers.
func (m Mode) String() string {
	switch m {
	case ModeLeader:
		return "leader"
	case ModeFollower:
		return "follower"
	case ModeStandalone:
		return "standalone"
	}
	return "unknown"
}

// ServerStats is what a server answers to the four-letter word srvr.
type ServerStats struct {
	Server      string
	Sent        int64
	Received    int64
	NodeCount   int64
	MinLatency  int64
	AvgLatency  float64
	MaxLatency  int64
	Connections int64
	Outstanding int64
	Epoch       int32
	Counter     int32
	BuildTime   time.Time
	Mode        Mode
	Version     string
	Error       error
}

// ServerClient is one connection of a client to a server.
type ServerClient struct {
	Queued        int64
	Received      int64
	Sent          int64
	SessionID     int64
	Lcxid         int64
	Lzxid         int64
	Timeout       int32
	LastLatency   int32
	MinLatency    int32
	AvgLatency    int32
	MaxLatency    int32
	Established   time.Time // the server's milliseconds, taken for seconds
	LastResponse  time.Time // likewise
	Addr          string
	LastOperation string
	Error         error
}

// ServerClients is what a server answers to the four-letter word cons.
type ServerClients struct {
	Clients []*ServerClient
	Error   error
}

// errNoMatch is the error for an answer that is not understood.
var errNoMatch = errors.New("unable to parse fields from zookeeper response")

// FLWRuok asks each server whether it is all right. Servers answer only words of their
// 4lw.commands.whitelist.
func FLWRuok(servers []string, timeout time.Duration) []bool {
	ok := make([]bool, len(servers))
	for i, s := range FormatServers(servers) {
		answer, err := ask(s, "ruok", timeout)
		ok[i] = err == nil && strings.HasPrefix(answer, "imok")
	}
	return ok
}

// FLWSrvr asks each server for its figures. It returns false if there was an Error.
func FLWSrvr(servers []string, timeout time.Duration) ([]*ServerStats, bool) {
	all, ok := make([]*ServerStats, len(servers)), true
	for i, s := range FormatServers(servers) {
		answer, err := ask(s, "srvr", timeout)
		stats := &ServerStats{}
		if err == nil {
			err = stats.read(answer)
		}
		if err != nil {
			stats, ok = &ServerStats{Error: err}, false
		}
		stats.Server, all[i] = s, stats
	}
	return all, ok
}

// read reads the answer to srvr: lines "key: value".
func (s *ServerStats) read(answer string) error {
	values := make(map[string]string)
	for line := range strings.Lines(answer) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			values[key] = strings.TrimSpace(value)
		}
	}
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(values[key], 0, 64)
		return n
	}
	version, built, _ := strings.Cut(values["Zookeeper version"], ", built on ")
	if values["Mode"] == "" || values["Zxid"] == "" {
		return errNoMatch
	}
	for _, layout := range []string{"01/02/2006 15:04 MST", "2006-01-02 15:04 MST"} {
		if at, err := time.Parse(layout, built); err == nil {
			s.BuildTime = at
		}
	}
	latency := strings.Split(values["Latency min/avg/max"], "/")
	if len(latency) != 3 {
		return errNoMatch
	}
	s.MinLatency, _ = strconv.ParseInt(latency[0], 10, 64)
	s.AvgLatency, _ = strconv.ParseFloat(latency[1], 64)
	s.MaxLatency, _ = strconv.ParseInt(latency[2], 10, 64)
	s.Version, s.Sent, s.Received = version, number("Sent"), number("Received")
	s.Connections, s.Outstanding, s.NodeCount = number("Connections"), number("Outstanding"), number("Node count")
	zxid := number("Zxid")
	s.Epoch, s.Counter = int32(zxid>>32), int32(zxid)
	for _, m := range []Mode{ModeLeader, ModeFollower, ModeStandalone} {
		if values["Mode"] == m.String() {
			s.Mode = m
		}
	}
	return nil
}

// FLWCons asks each server for its clients' connections. It returns false if there was an Error.
func FLWCons(servers []string, timeout time.Duration) ([]*ServerClients, bool) {
	all, ok := make([]*ServerClients, len(servers)), true
	for i, s := range FormatServers(servers) {
		all[i] = &ServerClients{}
		answer, err := ask(s, "cons", timeout)
		for line := range strings.Lines(answer) {
			if line = strings.TrimSpace(line); line == "" || err != nil {
				continue
			}
			var one *ServerClient
			if one, err = connection(line); one != nil {
				all[i].Clients = append(all[i].Clients, one)
			}
		}
		if err != nil {
			all[i], ok = &ServerClients{Error: err}, false
		}
	}
	return all, ok
}

// connection reads a line of cons: /address[1](key=value,…). It returns nil for a connection without
// a session, such as that of the question.
func connection(line string) (*ServerClient, error) {
	addr, rest, ok := strings.Cut(strings.TrimPrefix(line, "/"), "[")
	_, list, found := strings.Cut(rest, "(")
	if !ok || !found || !strings.HasPrefix(line, "/") {
		return nil, fmt.Errorf("%w: %q", errNoMatch, line)
	}
	values := make(map[string]string)
	for pair := range strings.SplitSeq(strings.TrimSuffix(list, ")"), ",") {
		key, value, _ := strings.Cut(pair, "=")
		values[key] = value
	}
	if values["sid"] == "" {
		return nil, nil
	}
	number := func(key string) int64 {
		text := values[key]
		if n, err := strconv.ParseInt(text, 0, 64); err == nil {
			return n
		}
		n, _ := strconv.ParseUint(text, 0, 64) // 0xffffffffffffffff is -1
		return int64(n)
	}
	return &ServerClient{
		Addr: addr, LastOperation: values["lop"],
		Queued: number("queued"), Received: number("recved"), Sent: number("sent"),
		SessionID: number("sid"), Lcxid: number("lcxid"), Lzxid: number("lzxid"),
		Timeout: int32(number("to")), LastLatency: int32(number("llat")),
		MinLatency: int32(number("minlat")), AvgLatency: int32(number("avglat")), MaxLatency: int32(number("maxlat")),
		Established: time.Unix(number("est"), 0), LastResponse: time.Unix(number("lresp"), 0),
	}, nil
}

// ask sends a four-letter word to a server, and returns all that it answers.
func ask(server, word string, timeout time.Duration) (string, error) {
	nc, err := net.DialTimeout("tcp", server, timeout)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	if _, err := nc.Write([]byte(word)); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(nc)
	return string(answer), err
}
