package value

import (
	"context"

	"github.com/zkd-project/zkd/client"
)

// mark changes the value together with a mark, which is a receipt below it: that tells
// afterwards whether it was done.
func (v *Value[T]) mark(ctx context.Context, data []byte, old client.Stat) (client.Stat, error) {
	done, err := v.marks.Do(ctx, client.SetOp(v.path, data, old.Version))
	if err != nil {
		return client.Stat{}, err
	}
	if done.Results != nil {
		return done.Results[0].Stat, nil
	}
	// The reply was lost. The mark was changed at the same moment.
	now := old
	now.Version++
	now.Mzxid, now.Mtime, now.DataLength = done.Receipt.Mzxid, done.Receipt.Mtime, int32(len(data))
	return now, nil
}
