package value

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Layout is how a Counter's data represent the number: see the package's documentation.
type Layout int

// The layouts.
const (
	Long Layout = iota
	Int
	Decimal
)

// String returns the name in lower case.
func (l Layout) String() string {
	if l < Long || l > Decimal {
		return fmt.Sprintf("layout %d", int(l))
	}
	return [...]string{"long", "int", "decimal"}[l]
}

// ErrOverflow means that a number is too large, or too small, for the Counter's layout.
var ErrOverflow = errors.New("number does not fit the counter")

// codec is the codec of a layout. A node without data, which kazoo makes, has the seed; with
// Long it is 0, as for Curator.
type codec struct {
	layout Layout
	seed   int64
}

func (c codec) Encode(n int64) ([]byte, error) {
	switch {
	case c.layout == Decimal:
		return strconv.AppendInt(nil, n, 10), nil
	case c.layout == Long:
		return binary.BigEndian.AppendUint64(nil, uint64(n)), nil
	case n < math.MinInt32 || n > math.MaxInt32:
		return nil, fmt.Errorf("%d: %w", n, ErrOverflow)
	}
	return binary.BigEndian.AppendUint32(nil, uint32(n)), nil
}

func (c codec) Decode(data []byte) (int64, error) {
	switch {
	case len(data) == 0 && c.layout == Long:
		return 0, nil
	case len(data) == 0:
		return c.seed, nil
	case c.layout == Decimal:
		return strconv.ParseInt(string(data), 10, 64)
	case c.layout == Long && len(data) == 8:
		return int64(binary.BigEndian.Uint64(data)), nil
	case c.layout == Int && len(data) == 4:
		return int64(int32(binary.BigEndian.Uint32(data))), nil
	}
	return 0, fmt.Errorf("%d bytes are no number in the layout %v", len(data), c.layout)
}

// add returns a+b, or ErrOverflow.
func add(a, b int64) (int64, error) {
	sum := a + b
	if (b > 0) != (sum > a) && b != 0 {
		return 0, fmt.Errorf("%d%+d: %w", a, b, ErrOverflow)
	}
	return sum, nil
}
