package feed_test

import (
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
