package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/servers"
	"github.com/zkd-project/zkd/internal/pause"
)

// Runner carries out changes of the members.
type Runner struct {
	Ensemble Ensemble
	// Announce is called with what will be done, before it is. An error ends the change. It is
	// called again if the members have changed and something else is to be done now.
	Announce func(Announcement) error
	// Progress is called whenever the reason for waiting changes.
	Progress func(text string)
	// Timeout limits the time after the first announcement.
	Timeout time.Duration
}

// betweenTries is the time between two looks at servers, and between two requests.
const betweenTries = 500 * time.Millisecond

// Announcement is what a change will do.
type Announcement struct {
	Does, Notes   []string // as in Plan
	Before, After Tolerance
	// Ask means that the change takes tolerance away, or removes a server.
	Ask bool
}

// String says it in words, a line each.
func (a *Announcement) String() string {
	var b strings.Builder
	for _, does := range a.Does {
		b.WriteString("This " + does + ".\n")
	}
	for _, note := range a.Notes {
		b.WriteString(note + "\n")
	}
	b.WriteString("Now:        " + a.Before.String() + ".\nAfterwards: " + a.After.String() + ".")
	return b.String()
}

// Result is the outcome of a change.
type Result struct {
	Announcement
	Changed bool // false if there was nothing to do
	List    List // the members now
}

// ErrTimeout means that Runner.Timeout has passed and the change was not made.
var ErrTimeout = fmt.Errorf("timeout of the change: %w", context.DeadlineExceeded)

// run is one run of a change.
type run struct {
	*Runner
	change    Change
	announced *Announcement // the last one; nil before the first
	deadline  context.Context
	cancel    context.CancelFunc
	removed   []Server
	asked     bool // a request was sent whose outcome is not known
	mayChange bool // the servers were asked for the right
	waitsFor  string
	reported  time.Time // when waitsFor was reported
}

// Run makes a change. The error is ErrTimeout with what was missing, that of Announce, or one
// that says what to do.
func (r *Runner) Run(ctx context.Context, c Change) (Result, error) {
	x := run{Runner: r, change: c, deadline: ctx, cancel: func() {}}
	defer func() { x.cancel() }()
	for {
		res, err := x.attempt(ctx)
		if err == nil {
			if res.Changed {
				err = AwaitDrained(x.deadline, x.Ensemble, x.removed, removedBegins, x.waitFor)
			}
			if errors.Is(err, ErrTimeout) {
				err = nil // the members are changed
			}
			return res, err
		}
		why, again := x.retriable(err)
		if !again && x.deadline.Err() == nil {
			return Result{}, explain(err)
		}
		if again {
			x.waitFor(why)
		}
		if x.sleep() != nil {
			return x.expired(ctx)
		}
	}
}

// attempt reads the members, and asks for the change if there is something to do.
func (x *run) attempt(outer context.Context) (Result, error) {
	now, err := Look(x.deadline, x.Ensemble)
	if err != nil {
		return Result{}, err
	}
	plan, err := x.change.Plan(now.List, now.Leader())
	if err != nil {
		return Result{}, err
	}
	if len(plan.Does) == 0 {
		return x.result(now.List), nil
	}
	if err := x.announce(outer, &now, &plan); err != nil {
		return Result{}, err
	}
	x.removed = slices.DeleteFunc(slices.Clone(now.List.Servers), func(s Server) bool {
		_, stays := plan.Next.Server(s.ID)
		return stays
	})
	if err := x.awaitVoters(&now, &plan); err != nil {
		return Result{}, err
	}
	text, err := x.Ensemble.Reconfig(x.deadline, plan.Request, now.List.Version)
	x.asked = x.asked || err == nil || client.IsAmbiguous(err)
	if errors.Is(err, client.ErrNewConfigNoQuorum) {
		return Result{}, x.noQuorum(&now, &plan, err)
	}
	if err != nil {
		return Result{}, err
	}
	list, err := ParseList(text)
	return x.result(list), err
}

// result is that of a change for which nothing is left to do.
func (x *run) result(list List) Result {
	res := Result{Changed: x.asked, List: list}
	if x.announced != nil {
		res.Announcement = *x.announced
	}
	return res
}

// Forecast is what Run would do, and what it would wait for before.
type Forecast struct {
	Announcement
	List  List   // the members now
	Waits string // "" for nothing
}

// Forecast returns what Run would do. It changes nothing.
func (r *Runner) Forecast(ctx context.Context, c Change) (f Forecast, err error) {
	now, err := Look(ctx, r.Ensemble)
	if err != nil {
		return f, explain(err)
	}
	f.List = now.List
	plan, err := c.Plan(now.List, now.Leader())
	if err != nil {
		return f, err
	}
	f.Announcement = announcement(&now, &plan)
	x := run{Runner: r, deadline: ctx}
	f.Waits, err = x.notReady(&now, plan.Voters, now.head())
	return f, err
}

// announcement returns what a plan will do.
func announcement(now *Status, plan *Plan) Announcement {
	a := Announcement{Does: plan.Does, Notes: plan.Notes, Before: now.Tolerance()}
	a.After = plan.Next.Tolerance(func(id int64) bool {
		return now.up(id) || slices.ContainsFunc(plan.Voters, func(s Server) bool { return s.ID == id })
	})
	a.Ask = plan.Removes || a.After.Spare < a.Before.Spare
	return a
}

// announce announces the plan, unless that was done. The time begins with it.
func (x *run) announce(outer context.Context, now *Status, plan *Plan) error {
	a := announcement(now, plan)
	if last := x.announced; last != nil && slices.Equal(last.Does, a.Does) && a.After.Spare >= last.After.Spare {
		return nil
	}
	if err := x.Announce(a); err != nil {
		return err
	}
	if x.announced == nil {
		x.deadline, x.cancel = context.WithTimeoutCause(outer, x.Timeout, ErrTimeout)
	}
	x.announced = &a
	return nil
}

// awaitVoters waits until the new voters have what the leader has now.
func (x *run) awaitVoters(now *Status, plan *Plan) error {
	for target := now.head(); ; {
		why, err := x.notReady(now, plan.Voters, target)
		if err != nil || why == "" {
			return err
		}
		if !x.mayChange { // to wait would be for nothing
			if err := x.Ensemble.MayChange(x.deadline); err != nil {
				return err
			}
			x.mayChange = true
		}
		x.waitFor(why)
		if err := x.sleep(); err != nil {
			return err
		}
	}
}

// notReady returns why new voters are not ready, or "".
func (x *run) notReady(now *Status, voters []Server, target client.Zxid) (string, error) {
	asked := slices.Clone(voters)
	leader, known := now.List.Server(now.Leader())
	if known && !slices.Contains(asked, leader) {
		asked = append(asked, leader) // it tells what it sends them
	}
	views := look(x.deadline, x.Ensemble, asked)
	var why []string
	for _, s := range voters {
		if v, asked := views[s.ID]; asked {
			reason, err := lacks(&v, target)
			if joiner, ok := views[leader.ID].Joiners[s.ID]; ok && v.Mode == "" {
				reason = joiner.String()
			}
			if err != nil {
				return "", fmt.Errorf("server %d, at %s, %w", s.ID, v.Server, err)
			}
			if reason != "" {
				why = append(why, fmt.Sprintf("server %d, at %s, %s", s.ID, v.Server, reason))
			}
		}
	}
	return strings.Join(why, "; "), nil
}

// lacks returns what a server lacks to become a voter, or "". A server that does not tell is
// left to the ensemble to judge. The error is that waiting is useless.
func lacks(v *servers.View, target client.Zxid) (string, error) {
	switch {
	case v.Silent:
		return "", nil
	case v.Mode == "standalone":
		return "", errors.New("runs as a single server: its configuration needs the lines of the members and its own")
	case v.Mode == "leader":
		return "", errors.New("leads an ensemble: its configuration needs the lines of all members, or the address is another server's")
	case v.Mode == "read-only", v.Mode == "" && v.Reachable:
		return "does not serve yet: it looks for the leader, or receives a snapshot", nil
	case v.Mode == "":
		return "is not reachable: " + v.Problem, nil
	}
	at := v.LastZxid()
	switch {
	case at >= target:
		return "", nil
	case at.Epoch() == target.Epoch():
		return fmt.Sprintf("is %d transactions behind", target-at), nil
	}
	return fmt.Sprintf("is at %v, and the leader at %v", at, target), nil
}

// wordedError is an error in words that say what to do.
type wordedError struct {
	text string
	err  error
}

// Error returns the words.
func (e *wordedError) Error() string { return e.text }

// Unwrap returns the cause.
func (e *wordedError) Unwrap() error { return e.err }

// noQuorum says why the ensemble lacks a quorum of the new voters.
func (x *run) noQuorum(now *Status, plan *Plan, err error) error {
	var voters []Server
	leader := now.Leader()
	for _, s := range plan.Next.Voters() {
		if s.ID != leader {
			voters = append(voters, s)
		}
	}
	why, bad := x.notReady(now, voters, now.head())
	switch {
	case bad != nil:
		why = bad.Error()
	case why == "" && len(plan.Voters) > 0:
		why = "the new voters are up to date, and the leader has not admitted them yet"
	case why == "":
		why = "the leader does not count a quorum of the new voters as up to date yet"
	}
	return &wordedError{why, err}
}

// retriable returns what is waited for after an error, if the change is to be tried again.
func (x *run) retriable(err error) (why string, again bool) {
	is := func(codes ...error) bool {
		return slices.ContainsFunc(codes, func(code error) bool { return errors.Is(err, code) })
	}
	_, notConnected := errors.AsType[*client.ConnectError](err)
	switch {
	case x.announced == nil: // the first look has failed
		return "", false
	case is(client.ErrBadVersion):
		return "the members have changed meanwhile", true
	case is(client.ErrNewConfigNoQuorum):
		return err.Error(), true
	case is(client.ErrReconfigInProgress):
		return "another change of the members is not finished", true
	case notConnected, is(client.ErrConnectionLoss, client.ErrSessionExpired, client.ErrSessionMoved, client.ErrOperationTimeout, client.ErrRequestTimeout):
		return "the connection was lost: looking whether the change was made", true
	}
	return "", false
}

// explain says what to do about an error that ends a change.
func explain(err error) error {
	for _, x := range []wordedError{
		{"the servers do not allow changes of the members: set reconfigEnabled=true on all of them, and restart them one by one", client.ErrReconfigDisabled},
		{"only the super user may change the members: say --auth digest:super:PASSWORD (DigestAuthenticationProvider.superDigest on the servers)", client.ErrNoAuth},
		{singleServer, client.ErrUnimplemented},
		{"the ensemble refuses these members: a quorum port is another member's, or too few voters would be left (2 are needed, unless standaloneEnabled=false); the leader's log says why", client.ErrBadArguments},
	} {
		if errors.Is(err, x.err) {
			return &wordedError{x.text, err}
		}
	}
	return err
}

// expired looks a last time whether a change was made for which there is no more time.
func (x *run) expired(outer context.Context) (Result, error) {
	text, cause := "the members were not changed", context.Cause(x.deadline)
	if x.asked {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(outer), lastLook)
		defer cancel()
		now, err := Look(ctx, x.Ensemble)
		if err != nil {
			return Result{}, &wordedError{"it is not known whether the members were changed, and member list will show it: " + err.Error(), cause}
		}
		if plan, err := x.change.Plan(now.List, -1); err == nil && len(plan.Does) == 0 {
			return x.result(now.List), nil
		}
		text = "the members are not changed yet, and a request may be under way, so look at member list"
	}
	if errors.Is(cause, ErrTimeout) {
		text += fmt.Sprintf(" (--timeout %v)", x.Timeout)
	}
	if x.waitsFor != "" {
		text += ": " + x.waitsFor
	}
	return Result{}, &wordedError{text, cause}
}

// lastLook is how long expired waits for the members.
const lastLook = 5 * time.Second

// waitFor reports what is waited for, if it is something else than before. If only a number
// has changed, it reports that once in a while.
func (x *run) waitFor(what string) {
	same := withoutDigits(what) == withoutDigits(x.waitsFor)
	changed := what != x.waitsFor
	x.waitsFor = what
	if changed && (!same || time.Since(x.reported) >= progressPace) {
		x.reported = time.Now()
		x.Progress(what)
	}
}

// progressPace is the time between two reports of the same kind.
const progressPace = 5 * time.Second

func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}

// sleep waits for a pause. It returns an error if there is no more time.
func (x *run) sleep() error { return pause.For(x.deadline, betweenTries) }
