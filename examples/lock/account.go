package main

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/lock"
)

// book is what is in the account's node: how many deposits each teller has made.
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
	path   string // of the node with the book
	lock   *lock.Mutex
	out    *lines
	done   int // deposits that the teller has made
}

func newAccount(c *client.Client, path, teller string, out *lines) (*account, error) {
	m, err := lock.New(c, path+"/lock", lock.Options{Data: []byte("teller " + teller)})
	if err != nil {
		return nil, err
	}
	return &account{c: c, teller: teller, path: path + "/book", lock: m, out: out, done: -1}, nil
}

// deposit puts one more into the account. If the lock is lost on the way, or the outcome
// is not known, it begins anew: the book says whether the deposit is in it already.
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

// passing tells what is mended by trying again.
func passing(err error) bool {
	return errors.Is(err, recipes.ErrLost) || errors.Is(err, client.ErrConnectionLoss) || errors.Is(err, client.ErrSessionExpired)
}

// enter enters a deposit in the book, and returns the balance. It runs while the lock is
// held; should it be slower than that, the guard refuses its entry.
func (a *account) enter(ctx context.Context) (balance int, err error) {
	held, _ := lock.FromContext(ctx)
	a.out.print("teller %s has the lock, with token %v", a.teller, held.Token())
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

// read returns the book, which is made if there is none.
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
func (a *account) write(ctx context.Context, held *lock.Held, b book) error {
	data, err := typed.JSON[book]{}.Encode(b)
	if err != nil {
		return err
	}
	_, err = a.c.Multi(ctx, held.Guard(client.SetOp(a.path, data, client.AnyVersion))...)
	return err
}
