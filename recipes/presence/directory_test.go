package presence_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/presence"
)

func newDiscovery(w *trial.World, c *client.Client) *presence.Directory {
	w.Helper()
	d, err := presence.NewDirectory(c, "/services", presence.Options{})
	w.Must(err)
	return d
}

func directoryRegister(w *trial.World, c *client.Client, i presence.Instance) *presence.Registration {
	w.Helper()
	r, err := newDiscovery(w, c).Register(w.Ctx, i)
	w.Must(err)
	w.Cleanup(func() { _ = r.Release(context.WithoutCancel(w.Ctx)) })
	return r
}

func open(w *trial.World, c *client.Client, o presence.ProviderOptions) *presence.Provider {
	w.Helper()
	p, err := newDiscovery(w, c).Open(w.Ctx, "web", o)
	w.Must(err)
	w.Cleanup(func() { _ = p.Close(context.WithoutCancel(w.Ctx)) })
	return p
}

func web(id string) presence.Instance {
	return presence.Instance{Name: "web", ID: id, Address: "10.0.0." + id, Port: 80}
}

// directoryIds renders instances as "1 2".
func directoryIds(instances []presence.Instance) string {
	var all []string
	for _, i := range instances {
		all = append(all, i.ID)
	}
	return strings.Join(all, " ")
}

// directoryAwait waits until the provider has those instances.
func directoryAwait(w *trial.World, p *presence.Provider, want string) {
	w.Helper()
	for all, err := range p.Follow(w.Ctx) {
		if err != nil {
			w.Fatalf("while waiting for %q: %v", want, err)
		}
		if directoryIds(all) == want {
			return
		}
	}
}

func TestDirectoryRegisterAndFind(t *testing.T) {
	w := trial.New(t)
	d := newDiscovery(w, w.Look)
	if names, err := d.Names(w.Ctx); len(names) != 0 || err != nil {
		t.Errorf("names are %q, %v", names, err)
	}
	if found, err := d.Find(w.Ctx, "web"); len(found) != 0 || err != nil {
		t.Errorf("found %+v, %v", found, err)
	}
	r := directoryRegister(w, w.C, web("2"))
	directoryRegister(w, w.C, web("1"))
	anonymous := directoryRegister(w, w.C, presence.Instance{Name: "db"})
	if names, err := d.Names(w.Ctx); !slices.Equal(names, []string{"db", "web"}) || err != nil {
		t.Errorf("names are %q, %v", names, err)
	}
	found, err := d.Find(w.Ctx, "web")
	if directoryIds(found) != "1 2" || err != nil {
		t.Fatalf("found %q, %v", directoryIds(found), err)
	}
	if got := found[1]; got.Type != presence.Dynamic || got.Registered.IsZero() || got.Registered != r.Instance().Registered || got.Address != "10.0.0.2" {
		t.Errorf("instance is %+v", got)
	}
	if id := anonymous.Instance().ID; len(id) != 36 {
		t.Errorf("ID is %q", id)
	}
	i := web("2")
	i.Payload = json.RawMessage(`{"weight":3}`)
	w.Must(r.Update(w.Ctx, i))
	found, err = d.Find(w.Ctx, "web")
	if w.Must(err); string(found[1].Payload) != `{"weight":3}` || found[1].Registered != r.Instance().Registered {
		t.Errorf("instance is %+v", found[1])
	}
	w.Must(r.Release(w.Ctx))
	if found, err := d.Find(w.Ctx, "web"); directoryIds(found) != "1" || err != nil {
		t.Errorf("found %q, %v", directoryIds(found), err)
	}
}

// What is refused is not registered, and not what an update in between has failed of.
func TestDirectoryRefusedUpdate(t *testing.T) {
	w := trial.New(t)
	r := directoryRegister(w, w.C, web("1"))
	large := web("1")
	large.Payload = json.RawMessage(strconv.Quote(strings.Repeat("x", client.DefaultMaxRequest+1)))
	mustBe(t, r.Update(w.Ctx, large), client.ErrBadArguments)
	if got := r.Instance(); got.Address != web("1").Address || got.Payload != nil {
		t.Errorf("the instance has a payload of %d bytes that was refused", len(got.Payload))
	}
	good := web("1")
	good.Port = 81
	w.Must(r.Update(w.Ctx, good))
	if got := r.Instance(); got.Port != 81 {
		t.Errorf("instance is %+v", got)
	}
}

func TestDirectoryProvider(t *testing.T) {
	w := trial.New(t)
	p := open(w, w.Look, presence.ProviderOptions{Filter: func(i presence.Instance) bool { return i.Port != 81 }})
	_, err := p.Pick(w.Ctx)
	mustBe(t, err, presence.ErrNoInstance)
	one := directoryRegister(w, w.C, web("1"))
	two := directoryRegister(w, w.C, web("2"))
	hidden := web("3")
	hidden.Port = 81
	directoryRegister(w, w.C, hidden)
	disabled := web("4")
	disabled.Disabled = true
	directoryRegister(w, w.C, disabled)
	_, err = w.Look.Create(w.Ctx, "/services/web/broken", []byte("{"), client.CreateOptions{})
	w.Must(err)
	directoryAwait(w, p, "1 2 3 4")

	picks := func(n int) string {
		var got []presence.Instance
		for range n {
			i, err := p.Pick(w.Ctx)
			w.Must(err)
			got = append(got, i)
		}
		return directoryIds(got)
	}
	if got := picks(4); got != "1 2 1 2" {
		t.Errorf("picks are %q", got)
	}
	p.Failed(one.Instance())
	if got := picks(2); got != "1 2" {
		t.Errorf("after one failure picks are %q", got)
	}
	p.Failed(one.Instance())
	if got := picks(3); got != "2 2 2" {
		t.Errorf("with 1 down picks are %q", got)
	}
	p.Served(one.Instance())
	if got := picks(2); got != "1 2" {
		t.Errorf("with 1 up again picks are %q", got)
	}
	for range 2 {
		p.Failed(one.Instance())
		p.Failed(two.Instance())
		p.Failed(presence.Instance{ID: "unknown"})
	}
	if got := picks(2); got != "1 2" {
		t.Errorf("with all down picks are %q", got)
	}
	w.Must(two.Release(w.Ctx))
	directoryAwait(w, p, "1 3 4")
	if got := picks(2); got != "1 1" {
		t.Errorf("picks are %q", got)
	}
	if _, stale := p.Stale(); stale {
		t.Error("stale")
	}
	// An instance that is registered again has not failed.
	w.Must(one.Release(w.Ctx))
	directoryAwait(w, p, "3 4")
	directoryRegister(w, w.C, web("1"))
	directoryRegister(w, w.C, web("2"))
	directoryAwait(w, p, "1 2 3 4")
	if got := picks(2); got != "2 1" && got != "1 2" {
		t.Errorf("picks are %q", got)
	}
}

// A provider that is cut off picks among those it knows.
func TestDirectoryProviderIsCutOff(t *testing.T) {
	w := trial.New(t)
	c := w.Proxy.Client(t, func(o *client.Options) { o.RenewSession = true }).Namespace(w.Dir())
	r := directoryRegister(w, w.Look, web("1"))
	p := open(w, c, presence.ProviderOptions{})
	directoryAwait(w, p, "1")
	w.Proxy.Refuse()
	id := c.Session().ID()
	w.Proxy.ExpireSession(id)
	for _, stale := p.Stale(); !stale; _, stale = p.Stale() {
		w.Must(w.Ctx.Err())
	}
	w.Must(r.Release(w.Ctx))
	directoryRegister(w, w.Look, web("2"))
	if i, err := p.Pick(w.Ctx); i.ID != "1" || err != nil {
		t.Errorf("pick is %+v, %v", i, err)
	}
	w.Proxy.Accept()
	directoryAwait(w, p, "2")
}

// Registering costs two requests; picking costs none, and a change an event and one or
// two small reads for each provider.
func TestDirectoryTrace(t *testing.T) {
	w := trial.New(t)
	directoryRegister(w, w.Look, web("1"))
	rec := w.Record()
	r := directoryRegister(w, w.C, web("2"))
	w.Must(r.Update(w.Ctx, web("2")))
	w.Must(r.Release(w.Ctx))
	spent(w, rec, "create2 /services/web/2", "delete /services/web/2", "event NodeDeleted /services/web/2", "getChildren2 /services/web/2 watch", "setData /services/web/2")

	p := open(w, w.C, presence.ProviderOptions{})
	directoryAwait(w, p, "1")
	spent(w, rec, "addWatch /services/web", "getChildren2 /services/web", "getData /services/web", "getData /services/web/1", "sync /services/web")
	for range 100 {
		_, err := p.Pick(w.Ctx)
		w.Must(err)
	}
	spent(w, rec)
	r = directoryRegister(w, w.Look, web("2"))
	directoryAwait(w, p, "1 2")
	w.Must(r.Release(w.Ctx))
	directoryAwait(w, p, "1")
	spent(w, rec, "event NodeCreated /services/web/2", "event NodeDeleted /services/web/2", "exists /services/web", "exists /services/web", "getData /services/web/2", "getData /services/web/2")
	_, err := newDiscovery(w, w.C).Find(w.Ctx, "web")
	w.Must(err)
	spent(w, rec, "getChildren2 /services/web", "getData /services/web/1")
}

func TestDirectoryBadUse(t *testing.T) {
	w := trial.New(t)
	if _, err := presence.NewDirectory(w.C, "services", presence.Options{}); err == nil || !strings.Contains(err.Error(), "path") {
		t.Errorf("New = %v", err)
	}
	d := newDiscovery(w, w.C)
	for _, i := range []presence.Instance{
		{}, {Name: "a/b"}, {Name: "a", ID: "b/c"}, {Name: "a", Type: presence.Static}, {Name: "a", URISpec: "{"}, {Name: "a", Payload: json.RawMessage("{")},
	} {
		if _, err := d.Register(w.Ctx, i); err == nil {
			t.Errorf("Register(%+v) went well", i)
		}
	}
	if _, err := d.Find(w.Ctx, ""); err == nil {
		t.Error("Find of nothing went well")
	}
	if _, err := d.Open(w.Ctx, "a/b", presence.ProviderOptions{}); err == nil {
		t.Error("Open of a/b went well")
	}
	if _, err := d.Open(w.Ctx, "a", presence.ProviderOptions{Threshold: -1}); err == nil || !strings.Contains(err.Error(), "Threshold") {
		t.Errorf("Open = %v", err)
	}
	r := directoryRegister(w, w.C, web("1"))
	_, err := newDiscovery(w, w.Look).Register(w.Ctx, web("1"))
	mustBe(t, err, client.ErrNodeExists)
	if err := r.Update(w.Ctx, web("2")); err == nil || !strings.Contains(err.Error(), "register that") {
		t.Errorf("Update = %v", err)
	}
	w.Must(r.Release(w.Ctx))
	mustBe(t, r.Release(w.Ctx), recipes.ErrNotHeld)
	mustBe(t, r.Update(w.Ctx, web("1")), recipes.ErrClosed)
	mustBe(t, r.Err(), recipes.ErrClosed)

	p := open(w, w.C, presence.ProviderOptions{})
	w.Must(p.Close(w.Ctx))
	w.Must(p.Close(w.Ctx))
	_, err = p.Pick(w.Ctx)
	mustBe(t, err, recipes.ErrClosed)
	_, err = p.Instances(w.Ctx)
	mustBe(t, err, recipes.ErrClosed)

	_, err = settle.CreateAll(w.Ctx, w.Look, "/services/web/foreign", nil, client.CreateOptions{})
	w.Must(err)
	_, err = d.Find(w.Ctx, "web")
	mustBe(t, err, recipes.ErrLayout)
	if !strings.Contains(err.Error(), `"foreign"`) {
		t.Errorf("the error does not name the child: %v", err)
	}
}

func TestDirectoryACLs(t *testing.T) {
	w := trial.New(t)
	_, err := w.Look.Multi(w.Ctx, client.CreateOp("/services", nil, client.CreateOptions{}), client.CreateOp("/services/web", nil, client.CreateOptions{ACL: client.ReadACL()}))
	w.Must(err)
	_, err = newDiscovery(w, w.C).Register(w.Ctx, web("1"))
	mustBe(t, err, client.ErrNoAuth)
	_, err = w.Look.Create(w.Ctx, "/closed", nil, client.CreateOptions{ACL: []client.ACL{client.DigestACL(client.PermAll, "ann", "pw")}})
	w.Must(err)
	d, err := presence.NewDirectory(w.C, "/closed", presence.Options{})
	w.Must(err)
	_, err = d.Names(w.Ctx)
	mustBe(t, err, client.ErrNoAuth)
}

// Without renewal registrations and providers end with the session.
func TestDirectoryEndsWithTheSession(t *testing.T) {
	w := trial.New(t)
	r := directoryRegister(w, w.C, web("1"))
	p := open(w, w.C, presence.ProviderOptions{})
	directoryAwait(w, p, "1")
	id := w.C.Session().ID()
	w.Proxy.ExpireSession(id)
	<-r.Done()
	mustBe(t, r.Err(), recipes.ErrLost)
	var err error
	for _, err = range p.Follow(w.Ctx) {
	}
	mustBe(t, err, recipes.ErrLost)
	_, err = p.Pick(w.Ctx)
	mustBe(t, err, recipes.ErrLost)
	if found, err := newDiscovery(w, w.Look).Find(w.Ctx, "web"); len(found) != 0 || err != nil {
		t.Errorf("found %q, %v", directoryIds(found), err)
	}
}

func TestDirectoryOpenIsGivenUp(t *testing.T) {
	w := trial.New(t)
	w.Proxy.Refuse()
	w.Proxy.CutConnections()
	p := open(w, w.C, presence.ProviderOptions{})
	ctx, cancel := context.WithCancelCause(w.Ctx)
	cancel(errors.New("enough"))
	if _, err := p.Pick(ctx); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("Pick = %v", err)
	}
	w.Proxy.Accept()
}
