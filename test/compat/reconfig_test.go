//go:build compat

package compat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
)

// reconfigurable is the configuration of servers whose members a super user may change.
var reconfigurable = config{lines: []string{"reconfigEnabled=true"}}

// absent is a string that is null on the wire.
const absent = "(null)"

// reconfig is a request to change the members.
func reconfig(joining, leaving, members string, version int64) request {
	var body enc
	for _, s := range []string{joining, leaving, members} {
		if s == absent {
			body = body.i32(-1)
		} else {
			body = body.str(s)
		}
	}
	text := fmt.Sprintf("joining=%q leaving=%q members=%q v=%d", joining, leaving, members, version)
	return raw(opReconfig, places.ReplaceAllString(text, "PLACE"), body.i64(version))
}

// TestEnsembleReconfig39 compares the codes with which changes of the members are refused,
// and so the order of the checks.
func TestEnsembleReconfig39(t *testing.T) {
	reference, subject := startEnsembles(t, apache39, reconfigurable)
	compare(t, apache39, reconfigScenarios(), ensembleRetries, func(_ *testing.T, s scenario) (a, b []string) {
		return runOnBoth(newEnsembleWorld(reference), newEnsembleWorld(subject), s.run)
	})
}

// reconfigScenarios change nothing on either side: each change also gives votes to so many servers
// that do not exist that there is no quorum. That is checked after all else, so NewConfigNoQuorum
// means that a request passes all other checks.
func reconfigScenarios() []scenario {
	const (
		where    = "127.0.0.1:1:2:participant;3"
		good     = "server.9=" + where
		observer = "server.9=127.0.0.1:1:2:observer;3"
		three    = "server.8=127.0.0.1:4:5;6,server.7=127.0.0.1:7:8;9,server.6=127.0.0.1:10:11;12"
		many     = three + ",server.5=127.0.0.1:13:14;15"
		later    = 0x7700000000
	)
	joining := func(specs ...string) (list []request) {
		for _, s := range specs {
			list = append(list, reconfig(s+","+many, absent, absent, -1))
		}
		return list
	}
	leaving := func(ids ...string) (list []request) {
		for _, s := range ids {
			list = append(list, reconfig(many, s, absent, -1))
		}
		return list
	}
	whole := func(texts ...string) (list []request) {
		for _, s := range texts {
			list = append(list, reconfig(absent, absent, s, -1))
		}
		return list
	}
	asked := func(name string, super bool, requests ...request) scenario {
		return scenario{name: "reconfig: " + name, run: func(w *world) {
			w.loose = true
			for _, role := range []int{leader, follower} {
				c := w.on(role).connect(roleNames[role])
				if super {
					c.do(auth("digest", "super:secret"))
				}
				c.each(requests...)
			}
		}}
	}
	return []scenario{
		asked("refused", true,
			reconfig(good, absent, absent, later), reconfig("some thing", absent, absent, later), reconfig(absent, "x", absent, later),
			reconfig(good, absent, absent, 0), reconfig(good, absent, absent, -2), reconfig(absent, "1,2,3", absent, later),
			reconfig(absent, absent, "x", later), reconfig("", absent, "", later),
			reconfig("some thing", absent, absent, -1), reconfig(absent, "x", absent, -1), reconfig("some thing", "x", absent, -1),
			reconfig(absent, "1,2", absent, -1), reconfig(absent, "1,2,3", absent, -1), reconfig(absent, absent, "x", -1),
			reconfig(many, absent, absent, -1), reconfig(three, "1", absent, -1), reconfig(absent, absent, three, -1)),
		asked("without authority", false,
			reconfig(good, absent, absent, -1), reconfig(absent, "7", absent, -1), reconfig(absent, "1", absent, -1), reconfig(observer, absent, absent, -1),
			reconfig(absent, absent, absent, -1), reconfig("", "", absent, -1)),
		asked("without authority, and wrong", false,
			reconfig(observer, absent, absent, later), reconfig("some thing", absent, absent, -1), reconfig(absent, "x", absent, -1),
			reconfig(absent, "1,2,3", absent, -1), reconfig(absent, absent, "", -1), reconfig(many, absent, absent, -1)),
		asked("joining", true, joining(
			"some thing", "server.9", "server.9=", "server.x="+where, "server.="+where, "server.9=127.0.0.1", "server.9=127.0.0.1:1", "server.9=127.0.0.1:1:2",
			"server.9=127.0.0.1:1:2;", "server.9=127.0.0.1:1:2:leader;3", "server.9=127.0.0.1:a:2;3", "server.9=127.0.0.1:1:2:observer;x",
			"server.9=127.0.0.1:1:2:participant;127.0.0.1", "group.1=1:2", "weight.9=1", observer+",some thing", good, observer,
			"server.9=127.0.0.1:1:2:observer;6")...),
		asked("joining, where Apache's server is lenient", true, joining("peer.9="+where, "version=5", "clientPort=5",
			"server.9=:1:2:observer;3", "server.9=127.0.0.1:99999:2:observer;3", "server.9=127.0.0.1:1:2:observer;99999",
			"server.9=127.0.0.1:1:1:observer;3", "server.9=127.0.0.1:1:2:observer;1", observer+","+observer)...),
		asked("ids out of the range", true, joining("server.-1=127.0.0.1:1:2:observer;3", "server.0=127.0.0.1:1:2:observer;3",
			"server.255=127.0.0.1:1:2:observer;3", "server.256=127.0.0.1:1:2:observer;3")...),
		asked("leaving", true, leaving("1", "1,2", "1,2,3", "7", "x", "1,x", "1;2", " 1 , 2 ", "1,1", "99999999999999999999", "1.5", "server.1")...),
		asked("whole", true, whole("x", "server.9", observer, good, good+"\n"+good, three,
			three+"\ngroup.1=8", three+"\ngroup.1=6:7:8", three+"\ngroup.1=6:7:8\ngroup.2=8", three+"\nversion=5", three+"\nclientPort=5")...),
	}
}

// TestClientReconfig has our client take a member out and back.
func TestClientReconfig(t *testing.T) {
	for _, k := range kinds(t) {
		t.Run(string(k), func(t *testing.T) { testClientReconfig(t, k) })
	}
}

func testClientReconfig(t *testing.T, k kind) {
	cfg := ourClient
	cfg.lines = append([]string{"reconfigEnabled=true"}, cfg.lines...)
	e := startEnsemble(t, k, cfg)
	roles, ok := e.roles()
	if !ok {
		t.Fatal("the ensemble is not healthy")
	}
	leaves := e.id(roles[follower])
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	connect := func(o client.Options) *client.Client {
		o.Logger = client.NoLog
		c, err := client.Connect(ctx, roles[leader].addr, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) }) // it tried
		return c
	}
	if _, err := connect(client.Options{}).Ensemble().Reconfig(ctx, client.Members{Leaving: fmt.Sprint(leaves)}, -1); !errors.Is(err, client.ErrNoAuth) {
		t.Errorf("reconfig by anybody: %v", err)
	}
	c := connect(client.Options{Auth: []client.Auth{{Scheme: "digest", Data: []byte("super:secret")}}})
	if _, err := c.Ensemble().Reconfig(ctx, client.Members{Leaving: fmt.Sprint(leaves)}, 0x77777777); !errors.Is(err, client.ErrBadVersion) {
		t.Errorf("reconfig of another version: %v", err)
	}
	node, err := c.Unrooted().GetW(ctx, client.ConfigPath)
	if err != nil {
		t.Fatal(err)
	}
	after, err := c.Ensemble().Reconfig(ctx, client.Members{Leaving: fmt.Sprint(leaves)}, -1)
	gone := fmt.Sprintf("server.%d=", leaves)
	if err != nil || !strings.Contains(string(node.Data), gone) || strings.Contains(string(after.Data), gone) {
		t.Errorf("reconfig: %q, before %q, %v", after.Data, node.Data, err)
	}
	if ev, err := node.Watch.Next(ctx); err != nil || ev.Type != client.EventDataChanged || ev.Path != "/zookeeper/config" {
		t.Errorf("event %v, %v", ev, err)
	}
	for line := range strings.Lines(string(node.Data)) {
		if strings.HasPrefix(line, gone) {
			after, err = c.Ensemble().Reconfig(ctx, client.Members{Joining: strings.TrimSpace(line) + ";" + roles[follower].addr}, -1)
		}
	}
	if err != nil || !strings.Contains(string(after.Data), gone) {
		t.Errorf("reconfig back: %q, %v", after.Data, err)
	}
}

// id returns the id of a server.
func (e *ensemble) id(s *server) int { return 1 + slices.Index(e.servers, s) }

// TestKazooReconfig runs kazoo's tests of reconfig, which want three servers that allow it.
func TestKazooReconfig(t *testing.T) {
	kazooSuite(t, kazooRun{servers: 3, only: "TestReconfig", least: 3, lines: []string{"reconfigEnabled=true"}})
}

// TestCReconfig changes the members by the C client library.
func TestCReconfig(t *testing.T) {
	program := compileC(t, "client")
	for _, k := range kinds(t) {
		t.Run(string(k), func(t *testing.T) {
			e := startEnsemble(t, k, reconfigurable)
			roles, ok := e.roles()
			if !ok {
				t.Fatal("the ensemble is not healthy")
			}
			lines, err := e.lines()
			if err != nil {
				t.Fatal(err)
			}
			id := e.id(roles[follower])
			runProgram(t, program, roles[leader].addr, "reconfig", fmt.Sprint(id), lines[id-1])
		})
	}
}

// TestZkCliReconfig types reconfig and config into zkCli.sh, which uses the Java client, on
// ensembles of Apache and of the target, and compares what it prints.
func TestZkCliReconfig(t *testing.T) {
	needZkCli(t)
	reference, subject := startEnsembles(t, apache, reconfigurable)
	var transcripts [2][]string
	var wg sync.WaitGroup
	for i, e := range []*ensemble{reference, subject} {
		wg.Go(func() { transcripts[i] = e.reconfigSession(t) })
	}
	wg.Wait()
	if n := len(transcripts[0]); n < 30 {
		t.Errorf("the session on apache printed only %d lines:\n%s", n, strings.Join(transcripts[0], "\n"))
	}
	diff := diffLines(transcripts[0], transcripts[1])
	if diff != "" {
		t.Errorf("- %s\n+ %s\n%s", apache, subject.kind, diff)
	}
	different := strings.Count(diff, "\n- ")
	summary(t, t.Name(), len(transcripts[0])-different, different)
}

// versionLine is a line with a version of the members, as config and config -c print it.
var versionLine = regexp.MustCompile(`^(version=)?[0-9a-f]+( ,.*)?$`)

// reconfigSession is a session with the leader, which takes a follower out and back.
func (e *ensemble) reconfigSession(t *testing.T) []string {
	roles, _ := e.roles()
	if roles[leader] == nil {
		t.Errorf("the ensemble of %s is not healthy", e.kind)
		return nil
	}
	id := e.id(roles[follower])
	all, err := e.lines()
	if err != nil {
		t.Error(err)
		return nil
	}
	gone := all[id-1]
	file := filepath.Join(t.TempDir(), "members")
	if err := os.WriteFile(file, []byte(strings.Join(all, "\n")+"\n"), 0o644); err != nil {
		t.Error(err)
		return nil
	}
	script := strings.Join([]string{
		"config -w", "config -c",
		"reconfig -remove " + fmt.Sprint(id),
		"addauth digest super:secret",
		"reconfig -remove x", "reconfig -add nonsense", "reconfig -remove 1,2,3", "reconfig -v 7700000000 -remove " + fmt.Sprint(id),
		"reconfig -remove " + fmt.Sprint(id),
		"config", "config -c",
		"reconfig -add " + gone,
		"config",
		"reconfig -members " + strings.Join(all, ","),
		"reconfig -file " + file,
		"config",
	}, "\n") + "\n"
	lines := cliSession(t, roles[leader], []byte(script))
	for i, line := range lines {
		for role, name := range roleNames {
			line = strings.ReplaceAll(line, fmt.Sprintf("server.%d=", e.id(roles[role])), "server of the "+name+"=")
		}
		line = strings.ReplaceAll(places.ReplaceAllString(line, "PLACE"), "SERVER", "PLACE")
		lines[i] = versionLine.ReplaceAllString(line, "${1}V$2")
	}
	sortRuns(lines, func(line string) bool { return strings.HasPrefix(line, "server of") })
	return lines
}

// lines returns the servers' lines, with the addresses for their clients.
func (e *ensemble) lines() ([]string, error) {
	text, err := e.servers[0].config()
	if err != nil {
		return nil, err
	}
	var all []string
	for i, s := range e.servers {
		prefix := fmt.Sprintf("server.%d=", i+1)
		_, rest, _ := strings.Cut(text, prefix)
		line, _, _ := strings.Cut(rest, "\n")
		line, _, _ = strings.Cut(line, ";")
		all = append(all, prefix+line+";"+s.addr)
	}
	return all, nil
}

// config returns the data of /zookeeper/config.
func (s *server) config() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startDeadline)
	defer cancel()
	c, err := client.Connect(ctx, s.addr, client.Options{Logger: client.NoLog})
	if err != nil {
		return "", err
	}
	defer c.Close(context.Background()) // it tried
	node, err := c.Unrooted().Get(ctx, client.ConfigPath)
	return string(node.Data), err
}
