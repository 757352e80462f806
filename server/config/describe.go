package config

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/internal/secret"
)

// Describe writes the effective configuration to w: the honoured keys with their values in
// the syntax of the file and their origins, then the members and a summary of them, then the
// warnings. Secrets are masked. Unless all is true, keys that nobody gave are left out, if
// they have their default values.
func (c *Config) Describe(w io.Writer, all bool) error {
	out := bufio.NewWriter(w)
	defaults := 0
	for _, s := range c.Shown() {
		origin := s.Origin.String()
		if !s.given && s.Value != s.Default {
			origin = "from other keys"
		} else if !s.given && !all {
			defaults++
			continue
		}
		setting := s.Key + "=" + s.Value
		if s.Unit != "" && s.Value != "" && s.Value != "-1" {
			setting += " (" + s.Unit + ")"
		}
		fmt.Fprintf(out, "%-60s %s\n", setting, origin)
	}
	for _, s := range c.Members.Servers {
		fmt.Fprintf(out, "%-60s %s\n", fmt.Sprintf("server.%d=%s", s.ID, s), s.origin)
	}
	if defaults > 0 {
		fmt.Fprintf(out, "%d other keys have their defaults: --all shows them\n", defaults)
	}
	if c.Replicated() {
		c.describeEnsemble(out)
	}
	for _, warning := range c.warnings {
		fmt.Fprintf(out, "warning: %s\n", warning)
	}
	return out.Flush()
}

// Shown is a key of the effective configuration. Secrets are masked.
type Shown struct {
	Key, Value    string
	Unit, Default string // "" for none
	Origin        Origin // of the value
	Live          bool   // it can change while the server runs
	Allowed, Doc  string // as of Key
	given         bool   // the value was set
}

// Shown returns every honoured key, without the members; of an edge, its keys.
func (c *Config) Shown() (list []Shown) {
	status := Honoured
	if c.Edge.On {
		status = OfEdge
	}
	for _, k := range keyTable(c) {
		if k.Status != status {
			continue
		}
		s := Shown{Key: k.Name, Unit: k.Unit(), Default: k.Default, Live: k.Live, Allowed: k.Allowed(), Doc: k.Doc}
		if k.value.get == nil {
			list = c.appendPattern(list, s)
			continue
		}
		p, given := c.settings[k.Name]
		s.Value, s.Origin = k.value.get(), p.origin
		s.given = given
		list = append(list, s)
	}
	return list
}

// appendPattern appends the settings of a row of several keys.
func (c *Config) appendPattern(list []Shown, row Shown) []Shown {
	prefix, isPattern := strings.CutSuffix(row.Key, "*")
	for _, name := range slices.Sorted(maps.Keys(c.settings)) {
		if p := c.settings[name]; isPattern && strings.HasPrefix(name, prefix) {
			row.Key, row.Value, row.Origin, row.given = name, p.value, p.origin, true
			list = append(list, row)
		}
	}
	return list
}

// SecretFile is a file with a secret.
type SecretFile struct {
	Key, File string // that names it, or that is the secret in the configuration file
	Group     bool   // its group may read it
}

// SecretFiles returns the files with secrets that the configuration names.
func (c *Config) SecretFiles() (list []SecretFile) {
	var own *SecretFile
	for _, k := range keyTable(c) {
		if p, given := c.settings[k.Name]; given && k.HoldsSecret && p.value != "" {
			list = append(list, SecretFile{Key: k.Name, File: p.value})
		}
		if p, given := c.settings[k.Name]; given && k.value.secret && p.value != "" && p.origin.File == c.File && c.File != "" {
			own = &SecretFile{Key: k.Name, File: c.File, Group: true} // an operator's, which the server's group may read
		}
	}
	if own != nil {
		list = append(list, *own)
	}
	if keytab := c.raw.sasl.keytab; keytab != "" {
		list = append(list, SecretFile{Key: "java.security.auth.login.config, keyTab", File: keytab})
	}
	return list
}

// FileText returns the text of the configuration file as it was read. Secrets are masked.
func (c *Config) FileText() string { return c.fileText }

// maskSecrets masks the values of secrets in the text of a configuration file, and those
// of unknown keys, which may be misspelled ones.
func maskSecrets(text []byte) string {
	dir := unbound()
	var b strings.Builder
	done := 0
	for _, l := range settingLines(text) {
		k, known := dir.find(l.key)
		if _, _, member := memberKey(l.key); member || known && !k.value.secret && !strings.Contains(strings.ToLower(l.key), "password") {
			continue
		}
		b.Write(text[done:l.start])
		b.WriteString(l.key + "=" + secret.Mask)
		b.Write(lineEnd(text[l.start:l.end]))
		done = l.end
	}
	b.Write(text[done:])
	return b.String()
}

func (c *Config) describeEnsemble(out io.Writer) {
	m := &c.Members
	voters := m.Voters()
	fmt.Fprintf(out, "ensemble: %s", plural(voters, "voter"))
	if n := len(m.Servers) - voters; n > 0 {
		fmt.Fprintf(out, " and %s", plural(n, "observer"))
	}
	if m.Hierarchical {
		fmt.Fprintf(out, "; a quorum has more than half of the weight in more than half of %s\n", plural(len(m.Groups), "group"))
	} else {
		fmt.Fprintf(out, "; a quorum is %d, %s may fail\n", voters/2+1, numberOrNone((voters-1)/2))
	}
	role := "a participant"
	if c.Observer {
		role = "an observer"
	}
	self := c.Self()
	fmt.Fprintf(out, "this server: %d, %s; the others reach it on %s (the election port, %d, is not used)\n",
		self.ID, role, self.Addrs[0], self.Addrs[0].ElectionPort)
	fmt.Fprintf(out, "between servers: %s\n", c.peerSecurity())
}

// peerSecurity describes how servers authenticate each other, and whether others can
// eavesdrop.
func (c *Config) peerSecurity() string {
	t := &c.QuorumTLS
	known := "not authenticated: any program that reaches the port may pose as a server (zkd.quorumSecretFile, sslQuorum)"
	if how := c.peersKnownBy(); len(how) > 0 {
		known = "authenticated by " + strings.Join(how, " and ")
	}
	switch {
	case !t.Accept:
		return "no TLS, " + known
	case t.AcceptPlain:
		return "TLS is possible, not required (portUnification), " + known
	}
	return "TLS, " + known
}

// peersKnownBy returns by what servers authenticate each other.
func (c *Config) peersKnownBy() (how []string) {
	if t := &c.QuorumTLS; t.Accept && !t.AcceptPlain {
		how = append(how, "certificates")
	}
	if c.QuorumSecret.IsSet() {
		how = append(how, "a shared secret")
	}
	return how
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}
