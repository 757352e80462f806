package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/test/internal/results"
)

// program is what the file "program" in its directory declares.
type program struct {
	name    string // of the directory
	dir     string
	title   string
	version string
	group   string // the table that it is in
	what    string // what it does, for the table
	jars    string // the program whose fetched directory it uses
	servers int    // of the ensemble that it is run on; 0: it starts its own
	edge    bool   // there must be an edge
	faults  []string
	times   int           // how often all of them come
	settles bool          // it says after each fault when all of it works again
	pause   time.Duration // before each fault
	limit   time.Duration // for the whole run
	nothing time.Duration // for the run on no server
	lines   []string      // of zoo.cfg
	tries   int           // how often a test may fail before it has failed
	secure  bool          // the servers have a port with TLS, too, and take logins
	holds   []condition   // at the end
	known   []known
}

// readPrograms reads the declarations below dir, in the order of their names. Directories without one
// hold what others need.
func readPrograms(dir string) ([]*program, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "program"))
	var programs []*program
	for _, file := range files {
		p, readErr := readProgram(filepath.Dir(file))
		err = errors.Join(err, readErr)
		programs = append(programs, p)
	}
	return programs, err
}

func readProgram(dir string) (*program, error) {
	p := &program{
		name: filepath.Base(dir), dir: dir, jars: filepath.Base(dir), servers: 3, times: 1, tries: 1,
		pause: 10 * time.Second, limit: 30 * time.Minute, nothing: 2 * time.Minute,
	}
	file := filepath.Join(dir, "program")
	err := results.EachLine(file, p.set)
	if err == nil && (p.title == "" || p.version == "" || p.group == "" || p.what == "") {
		err = fmt.Errorf("%s: title, version, group and what must be there", file)
	}
	if err == nil && p.servers == 0 && len(p.faults) > 0 {
		err = fmt.Errorf("%s: with servers 0 there is nothing that faults could kill", file)
	}
	for _, name := range []string{edge, wayTo, wayFrom} {
		if err == nil && !p.edge && slices.Contains(p.faults, name) {
			err = fmt.Errorf("%s: the fault %s wants a line \"on edge\"", file, name)
		}
	}
	if err != nil {
		return nil, err
	}
	p.known, err = readKnown(filepath.Join(dir, "known"))
	return p, err
}

func (p *program) set(key, value string) (err error) {
	switch key {
	case "title":
		p.title = value
	case "version":
		p.version = value
	case "group":
		p.group = value
	case "what":
		p.what = value
	case "jars":
		p.jars = value
	case "servers":
		p.servers, err = strconv.Atoi(value)
	case "on":
		if p.edge = value == edge; !p.edge {
			err = fmt.Errorf("on %q: want %s, or no such line", value, edge)
		}
	case "times":
		p.times, err = strconv.Atoi(value)
	case "faults":
		p.faults, err = faultNames(value)
	case "settles":
		p.settles, err = strconv.ParseBool(value)
	case "pause":
		p.pause, err = time.ParseDuration(value)
	case "limit":
		p.limit, err = time.ParseDuration(value)
	case "nothing":
		p.nothing, err = time.ParseDuration(value)
	case "tries":
		p.tries, err = strconv.Atoi(value)
	case "secure":
		p.secure, err = strconv.ParseBool(value)
	case "setting":
		p.lines = append(p.lines, value)
	case "holds":
		var c condition
		c, err = parseCondition(value)
		p.holds = append(p.holds, c)
	default:
		err = fmt.Errorf("unknown key %q", key)
	}
	return err
}

// faultNames reads names of faults; "all" may be one of them.
func faultNames(value string) ([]string, error) {
	names := strings.Fields(strings.Replace(value, "all", all, 1))
	for _, name := range names {
		if faultOf(name) == nil {
			return nil, fmt.Errorf("unknown fault %q", name)
		}
	}
	return names, nil
}

// under says what is done to the servers.
func (p *program) under() string {
	var titles []string
	for _, name := range p.faults {
		titles = append(titles, faultOf(name).title)
	}
	all := strings.Join(titles, ", ")
	if p.times > 1 {
		return fmt.Sprintf("%d times: %s", p.times, all)
	}
	return all
}

// columns are the kinds of servers that have a column in the tables.
func (p *program) columns() []string {
	if p.edge {
		return []string{edge, apache} // an edge at zkd's servers
	}
	return []string{zkd, apache}
}

// condition is what must be so of the counts of a program's last line: "lost = 0".
type condition struct {
	name, op string
	number   int
}

func parseCondition(text string) (condition, error) {
	words := strings.Fields(text)
	if len(words) == 3 && (words[1] == "=" || words[1] == ">=" || words[1] == "<=") {
		number, err := strconv.Atoi(words[2])
		return condition{words[0], words[1], number}, err
	}
	return condition{}, fmt.Errorf("%q: want a condition such as \"lost = 0\", with =, >= or <=", text)
}

func (c condition) String() string { return fmt.Sprintf("%s %s %d", c.name, c.op, c.number) }

// of reports whether the counts meet the condition. A count that is not there meets none.
func (c condition) of(n results.Counts) bool {
	have, ok := n.Get(c.name)
	switch c.op {
	case "=":
		return ok && have == c.number
	case ">=":
		return ok && have >= c.number
	default:
		return ok && have <= c.number
	}
}

// known is a test of a suite that fails on a kind of server, and why.
type known struct {
	on, test, why string
}

// readKnown reads lines "zkd|apache|edge TEST REASON". There may be no such file.
func readKnown(file string) ([]known, error) {
	var all []known
	err := results.EachLine(file, func(on, rest string) error {
		test, why, _ := strings.Cut(rest, " ")
		if (on != zkd && on != apache && on != edge) || why == "" {
			return fmt.Errorf("want %q, %q or %q, the name of a test, and the reason", zkd, apache, edge)
		}
		all = append(all, known{on, test, strings.TrimSpace(why)})
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return all, err
}
