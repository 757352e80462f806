package server

import (
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/wal"
)

// The size of a client's request has one bound, config.MaxRequest: jute.maxbuffer can't
// be set higher. The size of the transaction that it becomes has another one,
// datatree.MaxTxn, and the evaluator rejects a request that would need more. Every layer
// between accepts these sizes. So no request can fail in a place where the only way out
// is to end the server (the log) or to cut a link (a frame between servers).
const (
	// maxPeerFrame bounds a frame between servers. It carries about a mebibyte of entries
	// or requests, or a single longer one.
	maxPeerFrame = datatree.MaxTxn + 16<<20
	// maxPeerQueue bounds the bytes that wait to be sent to a server before the link is
	// cut: the window of a learner and one entry more, or all requests that wait for the
	// leader.
	maxPeerQueue = 256 << 20
	// maxCache and maxRequests are the defaults of limits.cache and limits.requests.
	maxCache    = 8 << 20
	maxRequests = 128 << 20
)

// A line that does not compile shows a layer that accepts less than the layer before it
// can pass on.
const (
	_ = uint(datatree.MaxTxn - config.MaxRequest - evaluate.MaxACLBytes)
	_ = uint(wal.MaxPayload - datatree.MaxTxn)
	_ = uint(maxPeerFrame - datatree.MaxTxn - 2*batchBytes)
	_ = uint(maxPeerFrame - replica.ForwardBytes - config.MaxRequest - replica.SubmissionOverhead)
	_ = uint(maxPeerQueue - maxCache - maxPeerFrame)
	_ = uint(maxPeerQueue - maxRequests - config.MaxRequest - replica.SubmissionOverhead)
)

// batchBytes is the size of the entries in a message between servers, unless a single
// entry is longer.
const batchBytes = 1 << 20
