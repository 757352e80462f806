//go:build !linux

package cluster

import "testing"

func TestDisks(t *testing.T) { t.Log("NOT TESTED: faults of disks need Linux") }
