package evaluate

import (
	"bytes"
	"strconv"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// Reconfig is a request to change the members, and what the tree says about it.
type Reconfig struct {
	jute.ReconfigRequest
	// Allowed reports whether the caller may write /zookeeper/config.
	Allowed bool
	// Version is the version of the members that clients see, 0 if the node does not show one.
	Version jute.Zxid
}

// Reconfig decodes a request to change the members. It checks that reconfig is enabled and
// the session open. The change itself is not a transaction; for a refused one, call Evaluate
// with Request.Refused.
func (e *Evaluator) Reconfig(req *Request) (Reconfig, error) {
	e.req = req
	defer func() { e.req = nil }()
	change, err := e.reconfig()
	if err != nil {
		return Reconfig{}, err
	}
	_, denied := e.permitted(datatree.ConfigPath, jute.PermWrite)
	return Reconfig{change, denied == nil, e.configVersion()}, nil
}

// TransferLeader decodes a request to change the leader, which may be made by those who may
// change the members.
func (e *Evaluator) TransferLeader(req *Request) (r jute.TransferLeaderRequest, err error) {
	e.req = req
	defer func() { e.req = nil }()
	if r, err = e.transferLeader(); err == nil {
		_, err = e.permitted(datatree.ConfigPath, jute.PermWrite)
	}
	return r, err
}

func (e *Evaluator) transferLeader() (r jute.TransferLeaderRequest, err error) {
	d := jute.NewAliasDecoder(e.req.Body)
	r.Decode(&d)
	if d.Err() != nil {
		return r, errUndecodable
	}
	return r, e.checkSession()
}

func (e *Evaluator) reconfig() (r jute.ReconfigRequest, err error) {
	d := jute.NewAliasDecoder(e.req.Body)
	r.Decode(&d)
	switch {
	case d.Err() != nil:
		return r, errUndecodable
	case !e.opts.ReconfigEnabled:
		return r, jute.ErrReconfigDisabled
	}
	return r, e.checkSession()
}

// configVersion returns the version in the last line of the text of the members. An
// administrator may have written another text.
func (e *Evaluator) configVersion() jute.Zxid {
	text, _ := e.tree.Data(datatree.ConfigPath)
	_, version, _ := bytes.Cut(text[bytes.LastIndexByte(text, '\n')+1:], []byte("version="))
	v, _ := strconv.ParseUint(string(version), 16, 64)
	return jute.Zxid(v)
}
