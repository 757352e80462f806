package main

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/cmd/zkcli/servers"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/api"
)

// pretended is the access to an ensemble whose servers nobody can ask.
type pretended struct {
	text    string
	asked   []string
	refuses error
}

func (p *pretended) Members() (string, error) { return p.text, nil }
func (p *pretended) MayChange() error         { return nil }

func (p *pretended) Reconfig(joining, leaving, all string, version int64) (string, error) {
	p.asked = append(p.asked, joining, leaving, all)
	if p.refuses != nil {
		return "", p.refuses
	}
	p.text = "server.1=h:1:2:participant;\nserver.2=h:3:4:participant;\nversion=200000001"
	return p.text, nil
}

func (p *pretended) TransferLeader(int64) error { return jute.ErrBadArguments }

const threeMembers = "server.1=h:1:2:participant;\nserver.2=h:3:4:participant;\nserver.3=h:5:6:participant;\nversion=100000001"

// TestOperatorChanges asks for changes, in dry runs and in earnest.
func TestOperatorChanges(t *testing.T) {
	for _, c := range []struct {
		name    string
		request api.MemberRequest
		how     api.ChangeOptions
		refuses error
		want    string // in what it says, or in the error
		asks    string // of the servers
	}{
		{"dry removal", api.MemberRequest{Action: "remove", Servers: []string{"3"}}, api.ChangeOptions{DryRun: true}, nil, "removes server 3 (h:5:6, participant)", ""},
		{"removal", api.MemberRequest{Action: "remove", Servers: []string{"3"}}, api.ChangeOptions{}, nil, "force=true", ""},
		{"removal that is meant", api.MemberRequest{Action: "remove", Servers: []string{"3"}}, api.ChangeOptions{Force: true}, nil, "removes server 3", ",3,"},
		{"no right", api.MemberRequest{Action: "demote", Servers: []string{"3"}}, api.ChangeOptions{Force: true}, jute.ErrNoAuth, "only the super user", "server.3=h:5:6:observer,,"},
		{"nothing to do", api.MemberRequest{Action: "promote", Servers: []string{"3"}}, api.ChangeOptions{}, nil, "", ""},
		{"no member", api.MemberRequest{Action: "promote", Servers: []string{"9"}}, api.ChangeOptions{DryRun: true}, nil, "server 9 is not a member", ""},
		{"no id", api.MemberRequest{Action: "remove", Servers: []string{"x"}}, api.ChangeOptions{}, nil, "is not the id of a server", ""},
		{"no line", api.MemberRequest{Action: "add", Servers: []string{"4=h"}}, api.ChangeOptions{}, nil, "is not a server", ""},
		{"no servers", api.MemberRequest{Action: "add"}, api.ChangeOptions{}, nil, "servers is empty", ""},
		{"no action", api.MemberRequest{Action: "stop", Servers: []string{"1"}}, api.ChangeOptions{}, nil, "there is no action", ""},
		{"half of a replacement", api.MemberRequest{Action: "replace", Servers: []string{"1"}}, api.ChangeOptions{}, nil, "replace takes", ""},
	} {
		p := &pretended{text: threeMembers, refuses: c.refuses}
		c.how.Timeout = time.Minute
		out, err := new(operator).Change(t.Context(), p, &c.request, c.how)
		got := ""
		if out != nil {
			got = strings.Join(out.Does, "; ")
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if asked := strings.Join(p.asked, ","); asked != c.asks {
			t.Errorf("%s: the servers were asked for %q, want %q", c.name, asked, c.asks)
		}
		if out != nil && (out.Changed != (c.asks != "") || out.DryRun != c.how.DryRun) {
			t.Errorf("%s: %+v", c.name, out)
		}
	}
}

// TestRemovalOfTheQuorum removes the only server that is up of three.
func TestRemovalOfTheQuorum(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // nobody answers at this address
	if err != nil {
		t.Fatal(err)
	}
	down := l.Addr().String()
	l.Close()
	p := &pretended{text: "server.1=h:1:2:participant;\nserver.2=h:3:4:participant;" + down + "\nserver.3=h:5:6:participant;" + down + "\nversion=100000001"}
	r := api.MemberRequest{Action: "remove", Servers: []string{"1"}}
	for _, dry := range []bool{true, false} {
		_, err := new(operator).Change(t.Context(), p, &r, api.ChangeOptions{DryRun: dry, Force: true, Timeout: time.Minute})
		if err == nil || !strings.Contains(err.Error(), "are no quorum") || p.asked != nil {
			t.Errorf("dry run %v: %v, asked for %q", dry, err, p.asked)
		}
	}
}

// TestTransferIsRefused asks for leaders that can't be.
func TestTransferIsRefused(t *testing.T) {
	p := &pretended{text: threeMembers + "\nserver.4=h:7:8:observer;"}
	o := &operator{servers.Asker{}}
	for id, want := range map[int64]string{9: "is not a member", 4: "it is no voter", 2: "it is no voter, or not up to date"} {
		if err := o.TransferLeader(t.Context(), p, id, id != 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("server %d: %v, want %q", id, err, want)
		}
	}
	if err := o.TransferLeader(t.Context(), p, 2, false); !errors.Is(err, jute.ErrBadArguments) {
		t.Errorf("%v", err)
	}
}
