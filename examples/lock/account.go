package main

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/lock"
)

// book is the data of the account's node: the number of deposits of each teller.
type book map[string]int

func (b book) balance() (sum int) {
	for _, n := range b {
		sum += n
	}
	return sum
}

// account is a teller's view of an account, which it shares with the others.
type account struct {
	c      *client.Client
	teller string
	path   string // of the node that holds the book
	lock   *lock.Mutex
	out    *lines
	done   int // deposits of this teller
}

func newAccount(c *client.Client, path, teller string, out *lines) (*account, error) {
	m, err := lock.NewMutex(c, path+"/lock", lock.Options{Options: hold.Options{Data: []byte("teller " + teller)}})
	if err != nil {
		return nil, err
	}
	return &account{c: c, teller: teller, path: path + "/book", lock: m, out: out, done: -1}, nil
}

// deposit makes one more deposit. If the lock is lost meanwhile, or the outcome is not known,
// it starts again: the book shows whether the deposit was made.
func (a *account) deposit(ctx context.Context) error {
	for {
		balance, err := lock.With(ctx, a.lock, a.enter)
		switch {
		case err == nil:
			a.done++
			a.out.print("teller %s: deposit %d, balance %d", a.teller, a.done, balance)
			return nil
		case ctx.Err() != nil || !passing(err):
			return err
		}
		a.out.print("teller %s: again, as %v", a.teller, err)
	}
}

// passing reports whether a repetition may succeed.
func passing(err error) bool {
	return errors.Is(err, recipes.ErrLost) || errors.Is(err, client.ErrConnectionLoss) || errors.Is(err, client.ErrSessionExpired)
}

// enter adds a deposit to the book, and returns the balance. It runs while the lock is held;
// if it takes longer, the guard refuses the change.
func (a *account) enter(ctx context.Context) (balance int, err error) {
	held, _ := hold.FromContext(ctx)
	a.out.print("teller %s has the lock, with token %d", a.teller, held.Token())
	b, err := a.read(ctx)
	if err != nil {
		return 0, err
	}
	if a.done < 0 {
		a.done = b[a.teller] // from a run before this one
	}
	if b[a.teller] == a.done {
		b[a.teller]++
		err = a.write(ctx, held, b)
	}
	return b.balance(), err
}

// read returns the book, and creates it if necessary.
func (a *account) read(ctx context.Context) (book, error) {
	if err := settle.Ensure(ctx, a.c, a.path, client.CreateOptions{}); err != nil {
		return nil, err
	}
	b := book{}
	node, err := a.c.Steady().Get(ctx, a.path)
	if err == nil && len(node.Data) > 0 {
		b, err = typed.JSON[book]{}.Decode(node.Data)
	}
	return b, err
}

// write replaces the book, unless the lock has been lost.
func (a *account) write(ctx context.Context, held *hold.Held, b book) error {
	data, err := typed.JSON[book]{}.Encode(b)
	if err != nil {
		return err
	}
	_, err = a.c.Multi(ctx, held.Guard(client.SetOp(a.path, data, client.AnyVersion))...)
	return err
}
