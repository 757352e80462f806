package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/cmd/zkd/local"
	"github.com/zkd-project/zkd/cmd/zkd/testserver"
	"github.com/zkd-project/zkd/server/auth"
)

// testOptions are the flags of zkd test-server.
type testOptions struct {
	servers int
	json    bool
	set     []string
}

// testSuper is the super user of test servers.
const testSuper = "super:test"

// errInputClosed is what a test server says whose input ended before it served.
var errInputClosed = errors.New("the standard input was closed, and the servers end with it: give them a pipe that stays open while the tests run")

// newTestServer returns the command that is a server for tests in any language.
func newTestServer() *cobra.Command {
	var o testOptions
	cmd := &cobra.Command{
		Use:   "test-server",
		Short: "Serve the tests of a program in any language, and make faults for it",
		Long: "Start servers on free ports of this machine, for one run of tests, and say where they are. They\n" +
			"end, and their data are deleted, when the standard input is closed, as when the tests' process\n" +
			"ends, or by a signal. Faults are ordered by HTTP, and done when the answer comes:\n\n" +
			"  GET  /                        the state, as at the start\n" +
			"  POST /servers/ID/kill         also stop, start, pause, resume; ID may be leader\n" +
			"  POST /sessions/0x…/expire     the session ends, with its ephemerals\n" +
			"  POST /sessions/0x…/drop       its connection is lost; /sessions/drop: all connections\n\n" +
			"The super user is digest " + testSuper + ".",
		Example: "  zkd test-server --json            # {\"connectString\":\"127.0.0.1:40001\",\"control\":\"http://127.0.0.1:40002\",…}\n" +
			"  zkd test-server --servers 3 --set maxClientCnxns=0",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.servers < 1 || o.servers > 9 {
				return usageError{fmt.Errorf("--servers %d: want 1 to 9", o.servers)}
			}
			ctx, stop := untilHangup(cmd.Context())
			defer stop()
			ctx, end := context.WithCancelCause(ctx)
			defer end(nil)
			go func() { // it ends with the process if not before
				_, _ = io.Copy(io.Discard, cmd.InOrStdin())
				end(errInputClosed)
			}()
			err := o.run(ctx, cmd.OutOrStdout())
			if err != nil && context.Cause(ctx) == errInputClosed {
				return errInputClosed // it did not serve yet
			}
			return err
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&o.servers, "servers", 1, "how many servers, from 1 to 9")
	fl.BoolVar(&o.json, "json", false, "say where they are in one line of JSON")
	fl.StringArrayVar(&o.set, "set", nil, "a key of the servers' configuration, as key=value")
	return cmd
}

func (o *testOptions) run(ctx context.Context, out io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "zkd-test-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	super, err := auth.DigestID("SHA1", testSuper)
	if err != nil {
		return err
	}
	program := []string{self}
	for _, set := range o.set {
		program = append(program, "--set", set)
	}
	ended := make(chan int, o.servers)
	e, err := local.New(local.Options{
		Program: program, Dir: dir, Servers: o.servers, Ended: func(id int) { ended <- id },
		Lines: []string{
			"tickTime=100", "initLimit=100", "syncLimit=50", "minSessionTimeout=100", "maxSessionTimeout=3600000", "maxClientCnxns=0", "reconfigEnabled=true",
			"preAllocSize=4096", "zkd.api=true", "DigestAuthenticationProvider.superDigest=" + super},
	})
	if err != nil {
		return err
	}
	defer e.Close()
	if err := e.StartAll(ctx); err != nil {
		return err
	}
	proxies := make([]*testserver.Proxy, 0, o.servers)
	for _, s := range e.Servers() {
		p, err := testserver.NewProxy(s.Client)
		if err != nil {
			return err
		}
		defer p.Close()
		proxies = append(proxies, p)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	control := testserver.NewControl(testserver.Options{Ensemble: e, Proxies: proxies, Control: "http://" + l.Addr().String(), Super: testSuper})
	server := &http.Server{Handler: control, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer server.Close()
	if err := o.say(out, control.State(ctx)); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			return err
		case id := <-ended:
			if e.Pid(id) == 0 {
				return fmt.Errorf("server %d has ended: %s", id, e.Server(id).LastWords())
			}
		}
	}
}

// say says where the servers are.
func (o *testOptions) say(out io.Writer, s testserver.State) error {
	if o.json {
		return json.NewEncoder(out).Encode(s)
	}
	_, err := fmt.Fprintf(out, "servers: %s\ncontrol: %s\nThey end with the standard input.\n", s.ConnectString, s.Control)
	return err
}
