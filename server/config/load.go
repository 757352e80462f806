package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/internal/smallfile"
)

// maxFileSize bounds the bytes read of a configuration file.
const maxFileSize = 1 << 20

// Setting is a key and a value that override those of the file.
type Setting struct{ p property }

// Override returns a setting that overrides the file's, as for --set or a flag. Its key
// and value are checked like those of the file.
func Override(key, value string) Setting {
	return Setting{property{key: key, value: value, origin: Origin{File: CommandLine}}}
}

// SetWhileRunning is Override for a setting that was made while the server runs.
func SetWhileRunning(key, value string) Setting {
	return Setting{property{key: key, value: value, origin: Origin{File: WhileRunning}}}
}

// Key returns the key as it was given.
func (s Setting) Key() string { return s.p.key }

// Load reads the configuration file at path, applies the settings, fills in the defaults
// and checks the result. It also reads the file that dynamicConfigFile names, if any, and
// the myid file in dataDir.
//
// The warnings are also those of Config.Warnings. The error is an Errors with everything
// that is wrong, or the reason why path can't be read; the Config is then nil, but the
// warnings are returned.
func Load(path string, on ...Setting) (*Config, []Warning, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read configuration: %w", err)
	}
	l := newLoader(readFile)
	l.around = ofSystem
	c, warnings, err := l.load(text, path, on)
	if err == nil {
		c.File = path
	}
	return c, warnings, err
}

// Parse is like Load for a configuration read from r. Errors and warnings use name as the
// file name.
func Parse(r io.Reader, name string, on ...Setting) (*Config, []Warning, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFileSize+1))
	if err == nil && len(text) > maxFileSize {
		err = fmt.Errorf("%s has more than %d bytes: is it a configuration file?", name, maxFileSize)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read configuration: %w", err)
	}
	return newLoader(readFile).load(text, name, on)
}

// Default returns the configuration of a server without a file: clientPort 2181 and a
// dataDir under the user's state directory, which is $XDG_STATE_HOME/zkd or else
// $HOME/.local/state/zkd. It reads these variables with getenv (os.Getenv). The settings
// are applied as in Load.
func Default(getenv func(string) string, on ...Setting) (*Config, []Warning, error) {
	text := "clientPort=2181\ntickTime=2000\n"
	if dir := stateDir(getenv); dir != "" {
		on = slices.Insert(slices.Clone(on), 0, Setting{property{key: "dataDir", value: dir}})
	}
	return newLoader(readFile).load([]byte(text), "", on)
}

// stateDir returns zkd's directory under the user's state directory, "" if there is none.
// The XDG specification requires relative paths to be ignored.
func stateDir(getenv func(string) string) string {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "zkd")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "zkd")
	}
	return ""
}

func readFile(path string) ([]byte, error) {
	return smallfile.Read(path, maxFileSize, "a configuration file")
}

// loader turns properties into a Config and collects the errors.
type loader struct {
	read     func(path string) ([]byte, error)
	c        *Config
	dir      directory           // made by keys
	name     string              // of the main file
	set      map[string]property // the last property set, by the name of its row
	around   surroundings
	flags    map[string]property // options of a JVM that are not in set, as that
	warnings []Warning
	errs     Errors
	// unprotected are the settings that ask for a protection which zkd does not have.
	// They are judged when all settings are read.
	unprotected []unprotected

	badMember bool     // a server line could not be read
	badID     bool     // the id of this server could not be read
	idFrom    property // where MyID was set; its value is empty
}

// unprotected is a setting that asks for a protection, and the reason why there is none.
type unprotected struct {
	p      property
	reason string
}

func newLoader(read func(string) ([]byte, error)) *loader {
	c := &Config{MyID: -1}
	return &loader{read: read, c: c, set: make(map[string]property), flags: make(map[string]property)}
}

// keys returns the table of keys. It is large, and lists of members, which servers read often, do not
// need it.
func (l *loader) keys() directory {
	if l.dir.byName == nil {
		l.dir = newDirectory(keyTable(l.c))
	}
	return l.dir
}

func (l *loader) load(text []byte, name string, on []Setting) (*Config, []Warning, error) {
	l.name = name
	props := l.properties(text, name)
	for _, s := range on {
		props = append(props, s.p)
	}
	l.c.Edge.On = l.c.Edge.On || l.isEdges(props)
	l.defaults()
	members := l.assign(l.lastOfEach(props))
	if l.c.Edge.On {
		l.edge(members)
	} else {
		l.server(members)
	}

	slices.SortStableFunc(l.warnings, func(a, b Warning) int { return a.Line - b.Line })
	slices.SortStableFunc(l.errs, func(a, b *Error) int { return a.Line - b.Line })
	if len(l.errs) > 0 {
		return nil, l.warnings, l.errs
	}
	l.c.settings, l.c.warnings, l.c.fileText = l.set, l.warnings, maskSecrets(text)
	return l.c, l.warnings, nil
}

// server checks the configuration of a server, and completes it.
func (l *loader) server(members []property) {
	l.readJVMFlags(l.around)
	members = append(members, l.dynamicFile(members)...)
	l.members(members)
	l.resolve()
	l.rejectUnprotected()
	l.validate()
	l.requireSecure()
}

func (l *loader) properties(text []byte, name string) []property {
	props, bad := readProperties(text, name)
	l.errs = append(l.errs, bad...)
	if i := slices.IndexFunc(text, func(b byte) bool { return b >= utf8.RuneSelf }); i >= 0 && utf8.Valid(text) {
		line := 1 + strings.Count(string(text[:i]), "\n")
		l.warn(property{origin: Origin{File: name, Line: line}},
			`the file is read as ISO-8859-1, as Java does, but looks like UTF-8: write characters beyond ASCII as \uXXXX`)
	}
	return props
}

func (l *loader) warn(p property, format string, args ...any) {
	l.warnings = append(l.warnings, Warning{Origin: p.origin, Key: p.key, Text: fmt.Sprintf(format, args...)})
}

func (l *loader) fail(p property, format string, args ...any) {
	l.errs = append(l.errs, &Error{Origin: p.origin, Key: p.key, Value: p.value, Text: fmt.Sprintf(format, args...) + l.flagHint(p.key)})
}

// row returns the name under which a property is stored: that of its row in the table, or
// its own if the row is that of several keys or there is none.
func (l *loader) row(p property) (Key, string, bool) {
	k, known := l.keys().find(p.key)
	if !known || strings.HasSuffix(k.Name, "*") {
		return k, strings.TrimPrefix(p.key, "zookeeper."), known
	}
	return k, k.Name, true
}

// lastOfEach drops all but the last property of each key.
func (l *loader) lastOfEach(props []property) []property {
	last := make(map[string]int)
	for i, p := range props {
		_, name, _ := l.row(p)
		last[name] = i
	}
	kept := props[:0:0]
	for i, p := range props {
		_, name, _ := l.row(p)
		winner := props[last[name]]
		switch {
		case last[name] == i:
			kept = append(kept, p)
		case p.origin.File != "" && winner.origin.File == p.origin.File && p.origin.Line > 0:
			l.warn(p, "is given again on line %d, which counts", winner.origin.Line)
		}
	}
	return kept
}

func (l *loader) given(key string) bool {
	_, given := l.set[key]
	return given
}

func (l *loader) defaults() {
	for _, k := range l.keys().keys {
		if k.Default != "" && k.value.set != nil && !k.value.set(k.Default) {
			panic(fmt.Sprintf("config: default %q of %s is not %s", k.Default, k.Name, k.value.allowed))
		}
	}
}

// assign stores the values of props and returns the properties of members.
func (l *loader) assign(props []property) (members []property) {
	for _, p := range props {
		if _, _, ok := memberKey(strings.TrimPrefix(p.key, "zookeeper.")); ok {
			members = append(members, p)
			continue
		}
		k, name, known := l.row(p)
		if !known {
			l.unknown(p)
			continue
		}
		if k.value.set != nil {
			l.assignOne(k, p)
		}
		switch {
		case l.c.Edge.On || k.Status == OfEdge:
			l.misplaced(k, p)
		case k.Status != Honoured:
			l.withoutEffect(k, p)
		}
		if k.value.secret {
			p.value = secret.Mask
		}
		l.set[name] = p
	}
	return members
}

// withoutEffect handles a key that zkd knows and does not honour.
func (l *loader) withoutEffect(k Key, p property) {
	switch requested := k.requestsFeature(p.value); {
	case requested && k.Protects:
		reason := k.Doc
		if near, _ := l.keys().nearest(p.key); strings.HasSuffix(k.Name, "*") && near != "" {
			reason += "; did you mean " + near + "?"
		}
		l.unprotected = append(l.unprotected, unprotected{p, reason})
	case requested || !k.Protects && k.Status == Ignored:
		l.warn(p, "has no effect: %s", k.Doc)
	}
}

// rejectUnprotected rejects the settings that ask for a protection which zkd does not have: without
// it the server would be open to access that its operator believes to be blocked. The
// operator can order it to run nevertheless.
func (l *loader) rejectUnprotected() {
	for _, u := range l.unprotected {
		if l.c.IgnoreSecurityKeys {
			l.warn(u.p, "asks for protection that zkd does not have (%s): the server runs without it, as zkd.ignoreSecurityKeys=true orders", u.reason)
			continue
		}
		u.p.value = "" // it may be a secret
		l.fail(u.p, "asks for protection that zkd does not have (%s). To run without this protection, remove the line, or set zkd.ignoreSecurityKeys=true", u.reason)
	}
}

func (l *loader) assignOne(k Key, p property) {
	if k.value.set(p.value) {
		return
	}
	if n, ok := parseNumber(p.value); ok && k.Clamp {
		n = max(k.value.lo, min(n, k.value.hi))
		k.value.set(strconv.FormatInt(n, 10))
		l.warn(p, "counts as %d: it is %s", n, k.value.allowed)
		return
	}
	if k.value.secret {
		p.value = ""
	}
	if p.value == "" && !k.value.secret {
		l.fail(p, "the value is missing: it must be %s", k.value.allowed)
		return
	}
	l.fail(p, "must be %s", k.value.allowed)
}

func (l *loader) unknown(p property) {
	near, k := l.keys().nearest(p.key)
	switch {
	case near == "":
		l.warn(p, "is not a key that zkd knows")
	case k.Protects && k.requestsFeature(p.value):
		l.unprotected = append(l.unprotected, unprotected{p, "there is no such key; did you mean " + near + "?"})
	default:
		l.warn(p, "is not a key that zkd knows; did you mean %s?", near)
	}
}

// dynamicAdvice says what to do about a dynamicConfigFile that can't be used.
const dynamicAdvice = "restore it, copy that of another server, or name the one with the highest hexadecimal version that is whole"

// dynamicFile reads the properties of the dynamicConfigFile, if there is one. static are
// the member lines of the main file, which must be empty then.
func (l *loader) dynamicFile(static []property) []property {
	p, ok := l.set["dynamicConfigFile"]
	if !ok || l.c.DynamicConfigFile == "" {
		return nil
	}
	for _, s := range static {
		l.fail(s, "belongs in the dynamicConfigFile, %s, when there is one", l.c.DynamicConfigFile)
	}
	text, err := l.read(l.c.DynamicConfigFile)
	if err != nil {
		l.fail(p, "can't be read: %v; it has the members of the ensemble: %s", err, dynamicAdvice)
		return nil
	}
	l.c.Members.Version = fileVersion(l.c.DynamicConfigFile)
	members := l.lastOfEach(l.properties(text, l.c.DynamicConfigFile))
	if !slices.ContainsFunc(members, func(m property) bool { return strings.HasPrefix(m.key, "server.") }) {
		l.fail(p, "has no server line: it is empty or damaged; %s", dynamicAdvice)
	}
	return slices.DeleteFunc(members, func(m property) bool {
		if _, _, ok := memberKey(m.key); ok {
			return false
		}
		l.fail(m, "is not a server, group or weight key; only these may be in the dynamicConfigFile")
		return true
	})
}

// fileVersion returns the version at the end of a dynamic file's name, such as
// zoo.cfg.dynamic.100000000, or 0.
func fileVersion(name string) uint64 {
	var v uint64
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		if _, err := fmt.Sscanf(name[i+1:]+"\n", "%x\n", &v); err != nil {
			return 0
		}
	}
	return v
}

// resolveMyID determines the id of this server from zkd.myid, from the file myid, or from
// both if they agree.
func (l *loader) resolveMyID() {
	l.readMyID()
	p, given := l.set["zkd.myid"]
	id := int64(l.c.raw.myID)
	if !given || id < 0 || l.badID {
		return
	}
	if l.c.MyID >= 0 && l.c.MyID != id {
		l.fail(p, "the data in %s belongs to server %d, says its file myid", l.c.DataDir, l.c.MyID)
		l.badID = true
	}
	p.value = ""
	l.c.MyID, l.idFrom = id, p
}

// readMyID reads the myid file, if there is one.
func (l *loader) readMyID() {
	if l.c.DataDir == "" {
		return
	}
	name := filepath.Join(l.c.DataDir, "myid")
	text, err := l.read(name)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	l.idFrom = property{origin: Origin{File: name, Line: 1}}
	// A server without an ensemble needs no id, and does not mind what the file has.
	bad := func(p property, format string, args ...any) {
		if !l.c.Replicated() && !l.badMember {
			l.warn(p, "is of no use, as there is no ensemble: "+format, args...)
			return
		}
		l.badID = true
		l.fail(p, format, args...)
	}
	if err != nil {
		bad(property{origin: Origin{File: name}}, "can't be read: %v", err)
		return
	}
	first, _, _ := strings.Cut(string(text), "\n")
	id, ok := parseNumber(strings.TrimSpace(first))
	if !ok || id < 0 {
		p := l.idFrom
		p.value = strings.TrimSpace(first)
		bad(p, "must be the id of this server, a number from 0 to %d", maxServerID)
		return
	}
	l.c.MyID = id
}
