package edge

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/internal/pause"
)

// Faults of identities.
var (
	identityAsOwn  = mutant.New("identity-as-own") // clients whom no line is about have the edge's own identity
	identityStays  = mutant.New("identity-stays")  // a client keeps its identity when the file has another one for it
	identityLast   = mutant.New("identity-last")   // the last line that fits counts
	identityStolen = mutant.New("identity-stolen") // a client may use the scheme by which the edge speaks
	memoryLent     = mutant.New("identity-memory") // clients of all identities have one memory
	identityHanded = mutant.New("identity-handed") // a client that is taken over keeps the identity that the other edge gave it
)

// Identities are the identities that an edge gives its clients, from a file with a line for each:
//
//	user ann sasl:ann
//	group web x509:CN=the web servers,O=Acme
//	others nobody
//
// A user or a group of the system has a name or a number. The first line that fits a client counts, and others is for the rest, to whom clients belong
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

// read reads the file if it has changed, and reports whether it says something else. If it can't be used, what it said before counts.
func (i *Identities) read() (changed bool, err error) {
	info, err := os.Stat(i.path)
	if err != nil {
		return false, err
	}
	if i.seen != nil && os.SameFile(info, i.seen) && info.ModTime().Equal(i.seen.ModTime()) && info.Size() == i.seen.Size() {
		return false, nil
	}
	text, err := os.ReadFile(i.path)
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
}

// table is what a file of identities says.
type table struct {
	lines  []identityLine
	others string // "" for nobody, as in lines
}

type identityLine struct {
	group    bool // of the system, and not a user
	id       uint32
	identity string
}

// of returns the identity of a client.
func (t *table) of(p caller) string {
	found, more := -1, false
	more = more || identityLast.Planted()
	for i, l := range t.lines {
		fits := p.known && (!l.group && l.id == p.user || l.group && slices.Contains(p.groups, l.id))
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

// parseIdentities reads the text of a file. number returns that of a user or a group by its name.
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
		case kind != "user" && kind != "group" && kind != "others":
			return fail("%q: want user NAME IDENTITY, group NAME IDENTITY or others IDENTITY", kind)
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
		t.lines = append(t.lines, identityLine{kind == "group", i, identity})
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

// lookUp returns the number of a user or of a group.
func lookUp(kind, name string) (uint32, error) {
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
	p := callerOf(c.nc)
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
