//go:build compat

package compat

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// chapter is a part of a story: what is done and what must come of it.
type chapter func(t *testing.T, p *patroniCluster, e *ensemble)

var (
	patroniStory = []chapter{patroniBootstraps, patroniDoesNotNotice, patroniSwitchesOver}
	patroniRest  = []chapter{patroniIsConfigured, patroniFailsOver, patroniStepsDown}
)

// TestPatroni runs a PostgreSQL cluster under Patroni, whose leader key, members and
// configuration are in an ensemble: bootstrap, the loss of the ensemble's leader, which
// PostgreSQL does not notice, and a switchover. With -full also a change of the
// configuration, a failover, and the loss of the ensemble's quorum, which ends the primary
// until the ensemble is back; and all of it on Apache's, too.
func TestPatroni(t *testing.T) {
	needPatroni(t)
	targets, story := []kind{target(t)}, patroniStory
	if *fullFlag {
		targets, story = kinds(t), slices.Concat(patroniStory, patroniRest)
	}
	for _, k := range targets {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			e := startEnsemble(t, k, config{})
			p := newPatroni(t, e.hosts())
			for _, c := range story {
				c(t, p, e)
			}
			summary(t, t.Name(), len(story), 0)
		})
	}
}

// patroniBootstraps: the first member makes the database, the second one copies it.
func patroniBootstraps(t *testing.T, p *patroniCluster, e *ensemble) {
	p.member("one").start(t)
	p.awaitRoles("bootstrap", "one", map[string]string{"one": "leader"})
	if _, err := p.member("one").sql("create table entries (n int primary key)"); err != nil {
		t.Fatal(err)
	}
	p.member("two").start(t)
	p.awaitRoles("replica", "two", map[string]string{"one": "leader", "two": "sync_standby"})
	if err := p.write("one"); err != nil {
		t.Fatal(err)
	}
	p.checkRows("two")

	var list []struct{ Member, Role, State string }
	text := p.ctl("list", "-f", "json")
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 2 {
		t.Fatalf("patronictl list: %v\n%s", err, text)
	}
	if list[0].Role != "Leader" || list[1].Role != "Sync Standby" {
		t.Errorf("patronictl list: %s", text)
	}
}

// patroniIsConfigured: the configuration is a znode that both members watch.
func patroniIsConfigured(t *testing.T, p *patroniCluster, e *ensemble) {
	p.ctl("edit-config", "--force", "-q", "-p", "work_mem=5MB")
	for _, m := range p.members {
		p.await("work_mem of "+m.Name, func() error { return m.expect("show work_mem", "5MB") })
	}
	if text := p.ctl("show-config"); !strings.Contains(text, "work_mem") {
		t.Errorf("patronictl show-config: %s", text)
	}
	p.ctl("pause", "--wait")
	p.ctl("resume", "--wait")
}

// patroniSwitchesOver: the primary hands its role to the replica, on request.
func patroniSwitchesOver(t *testing.T, p *patroniCluster, e *ensemble) {
	p.ctl("switchover", "--master", "one", "--candidate", "two", "--force")
	p.awaitRoles("switchover", "two", map[string]string{"two": "leader", "one": "sync_standby"})
	if err := p.write("two"); err != nil {
		t.Error(err)
	}
	p.checkRows("one")
}

// patroniDoesNotNotice: the ensemble's leader is killed, and so is the next one.
// PostgreSQL's primary takes each write meanwhile and stays the primary: Patroni has got
// through to the ensemble again when it has written its position there.
func patroniDoesNotNotice(t *testing.T, p *patroniCluster, e *ensemble) {
	before := p.timeline("one")
	p.writeWhile("one", func() {
		for range 2 {
			roles, ok := e.roles()
			if !ok {
				t.Fatal("the ensemble is not healthy")
			}
			roles[leader].kill()
			if err := e.heal(); err != nil {
				t.Fatal(err)
			}
			awaitPatroniStatus(t, e)
		}
	})
	p.awaitRoles("the ensemble lost two leaders", "one", map[string]string{"one": "leader", "two": "sync_standby"})
	if after := p.timeline("one"); after != before {
		t.Errorf("timeline %s became %s", before, after)
	}
	p.checkRows("two")
}

// awaitPatroniStatus waits until the primary's Patroni writes to the ensemble, as it does
// in each of its rounds in which the position in PostgreSQL's log is another one.
func awaitPatroniStatus(t *testing.T, e *ensemble) {
	t.Helper()
	conn, _ := goConnect(t, &server{addr: e.hosts()})
	_, _, changed, err := conn.GetW("/service/accounts/status")
	if err != nil {
		t.Fatal(err)
	}
	select {
	case event := <-changed:
		if event.Err != nil {
			t.Fatalf("the watch on Patroni's status: %v", event.Err)
		}
	case <-time.After(patroniDeadline):
		t.Fatalf("Patroni wrote nothing to the ensemble for %v", patroniDeadline)
	}
}

// patroniFailsOver: the primary dies, the replica takes its place with all that was
// acknowledged, and the dead one comes back as a replica.
func patroniFailsOver(t *testing.T, p *patroniCluster, e *ensemble) {
	p.member("two").kill()
	p.awaitRoles("failover", "one", map[string]string{"one": "leader"})
	p.await("write to the new primary", func() error { return p.write("one") })
	p.checkRows("one")
	p.member("two").start(t)
	p.awaitRoles("return", "one", map[string]string{"one": "leader", "two": "sync_standby"})
	p.checkRows("two")
}

// patroniStepsDown: without a quorum of the ensemble nobody may be primary, for nobody can
// know that there is no other; when it is back, so is the primary.
func patroniStepsDown(t *testing.T, p *patroniCluster, e *ensemble) {
	const readOnly = "select pg_is_in_recovery()"
	roles, ok := e.roles()
	if !ok {
		t.Fatal("the ensemble is not healthy")
	}
	roles[leader].kill()
	roles[follower].kill()
	p.await("demotion", func() error { return p.member("one").expect(readOnly, "t") })
	if err := p.write("one"); err == nil {
		t.Error("a write without a quorum succeeded")
	}
	if err := e.heal(); err != nil {
		t.Fatal(err)
	}
	p.await("promotion", func() error { return p.someone(readOnly, "f") })
	i := slices.IndexFunc(p.members, func(m *patroniMember) bool { return m.expect(readOnly, "f") == nil })
	p.await("write after the outage", func() error { return p.write(p.members[i].Name) })
	for _, m := range p.members {
		p.checkRows(m.Name)
	}
}
