package zab

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/scenario"
	"github.com/zkd-project/zkd/jute"
)

// TestScenarios runs testdata/*.txt on the network. The commands:
//
//	ensemble V [O]        V voters and O observers, all started; "empty" as a last word: none
//	small                 caches and windows of some hundred bytes; before ensemble
//	start N... | kill N... | wipe N | damage N | freeze N... | thaw N...
//	cut A B | mend A B | deaf FROM TO | hear FROM TO | isolate N | heal
//	slow FROM TO | speed FROM TO   hold up the bulk lane, or release it
//	run MS                let time pass
//	settle                until all running servers serve, and have applied the same
//	status [N...]         print their status
//	propose N DATA        a transaction
//	members N LIST        change the members: "1 2 3 4o"
//	read N                a read barrier; its answer comes with "reads"
//	reads N
//	transfer N [TO]       hand over, to a certain server
//	purge N               the log up to what is applied
//	promise N EPOCH TO    on the disk of a stopped server
//	append N ZXID DATA    the same: an entry after its last
//	forge N LIST          the same: from here on these are the members, and that is committed
//	log N                 print the records on the disk and the history
//	lists N...            which members count there, and whether files differ
//	news N ZXID           the list that it tells a linked server, whose newest list is that one
//	space N BYTES         the tree of a server may take so much memory
//	least N               the least that the trees of all may take, as it knows
//	file N LIST           the list of its configuration file, from its next start on
//	copy N | restore N    copy the disk of a stopped server; put the copy back
//	vouch N               its operator accepts old data, from its next start on
//	trace [KIND...] | messages   collect messages between servers, and print them: those of
//	                      some kinds, or all but heartbeats; and snapshots
//	show                  print all messages, writes and roles from now on, with each command
//	inject FROM TO KIND [field=value ...]   print also what TO sends at once
//	events N              warnings and errors, since the last time
func TestScenarios(t *testing.T) {
	scenario.Run(t, "testdata/*.txt", func(t *testing.T) scenario.Command {
		return (&stage{t: t}).showing
	})
}

type stage struct {
	*network
	t       *testing.T
	small   bool
	tracing []string
	shown   []string // since the last command, after "show"
}

// showing executes a command. After "show" its output begins with what the servers did.
func (s *stage) showing(words []string) (string, error) {
	out, err := s.command(words)
	if len(s.shown) > 0 {
		out = strings.Join(s.shown, "\n") + "\n" + out
		s.shown = nil
	}
	return out, err
}

func (s *stage) command(words []string) (string, error) {
	args := words[1:]
	switch words[0] {
	case "small":
		s.small = true
	case "ensemble":
		s.ensemble(args)
	case "run":
		s.run(int(number(args[0])))
	case "settle":
		s.until(30_000, "all serve", func() bool { return s.settledDown() && s.converged() })
	case "heal":
		clear(s.cut)
		clear(s.deaf)
	case "cut", "mend":
		s.cut[pair(sid(args[0]), sid(args[1]))] = words[0] == "cut"
		s.connect()
	case "deaf", "hear":
		s.deaf[[2]SID{sid(args[0]), sid(args[1])}] = words[0] == "deaf"
	case "slow":
		s.slow[[2]SID{sid(args[0]), sid(args[1])}] = true
	case "speed":
		s.speedUp(sid(args[0]), sid(args[1]))
	case "trace":
		s.tracing = nil
		s.note = func(line string) { s.tracing = append(s.tracing, line) }
		s.trace = func(from, to SID, m *Message) {
			if slices.Contains(args, m.Kind.String()) || len(args) == 0 && m.Kind != MsgPing && m.Kind != MsgPong {
				s.tracing = append(s.tracing, fmt.Sprintf("%d>%d %v", from, to, m))
			}
		}
	case "show":
		s.show = func(format string, args ...any) { s.shown = append(s.shown, fmt.Sprintf(format, args...)) }
		s.trace = func(from, to SID, m *Message) { s.show("%d>%d %v", from, to, m) }
	case "messages":
		s.trace, s.note = nil, nil
		return strings.Join(s.tracing, "\n"), nil
	case "inject":
		return s.inject(args)
	case "status":
		return s.statuses(args), nil
	case "lists":
		return s.lists(args), nil
	case "news":
		return s.news(args)
	case "space":
		s.server(sid(args[0])).core.SetRoom(number(args[1]))
	case "least":
		bytes, of := s.server(sid(args[0])).core.LeastRoom()
		return fmt.Sprintf("%d bytes, on server %d", bytes, of), nil
	default:
		return s.each(words[0], args)
	}
	return "", nil
}

func (s *stage) ensemble(args []string) {
	observers := 0
	empty := args[len(args)-1] == "empty"
	if len(args) > 1 && args[1] != "empty" {
		observers = int(number(args[1]))
	}
	s.network = newNetwork(s.t, 1, int(number(args[0])), observers)
	s.tune = func(o *Options) {
		if s.small {
			o.CacheBytes, o.WindowBytes, o.BatchBytes = 300, 400, 200
		}
	}
	for _, one := range s.servers {
		if !empty {
			one.start()
		}
	}
}

// each runs a command for one or several servers.
func (s *stage) each(name string, args []string) (string, error) {
	switch name {
	case "start", "kill", "freeze", "thaw", "isolate":
		for _, arg := range args {
			s.lifecycle(name, s.server(sid(arg)))
		}
		return "", nil
	}
	if len(args) == 0 {
		return "", scenario.Unknown([]string{name})
	}
	one := s.server(sid(args[0]))
	switch name {
	case "wipe":
		one.wipe()
	case "damage":
		one.disk = append(one.disk, LogOp{Kind: LogIncarnation, Incarnation: s.newID(), Damaged: true})
	case "propose":
		if !one.propose(strings.Join(args[1:], " ")) {
			return "refused", nil
		}
		return one.core.LastZxid().String(), nil
	case "members":
		return one.changeMembers(args[1:]), nil
	case "read":
		one.core.ReadIndex(uint64(len(one.reads) + 1))
		one.take()
	case "reads":
		return one.answers(), nil
	case "transfer":
		if len(args) > 1 {
			if err := one.core.TransferTo(sid(args[1])); err != nil {
				return err.Error(), nil
			}
		} else {
			one.core.Transfer()
		}
		one.take()
	case "purge":
		one.logStart = one.state.Zxid
		one.core.LogPurged(one.logStart, 0)
		one.core.SnapshotTaken(one.logStart, 1000)
	case "promise":
		one.disk = append(one.disk, LogOp{Kind: LogPromise, Promise: Promise{uint32(number(args[1])), sid(args[2])}})
	case "append":
		r := one.recover()
		one.disk = append(one.disk, LogOp{Kind: LogAppend, Entry: Entry{Zxid: jute.Zxid(number(args[1])), Prev: r.LastZxid, Data: []byte(args[2])}})
	case "forge":
		s.forged = true
		m := parseMembers(args[1:])
		z := one.recover().LastZxid + 1
		one.disk = append(one.disk, LogOp{Kind: LogAppend, Entry: Entry{Zxid: z, Prev: z - 1, Type: EntryMembers, Data: m.Append(nil)}},
			LogOp{Kind: LogCommitHint, Upto: z})
	case "log":
		return one.listLog(), nil
	case "events":
		return one.warnings(), nil
	case "file":
		one.file = parseMembers(args[1:])
	case "copy":
		one.copied, one.copiedAs = slices.Clone(one.disk), one.incarnation
	case "restore":
		one.disk, one.incarnation = slices.Clone(one.copied), one.copiedAs
	case "vouch":
		one.vouched = true
	default:
		return "", scenario.Unknown([]string{name})
	}
	return "", nil
}

func (s *stage) lifecycle(name string, one *server) {
	switch name {
	case "start":
		one.start()
	case "kill":
		one.crash()
	case "freeze", "thaw":
		one.frozen = name == "freeze"
	case "isolate":
		for _, o := range s.servers {
			s.cut[pair(one.id, o.id)] = true
		}
		s.connect()
	}
}

func number(s string) uint64 {
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		panic(err)
	}
	return v
}

func sid(s string) SID { return SID(number(s)) }

func (s *stage) statuses(args []string) string {
	var b strings.Builder
	for _, one := range s.servers {
		if len(args) > 0 && !strings.Contains(strings.Join(args, " "), fmt.Sprint(one.id)) {
			continue
		}
		if !one.up {
			fmt.Fprintf(&b, "%d down\n", one.id)
			continue
		}
		st := one.core.Status()
		fmt.Fprintf(&b, "%d %s epoch %d", one.id, roleNames[st.Role], st.Epoch)
		if st.Leader != 0 {
			fmt.Fprintf(&b, " leader %d", st.Leader)
		}
		if st.Observer {
			b.WriteString(" observer")
		}
		fmt.Fprintf(&b, " last %v committed %v", one.core.LastZxid(), one.core.Committed())
		if st.NotCounted != "" {
			fmt.Fprintf(&b, " (%s)", st.NotCounted)
		}
		if st.Role == Halted {
			fmt.Fprintf(&b, ": %s", st.Reason)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// lists prints the servers' lists of members.
func (s *stage) lists(args []string) string {
	var b strings.Builder
	for _, arg := range args {
		one := s.server(sid(arg))
		if !one.up {
			continue
		}
		settled, newest := one.core.Lists()
		st := one.core.Status()
		fmt.Fprintf(&b, "%d: %v of %v", one.id, settled, st.Settled)
		if newest != settled {
			fmt.Fprintf(&b, ", and %v of %v", newest, st.List)
		}
		if st.FileDiffers {
			fmt.Fprintf(&b, "; its file %v", &one.file)
		}
		if st.OtherFiles > 0 {
			fmt.Fprintf(&b, "; %d servers with other files", st.OtherFiles)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (s *stage) news(args []string) (string, error) {
	theirs, err := strconv.ParseInt(args[1], 0, 64)
	if err != nil {
		return "", err
	}
	list := s.server(sid(args[0])).core.News(jute.Zxid(theirs))
	if list == nil {
		return "nothing", nil
	}
	return list.String(), nil
}

func parseMembers(words []string) (m Members) {
	for _, w := range words {
		id := strings.TrimSuffix(w, "o")
		m.List = append(m.List, Member{ID: sid(id), Observer: id != w})
	}
	return m
}

func (s *server) changeMembers(words []string) string {
	m := parseMembers(words)
	m.Commanded = true
	z, err := s.core.ProposeMembers(m)
	s.take()
	if err != nil {
		return err.Error()
	}
	return z.String()
}

func (s *server) answers() string {
	var list []string
	for _, r := range s.reads {
		if !r.OK {
			list = append(list, fmt.Sprintf("%d ask again", r.ID))
			continue
		}
		list = append(list, fmt.Sprintf("%d at %v", r.ID, r.Index))
	}
	s.reads = nil
	return strings.Join(list, "\n")
}

func (s *server) listLog() string {
	types := map[EntryType]string{EntryTxn: "", EntryMarker: " marker", EntryMembers: " members", EntryAdmit: " admit", EntryTxn | EntryAdmits: " and admit"}
	var list []string
	if s.base.Zxid != 0 {
		list = append(list, fmt.Sprintf("snapshot %v", s.base.Zxid))
	}
	for i := range s.log {
		e := &s.log[i]
		list = append(list, strings.TrimSpace(fmt.Sprintf("%v %s%s", e.Zxid, e.Txn(), types[e.Type])))
	}
	return strings.Join(list, "\n")
}

func (s *server) warnings() string {
	var list []string
	for _, e := range s.events {
		if e.Level >= Warn {
			list = append(list, fmt.Sprintf("%v: %s", e.Level, e.Text))
		}
	}
	s.events = nil
	return strings.Join(list, "\n")
}

// inject makes a server receive a message made by hand, and prints the messages that it
// sends and its new status.
func (s *stage) inject(args []string) (string, error) {
	from, to := sid(args[0]), s.server(sid(args[1]))
	m := Message{}
	for k, name := range messageNames {
		if name == args[2] {
			m.Kind = MessageKind(k)
		}
	}
	for _, arg := range args[3:] {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "epoch":
			m.Epoch = uint32(number(value))
		case "promise":
			m.Promise = uint32(number(value))
		case "zxid":
			m.Zxid = jute.Zxid(number(value))
		case "commit":
			m.Commit = jute.Zxid(number(value))
		case "seq":
			m.Seq = number(value)
		case "nonce":
			m.Nonce, m.Boot = number(value), to.core.opt.Boot
		case "entry":
			m.Prev = jute.Zxid(number(value)) - 1
			m.Entries = []Entry{{Zxid: m.Prev + 1, Prev: m.Prev, Data: []byte("injected")}}
		case "fresh":
			m.Nonce, m.Boot = to.core.vote.nonce, to.core.opt.Boot
		case "established":
			m.Flags |= FlagEstablished
		case "seeded":
			m.Flags |= FlagSeeded
		default:
			return "", errors.New("unknown field " + name)
		}
	}
	before, role, persisted := s.trace, to.role(), len(to.writing)
	var list []string
	s.trace = func(from, to SID, m *Message) { list = append(list, fmt.Sprintf("%d>%d %v", from, to, m)) }
	to.core.Recv(from, to.links[from], &m)
	to.take()
	s.trace = before
	if to.role() != role {
		list = append(list, "now "+roleNames[to.role()])
	}
	for _, w := range to.writing[persisted:] {
		for _, op := range w.ops {
			list = append(list, fmt.Sprintf("writes %s %v", []string{1: "entry", 2: "promise", 3: "truncate", 4: "hint", 5: "snapshot"}[op.Kind], op.Upto+op.Entry.Zxid))
		}
	}
	if len(list) == 0 {
		list = append(list, "nothing")
	}
	return strings.Join(list, "\n"), nil
}
