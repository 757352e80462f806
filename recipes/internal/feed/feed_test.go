package feed_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/recipes/internal/feed"
)

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, end := errors.New("bad"), errors.New("end")
		var f feed.Feed[int]
		var got []int
		var errs []error
		go func() {
			for v, err := range f.Follow(t.Context()) {
				got, errs = append(got, v), append(errs, err)
			}
		}()
		for _, step := range []func(){
			func() { f.Put(1) },
			func() { f.Report(bad) },
			func() { f.Put(2); f.Put(3) },
			func() { f.End(end); f.Put(4) },
		} {
			synctest.Wait()
			step()
		}
		synctest.Wait()
		if want := []int{1, 1, 3, 3}; !slices.Equal(got, want) {
			t.Errorf("values are %d, want %d", got, want)
		}
		if want := []error{nil, bad, nil, end}; !slices.Equal(errs, want) {
			t.Errorf("errors are %v, want %v", errs, want)
		}
		if now := f.Now(); !now.Over || now.Value != 3 || now.Err != end {
			t.Errorf("in the end there is %+v", now)
		}
	})
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("enough")
		var f feed.Feed[int]
		ctx, cancel := context.WithCancelCause(t.Context())
		waits := make(chan error, 2)
		go func() { waits <- f.Wait(ctx) }()
		synctest.Wait()
		f.Report(errors.New("nothing good yet"))
		synctest.Wait()
		cancel(cause)
		if err := <-waits; !errors.Is(err, cause) {
			t.Errorf("wait = %v, want why its context has ended", err)
		}
		go func() { waits <- f.Wait(t.Context()) }()
		synctest.Wait()
		f.Put(1)
		if err := <-waits; err != nil {
			t.Errorf("wait = %v", err)
		}
		f.End(cause)
		if err := f.Wait(t.Context()); err != nil {
			t.Errorf("wait for what is there = %v", err)
		}
	})
}
