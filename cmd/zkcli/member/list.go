package member

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/cmd/zkcli/servers"
)

// Server is a member.
type Server struct {
	ID       int64
	Quorum   string // host:port:port, several with | between them
	Observer bool
	Client   string // [host:]port, and another one after a semicolon for TLS; may be empty
	Demoted  bool   // autopilot has made it an observer, and makes it a voter when it is back
}

const form = "ID=HOST:PORT:PORT[:participant|:observer];[HOST:]PORT"

// ParseServer reads a server line such as 4=zk4:2888:3888;2181, with or without "server."
// before it. hasRole means that it names the role.
func ParseServer(line string) (s Server, hasRole bool, err error) {
	name, value, found := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "server."), "=")
	id, idErr := ParseID(name)
	s.ID = id
	s.Quorum, s.Client, _ = strings.Cut(value, ";")
	for _, role := range []string{"participant", "observer"} {
		if quorum, ok := strings.CutSuffix(s.Quorum, ":"+role); ok {
			s.Quorum, s.Observer, hasRole = quorum, role == "observer", true
		}
	}
	ports := strings.Split(s.Client, ";")
	for i, at := range ports {
		if at != "" && !strings.Contains(at, ":") {
			ports[i] = "0.0.0.0:" + at // as servers show it
		}
	}
	s.Client = strings.Join(ports, ";")
	if !found || idErr != nil || !addressed(s.Quorum) {
		return s, hasRole, fmt.Errorf("%q is not a server: write %s", line, form)
	}
	return s, hasRole, nil
}

// ParseID reads the id of a server, with or without "server." before it.
func ParseID(text string) (int64, error) {
	id, err := strconv.ParseInt(strings.TrimPrefix(text, "server."), 10, 64)
	if err != nil || id < 0 || id > 255 {
		return 0, fmt.Errorf("%q is not the id of a server: write a number from 0 to 255", text)
	}
	return id, nil
}

// addressed reports whether each address has the form host:port:port.
func addressed(quorum string) bool {
	for one := range strings.SplitSeq(quorum, "|") {
		rest, election, ok := cutLast(one)
		host, port, err := net.SplitHostPort(rest)
		if !ok || err != nil || host == "" || !isPort(port) || !isPort(election) {
			return false
		}
	}
	return true
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	return s[:max(i, 0)], s[i+1:], i >= 0
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// Role returns the role as a server line has it.
func (s Server) Role() string {
	if s.Observer {
		return "observer"
	}
	return "participant"
}

// String returns the server line.
func (s Server) String() string {
	line := fmt.Sprintf("server.%d=%s:%s", s.ID, s.Quorum, s.Role())
	if s.Client != "" {
		line += ";" + s.Client
	}
	return line
}

// Address returns where an Asker reaches the server, or "" if its line does not say it.
func (s Server) Address(a servers.Asker) string { return a.Address(s.Quorum + ";" + s.Client) }

// List is the members, as /zookeeper/config has them.
type List struct {
	Servers []Server // by their ids
	// Groups and Weights are those of a hierarchical ensemble, by the ids of groups and of
	// servers; nil for majority quorums.
	Groups  map[string][]int64
	Weights map[int64]int64
	Version int64
}

// ParseList reads the text of /zookeeper/config. It skips lines that it does not know.
func ParseList(text string) (List, error) {
	var l List
	var demoted []string
	for line := range strings.Lines(text) {
		if ids, ok := strings.CutPrefix(line, "# demoted by autopilot:"); ok {
			demoted = strings.Fields(ids)
		}
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		kind, name, _ := strings.Cut(key, ".")
		var err error
		switch kind {
		case "server":
			var s Server
			s, _, err = ParseServer(line)
			l.Servers = append(l.Servers, s)
		case "group":
			err = l.parseGroup(name, value)
		case "weight":
			err = l.parseWeight(name, value)
		case "version":
			l.Version, err = strconv.ParseInt(value, 16, 64)
		}
		if err != nil {
			return List{}, fmt.Errorf("the ensemble's configuration has the line %q: %w", strings.TrimSpace(line), err)
		}
	}
	for i := range l.Servers {
		l.Servers[i].Demoted = slices.Contains(demoted, strconv.FormatInt(l.Servers[i].ID, 10))
	}
	slices.SortFunc(l.Servers, func(a, b Server) int { return cmp.Compare(a.ID, b.ID) })
	return l, nil
}

func (l *List) parseGroup(name, value string) error {
	if l.Groups == nil {
		l.Groups = make(map[string][]int64)
	}
	for text := range strings.SplitSeq(value, ":") {
		id, err := ParseID(text)
		if err != nil {
			return err
		}
		l.Groups[name] = append(l.Groups[name], id)
	}
	return nil
}

func (l *List) parseWeight(name, value string) error {
	id, err := ParseID(name)
	if err != nil {
		return err
	}
	if l.Weights == nil {
		l.Weights = make(map[int64]int64)
	}
	l.Weights[id], err = strconv.ParseInt(value, 10, 64)
	return err
}

// hierarchical reports whether groups decide. A change of these members must name all of them.
func (l *List) hierarchical() bool { return l.Groups != nil || l.Weights != nil }

// Server returns the member with an id.
func (l *List) Server(id int64) (Server, bool) {
	i := slices.IndexFunc(l.Servers, func(s Server) bool { return s.ID == id })
	if i < 0 {
		return Server{}, false
	}
	return l.Servers[i], true
}

// stranger is the error for an id that no member has. It names those that there are.
func (l *List) stranger(id int64) error {
	ids := make([]string, len(l.Servers))
	for i, s := range l.Servers {
		ids[i] = strconv.FormatInt(s.ID, 10)
	}
	return fmt.Errorf("server %d is not a member: the members are %s", id, strings.Join(ids, ", "))
}

// Voters returns the members that are no observers.
func (l *List) Voters() []Server {
	return slices.DeleteFunc(slices.Clone(l.Servers), func(s Server) bool { return s.Observer })
}

// text returns the list as a reconfig request takes it.
func (l *List) text() string {
	var lines []string
	for _, s := range l.Servers {
		lines = append(lines, s.String())
	}
	for _, name := range slices.Sorted(maps.Keys(l.Groups)) {
		ids := strings.Trim(strings.ReplaceAll(fmt.Sprint(l.Groups[name]), " ", ":"), "[]")
		lines = append(lines, "group."+name+"="+ids)
	}
	for _, s := range l.Servers {
		if w, ok := l.Weights[s.ID]; ok {
			lines = append(lines, fmt.Sprintf("weight.%d=%d", s.ID, w))
		}
	}
	return strings.Join(lines, ",")
}
