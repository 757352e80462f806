package pages

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/admin"
	"github.com/zkd-project/zkd/server/api"
	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/console"
	"github.com/zkd-project/zkd/server/console/login"
)

// Asked is what the pages ask: a Server, or what shows a copy as one.
type Asked interface {
	admin.Server
	api.Server
	// Connect, SignIn and Authorize are those of the options of packages api, login and admin.
	Connect(ctx context.Context, c *api.Caller, visits bool) (api.Connection, error)
	SignIn(ctx context.Context, c *api.Caller) (name string, until time.Time, err error)
	Authorize(ctx context.Context, c admin.Claim) (may func() bool, status int, problem string)
}

// Options configure a Handler.
type Options struct {
	// Asked returns what is asked, for one request.
	Asked  func() Asked
	Config *config.Config
	Live   func() *config.Config // with the values that live keys have by now
	// URL is the path of the AdminServer's commands, and Text the configuration file that they show.
	URL, Text string
	Version   string
	Logger    *zap.Logger
	Audit     *audit.Trail
	// Ensemble and Operator are those of api.Options.
	Ensemble func(context.Context) *api.Ensemble
	Operator api.Operator
	// Provider is that of login.Options, for where there is one.
	Provider func(ctx context.Context, redirect string) (address string, finish func(context.Context, url.Values) (token string, err error), err error)
	// ReadOnly is that of api.Options: the console offers no changes then.
	ReadOnly bool
}

// Handler returns the pages of the AdminServer. With zkd.api the HTTP API is among them, and with zkd.console the console.
func Handler(o Options) http.Handler {
	pages := admin.Handler(admin.Options{
		Server:        func() admin.Server { return o.Asked() },
		URL:           o.URL,
		Configuration: o.Text,
		Authorize: func(ctx context.Context, c admin.Claim) (may func() bool, status int, problem string) {
			return o.Asked().Authorize(ctx, c)
		},
		Snapshots: func() (bool, time.Duration) {
			a := &o.Live().Admin
			return a.Snapshots, a.SnapshotInterval / 1000 // Apache's server takes its milliseconds for microseconds
		},
	})
	if !o.Config.Admin.API {
		return pages
	}
	calls := api.Handler(api.Options{
		Connect: func(ctx context.Context, c *api.Caller, visits bool) (api.Connection, error) {
			return o.Asked().Connect(ctx, c, visits)
		},
		Server: func() api.Server { return o.Asked() }, Ensemble: o.Ensemble, Operator: o.Operator, Audit: o.auditTail, Feed: pages, MaxFrame: o.Config.MaxBuffer, Host: o.Config.Admin.Host, Version: o.Version,
		ReadOnly: o.ReadOnly,
	})
	forPeople := http.NotFoundHandler()
	if o.Config.Admin.Console {
		forPeople = o.console(calls)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, api.Prefix):
			calls.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, console.Prefix):
			forPeople.ServeHTTP(w, r)
		default:
			pages.ServeHTTP(w, r)
		}
	})
}

// console returns the console, with its sign-ins.
func (o *Options) console(calls http.Handler) http.Handler {
	cfg := o.Config
	l := login.Options{
		Pages: console.Handler(console.Options{
			Check:    func(r *http.Request) error { return api.CheckHost(r, cfg.Admin.Host) },
			Commands: o.URL, Version: o.Version, Standby: o.ReadOnly,
		}),
		API: calls, SignIn: o.signIn, Host: cfg.Admin.Host, Passwords: cfg.HasScheme("digest"), Tokens: cfg.HasScheme("jwt"),
	}
	if cfg.Identities.OIDC.ClientID != "" {
		l.Provider, l.ProviderName = o.Provider, strings.TrimPrefix(cfg.Identities.JWT.Issuer, "https://")
	}
	return login.Handler(l)
}

// signIn proves who somebody is that signs in to the console.
func (o *Options) signIn(ctx context.Context, c *api.Caller) (name string, until time.Time, err error) {
	if name, until, err = o.Asked().SignIn(ctx, c); err != nil {
		o.Logger.Warn("somebody could not sign in to the console", zap.String("address", c.From.Addr().String()), zap.String("scheme", c.Scheme), zap.Error(err))
		return "", time.Time{}, err
	}
	o.Logger.Info("somebody has signed in to the console", zap.String("address", c.From.Addr().String()), zap.String("identity", name))
	return name, until, nil
}

// auditTail returns the last entries of the audit log, nil if that is off.
func (o *Options) auditTail() api.AuditTail {
	if t := o.Audit.Tail(); t != nil {
		return t
	}
	return nil
}
