package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/cmd/zkcli/servers"
)

// wordsLimit is how long the servers may take for the answer to a word.
const wordsLimit = 4 * time.Second

// command answers as a server's AdminServer does, for all servers at once.
func (c *Console) command(w http.ResponseWriter, r *http.Request, name string) {
	ctx, cancel := context.WithTimeout(r.Context(), wordsLimit)
	defer cancel()
	var answer any
	var err error
	switch name {
	case "dump":
		answer, err = c.dump(ctx)
	case "connections":
		answer, err = c.connections(ctx)
	default:
		err = errors.New("only a server of zkd has this, in its own console")
	}
	if err != nil {
		answer = map[string]string{"command": name, "error": err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	text, _ := json.Marshal(answer) // it has nothing that can't be encoded
	_, _ = w.Write(text)
}

// each asks all servers by a word at once. It is an error if none answers.
func each[T any](ctx context.Context, c *Console, word string, ask func(context.Context, string) (T, error)) ([]T, error) {
	addrs := c.Servers
	if all := c.Asker.Members(ctx, c.Servers, wordsLimit); len(all) > 0 {
		addrs = all
	}
	answers, problems := make([]T, len(addrs)), make([]error, len(addrs))
	var wg sync.WaitGroup
	for i, addr := range addrs {
		wg.Go(func() { answers[i], problems[i] = ask(ctx, addr) })
	}
	wg.Wait()
	var out []T
	for i := range addrs {
		if problems[i] == nil {
			out = append(out, answers[i])
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no server answers the word %s: %s (4lw.commands.whitelist=srvr,mntr,conf,cons,dump allows it)", word, servers.Reason(problems[0]))
	}
	return out, nil
}

// dumped is the answer of the command dump: when sessions end is not known.
type dumped struct {
	Expire     map[string][]int64 `json:"expiry_time_to_session_ids"`
	Ephemerals map[int64][]string `json:"session_id_to_ephemeral_paths"`
}

func (c *Console) dump(ctx context.Context) (*dumped, error) {
	all, err := each(ctx, c, "dump", c.Asker.Ephemerals)
	if err != nil {
		return nil, err
	}
	out := &dumped{Expire: map[string][]int64{}, Ephemerals: make(map[int64][]string)}
	for _, of := range all { // each server knows the ephemerals of all sessions
		for session, paths := range of {
			id := sessionOf(session)
			var below []string
			for _, p := range paths {
				if p, ok := c.below(p); ok {
					below = append(below, p)
				}
			}
			if len(below) > len(out.Ephemerals[id]) {
				out.Ephemerals[id] = below
			}
		}
	}
	return out, nil
}

// below returns a path as the client has it, whose root may be another one.
func (c *Console) below(path string) (string, bool) {
	root := strings.TrimSuffix(c.Client.Root(), "/")
	rest, ok := strings.CutPrefix(path, root)
	return rest, ok && strings.HasPrefix(rest, "/")
}

// sessionOf returns the id of a session as the AdminServer shows it, which knows no unsigned numbers.
func sessionOf(hex string) int64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(hex, "0x"), 16, 64) // 0 for a connection without a session
	return int64(n)
}

// connected is the answer of the command connections.
type connected struct {
	Connections []connection `json:"connections"`
	Secure      []connection `json:"secure_connections"`
}

type connection struct {
	Remote      string `json:"remote_socket_address"`
	Outstanding int64  `json:"outstanding_requests"`
	Received    int64  `json:"packets_received"`
	Session     int64  `json:"session_id"`
	LastOp      string `json:"last_operation"`
	Established int64  `json:"established"`
	TimeoutMs   int64  `json:"session_timeout"`
	Min         int64  `json:"min_latency"`
	Avg         int64  `json:"avg_latency"`
	Max         int64  `json:"max_latency"`
}

func (c *Console) connections(ctx context.Context) (*connected, error) {
	all, err := each(ctx, c, "cons", c.Asker.Conns)
	out := &connected{Connections: []connection{}, Secure: []connection{}}
	if err != nil && ctx.Err() == nil { // the pages can do without
		return out, nil
	}
	for _, list := range all {
		for i := range list {
			s := &list[i]
			out.Connections = append(out.Connections, connection{s.Client, s.Queued, s.Received, sessionOf(s.Session), s.LastOp, s.Established, s.TimeoutMs, s.MinLatencyMs, s.AvgLatencyMs, s.MaxLatencyMs})
		}
	}
	return out, nil
}
