package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
)

func sessionsCommand() Command {
	return Command{
		Name: "sessions", Synopsis: "end SESSION", Short: "End the session of another client",
		Long: "end closes a session: its ephemeral nodes are deleted, and its client is told that it has\n" +
			"expired. It shows first whose session it is and what goes, and asks, or wants --yes. It is for\n" +
			"the super user and others who may change the members (--auth), at the HTTP API of zkd's\n" +
			"servers (zkd.api=true). The ids are those of the words cons and dump, and of the console.",
		Examples: []Example{
			{"sessions end --admin http://zk1:8080 --dry-run 0x1a224c4fc2a0028", "whose it is, and what goes"},
			{"sessions end --yes 0x1a224c4fc2a0028", "from a script, with $" + envAdmin},
		},
		Args:     []Arg{{Name: "end", Kind: Word, Words: []string{"end"}}, {Name: "session", Kind: Text}},
		Required: 2,
		Setup: func(flags *cobra.Command) Run {
			admin := flags.Flags().String("admin", "", "URLs of AdminServers, with commas ($"+envAdmin+"): the first that knows the session ends it")
			yes := boolFlag(flags, "yes", "", "don't ask")
			dryRun := boolFlag(flags, "dry-run", "", "only say whose it is and what goes")
			return func(ctx context.Context, c *Call) error {
				if !strings.EqualFold(c.Arg(0), "end") {
					return c.Usage("there is no %q", c.Arg(0))
				}
				admins, err := c.admins(*admin)
				if err != nil {
					return err
				}
				return c.endSession(ctx, admins, *yes, *dryRun)
			}
		},
	}
}

// endedDoc is a session that was ended, or would be, as the API has it.
type endedDoc struct {
	ID         string   `json:"id"`
	DryRun     bool     `json:"dryRun"`
	Address    string   `json:"address,omitempty"`
	Identity   string   `json:"identity,omitempty"`
	Ephemerals int      `json:"ephemerals"`
	Paths      []string `json:"paths"`
}

// endSession ends a session at the first server that knows it.
func (c *Call) endSession(ctx context.Context, admins []string, yes, dryRun bool) error {
	asker, err := c.Options.security.asker()
	if err != nil {
		return err
	}
	var problems []error
	for _, admin := range admins {
		doc, err := c.askEnd(ctx, asker.Web(), admin, true)
		if _, unknown := errors.AsType[*unknownSession](err); unknown || errors.Is(err, client.ErrConnectionLoss) {
			problems = append(problems, fmt.Errorf("%s: %w", admin, err))
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", admin, err)
		}
		if !dryRun && !yes {
			if err := c.confirm(doc.text("ends")+".", true); err != nil {
				return err
			}
		}
		if !dryRun {
			if doc, err = c.askEnd(ctx, asker.Web(), admin, false); err != nil {
				return fmt.Errorf("%s: %w", admin, err)
			}
		}
		does := "has ended"
		if dryRun {
			does = "would end"
		}
		return c.Emit(Output{Text: strings.Join(append([]string{doc.text(does)}, doc.Paths...), "\n"), Data: doc})
	}
	return errors.Join(problems...)
}

// text says what becomes of the session.
func (d *endedDoc) text(does string) string {
	text := "session " + d.ID + " " + does
	if d.Address != "" {
		text += ", of " + strings.TrimSpace(d.Address+" "+d.Identity)
	}
	return text + ", with " + countText(d.Ephemerals, "ephemeral node")
}

// unknownSession is the answer of a server that does not know the session, or has no API.
type unknownSession struct{ text string }

func (e *unknownSession) Error() string { return e.text }

// askEnd asks a server for the end of the session.
func (c *Call) askEnd(ctx context.Context, web *http.Client, admin string, dryRun bool) (*endedDoc, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, fmt.Sprintf("%s/v1/sessions/%s?dry-run=%v", admin, url.PathEscape(c.Arg(1)), dryRun), nil)
	if err != nil {
		return nil, err
	}
	for _, auth := range c.Options.Auth {
		scheme, data, _ := strings.Cut(auth, ":")
		r.Header.Add("Authorization", scheme+" "+data)
	}
	lost := func(err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &wordedError{err.Error(), &client.Error{Err: client.ErrConnectionLoss, Ambiguous: !dryRun}}
	}
	w, err := web.Do(r)
	if err != nil {
		return nil, lost(err)
	}
	defer w.Body.Close() // it was only read
	body, err := io.ReadAll(io.LimitReader(w.Body, 1<<20))
	if err != nil {
		return nil, lost(err)
	}
	switch w.Header.Get("Content-Type") {
	case "application/json":
		doc := new(endedDoc)
		return doc, json.Unmarshal(body, doc)
	case "application/problem+json":
	default:
		return nil, &unknownSession{"it has no HTTP API: is it zkd's, with zkd.api=true?"}
	}
	var p struct {
		Detail string
		Code   int32
	}
	_ = json.Unmarshal(body, &p) // without a detail there is the status
	text := cmp.Or(p.Detail, w.Status)
	switch w.StatusCode {
	case http.StatusNotFound:
		return nil, &unknownSession{text}
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, &wordedError{text, &client.Error{Err: client.ErrNoAuth}}
	}
	return nil, errors.New(text)
}
