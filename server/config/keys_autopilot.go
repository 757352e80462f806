package config

import "time"

// autopilotKeys returns the rows of the keys of autopilot.
func autopilotKeys(c *Config) []Key {
	return []Key{
		{Name: "zkd.autopilot", Default: "0", value: millis(&c.Autopilot, 0, maxInt),
			Doc: "Time after which the leader makes an observer of a voter that is gone: [autopilot](members.md#autopilot). " +
				"At least 10000, and 10 times zkd.electionTimeout; 0 is off. Needs reconfigEnabled=true. Set it on all servers."},
	}
}

// leastAutopilot is longer than a restart of a server takes.
const leastAutopilot = 10 * time.Second

// validateAutopilot checks that autopilot can work. An operator who sets it relies on it.
func (l *loader) validateAutopilot() {
	c := l.c
	p, given := l.set["zkd.autopilot"]
	if !given || c.Autopilot == 0 {
		return
	}
	switch {
	case !c.Replicated():
		l.warn(p, "has no effect on a single server")
	case !c.ReconfigEnabled:
		l.fail(p, "needs reconfigEnabled=true: autopilot changes the members")
	case c.Autopilot < leastAutopilot:
		l.fail(p, "must be 0, or at least %d ms: a restart of a server is no reason to change the members", leastAutopilot.Milliseconds())
	case c.Autopilot < 10*c.ElectionTimeout && !l.failed("zkd.electionTimeout"):
		l.fail(p, "must be at least 10 times zkd.electionTimeout, which is %d ms", c.ElectionTimeout.Milliseconds())
	case c.Members.Hierarchical:
		l.warn(p, "has no effect with group and weight lines: autopilot leaves such members alone")
	}
}
