//go:build compat

package compat

import (
	"slices"
	"time"
)

// scenarios lists every scenario, in the order in which they run.
func scenarios() []scenario {
	return slices.Concat(
		freshScenarios(),
		connectScenarios(),
		frameScenarios(),
		oddScenarios(),
		nodeScenarios(),
		aclScenarios(),
		multiScenarios(),
		watchScenarios(),
		sessionScenarios(),
		wordScenarios(),
		poisonScenarios(),
	)
}

// until calls f until it is true, and logs whether it became so before the
// deadline. It is for what a server does on its own: expiry, container checks.
func (w *world) until(what string, deadline time.Duration, f func() bool) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(deadline); time.Now().Before(end); <-tick.C {
		if f() {
			w.logf("%s", what)
			return
		}
	}
	w.logf("never: %s", what)
}

// hushed runs f without a transcript.
func (w *world) hushed(f func()) {
	w.quiet = true
	f()
	w.quiet = false
}

// present reports whether the node exists, without a trace in the transcript.
func (c *conn) present(path string) bool {
	c.w.quiet = true
	defer func() { c.w.quiet = false }()
	c.write(frame(enc(nil).i32(7777777).i32(opExists).raw(exists(path).body...)))
	for {
		payload, err := c.readFrame()
		if err != nil {
			return false
		}
		d := dec{b: payload}
		if d.i32() == 7777777 {
			d.i64()
			return d.i32() == 0
		}
	}
}

func freshScenarios() []scenario {
	return []scenario{
		{name: "fresh tree", own: &config{}, run: func(w *world) {
			c := w.connect("A")
			c.tree("/")
			c.do(byPath(opGetAllChildrenNumber, "/"), byPath(opGetEphemerals, "/"), whoAmI())
			c.do(del("/", -1), del("/zookeeper", -1), del("/zookeeper/quota", -1), del("/zookeeper/config", -1))
			c.do(create("/zookeeper/x", "", 0), set("/", "r"), set("/zookeeper", "z"), set("/zookeeper/config", "c"))
			c.do(create("/first-", "", 2), create("/first-", "", 2))
			c.each(setACL("/", []acl{{1, "world", "anyone"}}, -1), create("/denied", "", 0), set("/", "denied"))
			c.tree("/")
		}},
	}
}
