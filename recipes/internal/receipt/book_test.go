package receipt_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/internal/receipt"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// open returns a Book with receipts below /receipts.
func open(c *client.Client) *receipt.Book {
	return receipt.New(c, receipt.Options{
		Path: func() string { return "/receipts/" + line.NewID() },
		Missing: func(ctx context.Context) error {
			return settle.Ensure(ctx, c, "/receipts", client.CreateOptions{Mode: client.Container})
		},
	})
}

// add is a change that, done twice, makes two nodes.
func add(word string) client.Op {
	return client.CreateOp("/words/"+word+"-", nil, client.CreateOptions{Mode: client.PersistentSequential})
}

// begin makes the directory of the words.
func begin(w *trial.World) {
	w.Helper()
	_, err := w.Look.Create(w.Ctx, "/words", nil, client.CreateOptions{})
	w.Must(err)
}

// count returns how many nodes there are of a word.
func count(names []string, word string) int {
	return len(slices.DeleteFunc(slices.Clone(names), func(s string) bool { return !strings.HasPrefix(s, word+"-") }))
}

func TestEveryFault(t *testing.T) { everyFault(t, false) }

// With a session that is renewed, a change that was certainly not made is repeated.
func TestEveryFaultRenewed(t *testing.T) { everyFault(t, true) }

func everyFault(t *testing.T, renew bool) {
	trial.Every(t, renew, func(w *trial.World) {
		begin(w)
		b := open(w.C)
		said := make(map[string]error)
		for i := range 3 {
			word := fmt.Sprint(i)
			done, err := b.Do(w.Ctx, add(word), add(word+"+"))
			said[word] = err
			if err == nil && done.Results == nil && done.Receipt.Mzxid == 0 {
				w.Errorf("%s: neither results nor a receipt", w.Fault)
			}
			if err != nil && (!w.Expires || !trial.Passing(err)) {
				w.Errorf("%s: Do = %v", w.Fault, err)
			}
			if err != nil && renew && !client.IsAmbiguous(err) {
				w.Errorf("%s: Do = %v, which was not done, and there is a new session", w.Fault, err)
			}
		}
		w.Must(b.Close(w.Ctx))
		w.AwaitChildren("/receipts", 0)
		names := w.Children("/words")
		for word, err := range said {
			low, high := 1, 1
			switch {
			case client.IsAmbiguous(err):
				low = 0
			case err != nil:
				low, high = 0, 0
			}
			n, second := count(names, word), count(names, word+"+")
			if n < low || n > high || n != second {
				w.Errorf("%s: Do = %v, and it was done %d times, its second half %d", w.Fault, err, n, second)
			}
		}
	})
}

// A change is one request. A receipt is made by the first one, and used again by the
// next.
func TestTrace(t *testing.T) {
	w := trial.New(t)
	begin(w)
	b := open(w.C)
	rec := w.Record()
	expect := func(want ...string) {
		t.Helper()
		if got := w.Trace(rec); !slices.Equal(got, want) {
			t.Errorf("asked for %q, want %q", got, want)
		}
	}
	change := []string{"multi /receipts/GUID", "multi /words/a-"}
	for i := range 3 {
		_, err := b.Do(w.Ctx, add("a"))
		w.Must(err)
		if i == 0 { // what is missing is made
			got := w.Trace(rec)
			if !slices.Equal(got[:2], change) || !slices.Equal(got[len(got)-2:], change) {
				t.Errorf("first asked for %q", got)
			}
			continue
		}
		expect(change...)
	}
	if n := len(w.Children("/receipts")); n != 1 {
		t.Errorf("there are %d receipts, want one", n)
	}
	w.Must(b.Close(w.Ctx))
	w.Must(b.Close(w.Ctx))
	expect("delete /receipts/GUID")
}

// An error names the operation as the caller counts, and nothing was done.
func TestOperationThatFails(t *testing.T) {
	w := trial.New(t)
	begin(w)
	b := open(w.C)
	for range 2 { // with a new receipt, and with one that is there
		for i, ops := range [][]client.Op{
			{client.DeleteOp("/none", -1), add("a")},
			{add("a"), client.DeleteOp("/none", -1)},
		} {
			_, err := b.Do(w.Ctx, ops...)
			op, ok := errors.AsType[*client.MultiError](err)
			if !ok || op.Index != i || op.Path != "/none" || !errors.Is(err, client.ErrNoNode) || client.IsAmbiguous(err) {
				t.Errorf("Do = %v (%+v), want that operation %d is of no node", err, op, i)
			}
		}
		_, err := b.Do(w.Ctx, add("b"))
		w.Must(err)
	}
	if names := w.Children("/words"); count(names, "a") != 0 || count(names, "b") != 2 {
		t.Errorf("there is %q", names)
	}
	w.Must(b.Close(w.Ctx))
}

// A repeated change whose other operations fail now, because it was done, was done.
func TestDoneIsDoneThoughItsTraceIsGone(t *testing.T) {
	w := trial.New(t)
	begin(w)
	b := open(w.C)
	_, err := b.Do(w.Ctx, client.CreateOp("/words/a", nil, client.CreateOptions{}))
	w.Must(err)
	cut := w.Proxy.CutAfter(func(op client.OpCode, _ string) bool { return op.String() == "multi" })
	done, err := b.Do(w.Ctx, client.DeleteOp("/words/a", -1), client.CreateOp("/words/b", nil, client.CreateOptions{}))
	<-cut.Done()
	if err != nil || done.Results != nil {
		t.Errorf("Do = %+v, %v, want that the receipt tells", done, err)
	}
	node, err := w.Look.Get(w.Ctx, "/words/b")
	if err != nil || node.Stat.Czxid != done.Receipt.Mzxid {
		t.Errorf("the change was %x, the receipt says %x (%v)", node.Stat.Czxid, done.Receipt.Mzxid, err)
	}
	w.Must(b.Close(w.Ctx))
}

// A change may be done after the read that has not found it: it is not done again. Here
// another client does it, as a server would to which it was sent first.
func TestDoneBehindTheLook(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprintf("first=%t", first), func(t *testing.T) {
			w := trial.New(t)
			begin(w)
			w.Must(settle.Ensure(w.Ctx, w.Look, "/receipts", client.CreateOptions{Mode: client.Container}))
			path := "/receipts/" + line.NewID()
			var late []client.Op
			c := w.Proxy.Client(t, zktest.Plain, func(o *client.Options) {
				o.Trace.Request = func(_ context.Context, r client.TracedRequest) {
					if r.Op.String() == "exists" && strings.HasSuffix(r.Path, path) && r.Err == nil && late != nil {
						_, err := w.Look.Multi(w.Ctx, late...)
						w.Must(err)
						late = nil
					}
				}
			}).WithRetry(trial.Quick()).Namespace(w.Dir())
			b := receipt.New(c, receipt.Options{Path: func() string { return path }})
			own := client.CreateOp(path, nil, client.CreateOptions{Mode: client.Ephemeral})
			if !first {
				_, err := b.Do(w.Ctx, add("before"))
				w.Must(err)
				own = client.SetOp(path, nil, 0)
			}
			late = []client.Op{own, add("a")}
			cut := w.Proxy.CutBefore(func(op client.OpCode, _ string) bool { return op.String() == "multi" })
			done, err := b.Do(w.Ctx, add("a"))
			<-cut.Done()
			if err != nil || done.Results != nil || done.Receipt.Mzxid == 0 {
				t.Errorf("Do = %+v, %v, want that the receipt tells", done, err)
			}
			if names := w.Children("/words"); count(names, "a") != 1 {
				t.Errorf("there is %q, want a once", names)
			}
			w.Must(b.Close(w.Ctx))
		})
	}
}

// A receipt of a change that was given up is deleted, though nobody closes the Book.
func TestGivenUp(t *testing.T) {
	w := trial.New(t)
	begin(w)
	b := open(w.C)
	_, err := b.Do(w.Ctx, add("a"))
	w.Must(err)
	ctx, cancel := context.WithCancel(w.Ctx)
	cut := w.Proxy.CutAfter(func(op client.OpCode, _ string) bool {
		if op.String() == "multi" {
			cancel()
			return true
		}
		return false
	})
	if _, err := b.Do(ctx, add("a")); !client.IsAmbiguous(err) {
		t.Errorf("Do = %v, want that it is in doubt", err)
	}
	<-cut.Done()
	w.AwaitChildren("/receipts", 0)
	w.Must(b.Close(w.Ctx))
}

// A receipt that somebody deletes or changes is replaced.
func TestDisturbedReceipt(t *testing.T) {
	w := trial.New(t)
	begin(w)
	b := open(w.C)
	for i, disturb := range []func(path string) error{
		func(path string) error { return w.Look.Delete(w.Ctx, path, client.AnyVersion) },
		func(path string) error { _, err := w.Look.Set(w.Ctx, path, nil, client.AnyVersion); return err },
	} {
		_, err := b.Do(w.Ctx, add(fmt.Sprint(i)))
		w.Must(err)
		for _, name := range w.Children("/receipts") {
			w.Must(disturb("/receipts/" + name))
		}
		if _, err = b.Do(w.Ctx, add(fmt.Sprint(i))); err != nil {
			t.Errorf("%d: Do = %v", i, err)
		}
		if n := count(w.Children("/words"), fmt.Sprint(i)); n != 2 {
			t.Errorf("%d was done %d times, want twice", i, n)
		}
	}
	w.Must(b.Close(w.Ctx))
}

// Closed under way a Book ends the change, and leaves nothing.
func TestClosedUnderWay(t *testing.T) {
	w := trial.New(t)
	begin(w)
	var b *receipt.Book
	b = receipt.New(w.C, receipt.Options{
		Path: func() string { return "/receipts/" + line.NewID() },
		Missing: func(ctx context.Context) error {
			return errors.Join(settle.Ensure(ctx, w.C, "/receipts", client.CreateOptions{Mode: client.Container}), b.Close(ctx))
		},
	})
	_, err := b.Do(w.Ctx, add("a"))
	w.Must(err)
	w.AwaitChildren("/receipts", 0)
	if _, err := b.Do(w.Ctx, add("b")); !errors.Is(err, recipes.ErrClosed) || !b.Closed() {
		t.Errorf("Do = %v, want ErrClosed", err)
	}
	if names := w.Children("/words"); count(names, "a") != 1 || len(names) != 1 {
		t.Errorf("there is %q", names)
	}
}

// What forbids a receipt, or has no place for it, comes through with its path.
func TestNoPlaceForReceipts(t *testing.T) {
	w := trial.New(t)
	begin(w)
	_, err := w.Look.Create(w.Ctx, "/receipts", nil, client.CreateOptions{ACL: client.ReadACL()})
	w.Must(err)
	forbidden := open(w.C)
	nowhere := receipt.New(w.C, receipt.Options{Path: func() string { return "/none/r" }})
	for b, want := range map[*receipt.Book]error{forbidden: client.ErrNoAuth, nowhere: client.ErrNoNode} {
		_, err := b.Do(w.Ctx, add("a"))
		_, ofCaller := errors.AsType[*client.MultiError](err)
		if !errors.Is(err, want) || ofCaller || !strings.Contains(err.Error(), "/receipts/") && !strings.Contains(err.Error(), "/none/r") {
			t.Errorf("Do = %v, want %v of the receipt", err, want)
		}
		w.Must(b.Close(w.Ctx))
	}
	if names := w.Children("/words"); len(names) != 0 {
		t.Errorf("there is %q", names)
	}
}
