package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/cmd/zkcli/why"
)

// Examination says how to examine an ensemble.
type Examination struct {
	Asker
	Limit    time.Duration // for the answers of a round
	Interval time.Duration // between the two rounds
	// AdminPort is the port of the servers' AdminServers, 0 for none. They know why a server
	// does not serve. They are asked with TLS if the client ports are.
	AdminPort int
}

// Examine asks the servers, and other members of which these tell, twice.
func (e Examination) Examine(ctx context.Context, addrs []string) why.Facts {
	list := make([]examined, len(addrs))
	for i, addr := range addrs {
		list[i].Name, list[i].asker = addr, e.Asker
	}
	e.round(ctx, list, func(ctx context.Context, s *examined) { s.Before = e.first(ctx, s) })
	complete := false
	for known := 0; known < len(list); { // those that come new may know others
		known = len(list)
		list, complete = e.withMembers(list)
		e.round(ctx, list[known:], func(ctx context.Context, s *examined) { s.Before = e.first(ctx, s) })
	}

	wait := time.NewTimer(e.Interval)
	defer wait.Stop()
	began := time.Now()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
	facts := why.Facts{Interval: time.Since(began), Now: time.Now().UnixMilli(), Complete: complete}
	e.round(ctx, list, func(ctx context.Context, s *examined) {
		if s.Unreachable == "" && !s.NotServing {
			s.After = s.sample(ctx)
		}
	})
	for i := range list {
		facts.Servers = append(facts.Servers, list[i].Server)
	}
	return facts
}

// examined is a server that is being examined.
type examined struct {
	why.Server
	asker   Asker
	members map[int64]member
}

// member is what a server says of a member.
type member struct {
	at       string // its address for clients; "" if it is not known
	observer bool
}

// round does something with all servers at once.
func (e Examination) round(ctx context.Context, list []examined, do func(context.Context, *examined)) {
	ctx, cancel := context.WithTimeout(ctx, e.Limit)
	defer cancel()
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() { do(ctx, &list[i]) })
	}
	wg.Wait()
}

// withMembers appends the members that are not in the list, and reports whether the members are known.
func (e Examination) withMembers(list []examined) (_ []examined, known bool) {
	members := make(map[int64]member)
	for i := range list {
		maps.Copy(members, list[i].members)
	}
	for i := range list {
		s := &list[i]
		for id, m := range members {
			if s.ID == 0 && s.Name == m.at {
				s.ID = id
			}
		}
		s.Observer = s.Observer || s.ID != 0 && members[s.ID].observer
	}
	var more []examined
	for id, m := range members {
		if m.at != "" && !slices.ContainsFunc(list, func(s examined) bool { return s.ID == id }) {
			more = append(more, examined{Server: why.Server{Name: m.at, ID: id, Observer: m.observer}, asker: e.Asker})
		}
	}
	slices.SortFunc(more, func(a, b examined) int { return int(a.ID - b.ID) })
	return append(list, more...), len(members) > 0
}

// first asks a server for the first time.
func (e Examination) first(ctx context.Context, s *examined) why.Sample {
	sample := s.sample(ctx)
	if s.NotServing && e.AdminPort != 0 {
		s.Detail = e.detail(ctx, s.Name)
	}
	if s.Unreachable == "" {
		s.readConf(ctx)
	}
	return sample
}

// sample asks for the state. It sets what is the same in each sample, too.
func (s *examined) sample(ctx context.Context) (sample why.Sample) {
	text, err := s.asker.word(ctx, s.Name, "srvr")
	if err != nil {
		if s.NotServing = errors.Is(err, errNotServing); !s.NotServing {
			s.Unreachable = unreachable(err)
		}
		return sample
	}
	var v View
	v.ReadSrvr(text)
	s.Mode, s.Version, s.Observer = v.Mode, v.Version, s.Observer || v.Mode == "observer"
	sample.Zxid = uint64(v.LastZxid())
	asked := time.Now()
	text = s.word(ctx, "mntr")
	took := time.Since(asked)
	v.ReadMntr(text)
	sample.Metrics = v.Mntr
	if ms, err := strconv.ParseInt(sample.Metrics["clock_ms"], 10, 64); err == nil {
		sample.Skew, sample.Doubt = time.UnixMilli(ms).Sub(asked.Add(took/2)), took/2
	}
	for _, c := range readCons(s.word(ctx, "cons")) {
		sample.Conns = append(sample.Conns, why.Conn{Client: c.Client, Session: c.Session, Received: c.Received, LastOp: c.LastOp})
	}
	return sample
}

// word asks for what not every server answers. It notes which words are not allowed.
func (s *examined) word(ctx context.Context, name string) string {
	text, err := s.asker.word(ctx, s.Name, name)
	if _, notListed := errors.AsType[*notListedError](err); notListed && !slices.Contains(s.Unanswered, name) {
		s.Unanswered = append(s.Unanswered, name)
	}
	return text
}

// readConf reads the server's id and the members.
func (s *examined) readConf(ctx context.Context) {
	s.members = make(map[int64]member)
	for line := range strings.Lines(s.word(ctx, "conf")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		var id int64
		if n, _ := fmt.Sscanf(key, "server.%d", &id); n == 1 {
			peer, _, _ := strings.Cut(value, ";")
			s.members[id] = member{s.asker.Address(value), strings.HasSuffix(peer, ":observer")}
		}
		if key == "serverId" && s.Mode != "standalone" {
			s.ID, _ = strconv.ParseInt(value, 10, 64)
		}
	}
}

// unreachable shortens an error: the address is known.
func unreachable(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err
	}
	return err.Error()
}

// detail asks the admin pages why a server does not serve. It returns "" if they do not say.
func (e Examination) detail(ctx context.Context, server string) string {
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return ""
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, strconv.Itoa(e.AdminPort))+"/readyz", nil)
	if err != nil {
		return ""
	}
	pages := http.Client{Transport: &http.Transport{DialContext: e.dial, DisableKeepAlives: true}} // dial does TLS
	resp, err := pages.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return ""
	}
	var problems []string
	for line := range strings.Lines(string(text)) {
		if _, problem, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && strings.HasPrefix(line, "[-]") {
			problems = append(problems, problem)
		}
	}
	return strings.Join(problems, "; ")
}
