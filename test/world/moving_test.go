package main

import "testing"

// Servers that take the place of others have their addresses, and directories and ids of their own: a
// takeover refuses ids that Apache's servers have.
func TestSuccessors(t *testing.T) {
	e := &ensemble{kind: apache, dir: "servers", program: &program{}, members: []*server{
		{id: 1, addr: "127.0.0.1:1", dir: "servers/server1", line: "server.1=127.0.0.1:2:3:participant;127.0.0.1:1"},
	}}
	for _, want := range []struct {
		kind, dir, line string
		id              int
	}{
		{zkd, "servers/server101-1", "server.101=127.0.0.1:2:3:participant;127.0.0.1:1", 101},
		{apache, "servers/server1-2", "server.1=127.0.0.1:2:3:participant;127.0.0.1:1", 1},
		{zkd, "servers/server101-3", "server.101=127.0.0.1:2:3:participant;127.0.0.1:1", 101},
	} {
		e.moves++
		next := e.successors(want.kind)
		if s := next[0]; s.id != want.id || s.dir != want.dir || s.line != want.line || s.addr != "127.0.0.1:1" {
			t.Errorf("the successor of kind %s is %d in %s at %s: %s; want %v", want.kind, s.id, s.dir, s.addr, s.line, want)
		}
		e.kind, e.members = want.kind, next
	}
}
