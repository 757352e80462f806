package base

import (
	"errors"
	"math"
	"os"
	"syscall"
)

// FileDescriptors returns the number of open file descriptors of the process and its
// limit; -1 where the system does not report them.
func FileDescriptors() (open, limit int64) {
	open, limit = -1, -1
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) == nil {
		limit = int64(r.Cur)
	}
	d, err := os.Open("/proc/self/fd")
	switch {
	case errors.Is(err, syscall.EMFILE):
		return limit, limit
	case err == nil:
		if names, err := d.Readdirnames(-1); err == nil {
			open = int64(len(names)) - 1 // without d itself
		}
		d.Close()
	}
	return open, limit
}

// Descriptors divides the file descriptors of the process, so that clients, pages and metrics
// can't take those that the log, the snapshots and the links to other servers need.
type Descriptors struct {
	Limit   int64 // of the process; -1 if it is unknown
	Clients int   // most connections of clients; 0 for no limit
	HTTP    int   // most connections of each port for HTTP
	Own     int   // at least for the log, snapshots and links; 0 without a limit
}

const (
	ownDescriptors    = 64 // of the log, its readers, snapshots, listeners and files of keys
	memberDescriptors = 16 // of each server: links, and connections that become some
	httpDescriptors   = 1024
	httpPorts         = 4
)

// DivideDescriptors divides the limit of a process among the parts of a server of an ensemble.
func DivideDescriptors(limit int64, members int) Descriptors {
	if limit <= 0 || limit > math.MaxInt32 {
		return Descriptors{Limit: limit, HTTP: httpDescriptors}
	}
	d := Descriptors{Limit: limit, HTTP: int(min(httpDescriptors, max(limit/32, 4)))}
	reserved := int64(ownDescriptors + memberDescriptors*members + httpPorts*d.HTTP)
	d.Clients = int(max(limit-min(reserved, limit*2/3), 1))
	d.Own = int(max(limit-int64(d.Clients+httpPorts*d.HTTP), 0))
	return d
}
