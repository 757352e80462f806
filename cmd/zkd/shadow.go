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
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/stdio"
	"github.com/zkd-project/zkd/migrate/shadow"
	"github.com/zkd-project/zkd/migrate/shadow/proxy"
)

// shadowOptions are the flags of zkd shadow.
type shadowOptions struct {
	listen, apache, zkd string
	report, status      string
	walk                string
	auth                []string
	replay              string
}

// newShadow returns the command that compares zkd with an Apache ensemble under the requests of
// real clients.
func newShadow() *cobra.Command {
	var o shadowOptions
	cmd := &cobra.Command{
		Use:   "shadow --listen ADDR --apache HOSTS --zkd HOSTS",
		Short: "Compare zkd with an Apache ensemble, under the requests of its clients",
		Long: "Pass connections of clients on to Apache's servers, and send the same requests to zkd's,\n" +
			"on sessions of their own. Clients get what Apache's servers answer, at once. The answers,\n" +
			"stats and events of both are compared afterwards. The data of zkd must begin as a copy of\n" +
			"Apache's, see zkd import; and all clients that write must connect through the shadow.\n\n" +
			"Differences are printed, those in docs/compat.md by their ids. At SIGTERM the connections\n" +
			"are closed and the result is printed; the exit code is 1 if there are differences, or if\n" +
			"not all could be compared.",
		Example: "  zkd shadow --listen :2181 --apache zk1:2181,zk2:2181,zk3:2181 --zkd new1:2181 --report diff.json\n" +
			"  curl localhost:8085            # with --status localhost:8085\n" +
			"  zkd shadow --replay FILE --apache test1:2181 --zkd test2:2181      # what zkcli record has recorded",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (o.listen == "") == (o.replay == "") || o.apache == "" || o.zkd == "" {
				return usageError{errors.New("shadow needs --listen ADDR or --replay FILE, and --apache HOSTS and --zkd HOSTS")}
			}
			ctx, stop := untilHangup(cmd.Context())
			defer stop()
			lines := stdio.NewLines(cmd.OutOrStdout(), nil) // clients don't wait for a reader
			defer lines.Close()
			return o.run(ctx, lines)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.listen, "listen", "", "address for clients, such as :2181")
	fl.StringVar(&o.apache, "apache", "", "servers of Apache's ensemble, host:port[,host:port]")
	fl.StringVar(&o.zkd, "zkd", "", "servers of zkd's ensemble: one is used, the others if it is away")
	fl.StringVar(&o.report, "report", "", "write each difference with both answers to this file, as a line of JSON")
	fl.StringVar(&o.status, "status", "", "serve the result so far on this address, such as localhost:8085: as text, and at /json")
	fl.StringVar(&o.replay, "replay", "", "instead of --listen: ask what zkcli record has written to this file. The data of both must begin as that of the record did")
	fl.StringVar(&o.walk, "walk", "", "in the end, compare the trees at and below this path, such as /; nothing may write to Apache meanwhile")
	fl.StringArrayVar(&o.auth, "walk-auth", nil, "identity that may read all, for --walk, such as digest:super:secret")
	return cmd
}

func (o *shadowOptions) run(ctx context.Context, stdout *stdio.Lines) error {
	apache, root1, err1 := client.ParseServers(o.apache)
	zkd, root2, err2 := client.ParseServers(o.zkd)
	if err := errors.Join(err1, err2); err != nil {
		return usageError{err}
	}
	if root1+root2 != "" {
		return usageError{fmt.Errorf("a shadow is about whole trees, not about %s", root1+root2)}
	}
	report := func(r shadow.Report) { fmt.Fprintln(stdout, reportLine(r)) }
	if o.report != "" {
		f, err := os.OpenFile(o.report, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		e, line := json.NewEncoder(f), report
		report = func(r shadow.Report) {
			line(r)
			if err := e.Encode(struct {
				Time time.Time `json:"time"`
				shadow.Report
			}{time.Now().UTC(), r}); err != nil {
				fmt.Fprintf(stdout, "%s: %v\n", o.report, err)
			}
		}
	}
	listen := o.listen
	if o.replay != "" {
		listen = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	s := proxy.NewShadow(zkd, nil, report)
	comparing, stop := context.WithCancel(context.WithoutCancel(ctx))
	compared := make(chan struct{})
	go func() {
		defer close(compared)
		s.Run(comparing)
	}()
	defer func() {
		stop()
		<-compared
	}()
	if o.status != "" {
		end, err := serveShadowStatus(o.status, s)
		if err != nil {
			l.Close()
			return err
		}
		defer end()
	}
	relay := proxy.Relay{Servers: apache, Tap: s}
	if o.replay != "" {
		err = o.play(ctx, stdout, &relay, l)
	} else {
		fmt.Fprintf(stdout, "listening on %v\n", l.Addr())
		err = relay.Serve(ctx, l)
	}
	if err != nil {
		return err
	}
	return o.finish(comparing, stdout, s, apache)
}

// finish waits until all is compared, and prints the result.
func (o *shadowOptions) finish(ctx context.Context, stdout *stdio.Lines, s *proxy.Shadow, apache []string) error {
	const patience = 30 * time.Second
	settling, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	settled := s.Settle(settling)
	var walked error
	if o.walk != "" && settled == nil {
		walked = s.Walk(ctx, apache, o.walk, o.identities())
	}
	sum, err := s.Summary(ctx)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(stdout.Sure(), sum.Text()); err != nil {
		return err
	}
	switch {
	case settled != nil:
		return fmt.Errorf("zkd has not answered %d requests", sum.Waiting)
	case sum.Differences > 0:
		return fmt.Errorf("%d differences", sum.Differences)
	case !sum.Clean():
		return errors.New("not all could be compared")
	}
	return walked
}

// play asks what a record has.
func (o *shadowOptions) play(ctx context.Context, stdout io.Writer, relay *proxy.Relay, l net.Listener) error {
	f, err := os.Open(o.replay)
	if err != nil {
		l.Close()
		return err
	}
	defer f.Close()
	relaying, end := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- relay.Serve(relaying, l) }()
	done, err := proxy.Replay(ctx, f, l.Addr().String())
	end()
	if err = errors.Join(err, <-served); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%-12s %d requests of %d connections, %d of which broke; %d requests left out, as the record hides their secrets\n",
		"replayed", done.Requests, done.Connections, done.Broken, done.Hidden)
	return nil
}

// identities returns those of --walk-auth.
func (o *shadowOptions) identities() (list []client.Auth) {
	for _, text := range o.auth {
		scheme, data, _ := strings.Cut(text, ":")
		list = append(list, client.Auth{Scheme: scheme, Data: []byte(data)})
	}
	return list
}

// reportLine describes a difference on a line.
func reportLine(r shadow.Report) string {
	text := string(r.Class)
	if r.ID != "" {
		text += " " + r.ID
	}
	text += " " + r.Op
	if r.Path != "" {
		text += fmt.Sprintf(" %q", r.Path)
	}
	return text + ": " + strings.Join(r.What, "; ")
}

// shadowHTTPClients is how many connections the page of the result takes.
const shadowHTTPClients = 64

// serveShadowStatus serves the result so far over HTTP, until the function that it returns is called.
func serveShadowStatus(addr string, s *proxy.Shadow) (end func(), err error) {
	answer := func(write func(http.ResponseWriter, *shadow.Summary)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			sum, err := s.Summary(r.Context())
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			write(w, &sum)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", answer(func(w http.ResponseWriter, sum *shadow.Summary) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, sum.Text()) // the client is gone
	}))
	mux.HandleFunc("GET /json", answer(func(w http.ResponseWriter, sum *shadow.Summary) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(sum) // the client is gone
	}))
	pages := endpoints{most: shadowHTTPClients}
	if err := pages.open("the result", addr, mux, zap.NewNop()); err != nil {
		return nil, err
	}
	return pages.close, nil
}
