package coordination

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/zkd-project/zkd/jute"
)

// Node is a child of a directory.
type Node struct {
	Name string
	Stat jute.Stat
	Data []byte
}

// Directory is a node that may be a lock, or another object, with its children.
type Directory struct {
	Path  string
	Data  []byte
	Nodes []Node
	// Below has the children of those of Nodes that Inner names.
	Below map[string][]Node
	// More means that there are children after Nodes.
	More bool
}

// Object is what a directory is recognised as.
type Object struct {
	Path   string   `json:"path"`
	Kind   string   `json:"kind" enum:"lock read-write-lock semaphore election queue barrier group unknown" doc:"unknown: no recipe that is known names its nodes so"`
	By     []string `json:"by" doc:"the libraries that name nodes so"`
	Limit  int64    `json:"limit,omitempty" doc:"of a semaphore or barrier: how many, if that is known"`
	Open   bool     `json:"open,omitempty" doc:"of a barrier: those inside have begun"`
	Places []Place  `json:"places" doc:"the holders, and those that wait in their order; of a queue the items"`
	Others int      `json:"others,omitempty" doc:"the number of children that do not belong to the recipe"`
	More   bool     `json:"more,omitempty" doc:"the directory has more children than were read"`
	Remark string   `json:"remark,omitempty" doc:"what an operator should know"`
	Error  string   `json:"error,omitempty" doc:"why the directory could not be read: the name of an error"`
}

// Place is a node of an object.
type Place struct {
	Name     string   `json:"name"`
	Role     string   `json:"role" enum:"holds waits member item taken"`
	Mode     string   `json:"mode,omitempty" doc:"read or write"`
	Session  string   `json:"session,omitempty" doc:"in hex, of the one that owns the node"`
	Since    int64    `json:"since" doc:"when the node was created, in ms since 1970: when its owner asked"`
	Token    string   `json:"token" doc:"the zxid of the creation: a fencing token, larger for each later holder"`
	Label    string   `json:"label,omitempty" doc:"the data of the node, if it is a short text"`
	WaitsFor []string `json:"waitsFor,omitempty" doc:"the names of the nodes that have to go first"`

	number  int32
	session jute.SessionID
}

// The kinds of objects, and the roles in them.
const (
	Lock      = "lock"
	ReadWrite = "read-write-lock"
	Semaphore = "semaphore"
	Election  = "election"
	Queue     = "queue"
	Barrier   = "barrier"
	Group     = "group"
	Unknown   = "unknown"

	holds  = "holds"
	waits  = "waits"
	member = "member"
	item   = "item"
	taken  = "taken"
)

// Inner returns which children of a directory have children that belong to the same object.
func Inner(nodes []Node) (names []string) {
	for _, pair := range [][2]string{{"leases", "locks"}, {"entries", "taken"}, {"items", "slots"}} {
		if has(nodes, pair[0]) && (has(nodes, pair[1]) || len(nodes) == 1) {
			names = append(names, pair[0], pair[1])
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !has(nodes, name) })
}

func has(nodes []Node, name string) bool {
	return slices.ContainsFunc(nodes, func(n Node) bool { return n.Name == name })
}

// Recognise returns what a directory is.
func Recognise(d *Directory) Object {
	o := Object{Path: d.Path, Kind: Unknown, By: []string{}, Places: []Place{}, More: d.More}
	switch {
	case d.Below["leases"] != nil || d.Below["locks"] != nil:
		o.leases(d)
	case d.Below["entries"] != nil || d.Below["items"] != nil:
		o.innerQueue(d)
	case len(d.Nodes) > 0:
		o.flat(d)
	}
	return o
}

// flat recognises an object whose nodes are the children of its directory.
func (o *Object) flat(d *Directory) {
	counts := make(map[string]int) // of nodes by kind
	found := make([]*layout, len(d.Nodes))
	numbers := make([]int32, len(d.Nodes))
	for i := range d.Nodes {
		if found[i], numbers[i] = parse(d.Nodes[i].Name); found[i] != nil {
			counts[found[i].kind]++
		}
	}
	if counts[ReadWrite] > 0 { // kazoo's writers look as its locks do
		counts[ReadWrite] += counts[Lock]
		counts[Lock] = 0
	}
	best := Unknown
	for _, kind := range []string{Lock, ReadWrite, Election, Queue, Barrier, Group} {
		if counts[kind] > counts[best] {
			best = kind
		}
	}
	if best == Unknown {
		o.unnumbered(d)
		return
	}
	o.Kind = best
	libraries := make(map[string]bool)
	for i := range d.Nodes {
		l := found[i]
		if l == nil || l.kind != best && (best != ReadWrite || l.kind != Lock) {
			o.Others++
			continue
		}
		m := memberOf(&d.Nodes[i])
		m.number, m.Mode, m.Role = numbers[i], l.mode, member
		if best == ReadWrite && m.Mode == "" {
			m.Mode = "write"
		}
		o.Places = append(o.Places, m)
		for _, by := range l.by {
			libraries[by] = true
		}
	}
	o.sort()
	switch best {
	case Lock, Election:
		o.line()
	case ReadWrite:
		if !o.priorities() {
			o.readersAndWriters()
		}
	case Queue:
		o.byName()
	case Barrier:
		o.all(waits)
	}
	for _, by := range libraryNames {
		if libraries[by] {
			o.By = append(o.By, by)
		}
	}
	if o.Kind == Lock || o.Kind == ReadWrite {
		o.mixed(found)
	}
}

// mixed remarks that contenders of libraries are there that do not know each other.
func (o *Object) mixed(found []*layout) {
	families := make(map[string]bool)
	for _, l := range found {
		if l != nil && (l.kind == Lock || l.kind == ReadWrite) {
			families[l.family()] = true
		}
	}
	if len(families) > 1 {
		o.Remark = "Contenders of several libraries stand here. Some libraries do not wait for those of others, so more than one may hold it."
	}
}

// sort puts the members in the order of their numbers.
func (o *Object) sort() {
	slices.SortFunc(o.Places, func(a, b Place) int {
		switch {
		case jute.Precedes(a.number, b.number):
			return -1
		case jute.Precedes(b.number, a.number):
			return 1
		}
		return cmp.Or(-cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Name, b.Name)) // a writer that reads, too, has one number
	})
}

// byName puts items in the order of their names, in which ranks come before numbers.
func (o *Object) byName() {
	slices.SortFunc(o.Places, func(a, b Place) int { return cmp.Compare(a.Name, b.Name) })
	o.all(item)
}

func (o *Object) all(role string) {
	for i := range o.Places {
		o.Places[i].Role = role
	}
}

// line lets the first member hold, and each other one wait for the one before it.
func (o *Object) line() {
	for i := range o.Places {
		if i == 0 {
			o.Places[i].Role = holds
			continue
		}
		o.Places[i].Role, o.Places[i].WaitsFor = waits, []string{o.Places[i-1].Name}
	}
}

// readersAndWriters lets the readers before the first writer hold, or the first writer. A reader waits for the last writer before
// it, and a writer for all that came after the writer before it, or for that one.
func (o *Object) readersAndWriters() {
	writer := -1 // the last one so far
	for i := range o.Places {
		m := &o.Places[i]
		switch {
		case m.Mode == "read" && writer >= 0 && o.Places[writer].number == m.number:
			m.Role, m.WaitsFor = o.Places[writer].Role, o.Places[writer].WaitsFor // the writer reads, too
		case m.Mode == "read" && writer < 0:
			m.Role = holds
		case m.Mode == "read":
			m.Role, m.WaitsFor = waits, []string{o.Places[writer].Name}
		default:
			m.Role = holds
			for j := max(writer, 0); j < i; j++ {
				if j > writer || j == i-1 {
					m.Role, m.WaitsFor = waits, append(m.WaitsFor, o.Places[j].Name)
				}
			}
			writer = i
		}
	}
}

// priorities lets hold those of a lock with priorities that have a grant. It returns false if it is another lock.
func (o *Object) priorities() bool {
	rank := make(map[string]int)
	held := make(map[string]bool)
	for _, m := range o.Places {
		parts := prioritised().FindStringSubmatch(m.Name)
		if parts == nil {
			return false
		}
		rank[m.Name], _ = strconv.Atoi(parts[1])
		if parts[3] != "" {
			held[strings.Replace(m.Name, parts[3], "", 1)] = true
		}
	}
	o.Places = slices.DeleteFunc(o.Places, func(m Place) bool { return prioritised().FindStringSubmatch(m.Name)[3] != "" })
	slices.SortStableFunc(o.Places, func(a, b Place) int {
		if held[a.Name] != held[b.Name] {
			return map[bool]int{true: -1, false: 1}[held[a.Name]]
		}
		return cmp.Compare(rank[b.Name], rank[a.Name])
	})
	for i := range o.Places {
		m := &o.Places[i]
		if m.Role = waits; held[m.Name] {
			m.Role = holds
			continue
		}
		for j := i - 1; j >= 0 && m.WaitsFor == nil; j-- {
			if m.Mode == "write" || o.Places[j].Mode == "write" {
				m.WaitsFor = []string{o.Places[j].Name}
			}
		}
	}
	return true
}

// leases recognises a semaphore of Curator's layout: the first of a line takes leases while there are some.
func (o *Object) leases(d *Directory) {
	o.Kind, o.By = Semaphore, []string{"zkd", "Curator"}
	o.Limit, _ = strconv.ParseInt(string(d.Data), 10, 32)
	for i := range d.Nodes {
		if name := d.Nodes[i].Name; name != "leases" && name != "locks" {
			o.Others++
		}
	}
	o.take(d.Below["leases"], "leases/")
	leases := len(o.Places)
	o.sort()
	o.all(holds)
	if o.Limit > 0 {
		for i := int(min(o.Limit, int64(leases))); i < leases; i++ {
			o.Places[i].Role = waits
		}
	}
	line := Object{}
	line.take(d.Below["locks"], "locks/")
	line.sort()
	if newest := leases - 1; o.Limit <= 0 && newest > 0 && len(line.Places) > 0 && o.Places[newest].session == line.Places[0].session {
		o.Places[newest].Role = waits // Curator's does not tell the limit; the first one of the line has made its lease before there is room
	}
	for i := range line.Places {
		m := &line.Places[i]
		if m.Role = waits; i > 0 {
			m.WaitsFor = []string{line.Places[i-1].Name}
			continue
		}
		for j := range o.Places { // the first one waits for any lease
			if o.Places[j].Role == holds && o.Places[j].session != m.session {
				m.WaitsFor = append(m.WaitsFor, o.Places[j].Name)
			}
		}
	}
	o.Places = append(o.Places, line.Places...)
	o.Others += line.Others
}

// take adds the nodes of an inner directory that have numbers.
func (o *Object) take(nodes []Node, under string) {
	for i := range nodes {
		l, number := parse(nodes[i].Name)
		if l == nil {
			o.Others++
			continue
		}
		m := memberOf(&nodes[i])
		m.Name, m.number = under+m.Name, number
		o.Places = append(o.Places, m)
	}
}

// innerQueue recognises a queue whose items are in a directory of their own.
func (o *Object) innerQueue(d *Directory) {
	o.Kind = Queue
	under := "items"
	o.By = []string{"zkd"}
	if d.Below["entries"] != nil {
		under, o.By = "entries", []string{"zkd", "kazoo"}
	}
	o.take(d.Below[under], under+"/")
	o.byName()
	for i := range d.Below["taken"] {
		n := &d.Below["taken"][i]
		at := slices.IndexFunc(o.Places, func(m Place) bool { return m.Name == under+"/"+n.Name })
		if at < 0 {
			continue
		}
		m := memberOf(n)
		o.Places[at].Role, o.Places[at].Session, o.Places[at].session = taken, m.Session, m.session
	}
}

// unnumbered recognises an object whose nodes have no numbers.
func (o *Object) unnumbered(d *Directory) {
	var plain, hyphened, ephemeral, ready int
	for i := range d.Nodes {
		n := &d.Nodes[i]
		switch {
		case n.Name == "ready":
			ready = 1
			continue
		case n.Stat.EphemeralOwner == 0:
			o.Others++
			continue
		case hex32().MatchString(n.Name):
			plain++
		case guid().MatchString(n.Name):
			hyphened++
		}
		ephemeral++
		m := memberOf(n)
		m.Role = member
		o.Places = append(o.Places, m)
	}
	slices.SortFunc(o.Places, func(a, b Place) int { return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Name, b.Name)) })
	limit, err := strconv.ParseInt(string(d.Data), 10, 32)
	switch {
	case ephemeral == 0, o.Others > ephemeral:
		o.Others, o.Places = len(d.Nodes), []Place{}
	case err == nil && limit > 0 && plain == ephemeral && ready == 0:
		o.Kind, o.By, o.Limit = Semaphore, []string{"kazoo"}, limit
		o.all(holds)
	case hyphened == ephemeral, plain == ephemeral:
		o.Kind, o.By, o.Open = Barrier, []string{"zkd", "Curator"}, ready == 1
		if plain == ephemeral {
			o.By = []string{"kazoo"}
		}
		if !o.Open {
			o.all(waits)
		}
	default:
		o.Kind, o.By = Group, []string{"zkd", "Curator"}
		o.Others += ready
	}
}

// labelBytes is the length of the longest data that is shown with a member.
const labelBytes = 80

func memberOf(n *Node) Place {
	m := Place{Name: n.Name, Since: n.Stat.Ctime, Token: n.Stat.Czxid.String()}
	if m.session = n.Stat.EphemeralOwner; m.session != 0 {
		m.Session = m.session.String()
	}
	if len(n.Data) <= labelBytes && utf8.Valid(n.Data) && !strings.ContainsFunc(string(n.Data), func(r rune) bool { return r < ' ' }) {
		m.Label = string(n.Data)
	}
	return m
}
