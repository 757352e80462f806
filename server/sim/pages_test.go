package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/scenario"
	"github.com/zkd-project/zkd/jute"
)

// TestScenarios runs testdata/*.txt: requests of clients, with each message between the
// servers, each record of a log and each answer, in the order in which they happen.
// Heartbeats, hints and notes are left out. The commands:
//
//	ensemble V            V servers, of which the last one leads
//	connect C N           client C, the next one from 0 on, opens a session at server N
//	resume C N            client C continues its session on a new connection, to server N
//	ask C WHAT...         client C asks at once for all of: create, set, sync, read, ping, close
//	settle                until all is answered, and applied everywhere
//	run MS                let time pass
//	hold FROM TO | free   stop the messages from FROM to TO, but not its log; release all
//	kill N | start N
//	handover N            server N becomes the leader
//	show                  what has happened since the last time
func TestScenarios(t *testing.T) {
	scenario.Run(t, "testdata/*.txt", func(t *testing.T) scenario.Command {
		return (&page{t: t}).command
	})
}

type page struct {
	*script
	t     *testing.T
	shown int // number of lines
}

func (p *page) command(words []string) (out string, err error) {
	defer func() {
		if f := failed(recover()); f != nil {
			err = fmt.Errorf("%v", f)
		}
	}()
	number := func(i int) int {
		n, _ := strconv.Atoi(words[i])
		return n
	}
	server := func(i int) *node { return p.nodes[number(i)-1] }
	switch words[0] {
	case "ensemble":
		cfg := quiet(number(1))
		cfg.Clients = 0
		p.script = &script{Sim: newSim(cfg), t: p.t}
		p.tracing = true
		p.begin()
		p.leadBy(p.nodes[len(p.nodes)-1])
		p.everywhere()
		p.run(p.cfg.ElectionMs) // until all servers have a lease
		p.shown = len(p.lines)
	case "connect":
		c := &client{id: len(p.clients), node: -1, stopped: true}
		p.clients = append(p.clients, c)
		c.attempt++
		p.serve(server(2), c.id, &request{kind: reqCreateSession, attempt: c.attempt, timeout: 10_000, sent: p.now})
	case "resume":
		c := p.clients[number(1)]
		p.lostConn(c)
		p.serve(server(2), c.id, &request{kind: reqResume, attempt: c.attempt, session: c.session, seen: c.seen, timeout: c.timeout, sent: p.now})
	case "ask":
		for _, what := range words[2:] {
			if err := p.askFor(p.clients[number(1)], what); err != nil {
				return "", err
			}
		}
	case "settle":
		p.everywhere()
		p.wait("answered", func() bool {
			return !slices.ContainsFunc(p.clients, func(c *client) bool { return len(c.inFlight) > 0 || c.node < 0 })
		})
		p.everywhere()
	case "run":
		p.run(uint64(number(1)))
	case "hold":
		p.blocks[server(1).idx][server(2).idx]++
	case "free":
		p.join()
	case "kill":
		p.down(server(1))
	case "start":
		p.up(server(1))
	case "handover":
		p.leadBy(server(1))
	case "show":
		return p.show(), nil
	default:
		return "", scenario.Unknown(words)
	}
	return "", nil
}

// askFor makes a client send a request.
func (p *page) askFor(c *client, what string) error {
	c.cxid++
	req := request{origin: c.origin, attempt: c.attempt, cxid: c.cxid, session: c.session, seen: c.seen, floor: p.ghost.acked, sent: p.now}
	op := jute.MultiOp{Type: jute.OpSetData, Path: "/", Version: -1}
	switch what {
	case "create", "set":
		if what == "create" {
			op = jute.MultiOp{Type: jute.OpCreate, Path: fmt.Sprint("/n", p.paths), ACL: openACL, Mode: jute.ModeEphemeral}
			p.paths++
		}
		req.kind, req.op, req.body = reqWrite, op.Type, op.Append(nil)
	case "sync":
		req.kind = reqSync
	case "read":
		req.kind = reqRead
	case "ping":
		req.kind = reqPing
	case "close":
		req.kind, req.op = reqClose, jute.OpCloseSession
	default:
		return fmt.Errorf("ask for %q", what)
	}
	c.inFlight = append(c.inFlight, req)
	p.serve(p.nodes[c.node], c.id, &req)
	return nil
}

// pageNoise is left out of the pages: it says nothing about requests, and is frequent.
var pageNoise = []string{"PING", "PONG", "write hint", "write notes", "from ", "DIGEST", "TOUCHES"}

// show returns the events since the last call.
func (p *page) show() string {
	var b strings.Builder
	for _, line := range p.lines[p.shown:] {
		words := strings.Fields(line)
		if len(words) < 3 || slices.ContainsFunc(pageNoise, func(n string) bool { return strings.Contains(line, n) }) {
			continue
		}
		at, text := words[2], strings.Join(words[3:], " ")
		if to, rest, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(to, "send to ") {
			fmt.Fprintf(&b, "%s>%s %s\n", at, to[len("send to "):], rest)
			continue
		}
		fmt.Fprintf(&b, "%s   %s\n", at, text)
	}
	p.shown = len(p.lines)
	return b.String()
}
