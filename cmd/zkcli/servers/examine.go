package servers

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/cmd/zkcli/why"
	"github.com/zkd-project/zkd/internal/ask"
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

// rounds is how often servers are asked that were not known before: one that tells of others each time has no end.
const rounds = 4

// Examine asks the servers, and other members of which these tell, twice.
func (e Examination) Examine(ctx context.Context, addrs []string) why.Facts {
	list := make([]examined, len(addrs))
	for i, addr := range addrs {
		list[i].Name, list[i].asker = addr, e.Asker
	}
	known, complete := 0, false
	for range rounds { // those that come new may know others
		e.round(ctx, list[known:], func(ctx context.Context, s *examined) { s.Before = e.first(ctx, s) })
		known = len(list)
		list, complete = e.withMembers(list)
	}
	complete, list = complete && known == len(list), list[:known]

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
	asked := min(len(more), max(0, mostMembers-len(list)))
	return append(list, more[:asked]...), len(members) > 0 && asked == len(more)
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
func (s *examined) sample(ctx context.Context) why.Sample {
	v := s.asker.look(ctx, s.Name, "cons")
	s.notAllowed(v.Unanswered...)
	if s.NotServing = errors.Is(v.Err, ErrNotServing); s.NotServing {
		return why.Sample{}
	}
	if v.Err != nil {
		s.Unreachable = Reason(v.Err)
		return why.Sample{}
	}
	s.Mode, s.Version, s.Observer = v.Mode, v.Version, s.Observer || v.Mode == "observer"
	return why.Sample{Zxid: uint64(v.LastZxid()), Metrics: v.Mntr, Skew: v.Skew, Doubt: v.Doubt, Conns: v.Conns}
}

// notAllowed notes words that the server is configured not to answer.
func (s *examined) notAllowed(words ...string) {
	for _, word := range words {
		if !slices.Contains(s.Unanswered, word) {
			s.Unanswered = append(s.Unanswered, word)
		}
	}
}

// readConf reads the server's id and the members.
func (s *examined) readConf(ctx context.Context) {
	text, err := s.asker.word(ctx, s.Name, "conf")
	if _, notListed := errors.AsType[*notListedError](err); notListed {
		s.notAllowed("conf")
	}
	s.members = make(map[int64]member)
	for id, value := range serverLines(text) {
		peer, _, _ := strings.Cut(value, ";")
		s.members[id] = member{s.asker.Address(value), strings.HasSuffix(peer, ":observer")}
	}
	if s.Mode != "standalone" {
		s.ID, _ = strconv.ParseInt(ask.Fields(text, "=")["serverId"], 10, 64)
	}
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
