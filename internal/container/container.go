// Package container makes a zoo.cfg from the environment of a container. It knows the variables
// of the official image of ZooKeeper, so that what was written for that image works. Every key
// of zoo.cfg has a variable, too: ZKD_ and the name in capitals, with _ for a dot, and without
// the prefix zkd.
//
//	ZOO_MY_ID=1 ZOO_SERVERS="server.1=zk1:2888:3888;2181 server.2=zk2:2888:3888;2181"
//	ZKD_SSL_KEYSTORE_LOCATION=/tls/server.pem ZKD_QUORUM_SECRET_FILE=/tls/secret
//
// It reads and writes nothing.
package container

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// header is the first line of the files that Config makes.
const header = "# zkd container makes this file from the environment at each start.\n"

// Made reports whether the text of a zoo.cfg comes from Config.
func Made(text string) bool { return strings.HasPrefix(text, header) }

// Input is what a configuration depends on.
type Input struct {
	Env     []string // NAME=value
	Host    string   // name of the container or the pod
	Keys    []string // names of the keys of zoo.cfg
	Earlier string   // the file of the start before, or ""
}

// Output is the configuration.
type Output struct {
	Text    string   // of zoo.cfg
	ID      string   // of the server in its ensemble, or "" if the environment has none
	Remarks []string // about variables that have no effect
}

// setsKey says which variables of the official image set a key.
var setsKey = map[string]string{
	"ZOO_4LW_COMMANDS_WHITELIST":    "4lw.commands.whitelist",
	"ZOO_ADMINSERVER_ENABLED":       "admin.enableServer",
	"ZOO_AUTOPURGE_PURGEINTERVAL":   "autopurge.purgeInterval",
	"ZOO_AUTOPURGE_SNAPRETAINCOUNT": "autopurge.snapRetainCount",
	"ZOO_DATA_DIR":                  "dataDir",
	"ZOO_DATA_LOG_DIR":              "dataLogDir",
	"ZOO_INIT_LIMIT":                "initLimit",
	"ZOO_MAX_CLIENT_CNXNS":          "maxClientCnxns",
	"ZOO_STANDALONE_ENABLED":        "standaloneEnabled",
	"ZOO_SYNC_LIMIT":                "syncLimit",
	"ZOO_TICK_TIME":                 "tickTime",
}

// defaults are keys that have a line in each file. An ensemble needs the limits.
var defaults = []struct{ key, value string }{
	{"initLimit", "10"},
	{"syncLimit", "5"},
	{"admin.enableServer", "true"}, // as in the official image; zkd ready asks it
}

// read says which variables are used without setting a key.
var read = []string{"ZOO_CFG_EXTRA", "ZOO_CONF_DIR", "ZOO_MY_ID", "ZOO_SERVERS"}

// ofJava are the variables of the JVM. They can set keys: -Dzookeeper.KEY=VALUE.
var ofJava = []string{"JVMFLAGS", "SERVER_JVMFLAGS"}

// Kubernetes sets these in each container, for a service whose name begins with zkd or zoo.
var ofService = regexp.MustCompile(`_SERVICE_(HOST|PORT(_.*)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_.*)?$`)

// Config returns the configuration that an environment asks for. Its errors are about variables
// that zkd alone has, and about values that make no line of a zoo.cfg.
func Config(in Input) (Output, error) {
	c := maker{in: in, keys: make(map[string]string), set: make(map[string]bool)}
	for _, key := range in.Keys {
		c.keys[plain(key)] = key
		if short, ok := strings.CutPrefix(key, "zkd."); ok {
			c.keys[plain(short)] = key
		}
	}
	return c.config()
}

// maker makes one configuration.
type maker struct {
	in   Input
	keys map[string]string // by their plain names
	set  map[string]bool   // keys that have a line
	out  Output
}

// plain is what remains of the name of a key, or of a variable, without case and punctuation.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '_' || r == '-' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

func (c *maker) config() (Output, error) {
	c.out.Text = header
	env := slices.Sorted(slices.Values(c.in.Env))
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if err := c.variable(name, value); err != nil {
			return Output{}, err
		}
	}
	for word := range strings.FieldsSeq(c.value("ZOO_CFG_EXTRA")) {
		key, value, ok := strings.Cut(word, "=")
		if !ok || strings.HasSuffix(value, `\`) {
			return Output{}, fmt.Errorf("ZOO_CFG_EXTRA: %q: write key=value, with spaces only between them", word)
		}
		c.line(key, value)
	}
	if err := c.members(); err != nil {
		return Output{}, err
	}
	for _, d := range defaults {
		if !c.set[d.key] {
			c.line(d.key, d.value)
		}
	}
	c.id()
	return c.out, nil
}

// value returns the value of a variable, or "".
func (c *maker) value(name string) string {
	for _, v := range c.in.Env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// line appends a line to the file. The value is that of a property, with its escapes.
func (c *maker) line(key, value string) {
	if value == "" {
		return
	}
	if isMember(key) && c.savedMembers() != "" {
		return
	}
	c.out.Text += key + "=" + value + "\n"
	c.set[key] = true
}

func (c *maker) variable(name, value string) error {
	key, known := setsKey[name]
	short, ours := strings.CutPrefix(name, "ZKD_")
	switch {
	case slices.Contains(read, name) || value == "":
	case strings.ContainsAny(value, "\n\r") && (known || ours):
		return fmt.Errorf("%s: a value has one line", name)
	case known:
		c.line(key, escape(value))
	case slices.Contains(ofJava, name):
		c.java(name, value)
	case ofService.MatchString(name) || strings.Contains(value, "://") && strings.HasSuffix(name, "_PORT"):
	case ours:
		key, known := c.keys[plain(short)]
		if !known {
			return fmt.Errorf("%s: zoo.cfg has no such key; docs/configuration.md lists them", name)
		}
		c.line(key, escape(value))
	case strings.HasPrefix(name, "ZOO_"):
		c.out.Remarks = append(c.out.Remarks, name+" has no effect: the official image does not know it, or it is about Java")
	}
	return nil
}

// escape returns a value as the text of a property: a backslash would continue the line.
func escape(value string) string { return strings.ReplaceAll(value, `\`, `\\`) }

// java takes the keys from options of a JVM.
func (c *maker) java(name, flags string) {
	for flag := range strings.FieldsSeq(flags) {
		key, value, ok := strings.Cut(strings.TrimPrefix(flag, "-D"), "=")
		if ok && strings.HasPrefix(flag, "-D") && (strings.HasPrefix(key, "zookeeper.") || c.keys[plain(key)] == key) {
			c.line(key, value)
			continue
		}
		c.out.Remarks = append(c.out.Remarks, name+": "+flag+" has no effect: zkd is no Java program")
	}
}

// members appends the servers of the ensemble, or the port of a server that is alone. After a
// reconfig they are in a file that the earlier configuration names.
func (c *maker) members() error {
	if saved := c.savedMembers(); saved != "" {
		c.out.Text += saved + "\n"
		if c.value("ZOO_SERVERS") != "" {
			c.out.Remarks = append(c.out.Remarks, "ZOO_SERVERS has no effect: the members were changed by reconfig, and are in the file of "+saved)
		}
		return nil
	}
	servers := strings.Fields(c.value("ZOO_SERVERS"))
	ports := false
	for _, s := range servers {
		key, value, ok := strings.Cut(s, "=")
		if !ok || !strings.HasPrefix(key, "server.") || strings.HasSuffix(value, `\`) {
			return fmt.Errorf("ZOO_SERVERS: %q: write server.N=HOST:2888:3888;2181, with spaces between the servers", s)
		}
		c.line(key, value)
		ports = ports || strings.Contains(value, ";")
	}
	if !ports && !c.set["clientPort"] && !c.set["secureClientPort"] {
		c.line("clientPort", "2181")
	}
	return nil
}

// savedMembers returns the line of the earlier file that names the file of the members, or "".
func (c *maker) savedMembers() string {
	for line := range strings.Lines(c.in.Earlier) {
		if strings.HasPrefix(line, "dynamicConfigFile=") && Made(c.in.Earlier) {
			return strings.TrimRight(line, "\r\n")
		}
	}
	return ""
}

// isMember reports whether a key is about the members of the ensemble.
func isMember(key string) bool {
	return strings.HasPrefix(key, "server.") || strings.HasPrefix(key, "group.") || strings.HasPrefix(key, "weight.")
}

var ordinal = regexp.MustCompile(`-(\d+)$`)

// id finds the id of this server: ZOO_MY_ID, or in Kubernetes the ordinal of the pod and 1.
func (c *maker) id() {
	id := c.value("ZOO_MY_ID")
	if m := ordinal.FindStringSubmatch(c.in.Host); m != nil && (id == "ordinal" || id == "" && c.value("KUBERNETES_SERVICE_HOST") != "") {
		if n, err := strconv.Atoi(m[1]); err == nil {
			id = strconv.Itoa(n + 1)
		}
	}
	c.out.ID = id
}
