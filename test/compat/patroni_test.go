//go:build compat

package compat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/zkd-project/zkd/internal/testing/freeport"
)

const (
	postgresBin     = "/usr/lib/postgresql/15/bin"
	patroniDeadline = 3 * time.Minute
)

// patroniFile is a member's configuration. ttl is the time-out of the session; loop_wait
// and twice retry_timeout together are less. A primary that can't reach the ensemble for
// retry_timeout steps down.
var patroniFile = template.Must(template.New("").Parse(`scope: accounts
name: {{.Name}}
restapi: {listen: "127.0.0.1:{{.Rest}}", connect_address: "127.0.0.1:{{.Rest}}"}
zookeeper: {hosts: "{{.Hosts}}"}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 8
    synchronous_mode: true
    postgresql: {use_pg_rewind: true}
  initdb: [{encoding: UTF8}, {locale: C.UTF-8}, data-checksums, no-sync]
  pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
postgresql:
  listen: "127.0.0.1:{{.Postgres}}"
  connect_address: "127.0.0.1:{{.Postgres}}"
  data_dir: {{.Dir}}/data
  bin_dir: {{.Bin}}
  pgpass: {{.Dir}}/pgpass
  authentication:
    superuser: {username: postgres}
    replication: {username: replicator}
  parameters: {unix_socket_directories: "", fsync: "off", shared_buffers: 16MB, max_connections: 20}
  basebackup: [{checkpoint: fast}]
`))

// patroniMember is one Patroni and its PostgreSQL.
type patroniMember struct {
	Name, Dir, Hosts, Bin string
	Rest, Postgres        int

	user   *syscall.SysProcAttr
	exited chan struct{}
	cmd    *exec.Cmd
}

// patroniCluster is two members of one PostgreSQL cluster.
type patroniCluster struct {
	t       *testing.T
	members []*patroniMember
	rows    int // how many rows were written, and acknowledged
	// The longest time between two acknowledgements, and the last one.
	gap  time.Duration
	last time.Time
}

// patroniState is what Patroni says of a member.
type patroniState struct {
	Name     string `json:"name"`
	Role     string `json:"role"`
	State    string `json:"state"`
	Timeline int    `json:"timeline"`
}

func needPatroni(t testing.TB) {
	t.Helper()
	require(t,
		need{"/usr/bin/patroni", "patroni"},
		need{"/usr/bin/patronictl", "patroni"},
		need{"/usr/lib/python3/dist-packages/kazoo/client.py", "python3-kazoo"},
		need{postgresBin + "/postgres", "postgresql-15"},
		need{postgresBin + "/psql", "postgresql-client-15"})
}

// newPatroni prepares a cluster whose members keep their state on the given servers: on the same ones,
// or each on its own.
func newPatroni(t *testing.T, hosts ...string) *patroniCluster {
	t.Helper()
	p := &patroniCluster{t: t}
	dir, err := os.MkdirTemp("", "zkd-patroni-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 { // as whom PostgreSQL does not run
		attr.Credential = credentialOf(t, "postgres")
		if err := os.Chown(dir, int(attr.Credential.Uid), int(attr.Credential.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	ports := freeport.For(t, 4)
	for i, name := range []string{"one", "two"} {
		m := &patroniMember{Name: name, Dir: filepath.Join(dir, name), Hosts: hosts[i%len(hosts)], Bin: postgresBin,
			Rest: ports[2*i], Postgres: ports[2*i+1], user: attr}
		if err := m.prepare(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.kill)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("log of Patroni %s ends:\n%s", m.Name, tail(m.file("log"), 60))
			}
		})
		p.members = append(p.members, m)
	}
	return p
}

func credentialOf(t testing.TB, name string) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if uidErr != nil || gidErr != nil {
		t.Fatalf("user %s has ids %s and %s", name, u.Uid, u.Gid)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func (m *patroniMember) file(name string) string { return filepath.Join(m.Dir, name) }

func (m *patroniMember) prepare() error {
	if err := os.Mkdir(m.Dir, 0o700); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := patroniFile.Execute(&text, m); err != nil {
		return err
	}
	if err := os.WriteFile(m.file("patroni.yml"), text.Bytes(), 0o644); err != nil {
		return err
	}
	if c := m.user.Credential; c != nil {
		return os.Chown(m.Dir, int(c.Uid), int(c.Gid))
	}
	return nil
}

// command is a program that runs as the member's user.
func (m *patroniMember) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.SysProcAttr = m.Dir, m.user
	cmd.Env = append(os.Environ(), "HOME="+m.Dir, "PYTHONDONTWRITEBYTECODE=1", "LC_ALL=C.UTF-8")
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func (m *patroniMember) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(m.file("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd, exited := m.command(context.WithoutCancel(t.Context()), "/usr/bin/patroni", m.file("patroni.yml")), make(chan struct{})
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.cmd, m.exited = cmd, exited
	go func() {
		cmd.Wait() // how it ended is in its log
		close(exited)
	}()
}

// kill ends Patroni and its PostgreSQL at once, as a machine that loses its power does.
func (m *patroniMember) kill() {
	if m.cmd == nil {
		return
	}
	m.cmd.Process.Kill() // it may be gone already
	<-m.exited
	text, err := os.ReadFile(m.file("data/postmaster.pid"))
	if err != nil {
		return
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if pid, err := strconv.Atoi(first); err == nil && pid > 1 {
		syscall.Kill(pid, syscall.SIGKILL) // it may be gone already
	}
}

// sql runs a statement on a member's PostgreSQL and returns what it prints.
func (m *patroniMember) sql(statement string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := m.command(ctx, postgresBin+"/psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1",
		"-p", strconv.Itoa(m.Postgres), "-U", "postgres", "-c", statement, "postgres")
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, fmt.Errorf("psql on %s: %s: %w: %s", m.Name, statement, err, text)
	}
	return text, nil
}

// expect runs a statement and compares what it prints.
func (m *patroniMember) expect(statement, want string) error {
	got, err := m.sql(statement)
	if err == nil && got != want {
		return fmt.Errorf("%s on %s: %s, want %s", statement, m.Name, got, want)
	}
	return err
}

// cluster is what a member's REST interface tells of the cluster.
func (m *patroniMember) cluster() ([]patroniState, error) {
	client := http.Client{Timeout: 5 * time.Second}
	reply, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/cluster", m.Rest))
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	var body struct{ Members []patroniState }
	if err := json.NewDecoder(reply.Body).Decode(&body); err != nil {
		return nil, fmt.Errorf("read /cluster of %s: %w", m.Name, err)
	}
	return body.Members, nil
}

// ctl runs patronictl.
func (p *patroniCluster) ctl(args ...string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patroniDeadline)
	defer cancel()
	m := p.members[0]
	out, err := m.command(ctx, "/usr/bin/patronictl", append([]string{"-c", m.file("patroni.yml")}, args...)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("patronictl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// member is the one with the given name.
func (p *patroniCluster) member(name string) *patroniMember {
	i := slices.IndexFunc(p.members, func(m *patroniMember) bool { return m.Name == name })
	return p.members[i]
}

// someone reports whether a statement prints this on a member.
func (p *patroniCluster) someone(statement, want string) (err error) {
	for _, m := range p.members {
		if err = m.expect(statement, want); err == nil {
			return nil
		}
	}
	return err
}

// await polls until f gives no error.
func (p *patroniCluster) await(what string, f func() error) {
	p.t.Helper()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	deadline := time.Now().Add(patroniDeadline)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: not after %v: %v", what, patroniDeadline, err)
		}
		<-poll.C
	}
}

// awaitRoles waits until a member says that the cluster's members have these roles and
// run, and that the primary takes writes.
func (p *patroniCluster) awaitRoles(what, asked string, roles map[string]string) {
	p.t.Helper()
	began := time.Now()
	p.await(what, func() error {
		states, err := p.member(asked).cluster()
		if err != nil {
			return err
		}
		got := map[string]string{}
		for _, s := range states {
			if s.State == "running" || s.State == "streaming" {
				got[s.Name] = s.Role
			}
		}
		for name, role := range roles {
			if got[name] != role || len(got) != len(roles) {
				return fmt.Errorf("roles are %v, want %v; members: %+v", got, roles, states)
			}
		}
		return nil
	})
	p.t.Logf("%s: %v", what, time.Since(began).Round(100*time.Millisecond))
}

// write adds a row on a member, and notes that it was acknowledged.
func (p *patroniCluster) write(name string) error {
	_, err := p.member(name).sql(fmt.Sprintf("insert into entries values (%d)", p.rows+1))
	if err == nil {
		p.rows++
		p.gap, p.last = max(p.gap, time.Since(p.last)), time.Now()
	}
	return err
}

// checkRows waits until a member has every acknowledged row.
func (p *patroniCluster) checkRows(name string) {
	p.t.Helper()
	p.await("rows on "+name, func() error {
		got, err := p.member(name).sql("select count(*) from entries")
		if err == nil && got != strconv.Itoa(p.rows) {
			return fmt.Errorf("%s rows, want %d", got, p.rows)
		}
		return err
	})
}

// timeline is the number of a member's timeline: each promotion begins a new one.
func (p *patroniCluster) timeline(name string) string {
	p.t.Helper()
	got, err := p.member(name).sql("select timeline_id from pg_control_checkpoint()")
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

// writeWhile writes to a member as fast as it goes, until f has returned. Each write must
// succeed.
func (p *patroniCluster) writeWhile(name string, f func()) {
	p.t.Helper()
	stop, written := make(chan struct{}), make(chan error)
	before := p.rows
	p.gap, p.last = 0, time.Now()
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				written <- nil
				return
			default:
				err = p.write(name)
			}
		}
		<-stop
		written <- err
	}()
	defer func() { // also when f ends the test
		close(stop)
		if err := <-written; err != nil {
			p.t.Errorf("after %d rows: %v", p.rows-before, err)
		}
		p.t.Logf("%d rows written meanwhile", p.rows-before)
	}()
	f()
}

var lostByKazoo = regexp.MustCompile(`(?i)connection (dropped|lost|time-out|closed)|connectionloss|session (lost|has expired)|sessionexpired|communicating with DCS|kazootimeout`)

// complaints returns the lines of the log about a lost connection to the ensemble.
func (m *patroniMember) complaints(t *testing.T) []string {
	return linesOf(t, m.file("log"), lostByKazoo)
}

// linesOf returns the lines of a file that match.
func linesOf(t *testing.T, file string, match *regexp.Regexp) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if match.MatchString(line) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
