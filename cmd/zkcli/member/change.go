package member

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
)

// Change is what an operator asks for. Add, Remove, Promote, Demote and Replace make one.
type Change struct {
	add     []Server
	remove  []int64
	roles   map[int64]bool // whether these are to be observers
	replace bool           // the only server of add replaces the only one of remove
	asOld   bool           // the new server gets the role of the old one
	group   string         // of the added servers, in a hierarchical ensemble
}

// Add adds servers, given as server lines. group is the group in a hierarchical ensemble.
func Add(lines []string, group string) (Change, error) {
	c := Change{group: group}
	for _, line := range lines {
		s, _, err := ParseServer(line)
		if err == nil && s.Client == "" {
			err = fmt.Errorf("%s has no client port: write it after a semicolon, as in ;2181", line)
		}
		if err == nil && slices.ContainsFunc(c.add, func(o Server) bool { return o.ID == s.ID }) {
			err = fmt.Errorf("server %d is there twice", s.ID)
		}
		if err != nil {
			return c, err
		}
		c.add = append(c.add, s)
	}
	return c, nil
}

// Remove removes servers.
func Remove(ids []string) (Change, error) {
	list, err := parseIDs(ids)
	return Change{remove: list}, err
}

// Promote makes voters of observers.
func Promote(ids []string) (Change, error) { return roles(ids, false) }

// Demote makes observers of voters.
func Demote(ids []string) (Change, error) { return roles(ids, true) }

func roles(ids []string, observer bool) (Change, error) {
	list, err := parseIDs(ids)
	c := Change{roles: make(map[int64]bool)}
	for _, id := range list {
		c.roles[id] = observer
	}
	return c, err
}

// Replace removes a server and adds another one, which has the role of the old one if its
// line does not name a role, and its group and weight.
func Replace(old, line string) (Change, error) {
	c, err := Add([]string{line}, "")
	if err != nil {
		return c, err
	}
	_, hasRole, _ := ParseServer(line) // Add has parsed it
	id, err := ParseID(old)
	if err == nil && id == c.add[0].ID {
		err = fmt.Errorf("the new server needs another id than %d: both servers run for a while", id)
	}
	c.remove, c.replace, c.asOld = []int64{id}, true, !hasRole
	return c, err
}

func parseIDs(texts []string) (ids []int64, err error) {
	for _, text := range texts {
		for one := range strings.SplitSeq(text, ",") {
			id, err := ParseID(one)
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Plan is how a Change is made, from certain members.
type Plan struct {
	Request client.Members
	Does    []string // what it does, such as "removes server 3"; none if there is nothing to do
	Notes   []string // sentences about it
	Next    List     // the members afterwards
	Voters  []Server // that become voters: they must be up to date first
	Gone    []int64  // voters that lose their votes
	Removes bool     // it removes a server
}

// Plan returns how to make the change. leader is the id of the leader, or -1 if it is not
// known. An error says why the change is not possible.
func (c *Change) Plan(now List, leader int64) (Plan, error) {
	p := Plan{Next: now.clone()}
	for _, step := range []func(*Plan, *List) error{c.planAdd, c.planRoles, c.planRemove} {
		if err := step(&p, &now); err != nil {
			return Plan{}, err
		}
	}
	slices.SortFunc(p.Next.Servers, func(a, b Server) int { return int(a.ID - b.ID) })
	if len(p.Does) == 0 {
		return p, nil
	}
	if len(p.Next.Voters()) == 0 {
		return Plan{}, errors.New("no voter would be left")
	}
	if slices.Contains(p.Gone, leader) {
		p.Notes = append(p.Notes, fmt.Sprintf("Server %d is the leader: another one takes over, and clients may have to connect again.", leader))
	}
	if n := len(p.Next.Voters()); n > len(now.Voters()) && n%2 == 0 && !now.hierarchical() {
		p.Notes = append(p.Notes, fmt.Sprintf("%d voters tolerate no more failures than %d do.", n, n-1))
	}
	p.Request = c.request(&p, &now)
	return p, nil
}

func (l *List) clone() List {
	next := *l
	next.Servers, next.Weights = slices.Clone(l.Servers), maps.Clone(l.Weights)
	next.Groups = maps.Clone(l.Groups)
	for name, ids := range next.Groups {
		next.Groups[name] = slices.Clone(ids)
	}
	return next
}

func (c *Change) planAdd(p *Plan, now *List) error {
	for _, s := range c.add {
		group, weight := c.group, int64(1)
		if c.replace {
			old, isMember := now.Server(c.remove[0])
			if _, joined := now.Server(s.ID); !isMember && !joined {
				return fmt.Errorf("%w; member add adds server %d", now.stranger(c.remove[0]), s.ID)
			}
			if c.asOld {
				s.Observer = old.Observer
			}
			group, weight = now.groupOf(c.remove[0]), now.weight(c.remove[0])
		}
		if have, ok := now.Server(s.ID); ok {
			if have.Quorum != s.Quorum || have.Client != s.Client || have.Observer != s.Observer && !c.asOld {
				return fmt.Errorf("server %d is a member already, as %v: promote and demote change its role, and reconfig -add its addresses", s.ID, have)
			}
			continue
		}
		if other, ok := p.Next.uses(s.Quorum); ok && !slices.Contains(c.remove, other) {
			return fmt.Errorf("server %d already has the address %s", other, s.Quorum)
		}
		if now.Groups != nil && !s.Observer {
			if _, ok := now.Groups[group]; !ok {
				return fmt.Errorf("the ensemble has groups: say with --group in which of %s server %d votes", strings.Join(slices.Sorted(maps.Keys(now.Groups)), ", "), s.ID)
			}
			p.Next.Groups[group] = append(p.Next.Groups[group], s.ID)
			if weight != 1 {
				p.Next.Weights[s.ID] = weight
			}
		}
		p.Next.Servers = append(p.Next.Servers, s)
		if s.Observer {
			p.Does = append(p.Does, fmt.Sprintf("adds server %d (%s) as an observer", s.ID, s.Quorum))
			continue
		}
		p.Voters = append(p.Voters, s)
		p.Does = append(p.Does, fmt.Sprintf("adds server %d (%s) as a voter, once it is up to date", s.ID, s.Quorum))
	}
	return nil
}

// uses returns the member with a quorum address.
func (l *List) uses(quorum string) (id int64, ok bool) {
	i := slices.IndexFunc(l.Servers, func(s Server) bool { return s.Quorum == quorum })
	if i < 0 {
		return 0, false
	}
	return l.Servers[i].ID, true
}

// groupOf returns the group of a server, or "".
func (l *List) groupOf(id int64) string {
	for name, ids := range l.Groups {
		if slices.Contains(ids, id) {
			return name
		}
	}
	return ""
}

func (c *Change) planRoles(p *Plan, now *List) error {
	for _, id := range slices.Sorted(maps.Keys(c.roles)) {
		i := slices.IndexFunc(p.Next.Servers, func(s Server) bool { return s.ID == id })
		if i < 0 {
			return now.stranger(id)
		}
		s, observer := &p.Next.Servers[i], c.roles[id]
		switch {
		case s.Observer == observer && !s.Demoted:
			continue
		case s.Observer == observer:
			p.Does = append(p.Does, fmt.Sprintf("keeps observer %d one when it is back, though autopilot has demoted it", id))
		case observer:
			p.Gone = append(p.Gone, id)
			p.Does = append(p.Does, fmt.Sprintf("makes voter %d an observer", id))
		case now.Groups != nil && now.groupOf(id) == "":
			return fmt.Errorf("server %d is in no group: give it one with reconfig -members", id)
		default:
			p.Does = append(p.Does, fmt.Sprintf("makes observer %d a voter, once it is up to date", id))
		}
		if s.Observer, s.Demoted = observer, false; !observer {
			p.Voters = append(p.Voters, *s)
		}
	}
	return nil
}

func (c *Change) planRemove(p *Plan, now *List) error {
	for _, id := range c.remove {
		s, ok := p.Next.Server(id)
		if !ok {
			if !c.replace {
				p.Notes = append(p.Notes, fmt.Sprintf("Server %d is not a member: there is nothing to remove.", id))
			}
			continue
		}
		if !s.Observer {
			p.Gone = append(p.Gone, id)
		}
		p.Removes = true
		p.Does = append(p.Does, fmt.Sprintf("removes server %d (%s, %s)", id, s.Quorum, s.Role()))
		p.Next.Servers = slices.DeleteFunc(p.Next.Servers, func(s Server) bool { return s.ID == id })
		delete(p.Next.Weights, id)
		for name, ids := range p.Next.Groups {
			if ids = slices.DeleteFunc(ids, func(other int64) bool { return other == id }); len(ids) == 0 {
				delete(p.Next.Groups, name)
			} else {
				p.Next.Groups[name] = ids
			}
		}
	}
	return nil
}

// request returns the plan as a request. Servers refuse an incremental one if there are groups.
func (c *Change) request(p *Plan, now *List) client.Members {
	if now.hierarchical() {
		return client.Members{All: p.Next.text()}
	}
	var m client.Members
	var joining, leaving []string
	for _, s := range p.Next.Servers {
		if have, ok := now.Server(s.ID); !ok || have != s {
			joining = append(joining, s.String())
		}
	}
	for _, s := range now.Servers {
		if _, ok := p.Next.Server(s.ID); !ok {
			leaving = append(leaving, fmt.Sprint(s.ID))
		}
	}
	m.Joining, m.Leaving = strings.Join(joining, ","), strings.Join(leaving, ",")
	return m
}
