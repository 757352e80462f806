package base

import "testing"

// TestDescriptorsAreReserved checks that clients can't take all descriptors of the process.
func TestDescriptorsAreReserved(t *testing.T) {
	for _, tt := range []struct {
		limit         int64
		members       int
		clients, http int
	}{
		{-1, 3, 0, 1024},
		{1 << 40, 3, 0, 1024},
		{30, 0, 10, 4},
		{200, 3, 67, 6},
		{300, 0, 200, 9},
		{1024, 3, 784, 32},
		{65536, 5, 61296, 1024},
	} {
		d := DivideDescriptors(tt.limit, tt.members)
		if d.Clients != tt.clients || d.HTTP != tt.http {
			t.Errorf("%d, %d members: %+v, want %d and %d", tt.limit, tt.members, d, tt.clients, tt.http)
		}
		if want := int(tt.limit) - d.Clients - httpPorts*d.HTTP; d.Clients > 0 && d.Own != max(want, 0) {
			t.Errorf("%d, %d members: %d are left, want %d", tt.limit, tt.members, d.Own, want)
		}
	}
}
