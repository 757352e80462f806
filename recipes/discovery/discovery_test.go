package discovery_test

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
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/discovery"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

func newDiscovery(w *trial.World, c *client.Client) *discovery.Discovery {
	w.Helper()
	d, err := discovery.New(c, "/services", discovery.Options{})
	w.Must(err)
	return d
}

func register(w *trial.World, c *client.Client, i discovery.Instance) *discovery.Registration {
	w.Helper()
	r, err := newDiscovery(w, c).Register(w.Ctx, i)
	w.Must(err)
	w.Cleanup(func() { _ = r.Unregister(context.WithoutCancel(w.Ctx)) })
	return r
}

func open(w *trial.World, c *client.Client, o discovery.ProviderOptions) *discovery.Provider {
	w.Helper()
	p, err := newDiscovery(w, c).Open(w.Ctx, "web", o)
	w.Must(err)
	w.Cleanup(func() { _ = p.Close(context.WithoutCancel(w.Ctx)) })
	return p
}

func web(id string) discovery.Instance {
	return discovery.Instance{Name: "web", ID: id, Address: "10.0.0." + id, Port: 80}
}

func mustBe(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
	}
}

// ids renders instances as "1 2".
func ids(instances []discovery.Instance) string {
	var all []string
	for _, i := range instances {
		all = append(all, i.ID)
	}
	return strings.Join(all, " ")
}

// await waits until the provider has those instances.
func await(w *trial.World, p *discovery.Provider, want string) {
	w.Helper()
	for all, err := range p.Follow(w.Ctx) {
		if err != nil {
			w.Fatalf("while waiting for %q: %v", want, err)
		}
		if ids(all) == want {
			return
		}
	}
}

func TestRegisterAndFind(t *testing.T) {
	w := trial.New(t)
	d := newDiscovery(w, w.Look)
	if names, err := d.Names(w.Ctx); len(names) != 0 || err != nil {
		t.Errorf("names are %q, %v", names, err)
	}
	if found, err := d.Find(w.Ctx, "web"); len(found) != 0 || err != nil {
		t.Errorf("found %+v, %v", found, err)
	}
	r := register(w, w.C, web("2"))
	register(w, w.C, web("1"))
	anonymous := register(w, w.C, discovery.Instance{Name: "db"})
	if names, err := d.Names(w.Ctx); !slices.Equal(names, []string{"db", "web"}) || err != nil {
		t.Errorf("names are %q, %v", names, err)
	}
	found, err := d.Find(w.Ctx, "web")
	if ids(found) != "1 2" || err != nil {
		t.Fatalf("found %q, %v", ids(found), err)
	}
	if got := found[1]; got.Type != discovery.Dynamic || got.Registered.IsZero() || got.Registered != r.Instance().Registered || got.Address != "10.0.0.2" {
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
	w.Must(r.Unregister(w.Ctx))
	if found, err := d.Find(w.Ctx, "web"); ids(found) != "1" || err != nil {
		t.Errorf("found %q, %v", ids(found), err)
	}
}

// What is refused is not registered, and not what an update in between has failed of.
func TestRefusedUpdate(t *testing.T) {
	w := trial.New(t)
	r := register(w, w.C, web("1"))
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

func TestProvider(t *testing.T) {
	w := trial.New(t)
	p := open(w, w.Look, discovery.ProviderOptions{Filter: func(i discovery.Instance) bool { return i.Port != 81 }})
	_, err := p.Pick(w.Ctx)
	mustBe(t, err, discovery.ErrNoInstance)
	one := register(w, w.C, web("1"))
	two := register(w, w.C, web("2"))
	hidden := web("3")
	hidden.Port = 81
	register(w, w.C, hidden)
	disabled := web("4")
	disabled.Disabled = true
	register(w, w.C, disabled)
	_, err = w.Look.Create(w.Ctx, "/services/web/broken", []byte("{"), client.CreateOptions{})
	w.Must(err)
	await(w, p, "1 2 3 4")

	picks := func(n int) string {
		var got []discovery.Instance
		for range n {
			i, err := p.Pick(w.Ctx)
			w.Must(err)
			got = append(got, i)
		}
		return ids(got)
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
		p.Failed(discovery.Instance{ID: "unknown"})
	}
	if got := picks(2); got != "1 2" {
		t.Errorf("with all down picks are %q", got)
	}
	w.Must(two.Unregister(w.Ctx))
	await(w, p, "1 3 4")
	if got := picks(2); got != "1 1" {
		t.Errorf("picks are %q", got)
	}
	if _, stale := p.Stale(); stale {
		t.Error("stale")
	}
	// What is registered anew has not failed.
	w.Must(one.Unregister(w.Ctx))
	await(w, p, "3 4")
	register(w, w.C, web("1"))
	register(w, w.C, web("2"))
	await(w, p, "1 2 3 4")
	if got := picks(2); got != "2 1" && got != "1 2" {
		t.Errorf("picks are %q", got)
	}
}

// A provider that is cut off picks among those it knows.
func TestProviderIsCutOff(t *testing.T) {
	w := trial.New(t)
	c := w.Proxy.Client(t, func(o *client.Options) { o.RenewSession = true }).Namespace(w.Dir())
	r := register(w, w.Look, web("1"))
	p := open(w, c, discovery.ProviderOptions{})
	await(w, p, "1")
	w.Proxy.Refuse()
	id, _ := c.Session()
	w.Proxy.ExpireSession(id)
	for _, stale := p.Stale(); !stale; _, stale = p.Stale() {
		w.Must(w.Ctx.Err())
	}
	w.Must(r.Unregister(w.Ctx))
	register(w, w.Look, web("2"))
	if i, err := p.Pick(w.Ctx); i.ID != "1" || err != nil {
		t.Errorf("pick is %+v, %v", i, err)
	}
	w.Proxy.Accept()
	await(w, p, "2")
}

// Registering costs two requests; picking costs none, and a change an event and one or
// two small reads for each provider.
func TestTrace(t *testing.T) {
	w := trial.New(t)
	register(w, w.Look, web("1"))
	rec := w.Record()
	r := register(w, w.C, web("2"))
	w.Must(r.Update(w.Ctx, web("2")))
	w.Must(r.Unregister(w.Ctx))
	spent(w, rec, "create2 /services/web/2", "delete /services/web/2", "event NodeDeleted /services/web/2", "getChildren2 /services/web/2 watch", "setData /services/web/2")

	p := open(w, w.C, discovery.ProviderOptions{})
	await(w, p, "1")
	spent(w, rec, "addWatch /services/web", "getChildren2 /services/web", "getData /services/web", "getData /services/web/1", "sync /services/web")
	for range 100 {
		_, err := p.Pick(w.Ctx)
		w.Must(err)
	}
	spent(w, rec)
	r = register(w, w.Look, web("2"))
	await(w, p, "1 2")
	w.Must(r.Unregister(w.Ctx))
	await(w, p, "1")
	spent(w, rec, "event NodeCreated /services/web/2", "event NodeDeleted /services/web/2", "exists /services/web", "exists /services/web", "getData /services/web/2", "getData /services/web/2")
	_, err := newDiscovery(w, w.C).Find(w.Ctx, "web")
	w.Must(err)
	spent(w, rec, "getChildren2 /services/web", "getData /services/web/1")
}

// spent compares what was recorded, in whatever order.
func spent(w *trial.World, rec *zktest.Recording, want ...string) {
	w.Helper()
	_, err := w.C.Exists(w.Ctx, "/end") // what was asked for before is recorded
	w.Must(err)
	got := w.Trace(rec)
	slices.Sort(got)
	want = append(want, "exists /end")
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.Errorf("trace is\n%q, want\n%q", got, want)
	}
}

func TestBadUse(t *testing.T) {
	w := trial.New(t)
	if _, err := discovery.New(w.C, "services", discovery.Options{}); err == nil || !strings.Contains(err.Error(), "path") {
		t.Errorf("New = %v", err)
	}
	d := newDiscovery(w, w.C)
	for _, i := range []discovery.Instance{
		{}, {Name: "a/b"}, {Name: "a", ID: "b/c"}, {Name: "a", Type: discovery.Static}, {Name: "a", URISpec: "{"}, {Name: "a", Payload: json.RawMessage("{")},
	} {
		if _, err := d.Register(w.Ctx, i); err == nil {
			t.Errorf("Register(%+v) went well", i)
		}
	}
	if _, err := d.Find(w.Ctx, ""); err == nil {
		t.Error("Find of nothing went well")
	}
	if _, err := d.Open(w.Ctx, "a/b", discovery.ProviderOptions{}); err == nil {
		t.Error("Open of a/b went well")
	}
	if _, err := d.Open(w.Ctx, "a", discovery.ProviderOptions{Threshold: -1}); err == nil || !strings.Contains(err.Error(), "Threshold") {
		t.Errorf("Open = %v", err)
	}
	r := register(w, w.C, web("1"))
	_, err := newDiscovery(w, w.Look).Register(w.Ctx, web("1"))
	mustBe(t, err, client.ErrNodeExists)
	if err := r.Update(w.Ctx, web("2")); err == nil || !strings.Contains(err.Error(), "register that") {
		t.Errorf("Update = %v", err)
	}
	w.Must(r.Unregister(w.Ctx))
	mustBe(t, r.Unregister(w.Ctx), recipes.ErrNotHeld)
	mustBe(t, r.Update(w.Ctx, web("1")), recipes.ErrClosed)
	mustBe(t, r.Err(), recipes.ErrClosed)

	p := open(w, w.C, discovery.ProviderOptions{})
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

func TestACLs(t *testing.T) {
	w := trial.New(t)
	_, err := w.Look.Multi(w.Ctx, client.CreateOp("/services", nil, client.CreateOptions{}), client.CreateOp("/services/web", nil, client.CreateOptions{ACL: client.ReadACL()}))
	w.Must(err)
	_, err = newDiscovery(w, w.C).Register(w.Ctx, web("1"))
	mustBe(t, err, client.ErrNoAuth)
	_, err = w.Look.Create(w.Ctx, "/closed", nil, client.CreateOptions{ACL: []client.ACL{client.DigestACL(client.PermAll, "ann", "pw")}})
	w.Must(err)
	d, err := discovery.New(w.C, "/closed", discovery.Options{})
	w.Must(err)
	_, err = d.Names(w.Ctx)
	mustBe(t, err, client.ErrNoAuth)
}

// Without renewal registrations and providers end with the session.
func TestEndsWithTheSession(t *testing.T) {
	w := trial.New(t)
	r := register(w, w.C, web("1"))
	p := open(w, w.C, discovery.ProviderOptions{})
	await(w, p, "1")
	id, _ := w.C.Session()
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
		t.Errorf("found %q, %v", ids(found), err)
	}
}

func TestOpenIsGivenUp(t *testing.T) {
	w := trial.New(t)
	w.Proxy.Refuse()
	w.Proxy.CutConnections()
	p := open(w, w.C, discovery.ProviderOptions{})
	ctx, cancel := context.WithCancelCause(w.Ctx)
	cancel(errors.New("enough"))
	if _, err := p.Pick(ctx); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("Pick = %v", err)
	}
	w.Proxy.Accept()
}
