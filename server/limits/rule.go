package limits

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Resource is what a limit is about.
type Resource uint8

const (
	Connections Resource = iota
	Sessions
	Watches
	Ephemerals
	Requests // per second
	Bytes    // per second
	Openings // of connections, per second
	numResources
)

var resourceNames = [numResources]string{"connections", "sessions", "watches", "ephemerals", "requests/s", "bytes/s", "connections/s"}

// String returns the name that rules use.
func (r Resource) String() string { return resourceNames[r] }

// Scope is what a rule's subject is.
type Scope uint8

const (
	Identity Scope = iota
	Address
	Subtree
	numScopes
)

var scopeNames = [numScopes]string{"identity", "address", "subtree"}

// String returns the name that rules use.
func (s Scope) String() string { return scopeNames[s] }

// Limit is a soft and a hard value. 0 means none.
type Limit struct{ Soft, Hard int64 }

// most is the greatest value of a limit. A bucket of that size still fits into a
// time.Duration of some seconds.
const most = 1_000_000_000_000

// Rule limits what its subject may use.
type Rule struct {
	Name  string
	Scope Scope
	// Subject is "*" for each identity or address by itself, or one identity as scheme:id,
	// one address, or a block of addresses in CIDR notation, which share the limits. A
	// subtree is a path; if it ends in "/*", each child of that path has the limits by
	// itself.
	Subject string
	Limits  [numResources]Limit
	// Weight is the subject's part of a server's and of the leader's turns while there is more to do than can be
	// done, of a whole to which others add their own; 0 stands for Even.
	Weight int64
}

// Even is the weight of subjects without one. mostWeight bounds how long the turn of a subject is.
const (
	Even       = 100
	mostWeight = 10_000
)

const weightName = "weight"

// Syntax describes a rule.
const Syntax = `a subject and its limits, as in "identity * requests/s=1000,2000 watches=500", ` +
	`"address 10.0.0.0/8 connections=100 weight=50" or "subtree /jobs bytes/s=100000,": two values are the soft and the hard limit, one is the hard limit; a subject with spaces is in quotes`

// ParseRule parses the text of a rule. The error says what is wrong and what is possible.
func ParseRule(name, text string) (Rule, error) {
	r := Rule{Name: name}
	words, quotes := Words(text)
	if name == "" || strings.IndexFunc(name, notInName) >= 0 || len(name) > maxName {
		return r, fmt.Errorf("the name of a rule has 1 to %d letters, digits, '-' and '_'", maxName)
	}
	if name == Followed {
		return r, fmt.Errorf("the name %s means the limits in /zookeeper/quota: choose another one", name)
	}
	err := r.parse(words, quotes)
	return r, err
}

// ParseRates parses the limits of a subtree, as in "requests/s=100 bytes/s=1000,2000". The
// rule has no name.
func ParseRates(path, text string) (Rule, error) {
	var r Rule
	words, quotes := Words(text)
	err := r.parse(append([]string{Subtree.String(), path}, words...), quotes)
	return r, err
}

// parse parses the words of a rule's text. quotes means that they are complete.
func (r *Rule) parse(words []string, quotes bool) (err error) {
	if len(words) < 3 || !quotes {
		return errors.New("want " + Syntax)
	}
	scope := slices.Index(scopeNames[:], words[0])
	if scope < 0 {
		return fmt.Errorf("%q is no scope: want %s", words[0], strings.Join(scopeNames[:], ", "))
	}
	r.Scope = Scope(scope)
	if r.Subject, err = subject(r.Scope, words[1]); err != nil {
		return err
	}
	for _, word := range words[2:] {
		if err := r.limit(word); err != nil {
			return err
		}
	}
	return nil
}

// Words cuts a text at spaces. A word that has some is in quotes, as in Go.
func Words(text string) (words []string, ok bool) {
	for {
		text = strings.TrimLeft(text, " \t")
		if text == "" {
			return words, true
		}
		if text[0] == '"' {
			quoted, err := strconv.QuotedPrefix(text)
			if err != nil {
				return words, false
			}
			word, _ := strconv.Unquote(quoted) // which QuotedPrefix has checked
			words, text = append(words, word), text[len(quoted):]
			continue
		}
		end := strings.IndexAny(text, " \t")
		if end < 0 {
			end = len(text)
		}
		words, text = append(words, text[:end]), text[end:]
	}
}

// maxName bounds a name, which is a label of metrics.
const maxName = 64

func notInName(c rune) bool {
	return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
}

// subject checks a rule's subject, and returns it in its usual form.
func subject(scope Scope, s string) (string, error) {
	switch scope {
	case Identity:
		if scheme, id, ok := strings.Cut(s, ":"); s != each && (!ok || scheme == "" || id == "") {
			return "", fmt.Errorf("%q is no identity: want scheme:id, or * for each one", s)
		}
	case Address:
		if s == each {
			return s, nil
		}
		block, err := parseBlock(s)
		if err != nil {
			return "", fmt.Errorf("%q is no address: want one such as 10.0.0.1, a block such as 10.0.0.0/8, or * for each one", s)
		}
		if block.IsSingleIP() {
			return block.Addr().String(), nil
		}
		return block.String(), nil
	case Subtree:
		path, _ := strings.CutSuffix(s, "/"+each)
		if path != "" && !validPath(path) || path == "" && s != "/"+each {
			return "", fmt.Errorf("%q is no subtree: want a path such as /jobs, or /jobs/* for each of its children", s)
		}
	}
	return s, nil
}

// each is the subject that means each one by itself.
const each = "*"

func validPath(path string) bool {
	if path == "/" {
		return true
	}
	if path[0] != '/' {
		return false
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." || name == each {
			return false
		}
	}
	return true
}

// parseBlock parses an address or a block of addresses.
func parseBlock(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return usual(addr).Prefix(usual(addr).BitLen())
	}
	block, err := netip.ParsePrefix(s)
	return block.Masked(), err
}

// usual returns an address without a zone, and an IPv4 one in four bytes.
func usual(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// limit parses one limit.
func (r *Rule) limit(word string) error {
	name, values, ok := strings.Cut(word, "=")
	if name == weightName {
		return r.weigh(values)
	}
	resource := slices.Index(resourceNames[:], name)
	switch {
	case resource < 0:
		return fmt.Errorf("unknown resource %q: want %s, %s", name, strings.Join(resourceNames[:], ", "), weightName)
	case Resource(resource) == Openings && r.Scope != Address:
		return fmt.Errorf("%v are limited by address only: who opens a connection is known later", Openings)
	case r.Scope == Subtree && Resource(resource) < Requests:
		return fmt.Errorf("%s are not limited by subtree: only %v and %v are; ZooKeeper's quotas limit the nodes and bytes of a subtree", name, Requests, Bytes)
	case r.Limits[resource] != Limit{}:
		return fmt.Errorf("%s is given twice", name)
	case !ok:
		return fmt.Errorf("%s has no value: want %s=HARD or %s=SOFT,HARD", name, name, name)
	}
	l := &r.Limits[resource]
	soft, hard, two := strings.Cut(values, ",")
	if !two {
		soft, hard = "", values
	}
	if !parseLimit(&l.Soft, soft) || !parseLimit(&l.Hard, hard) || *l == (Limit{}) {
		return fmt.Errorf("%q is no limit: want %s=HARD or %s=SOFT,HARD, numbers from 1 to %d, of which one may be empty", word, name, name, int64(most))
	}
	if l.Soft > l.Hard && l.Hard > 0 {
		return fmt.Errorf("%s: the soft limit %d is above the hard one, %d", name, l.Soft, l.Hard)
	}
	return nil
}

// weigh parses a weight.
func (r *Rule) weigh(value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case r.Scope == Subtree:
		return errors.New("a subtree has no weight: clients have turns, by their identities and addresses")
	case r.Scope == Identity && strings.HasPrefix(r.Subject, "digest:"):
		return errors.New("an identity of digest has no weight: anybody can have any number of them, so these clients have turns by their addresses")
	case r.Weight != 0:
		return fmt.Errorf("%s is given twice", weightName)
	case err != nil || n < 1 || n > mostWeight:
		return fmt.Errorf("%q is no weight: want a number from 1 to %d; clients without a rule have %d", value, mostWeight, Even)
	}
	r.Weight = n
	return nil
}

// parseLimit parses a value; "" is none.
func parseLimit(to *int64, s string) bool {
	if s == "" {
		return true
	}
	n, err := strconv.ParseUint(s, 10, 63)
	*to = int64(n)
	return err == nil && 1 <= n && n <= most
}

// String returns the text that ParseRule reads.
func (r Rule) String() string {
	s := r.Subject
	if q := strconv.Quote(s); strings.ContainsAny(s, " \t") || q != `"`+s+`"` {
		s = q
	}
	b := []byte(r.Scope.String() + " " + s)
	for resource, l := range r.Limits {
		if l == (Limit{}) {
			continue
		}
		b = append(append(append(b, ' '), resourceNames[resource]...), '=')
		if l.Soft > 0 {
			b = append(strconv.AppendInt(b, l.Soft, 10), ',')
		}
		if l.Hard > 0 {
			b = strconv.AppendInt(b, l.Hard, 10)
		}
	}
	if r.Weight > 0 {
		b = strconv.AppendInt(append(b, " "+weightName+"="...), r.Weight, 10)
	}
	return string(b)
}

// Conflict returns an error if two of the rules limit the same resource of one subject, or give it a weight.
func Conflict(rules []Rule) error {
	type use struct {
		scope         Scope
		subject, what string
	}
	first := make(map[use]string)
	for _, r := range rules {
		for _, what := range r.gives() {
			u := use{r.Scope, r.Subject, what}
			if other, ok := first[u]; ok {
				return fmt.Errorf("rules %s and %s both limit the %s of %v %s: leave it to one of them", other, r.Name, what, u.scope, u.subject)
			}
			first[u] = r.Name
		}
	}
	return nil
}

// gives returns the names of what the rule gives a value.
func (r *Rule) gives() (names []string) {
	for resource, l := range r.Limits {
		if l != (Limit{}) {
			names = append(names, resourceNames[resource])
		}
	}
	if r.Weight > 0 {
		names = append(names, weightName)
	}
	return names
}
