package config

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Describe writes the effective configuration to w: every honoured key with its
// value as the file would have it and where it comes from, then the members,
// then the warnings. Secrets are not shown.
func (c *Config) Describe(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, k := range keyTable(c) {
		if k.Status != Honoured || k.value.get == nil {
			continue
		}
		shown := k.value.get()
		if k.secret && shown != "" {
			shown = "(not shown)"
		}
		setting := strings.TrimSpace(k.Name + "=" + shown + " " + c.unitOf(k, shown))
		fmt.Fprintf(out, "%-60s %s\n", setting, c.settings[k.Name].origin)
	}
	for _, s := range c.Members.Servers {
		fmt.Fprintf(out, "%-60s %s\n", fmt.Sprintf("server.%d=%s", s.ID, s), s.origin)
	}
	for _, warning := range c.warnings {
		fmt.Fprintf(out, "warning: %s\n", warning)
	}
	return out.Flush()
}

func (c *Config) unitOf(k Key, shown string) string {
	if k.Unit() == "" || shown == "" || shown == "-1" {
		return ""
	}
	return "(" + k.Unit() + ")"
}
