package edge

import (
	"fmt"
	"os"
	"os/user"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/internal/smallfile"
)

// Faults of identities.
var (
	identityAsOwn  = mutant.New("identity-as-own") // clients whom no line is about have the edge's own identity
	identityStays  = mutant.New("identity-stays")  // a client keeps its identity when the file has another one for it
	identityLast   = mutant.New("identity-last")   // the last line that fits counts
	identityStolen = mutant.New("identity-stolen") // a client may use the scheme by which the edge speaks
	memoryLent     = mutant.New("identity-memory") // clients of all identities have one memory
	identityNearby = mutant.New("identity-nearby") // a control group fits whose name begins with that of the line
	identityHanded = mutant.New("identity-handed") // a client that is taken over keeps the identity that the other edge gave it
)

// Identities are the identities that an edge gives its clients, from a file with a line for each:
//
//	user ann sasl:ann
//	group web x509:CN=the web servers,O=Acme
//	cgroup /system.slice/billing.service x509:CN=billing,O=Acme
//	others nobody
//
// A user or a group of the system has a name or a number. A control group, which is that of a service or a container, has its path, and those below fit, too;
// a * in it stands for a part of a name. The first line that fits a client counts, and others is for the rest, to whom clients belong
// that do not come by a UNIX socket. Without that line they are nobody. What follows a # at the beginning of a line does not count.
type Identities struct {
	path string

	mu   sync.Mutex // of readIdentities
	now  *table
	seen os.FileInfo // the file that now is of
	told string      // the last error
}

// OpenIdentities reads the file.
func OpenIdentities(path string) (*Identities, error) {
	i := &Identities{path: path}
	_, err := i.read()
	return i, err
}

// maxIdentities is how long the file may be, in bytes.
const maxIdentities = 4 << 20

// read reads the file if it has changed, and reports whether it says something else. If it can't be used, what it said before counts.
func (i *Identities) read() (changed bool, err error) {
	info, err := os.Stat(i.path)
	if err != nil {
		return false, err
	}
	if i.seen != nil && os.SameFile(info, i.seen) && info.ModTime().Equal(i.seen.ModTime()) && info.Size() == i.seen.Size() {
		return false, nil
	}
	text, err := smallfile.Read(i.path, maxIdentities, "a file of identities")
	if err != nil {
		return false, err
	}
	t, err := parseIdentities(string(text), lookUp)
	if err != nil {
		return false, fmt.Errorf("%s: %w", i.path, err)
	}
	i.now, i.seen = t, info
	return true, nil
}

// caller is the process at the other end of a connection, as the system knows it.
type caller struct {
	known  bool
	user   uint32
	groups []uint32
	cgroup string // of version 2; "" if the system does not tell
}

// in reports whether the control group of the process is one that fits, or below it.
func (p *caller) in(pattern string) bool {
	if !strings.HasPrefix(p.cgroup, "/") || strings.HasPrefix(p.cgroup, "/..") { // the latter is above those that the edge sees
		return false
	}
	if identityNearby.Planted() && strings.HasPrefix(p.cgroup, pattern) {
		return true
	}
	names, group := strings.Split(pattern, "/")[1:], strings.Split(p.cgroup, "/")[1:]
	if len(group) < len(names) {
		return false
	}
	for i, name := range names {
		if !fits(name, group[i]) {
			return false
		}
	}
	return true
}

// fits reports whether a name fits a pattern, in which each * stands for any text.
func fits(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return name == pattern
	}
	name, ok := strings.CutPrefix(name, parts[0])
	for _, part := range parts[1:last] {
		if ok {
			_, name, ok = strings.Cut(name, part)
		}
	}
	return ok && strings.HasSuffix(name, parts[last])
}

// table is what a file of identities says.
type table struct {
	lines  []identityLine
	others string // "" for nobody, as in lines
}

type identityLine struct {
	kind     string // user, group or cgroup
	id       uint32 // of a user or a group
	cgroup   string // pattern
	identity string
}

func (l *identityLine) fits(p *caller) bool {
	switch l.kind {
	case "user":
		return l.id == p.user
	case "group":
		return slices.Contains(p.groups, l.id)
	default:
		return p.in(l.cgroup)
	}
}

// of returns the identity of a client.
func (t *table) of(p caller) string {
	found, more := -1, false
	more = more || identityLast.Planted()
	for i, l := range t.lines {
		fits := p.known && l.fits(&p)
		fits = fits && (found < 0 || more)
		if fits {
			found = i
		}
	}
	if found < 0 {
		return t.others
	}
	return t.lines[found].identity
}

const nobody = "nobody"

// parseIdentities reads the text of a file. number returns that of a user or a group by its name, and for a cgroup an error if the system does not tell those of
// clients.
func parseIdentities(text string, number func(kind, name string) (uint32, error)) (*table, error) {
	t := new(table)
	others := false
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		kind, rest := cutField(line)
		name := ""
		if kind != "others" {
			name, rest = cutField(rest)
		}
		identity := rest
		if identity == nobody {
			identity = ""
		}
		scheme, id, _ := strings.Cut(identity, ":")
		fail := func(format string, args ...any) (*table, error) {
			return nil, fmt.Errorf("line %d: "+format, append([]any{n + 1}, args...)...)
		}
		switch {
		case kind != "user" && kind != "group" && kind != "cgroup" && kind != "others":
			return fail("%q: want user NAME IDENTITY, group NAME IDENTITY, cgroup PATH IDENTITY or others IDENTITY", kind)
		case kind == "cgroup" && (path.Clean(name) != name || name[0] != '/' || name == "/"):
			return fail("%q is no control group: want its path, such as /system.slice/billing.service or /docker/*", name)
		case rest == "" || identity != "" && (scheme == "" || id == ""):
			return fail("%q is no identity: want scheme:name, such as sasl:ann or x509:CN=web,O=Acme, or %s", rest, nobody)
		case kind == "others" && others:
			return fail("there is a line for others already")
		case kind == "others":
			t.others, others = identity, true
			continue
		}
		i, err := number(kind, name)
		if err != nil {
			return fail("%w", err)
		}
		t.lines = append(t.lines, identityLine{kind, i, name, identity})
	}
	return t, nil
}

// cutField cuts a text after its first word.
func cutField(text string) (word, rest string) {
	end := strings.IndexAny(text, " \t")
	if end < 0 {
		return text, ""
	}
	return text[:end], strings.TrimSpace(text[end:])
}

// lookUp returns the number of a user or of a group, or whether the system tells the control groups of clients.
func lookUp(kind, name string) (uint32, error) {
	if kind == "cgroup" {
		return 0, tellsGroups()
	}
	number := name
	if _, err := strconv.ParseUint(name, 10, 32); err != nil {
		if kind == "group" {
			g, err := user.LookupGroup(name)
			if err != nil {
				return 0, err
			}
			number = g.Gid
		} else {
			u, err := user.Lookup(name)
			if err != nil {
				return 0, err
			}
			number = u.Uid
		}
	}
	n, err := strconv.ParseUint(number, 10, 32)
	return uint32(n), err
}

// identify decides who a client is, and returns its identity: nil if it is for the servers to see the edge's own.
func (e *Edge) identify(c *conn) *string {
	p := callerOf(c.nc, e.o.Identities != nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	c.caller, c.user = p, e.identityLocked(p)
	return c.user
}

func (e *Edge) identityLocked(p caller) *string {
	if e.identities == nil {
		return nil
	}
	if identityAsOwn.Planted() && !p.known {
		return nil
	}
	identity := e.identities.of(p)
	return &identity
}

func sameIdentity(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// identitiesEvery is how often the edge looks whether the file of identities has changed.
const identitiesEvery = 2 * time.Second

// followIdentities follows the changes of the file.
func (e *Edge) followIdentities() {
	for pause.For(e.stop, identitiesEvery) == nil {
		e.readIdentities()
	}
}

// readIdentities takes a changed file over. Clients that have another identity now lose their connections.
func (e *Edge) readIdentities() {
	i := e.o.Identities
	i.mu.Lock()
	defer i.mu.Unlock()
	changed, err := i.read()
	if err != nil {
		if i.told != err.Error() {
			e.o.Log.Warn("the identities can't be read, and those of before stay", "err", err)
		}
		i.told = err.Error()
		return
	}
	i.told = ""
	if !changed {
		return
	}
	ended := 0
	e.mu.Lock()
	e.identities = i.now
	for c := range e.conns {
		other := c.user != nil && !sameIdentity(c.user, e.identityLocked(c.caller))
		other = other && !identityStays.Planted()
		if other {
			c.nc.Close()
			ended++
		}
	}
	e.mu.Unlock()
	e.o.Log.Info("the identities have changed", "file", i.path, "clients that have another one", ended)
}
