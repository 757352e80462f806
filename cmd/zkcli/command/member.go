package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/member"
	"github.com/zkd-project/zkd/cmd/zkcli/servers"
)

// memberActions make a change of the members from the arguments after the action.
var memberActions = map[string]struct {
	synopsis    string
	least, most int // arguments; most 0 is any number
	change      func(args []string, o *memberOptions) (member.Change, error)
}{
	"add":     {"add ID=HOST:PORT:PORT[:ROLE];[HOST:]PORT ...", 1, 0, func(args []string, o *memberOptions) (member.Change, error) { return member.Add(args, o.group) }},
	"remove":  {"remove ID ...", 1, 0, func(args []string, _ *memberOptions) (member.Change, error) { return member.Remove(args) }},
	"promote": {"promote ID ...", 1, 0, func(args []string, _ *memberOptions) (member.Change, error) { return member.Promote(args) }},
	"demote":  {"demote ID ...", 1, 0, func(args []string, _ *memberOptions) (member.Change, error) { return member.Demote(args) }},
	"replace": {"replace ID ID=HOST:PORT:PORT[:ROLE];[HOST:]PORT", 2, 2, func(args []string, _ *memberOptions) (member.Change, error) { return member.Replace(args[0], args[1]) }},
}

// memberOptions are the flags of member.
type memberOptions struct {
	yes, json bool
	timeout   time.Duration
	within    time.Duration
	group     string

	// Of drain.
	share    float64
	shareSet bool
	keepAway time.Duration
	letIn    bool
}

func memberCommand() Command {
	return Command{
		Name: "member", Synopsis: "list | add SERVER ... | remove ID ... | promote ID ... | demote ID ... | replace ID SERVER | transfer-leader ID | drain ID | retire",
		Short: "Show and change the members of the ensemble",
		Long: "list shows each member: role, addresses, state, how far it is behind the leader; and\n" +
			"how many failures the ensemble tolerates.\n" +
			"add adds servers, which are written as in the configuration file. A voter must run: its\n" +
			"file has the lines of the members and its own, and reconfigEnabled=true. It learns\n" +
			"without a vote, and becomes a member when it is up to date.\n" +
			"remove removes servers, which may be dead. promote makes voters of observers, demote\n" +
			"observers of voters. replace adds a server and removes another one in one step.\n" +
			"Each says what it will do and which failures the ensemble tolerates afterwards. If\n" +
			"these are fewer, or a server is removed, it asks; if nobody can be asked it wants\n" +
			"--yes. A command that was interrupted can be repeated: what is done is left alone.\n" +
			"transfer-leader makes a voter the leader. drain moves the clients of a server to others,\n" +
			"bit by bit, and keeps clients away for a while, so that it can be stopped; --end lets\n" +
			"them in again. With --share it moves a part of them, once, to spread them after others\n" +
			"have come back.\n" +
			"retire ends the service of the whole ensemble, so that standbys can take its place without a\n" +
			"loss: clients are sent away, nothing is written, and no session expires. --end takes that back.\n" +
			"The servers need reconfigEnabled=true, and changes the super user (--auth).",
		Examples: []Example{
			{"member list", "the members and their state"},
			{`member add "4=zk4:2888:3888;2181"`, "a further voter"},
			{`member add "5=zk5:2888:3888:observer;2181"`, "a further observer"},
			{`member replace 3 "6=zk6:2888:3888;2181"`, "server 6 for server 3, which may be dead"},
			{"member remove --yes 4 5", "from a script"},
			{"member demote 2", "a voter becomes an observer"},
			{"member transfer-leader 2", "server 2 is to lead"},
			{"member drain 1", "the clients of server 1 go to others, and none come for 10 minutes"},
			{"member drain --share 0.5 1", "half of the clients of server 1 go to others"},
			{"member retire", "standbys are to take the place of this ensemble"},
		},
		Args: []Arg{
			{Name: "list, add, remove, promote, demote, replace, transfer-leader, drain or retire", Kind: Word,
				Words: []string{"list", "add", "remove", "promote", "demote", "replace", "transfer-leader", "drain", "retire"}},
			{Name: "server", Kind: Text},
		},
		Required: 1, Repeat: true,
		Setup: func(flags *cobra.Command) Run {
			o := memberOptions{timeout: 10 * time.Minute, within: 3 * time.Second, keepAway: 10 * time.Minute}
			f := flags.Flags()
			f.BoolVar(&o.yes, "yes", false, "don't ask")
			f.BoolVar(&o.json, "json", false, "as -o json")
			f.Var((*millis)(&o.timeout), "timeout", "give a change up after this time")
			f.Var((*millis)(&o.within), "within", "wait so long for the state of a server")
			f.StringVar(&o.group, "group", "", "the group of added voters, if the ensemble has groups")
			f.Float64Var(&o.share, "share", 0, "drain moves this part of the clients, such as 0.3, and keeps nobody away")
			f.Var((*millis)(&o.keepAway), "for", "drain keeps clients away for this time")
			f.BoolVar(&o.letIn, "end", false, "drain lets clients in again, and so does retire")
			return func(ctx context.Context, c *Call) error {
				o.shareSet = f.Changed("share")
				if o.json {
					c.Options.Format = FormatJSON
				}
				return c.member(ctx, &o)
			}
		},
	}
}

func (c *Call) member(ctx context.Context, o *memberOptions) error {
	action, args := strings.ToLower(c.Arg(0)), c.Args[1:]
	asker, err := c.Options.security.asker()
	if err != nil {
		return err
	}
	e := &memberEnsemble{c, asker, o.within}
	if action == "list" {
		if len(args) > 0 {
			return c.Usage("list takes no arguments")
		}
		return c.memberList(ctx, e)
	}
	switch action {
	case "retire":
		if len(args) > 0 {
			return c.Usage("retire takes no arguments")
		}
		return c.retire(ctx, e, o)
	case "transfer-leader", "drain":
		id, err := c.serverID(args)
		switch {
		case err != nil:
			return err
		case action == "drain":
			return c.drain(ctx, e, id, o)
		}
		return c.transferLeader(ctx, e, id, o.timeout)
	}
	a, ok := memberActions[action]
	if !ok {
		return c.Usage("there is no %q", c.Arg(0))
	}
	if len(args) < a.least || a.most > 0 && len(args) > a.most {
		return &UsageError{Command: "member " + action, Text: "wrong number of arguments", Usage: "member " + a.synopsis}
	}
	change, err := a.change(args, o)
	if err != nil {
		return &UsageError{Command: "member " + action, Text: err.Error()}
	}
	r := member.Runner{Ensemble: e, Timeout: o.timeout, Progress: c.memberProgress,
		Announce: func(a member.Announcement) error { return c.memberAnnounce(&a, o.yes) }}
	res, err := r.Run(ctx, change)
	if err != nil {
		return err
	}
	return c.memberResult(&res, e)
}

// memberAnnounce says what will be done, and asks if it has to.
func (c *Call) memberAnnounce(a *member.Announcement, yes bool) error {
	if a.Ask && !yes {
		return c.confirm(a.String(), true)
	}
	if c.Options.Format != FormatJSON {
		c.App.say("%s", a)
	}
	return nil
}

// memberProgress says what is waited for.
func (c *Call) memberProgress(text string) {
	if c.Options.Format != FormatJSON {
		c.App.say("waiting: %s", text)
	} else if line, err := json.Marshal(map[string]string{"waiting": text}); err == nil {
		c.App.say("%s", line)
	}
}

// memberDoc is the result of a change in JSON.
type memberDoc struct {
	Changed bool             `json:"changed"` // false if there was nothing to do
	Did     []string         `json:"did"`
	Before  member.Tolerance `json:"before"`
	After   member.Tolerance `json:"after"`
	Version string           `json:"version"`
	Servers []configServer   `json:"servers"`
}

func (c *Call) memberResult(res *member.Result, e member.Ensemble) error {
	doc := memberDoc{Changed: res.Changed, Did: res.Does, Before: res.Before, After: res.After, Version: fmt.Sprintf("%x", res.List.Version)}
	for _, s := range res.List.Servers {
		doc.Servers = append(doc.Servers, configServer{ID: fmt.Sprint(s.ID), Peers: s.Quorum, Role: s.Role(), Client: e.Address(s)})
	}
	note := "The members are changed: " + idsOf(&res.List) + "; version " + doc.Version
	if !res.Changed {
		note = "Nothing to do: the members are " + idsOf(&res.List)
	}
	return c.Emit(Output{Note: note, Data: doc})
}

// idsOf returns the ids of the members, in which observers are marked.
func idsOf(l *member.List) string {
	var ids []string
	for _, s := range l.Servers {
		id := fmt.Sprint(s.ID)
		if s.Observer {
			id += " (observer)"
		}
		ids = append(ids, id)
	}
	return strings.Join(ids, ", ")
}

// memberListDoc is the members and their state in JSON.
type memberListDoc struct {
	Version   string           `json:"version"`
	Members   []member.Member  `json:"members"`
	Tolerance member.Tolerance `json:"tolerance"`
	// NonVoting is how many servers follow the leader without a vote.
	NonVoting int64 `json:"nonVoting"`
}

func (c *Call) memberList(ctx context.Context, e member.Ensemble) error {
	st, err := member.Look(ctx, e)
	if err != nil {
		return err
	}
	doc := memberListDoc{fmt.Sprintf("%x", st.List.Version), st.Members(), st.Tolerance(), st.NonVoting()}
	rows := [][]string{{"ID", "ROLE", "QUORUM", "CLIENT", "STATE", "ZXID", "BEHIND"}}
	var notes, ids []string
	for _, m := range doc.Members {
		id := fmt.Sprint(m.ID)
		ids = append(ids, id)
		rows = append(rows, []string{id, m.Role, m.Quorum, cmp.Or(m.Client, "-"), m.State, cmp.Or(m.Zxid, "-"), known(m.Behind)})
		if m.Demoted {
			notes = append(notes, fmt.Sprintf("server %d: demoted by autopilot; it becomes a voter again when it is back and up to date", m.ID))
		}
		if m.Problem != "" {
			notes = append(notes, fmt.Sprintf("server %d: %s", m.ID, m.Problem))
		}
	}
	notes = append(notes, doc.Tolerance.String())
	if doc.NonVoting > 0 {
		notes = append(notes, fmt.Sprintf("learners without a vote: %d (not added yet, or removed and still running)", doc.NonVoting))
	}
	return c.Emit(Output{Text: string(table(rows, false)) + strings.Join(notes, "\n"), Table: rows, Data: doc, Raw: lines(ids)})
}

// memberEnsemble is the ensemble to which zkcli is connected.
type memberEnsemble struct {
	c      *Call
	asker  servers.Asker
	within time.Duration
}

func (e *memberEnsemble) Members(ctx context.Context) (string, error) {
	zk, err := e.client(ctx)
	if err != nil {
		return "", err
	}
	if err := zk.Sync(ctx, client.ConfigPath); err != nil {
		return "", err
	}
	node, err := zk.Get(ctx, client.ConfigPath)
	return string(node.Data), err
}

// MayChange implements member.Ensemble, by a write of the node whose ACL gives the right and a change, both with a version that the node
// never has: servers look at reconfigEnabled before that.
func (e *memberEnsemble) MayChange(ctx context.Context) error {
	zk, err := e.client(ctx)
	if err != nil {
		return err
	}
	if _, err = zk.Set(ctx, client.ConfigPath, nil, math.MinInt32); errors.Is(err, client.ErrBadVersion) {
		_, err = zk.Ensemble().Reconfig(ctx, client.Members{}, math.MinInt32)
	}
	if errors.Is(err, client.ErrBadVersion) || errors.Is(err, client.ErrReconfigInProgress) {
		return nil
	}
	return err
}

func (e *memberEnsemble) Reconfig(ctx context.Context, m client.Members, version int64) (string, error) {
	zk, err := e.client(ctx)
	if err != nil {
		return "", err
	}
	node, err := zk.Ensemble().Reconfig(ctx, m, version)
	return string(node.Data), err
}

func (e *memberEnsemble) Address(s member.Server) string { return s.Address(e.asker) }

func (e *memberEnsemble) Look(ctx context.Context, addrs []string) []servers.View {
	return servers.LookAll(ctx, addrs, e.within, e.asker.Look)
}

// client returns the client, of a new session if the last one has ended.
func (e *memberEnsemble) client(ctx context.Context) (*client.Client, error) {
	zk, err := e.c.Client(ctx)
	if errors.Is(err, client.ErrSessionExpired) {
		e.c.App.conn.close()
		zk, err = e.c.Client(ctx)
	}
	if err != nil {
		return nil, err
	}
	return zk.Unrooted(), nil
}
