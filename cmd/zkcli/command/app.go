package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/shell"
	"github.com/zkd-project/zkd/internal/console"
)

// Streams are the standard streams of a process.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
}

// ErrQuit means that the session ends.
var ErrQuit = errors.New("quit")

// App runs command lines. It must be used by one goroutine.
type App struct {
	in     io.Reader
	out    *lockedWriter
	err    *lockedWriter
	getenv func(string) string

	commands []Command
	opts     Options
	session  bool // commands share a session: interactive or a script
	conn     connection
	history  lineHistory
	shell    *shell.Shell // the interactive shell, or nil
	watching watching
}

// New makes an App with the options that the environment sets.
func New(s Streams) *App {
	a := &App{in: s.In, getenv: s.Getenv, commands: commands()}
	var mu sync.Mutex
	a.out, a.err = newLockedWriter(&mu, s.Out), newLockedWriter(&mu, s.Err)
	a.opts = defaults(s.Getenv)
	a.opts.ask = func(ctx context.Context, question string) (string, error) {
		return shell.Password(ctx, s.In, s.Err, question)
	}
	a.watching.print = true
	return a
}

// Main is the whole program. It returns the exit code. SIGTERM and SIGHUP end it in order.
// Ctrl-C ends a command or a script, but in an interactive session only the running command.
func Main(ctx context.Context, args []string, s Streams) int {
	if len(args) > 0 && args[0] == guardCommand {
		return runGuard(args[1:])
	}
	ends := []os.Signal{syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup does
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(ctx, ends...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process if the end takes too long
	a := New(s)
	defer a.Close()
	return a.Run(ctx, args)
}

// Close ends the session, and with it its ephemeral nodes and watches.
func (a *App) Close() { a.conn.close() }

// Run runs the command in args. If args has only flags, it runs the commands in the input. It
// returns the exit code.
func (a *App) Run(ctx context.Context, args []string) int {
	root := a.root(&a.opts)
	version := root.Flags().Bool("version", false, "print the version of zkcli")
	root.RunE = func(*cobra.Command, []string) error {
		if *version { // see commands.Version
			_, err := fmt.Fprintln(a.out, versionText())
			return err
		}
		return a.lines(ctx)
	}
	err := a.execute(ctx, root, &a.opts, args)
	return ExitCode(a.reportWhy(ctx, err, a.opts.Format))
}

// Execute runs one line of a session, given as its words, and writes its error. It also
// returns the error; ErrQuit ends the session.
func (a *App) Execute(ctx context.Context, words []string) error {
	if len(words) == 0 {
		return nil
	}
	opts := a.opts
	err := a.execute(ctx, a.root(&opts), &opts, words)
	if errors.Is(err, ErrQuit) {
		return err
	}
	return a.reportWhy(ctx, err, opts.Format)
}

// reportWhy is report that also gives a hint, or explains a refusal.
func (a *App) reportWhy(ctx context.Context, err error, format Format) error {
	err = a.report(err, format)
	if h, ok := errors.AsType[*hintedError](err); ok && format != FormatJSON {
		a.say("%s", h.hint)
	}
	a.explainRefusal(ctx, err, format)
	return err
}

func (a *App) execute(ctx context.Context, root *cobra.Command, opts *Options, args []string) error {
	args, err := normalise(root, args)
	if err != nil {
		opts.formatOf(args)
		return err
	}
	ran := false
	root.PersistentPreRun = func(*cobra.Command, []string) { ran = true }
	root.SetArgs(args)
	if err = root.ExecuteContext(ctx); err != nil && !ran {
		return flagError(root, err)
	}
	return err
}

// again runs a line from within another one, with the same options and barrier.
func (a *App) again(ctx context.Context, words []string) error {
	opts := a.opts
	return a.execute(ctx, a.root(&opts), &opts, words)
}

// root makes the tree of cobra commands whose flags set opts. It is made again for each line,
// because flags keep their values.
func (a *App) root(opts *Options) *cobra.Command {
	root := &cobra.Command{
		Use: "zkcli", Short: "A shell for ZooKeeper servers", Args: cobra.ArbitraryArgs,
		SilenceUsage: true, SilenceErrors: true, TraverseChildren: true,
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetHelpFunc(a.helpFlag)
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.DisableDefaultCmd = a.session
	opts.flags(root, a.session)
	for i := range a.commands {
		cmd := a.cobraCommand(&a.commands[i], opts)
		root.AddCommand(cmd)
		if cmd.Name() == "help" {
			root.SetHelpCommand(cmd) // in place of cobra's
		}
	}
	if !a.session {
		completionScripts(root)
	}
	return root
}

func (a *App) cobraCommand(spec *Command, opts *Options) *cobra.Command {
	cmd := &cobra.Command{
		Use: spec.usage(), Short: spec.Short, Long: spec.Long, Example: spec.examples(), Args: cobra.ArbitraryArgs,
		Hidden: spec.Session && !a.session,
	}
	run := spec.setup(cmd)
	cmd.ValidArgsFunction = a.shellCompletion(spec)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := &Call{App: a, Command: spec, Args: args, Options: *opts}
		if spec.Session && !a.session {
			return c.Usage("it makes sense only in a session: start zkcli without a command")
		}
		if err := c.check(); err != nil {
			return err
		}
		return c.run(cmd.Context(), run)
	}
	return cmd
}

// run runs the command. Outside a session Ctrl-C cancels it, and a second one
// ends the process.
func (c *Call) run(ctx context.Context, run Run) error {
	ctx, cancel := c.Options.limit(ctx)
	defer cancel()
	if !c.App.session {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt)
		defer stop()
		context.AfterFunc(ctx, stop)
	}
	err := run(ctx, c)
	c.App.barrier()
	if err != nil && ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return &interruptedError{err, context.Cause(ctx)}
	}
	return err
}

// find returns the command of a name in any case, or nil.
func (a *App) find(name string) *Command {
	i := slices.IndexFunc(a.commands, func(c Command) bool { return strings.EqualFold(c.Name, name) })
	if i < 0 {
		return nil
	}
	return &a.commands[i]
}

// Client returns the client once it is connected, and makes it if there is none.
func (a *App) Client(ctx context.Context) (*client.Client, error) {
	return a.conn.get(ctx, &a.opts, a.event)
}

// lockedWriter writes whole pieces, so that results and watch events do not mix. All output
// of zkcli passes through one. Output to a terminal is escaped, because it may contain data
// of znodes.
type lockedWriter struct {
	mu     *sync.Mutex
	w      io.Writer
	escape bool
}

func newLockedWriter(mu *sync.Mutex, w io.Writer) *lockedWriter {
	return &lockedWriter{mu: mu, w: w, escape: console.Is(w)}
}

// Write writes p.
func (w *lockedWriter) Write(p []byte) (int, error) {
	text := p
	if w.escape {
		text = console.Escape(p)
	}
	if _, err := w.raw().Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// rawWriter writes without escaping.
type rawWriter lockedWriter

// raw returns a writer for zkcli's control sequences. Other text must be escaped before it is
// written to it.
func (w *lockedWriter) raw() *rawWriter { return (*rawWriter)(w) }

// Write writes p unchanged.
func (w *rawWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

// redirect sends further output to another writer, and returns the previous one.
func (w *lockedWriter) redirect(to io.Writer) io.Writer {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.w
	w.w = to
	return before
}

// writer returns where the output goes.
func (w *lockedWriter) writer() io.Writer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w
}

// say writes a message on stderr.
func (a *App) say(format string, args ...any) { fmt.Fprintf(a.err, format+"\n", args...) }
