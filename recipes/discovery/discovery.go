package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/keepalive"
)

// Options are what a Discovery can be told. The zero value is good for most.
type Options struct {
	// ACL is that of new nodes. Nil is client.OpenACL. It must let the instances read.
	ACL []client.ACL
	// Patient makes Register wait while there is an instance of the ID, such as this
	// program before it was restarted, whose session has yet to end.
	Patient bool
}

// Discovery is a directory of services.
type Discovery struct {
	c    *client.Client
	base string
	o    Options
}

// New returns the directory below base. It doesn't talk to the servers.
func New(c *client.Client, base string, o Options) (*Discovery, error) {
	if err := line.CheckPath(base); err != nil {
		return nil, fmt.Errorf("discovery: path %q: %w", base, err)
	}
	return &Discovery{c: c, base: base, o: o}, nil
}

// Register makes an instance known, and waits until others can find it. It returns
// with ID, Registered and Type filled in: see Registration.Instance. If ctx ends
// before, there is no such instance, or is none soon.
func (d *Discovery) Register(ctx context.Context, i Instance) (*Registration, error) {
	if i.ID == "" {
		i.ID = line.NewID()
	}
	if i.Registered.IsZero() {
		i.Registered = time.Now().Truncate(time.Millisecond).UTC()
	}
	if i.Type == "" {
		i.Type = Dynamic
	}
	data, err := encode(i)
	if err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	node, err := keepalive.New(d.c, line.Join(d.service(i.Name), i.ID), keepalive.Options{ACL: d.o.ACL, Patient: d.o.Patient})
	if err != nil {
		return nil, fmt.Errorf("register %s: %w", i.Name, err)
	}
	if err = node.Start(data); err == nil {
		err = node.WaitThere(ctx)
	}
	if err != nil {
		_ = node.Close(ctx) // what is left goes in the background
		return nil, fmt.Errorf("register %s: %w", i.Name, err)
	}
	return &Registration{node: node}, nil
}

// encode checks an instance that is to be registered, and returns its data.
func encode(i Instance) ([]byte, error) {
	if err := checkName(i.Name); err != nil {
		return nil, err
	}
	switch {
	case strings.Contains(i.ID, "/"):
		return nil, fmt.Errorf("Instance.ID is %q: it has no /", i.ID)
	case i.Type != Dynamic:
		return nil, fmt.Errorf("Instance.Type is %q: those that are registered here are %s", i.Type, Dynamic)
	}
	data, err := json.Marshal(i)
	if err != nil {
		return nil, fmt.Errorf("instance %s: %w", i.ID, err)
	}
	return data, nil
}

func checkName(name string) error {
	if name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("the service's name is %q: it is a name without /", name)
	}
	return nil
}

// service returns the path of a service.
func (d *Discovery) service(name string) string { return line.Join(d.base, name) }

// Names returns the names of all services, sorted. One whose last instance has gone may
// be listed for a while.
func (d *Discovery) Names(ctx context.Context) ([]string, error) {
	list, err := d.c.Steady().Children(ctx, d.base)
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	slices.Sort(list.Names)
	return list.Names, err
}

// Find returns the instances of a service, sorted by ID: none if there is no such
// service. It takes one read, and another one for each instance. The error wraps
// recipes.ErrLayout if there is something else among them.
func (d *Discovery) Find(ctx context.Context, name string) ([]Instance, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("find: %w", err)
	}
	c, dir := d.c.Steady(), d.service(name)
	ids, err := c.Children(ctx, dir)
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(ids.Names)
	reads := make([]*client.Future[client.Node], len(ids.Names))
	for i, id := range ids.Names {
		reads[i] = c.Async().Get(line.Join(dir, id))
	}
	var found []Instance
	for i, id := range ids.Names {
		node, err := reads[i].Wait(ctx)
		if client.IsRetryable(err) {
			node, err = c.Get(ctx, line.Join(dir, id))
		}
		switch {
		case errors.Is(err, client.ErrNoNode):
			continue // it has gone between
		case err != nil:
			return nil, err
		}
		var one Instance
		if err := json.Unmarshal(node.Data, &one); err != nil {
			return nil, fmt.Errorf("%w: %s has a child %q that is no instance (%w); delete it, or use another path", recipes.ErrLayout, dir, id, err)
		}
		found = append(found, one)
	}
	return found, nil
}
