package server

import (
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/wal"
)

// What a client may ask for has one bound, config.MaxRequest: jute.maxbuffer
// can't be set to more. What a request becomes has another one,
// datatree.MaxTxn, and the evaluator rejects the request that would need more.
// Every layer between takes these. So no request can fail in a place where
// nothing is left but to end the server (the log) or to cut a link (a frame
// between servers).
const (
	// maxPeerFrame bounds a frame between servers. It carries about a mebibyte of
	// entries or requests, or one that is longer.
	maxPeerFrame = datatree.MaxTxn + 16<<20
	// maxPeerQueue bounds what waits to be sent to a server, before the link is
	// cut: the window of a learner and an entry beyond it, or all requests that
	// wait for the leader.
	maxPeerQueue = 256 << 20
	// maxCache and maxRequests are the defaults of limits.cache and limits.requests.
	maxCache    = 8 << 20
	maxRequests = 128 << 20
)

// A line that does not compile names a layer that takes less than what the one
// before can give it.
const (
	_ = uint(datatree.MaxTxn - config.MaxRequest - evaluate.MaxACLBytes)
	_ = uint(wal.MaxPayload - datatree.MaxTxn)
	_ = uint(maxPeerFrame - datatree.MaxTxn - 2*batchBytes)
	_ = uint(maxPeerFrame - replica.ForwardBytes - config.MaxRequest - replica.SubmissionOverhead)
	_ = uint(maxPeerQueue - maxCache - maxPeerFrame)
	_ = uint(maxPeerQueue - maxRequests - config.MaxRequest - replica.SubmissionOverhead)
)

// batchBytes is how many bytes of entries a message between servers has, unless
// a single one is longer.
const batchBytes = 1 << 20
