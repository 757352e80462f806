package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

// output is what a program under test prints; it tells when a line has come.
type output struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	lines chan string
}

func newOutput() *output { return &output{lines: make(chan string, 1000)} }

// Write takes what was printed.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(p)
	for {
		line, err := o.buf.ReadString('\n')
		if err != nil {
			o.buf.WriteString(line)
			return len(p), nil
		}
		o.lines <- strings.TrimSuffix(line, "\n")
	}
}

// await returns the next line that has the text.
func (o *output) await(t *testing.T, text string) string {
	t.Helper()
	for {
		select {
		case line := <-o.lines:
			if strings.Contains(line, text) {
				return line
			}
		case <-t.Context().Done():
			t.Fatalf("no line with %q", text)
		}
	}
}

// running is a zkcli that runs.
type running struct {
	out, err *output
	stop     context.CancelFunc
	code     chan int
}

func start(t *testing.T, server string, args ...string) *running {
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{out: newOutput(), err: newOutput(), stop: cancel, code: make(chan int, 1)}
	t.Cleanup(cancel)
	go func() {
		a := New(Streams{In: strings.NewReader(""), Out: r.out, Err: r.err, Getenv: func(string) string { return "" }})
		defer a.Close()
		r.code <- a.Run(ctx, append([]string{"-server", server}, args...))
	}()
	return r
}

func TestWatchGoesOnAfterALostConnection(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	create(t, c, "/w", "")
	r := start(t, s.ConnectString(), "watch", "-r", "-d", "-n", "3", "/w")
	r.err.await(t, "watching /w")
	create(t, c, "/w/a", "one")
	if line := r.out.await(t, "/w/a"); !strings.HasSuffix(line, `  created  /w/a  "one"`) {
		t.Errorf("got %s", line)
	}
	s.CutConnections()
	if line := r.out.await(t, "rearmed"); !strings.HasSuffix(line, "changes may have been missed") {
		t.Errorf("got %s", line)
	}
	c = s.Client(t) // the other may not have seen yet that it was cut
	if _, err := c.Set(t.Context(), "/w/a", []byte("two"), client.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if line := r.out.await(t, "  changed  "); !strings.HasSuffix(line, `/w/a  "two"`) {
		t.Errorf("got %s", line)
	}
	if err := c.Delete(t.Context(), "/w/a", client.AnyVersion); err != nil {
		t.Fatal(err)
	}
	r.out.await(t, "  deleted  /w/a")
	if code := <-r.code; code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestWatchEndsByCtrlC(t *testing.T) {
	s := zktest.Start(t)
	r := start(t, s.ConnectString(), "watch", "/")
	r.err.await(t, "watching /")
	r.stop()
	if code := <-r.code; code != exitInterrupt {
		t.Errorf("exit %d", code)
	}
}

func create(t *testing.T, c *client.Client, path, data string) {
	t.Helper()
	if _, err := c.Create(t.Context(), path, []byte(data), client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// nothingBelow checks that a lock left nothing. Its path, a container, may be gone.
func nothingBelow(t *testing.T, c *client.Client, path string) {
	t.Helper()
	list, err := c.Children(t.Context(), path)
	if err != nil && !errors.Is(err, client.ErrNoNode) || len(list.Names) != 0 {
		t.Errorf("left: %q, %v", list.Names, err)
	}
}

// setUntil changes a node again and again until a line has come.
func setUntil(t *testing.T, c *client.Client, path string, lines <-chan string) string {
	t.Helper()
	for {
		select {
		case line := <-lines:
			return line
		default:
		}
		if _, err := c.Set(t.Context(), path, []byte("x"), client.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWatchInJSON(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	create(t, c, "/w", "")
	r := start(t, s.ConnectString(), "watch", "-d", "--json", "-n", "1", "/w")
	line := setUntil(t, c, "/w", r.out.lines)
	var got change
	if err := json.Unmarshal([]byte(line), &got); err != nil || got.Type != "changed" || got.Path != "/w" || got.Data == nil || *got.Data != "x" {
		t.Errorf("%s: %v", line, err)
	}
	if code := <-r.code; code != 0 {
		t.Errorf("exit %d", code)
	}
}

// A feed has what was before it began, and what happened while it was not connected.
func TestFeedMissesNothing(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	create(t, c, "/f", "")
	create(t, c, "/f/a", "one")
	r := start(t, s.ConnectString(), "feed", "--after", "0", "-d", "-n", "4", "/f")
	r.err.await(t, "following /f")
	if line := r.out.await(t, "/f/a"); !strings.HasSuffix(line, `  created  /f/a  "one"`) {
		t.Errorf("got %s", line)
	}
	s.CutConnections()
	c = s.Client(t) // the other may not have seen yet that it was cut
	if _, err := c.Set(t.Context(), "/f/a", []byte("two"), client.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), "/f/a", client.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if line := r.out.await(t, "  data  "); !strings.HasSuffix(line, `/f/a  "two"`) {
		t.Errorf("got %s", line)
	}
	r.out.await(t, "  deleted  /f/a")
	if code := <-r.code; code != 0 {
		t.Errorf("exit %d", code)
	}
}

// A feed says that it follows when the server has it, also after a request that was lost: what is changed
// from then on is printed.
func TestFeedFollowsWhenItSaysSo(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	s.CutBefore(zktest.Op(jute.OpSubscribe))
	r := start(t, s.ConnectString(), "feed", "-n", "1", "/f")
	r.err.await(t, "following /f")
	if s.Requests().Of(jute.OpSubscribe) == 0 {
		t.Fatal("it says so before the server has heard of the feed")
	}
	create(t, c, "/f", "")
	r.out.await(t, "  created  /f")
	if code := <-r.code; code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestFeedInJSON(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	create(t, c, "/f", "x")
	r := start(t, s.ConnectString(), "feed", "--after", "0", "-a", "-d", "--json", "-n", "1", "/f")
	line := r.out.await(t, "{")
	var got fedChange
	if err := json.Unmarshal([]byte(line), &got); err != nil || got.Kind != "created" || got.Path != "/f" || got.Data == nil || *got.Data != "x" || got.Resume == "" || got.Stat == nil {
		t.Errorf("%s: %v", line, err)
	}
	if code := <-r.code; code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestTopCountsChanges(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	create(t, c, "/hot", "")
	create(t, c, "/hot/spot", "")
	r := start(t, s.ConnectString(), "top", "-o", "json", "-i", "100ms", "-d", "1")
	var f topFrame
	for f.Changes == 0 {
		line := setUntil(t, c, "/hot/spot", r.out.lines)
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	if len(f.Subtrees) != 1 || f.Subtrees[0].Path != "/hot" {
		t.Errorf("changed are %v", f.Subtrees)
	}
	r.stop()
	if code := <-r.code; code != exitInterrupt {
		t.Errorf("exit %d", code)
	}
	if code := <-start(t, s.ConnectString(), "top", "-n", "2", "-i", "1ms").code; code != 0 {
		t.Errorf("two frames: exit %d", code)
	}
}

func TestLockRunsAProgram(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	r := start(t, s.ConnectString(), "lock", "/locks/a", "--", "sh", "-c", "echo $ZKCLI_LOCK_PATH $ZKCLI_FENCING_TOKEN; exit 5")
	line := r.out.await(t, "/locks/a/_c_")
	if code := <-r.code; code != 5 {
		t.Errorf("exit %d, want the program's", code)
	}
	if !strings.Contains(line, "-lock-0000000000 ") {
		t.Errorf("the layout is not Curator's: %s", line)
	}
	if extra := len(r.out.lines); extra > 0 {
		t.Errorf("%d lines on stdout that are not the program's: %q", extra, <-r.out.lines)
	}
	nothingBelow(t, c, "/locks/a")
	r = start(t, s.ConnectString(), "lock", "/locks/a", "--", "sh", "-c", "kill -9 $$")
	if code := <-r.code; code != 128+9 {
		t.Errorf("exit %d of a program that was killed", code)
	}
	r = start(t, s.ConnectString(), "lock", "/locks/a", "--", "no-such-program")
	if line := r.err.await(t, ""); line != "can't run no-such-program: executable file not found in $PATH" {
		t.Error(line)
	}
	if code := <-r.code; code != exitUnknown {
		t.Errorf("exit %d of a program that isn't there", code)
	}
}

// Each holder appends two lines to a file; they must not mix. The tokens must grow.
func TestLockIsHeldByOneAtATime(t *testing.T) {
	s := zktest.Start(t)
	file := filepath.Join(t.TempDir(), "log")
	const n = 8
	var all []*running
	for range n {
		all = append(all, start(t, s.ConnectString(), "lock", "/l", "--", "sh", "-c",
			"echo $ZKCLI_FENCING_TOKEN >> "+file+"; ls / > /dev/null; echo $ZKCLI_FENCING_TOKEN >> "+file))
	}
	for _, r := range all {
		if code := <-r.code; code != 0 {
			t.Errorf("exit %d", code)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tokens := strings.Fields(string(data))
	for i := 0; i+1 < len(tokens); i += 2 {
		if tokens[i] != tokens[i+1] || i > 0 && len(tokens[i]) == len(tokens[i-2]) && tokens[i] <= tokens[i-2] {
			t.Fatalf("holders overlapped, or tokens did not grow: %q", tokens)
		}
	}
	if len(tokens) != 2*n {
		t.Errorf("%d lines, want %d", len(tokens), 2*n)
	}
}

func TestLockThatIsTaken(t *testing.T) {
	s := zktest.Start(t)
	holder := start(t, s.ConnectString(), "lock", "/l", "--", "sh", "-c", "echo held; sleep 1000")
	holder.out.await(t, "held")
	for _, wait := range []string{"0s", "50ms"} {
		r := start(t, s.ConnectString(), "lock", "--timeout", wait, "/l", "--", "echo", "never")
		if line := r.err.await(t, ""); !strings.Contains(line, "held by somebody else") {
			t.Errorf("timeout %s: %s", wait, line)
		}
		if code := <-r.code; code != exitTimeout {
			t.Errorf("timeout %s: exit %d", wait, code)
		}
	}
	holder.stop()
	if code := <-holder.code; code != exitInterrupt {
		t.Errorf("the holder: exit %d", code)
	}
	nothingBelow(t, s.Client(t), "/l")
}

// A program that ignores SIGTERM is killed, with what it has started, when the lock
// is lost.
func TestLockThatIsLost(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, s *zktest.Server, c *client.Client, node string){
		"deleted": func(t *testing.T, _ *zktest.Server, c *client.Client, node string) {
			if err := c.Delete(t.Context(), node, client.AnyVersion); err != nil {
				t.Fatal(err)
			}
		},
		"expired": func(t *testing.T, s *zktest.Server, c *client.Client, node string) {
			found, err := c.Exists(t.Context(), node)
			if err != nil {
				t.Fatal(err)
			}
			s.ExpireSession(found.Stat.EphemeralOwner)
		},
	} {
		for command, what := range map[string]string{"lock": "the lock", "elect": "the leadership"} {
			t.Run(name+" "+command, func(t *testing.T) {
				s := zktest.Start(t)
				c := s.Client(t)
				r := start(t, s.ConnectString(), command, "--grace", "20", "/l", "--", "sh", "-c",
					`trap "" TERM; echo $ZKCLI_LOCK_PATH; while :; do sleep 0.01; done`)
				node := r.out.await(t, "/l/")
				lose(t, s, c, node)
				if line := r.err.await(t, ""); !strings.Contains(line, what+" was lost: /l/") {
					t.Errorf("got %s", line)
				}
				if code := <-r.code; code != exitConnection {
					t.Errorf("exit %d", code)
				}
				nothingBelow(t, c, "/l")
			})
		}
	}
}

func TestElection(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	first := start(t, s.ConnectString(), "elect", "--id", "one", "/e", "--", "sh", "-c", "echo leads; sleep 1000")
	first.out.await(t, "leads")
	list, err := c.Children(t.Context(), "/e")
	if err != nil || len(list.Names) != 1 || !strings.Contains(list.Names[0], "-latch-") {
		t.Fatalf("candidates %q, %v", list.Names, err)
	}
	if node, err := c.Get(t.Context(), "/e/"+list.Names[0]); string(node.Data) != "one" || err != nil {
		t.Errorf("id %q, %v", node.Data, err)
	}
	second := start(t, s.ConnectString(), "elect", "/e", "--", "echo", "leads")
	first.stop()
	second.out.await(t, "leads")
	if code := <-second.code; code != 0 {
		t.Errorf("exit %d", code)
	}
	<-first.code
}

func TestInterruptedImportSaysWhatIsLeft(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	create(t, c, "/f", "")
	for _, name := range []string{"/f/a", "/f/b", "/f/c"} {
		create(t, c, name, "")
	}
	file := filepath.Join(t.TempDir(), "f.json")
	if code := <-start(t, s.ConnectString(), "export", "-f", file, "/f").code; code != 0 {
		t.Fatalf("export: exit %d", code)
	}
	create(t, c, "/t", "")
	if err := c.Session().AddAuth(t.Context(), "digest", []byte("u:p")); err != nil {
		t.Fatal(err)
	}
	// /t/b may be read by all, and changed by nobody else.
	acl := append(client.CreatorACL(), client.ReadACL()...)
	if _, err := c.Create(t.Context(), "/t/b", []byte("theirs"), client.CreateOptions{ACL: acl}); err != nil {
		t.Fatal(err)
	}
	r := start(t, s.ConnectString(), "import", "--overwrite", "-b", "1", file, "/t")
	const want = "stopped: 1 created, 0 changed, 1 alike before; 2 left, from /t/b. When that is put right, the same command continues"
	if line := r.out.await(t, ""); line != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
	if code := <-r.code; code != exitAuth {
		t.Errorf("exit %d", code)
	}
}

// A subtree of which one node must stay: the others go, and it says how many.
func TestDeleteAllSaysWhatIsLeft(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	for _, path := range []string{"/d", "/d/a", "/d/closed", "/d/closed/x"} {
		create(t, c, path, "")
	}
	if _, err := c.SetACL(t.Context(), "/d/closed", client.ReadACL(), client.AnyVersion); err != nil {
		t.Fatal(err)
	}
	r := start(t, s.ConnectString(), "deleteall", "/d")
	const want = "1 of 4 nodes deleted, 3 left: Insufficient permission : /d/closed/x"
	if line := r.err.await(t, ""); line != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
	if code := <-r.code; code != exitAuth {
		t.Errorf("exit %d", code)
	}
}

// Ctrl-C before it has come to its end, however far it came.
func TestInterruptedDeleteAll(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	create(t, c, "/d", "")
	const nodes = 3000
	var ops []client.Op
	for i := range nodes {
		ops = append(ops, client.CreateOp(fmt.Sprintf("/d/%d", i), nil, client.CreateOptions{}))
	}
	if _, err := c.Multi(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	multis, begun, stopped := 0, make(chan struct{}), make(chan struct{})
	s.CutBefore(func(op client.OpCode, _ string) bool { // cuts nothing: it lets no more pass until Ctrl-C
		if op == jute.OpMulti {
			if multis++; multis == 10 {
				close(begun)
				<-stopped
			}
		}
		return false
	})
	r := start(t, s.ConnectString(), "deleteall", "-b", "1", "/d")
	<-begun
	r.stop()
	close(stopped)
	line := r.err.await(t, "")
	var done, total, left int
	if _, err := fmt.Sscanf(line, "Interrupted: %d of %d nodes deleted, %d left", &done, &total, &left); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	there, err := c.CountDescendants(t.Context(), "/d")
	if err != nil || total != nodes+1 || done+left != total || left != there+1 {
		t.Errorf("%s; there are %d, %v", line, there+1, err)
	}
	if code := <-r.code; code != exitInterrupt {
		t.Errorf("exit %d", code)
	}
}
