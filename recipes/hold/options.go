package hold

import (
	"fmt"
	"os"
	"time"

	"github.com/zkd-project/zkd/client"
)

// Options are common to everything that can be held. The zero value is good for most.
type Options struct {
	// Data of the contender's node, which Contenders returns: it tells people who it is.
	// Nil is the host's name and the process id, "db1:4711".
	Data []byte
	// ACL of new nodes; nil is client.OpenACL. All who take part must be able to read and
	// create below the path, and to delete their own nodes.
	ACL []client.ACL
	// Reserve is the time that the holder needs to stop. While there is no connection,
	// the Held counts as lost that long before the servers may give it to somebody else.
	// The loss of a connection may be noticed only a third of the session's timeout before
	// the session ends, so no more than that third is certain.
	Reserve time.Duration
}

// Complete sets defaults. It is for recipes. The error is that of a bad value.
func (o *Options) Complete() error {
	if o.Reserve < 0 {
		return fmt.Errorf("%w: Options.Reserve is %v: it must not be negative", client.ErrBadArguments, o.Reserve)
	}
	if o.Data == nil {
		host, _ := os.Hostname() // for people only
		o.Data = fmt.Appendf(nil, "%s:%d", host, os.Getpid())
	}
	return nil
}
