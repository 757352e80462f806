package jaas

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Section is a named list of login modules.
type Section struct {
	Name    string
	Line    int
	Modules []Module
}

// Module is a login module and its options. The value of the last option with a key counts.
type Module struct {
	Class   string
	Flag    string // required, requisite, sufficient or optional
	Line    int
	Options []Option
}

// Option is a setting of a module.
type Option struct {
	Key, Value string
	Line       int
}

// Error is a fault of the text.
type Error struct {
	Line int
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Text) }

// The classes of modules for users with passwords, and for Kerberos.
const (
	DigestLoginModule = "org.apache.zookeeper.server.auth.DigestLoginModule"
	Krb5LoginModule   = "com.sun.security.auth.module.Krb5LoginModule"
)

// Find returns the section with a name.
func Find(sections []Section, name string) (Section, bool) {
	i := slices.IndexFunc(sections, func(s Section) bool { return s.Name == name })
	if i < 0 {
		return Section{}, false
	}
	return sections[i], true
}

// Option returns the last option with a key.
func (m Module) Option(key string) (Option, bool) {
	for _, o := range slices.Backward(m.Options) {
		if o.Key == key {
			return o, true
		}
	}
	return Option{}, false
}

// Parse reads a login configuration in UTF-8. The error is an *Error.
func Parse(text string) ([]Section, error) {
	p := &parser{scanner: scanner{text: text, line: 1}}
	p.next()
	var sections []Section
	seen := make(map[string]bool)
	for p.err == nil && p.token.kind != endOfFile {
		s := p.section()
		if seen[s.Name] {
			p.failAt(s.Line, "there is another section %q above", s.Name)
		}
		seen[s.Name] = true
		sections = append(sections, s)
	}
	if p.err != nil {
		return nil, p.err
	}
	return sections, nil
}

var flags = []string{"required", "requisite", "sufficient", "optional"}

type parser struct {
	scanner
	token token
	err   error // the first
}

func (p *parser) failAt(line int, format string, args ...any) {
	if p.err == nil {
		p.err = &Error{Line: line, Text: fmt.Sprintf(format, args...)}
	}
	p.token = token{kind: endOfFile, line: line}
}

// next reads the next token. After an error it is the end of the file.
func (p *parser) next() {
	if p.err != nil {
		return
	}
	t, err := p.scan()
	if err != nil {
		p.failAt(t.line, "%v", err)
		return
	}
	p.token = t
}

// word takes a word or a quoted string.
func (p *parser) word(what string) string {
	t := p.token
	if t.kind != word {
		p.failAt(t.line, "%s is missing", what)
		return ""
	}
	p.next()
	return t.text
}

// sign takes one of the characters of the syntax.
func (p *parser) sign(c kind, after string) {
	if p.token.kind != c {
		p.failAt(p.token.line, "%q is missing after %s", rune(c), after)
		return
	}
	p.next()
}

// at reports whether the next token is c, or there is none.
func (p *parser) at(c kind) bool { return p.token.kind == c || p.token.kind == endOfFile }

func (p *parser) section() Section {
	s := Section{Line: p.token.line, Name: p.word("the name of a section")}
	p.sign('{', "the name of the section")
	for !p.at('}') {
		s.Modules = append(s.Modules, p.module())
	}
	p.sign('}', "the last module")
	p.sign(';', "the section")
	return s
}

func (p *parser) module() Module {
	m := Module{Line: p.token.line, Class: p.word("the class of a login module")}
	line := p.token.line
	if m.Flag = strings.ToLower(p.word("required, requisite, sufficient or optional")); !slices.Contains(flags, m.Flag) {
		p.failAt(line, "the class of a login module must be followed by one of %s", strings.Join(flags, ", "))
	}
	for !p.at(';') {
		o := Option{Line: p.token.line, Key: p.word("the name of an option")}
		p.sign('=', "the name of an option")
		line := p.token.line
		value, err := expand(p.word("the value of option " + o.Key))
		if err != nil {
			p.failAt(line, "option %s: %v", o.Key, err)
		}
		o.Value = value
		m.Options = append(m.Options, o)
	}
	p.sign(';', "the options of the module")
	return m
}

// expand replaces ${/}, the separator of paths.
func expand(s string) (string, error) {
	s = strings.ReplaceAll(s, "${/}", "/")
	if strings.Contains(s, "${") {
		return "", errors.New("${...} means a property of Java, which is not known here: write the value")
	}
	return s, nil
}
