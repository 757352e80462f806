package presence

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
)

// Directory is a directory of services.
type Directory struct {
	c    *client.Client
	base string
	o    Options
}

// NewDirectory returns the directory below base. It sends no request.
func NewDirectory(c *client.Client, base string, o Options) (*Directory, error) {
	if err := line.CheckPath(base); err != nil {
		return nil, fmt.Errorf("discovery: path %q: %w", base, err)
	}
	return &Directory{c: c, base: base, o: o}, nil
}

// Register registers an instance, and waits until others can find it. It fills in ID,
// Registered and Type: see Registration.Instance. If ctx ends before, there is no such
// instance, or will be none soon.
func (d *Directory) Register(ctx context.Context, i Instance) (*Registration, error) {
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
	node, err := hold(ctx, d.c, line.Join(d.service(i.Name), i.ID), data, d.o)
	if err != nil {
		return nil, fmt.Errorf("register %s: %w", i.Name, err)
	}
	return &Registration{held{node: node, what: fmt.Sprintf("instance %s of %s", i.ID, i.Name)}}, nil
}

// Registration is the presence of an instance in a Directory. It has the methods State,
// Done, Err and Release.
type Registration struct{ held }

// Instance returns what is registered, or is about to be.
func (r *Registration) Instance() (i Instance) {
	_ = json.Unmarshal(r.node.Data(), &i) // encode has written it
	return i
}

// Update changes what is registered, except for Name and ID, and waits until others can see
// it, or what was registered later. An empty Type and a zero Registered stay as they are. If
// ctx ends before, others will see it nevertheless. What the servers refuse changes nothing.
func (r *Registration) Update(ctx context.Context, i Instance) error {
	was := r.Instance()
	if i.Type == "" {
		i.Type = was.Type
	}
	if i.Registered.IsZero() {
		i.Registered = was.Registered
	}
	data, err := encode(i)
	if err == nil && (i.Name != was.Name || i.ID != was.ID) {
		err = fmt.Errorf("instance %s of %s can't become %s of %s: register that", was.ID, was.Name, i.ID, i.Name)
	}
	if err == nil {
		err = r.node.SetData(ctx, data)
	}
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	return nil
}

// encode checks an instance that is to be registered, and returns its data.
func encode(i Instance) ([]byte, error) {
	if err := checkName("service's name", i.Name); err != nil {
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

// service returns the path of a service.
func (d *Directory) service(name string) string { return line.Join(d.base, name) }

// Names returns the names of all services, sorted. A service without instances may be listed
// for a while.
func (d *Directory) Names(ctx context.Context) ([]string, error) {
	list, err := d.c.Steady().Children(ctx, d.base)
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	slices.Sort(list.Names)
	return list.Names, err
}

// Find returns the instances of a service, sorted by ID, and none if there is no such
// service. It takes one read, and another one for each instance. The error wraps
// recipes.ErrLayout if there are other nodes among them.
func (d *Directory) Find(ctx context.Context, name string) ([]Instance, error) {
	if err := checkName("service's name", name); err != nil {
		return nil, fmt.Errorf("find: %w", err)
	}
	dir := d.service(name)
	ids, err := d.c.Steady().Children(ctx, dir)
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(ids.Names)
	return readAll(ctx, d.c.Steady(), dir, ids.Names, func(id string, node client.Node) (i Instance, err error) {
		if err = json.Unmarshal(node.Data, &i); err != nil {
			err = fmt.Errorf("%w: %s has a child %q that is no instance (%w); delete it, or use another path", recipes.ErrLayout, dir, id, err)
		}
		return i, err
	})
}
