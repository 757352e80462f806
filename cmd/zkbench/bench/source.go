package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/zkd-project/zkd/jute"
)

// namer appends the path of node i to b.
type namer func(b []byte, i int64) []byte

// source makes the requests of a job and checks their replies. The holder of the connection's
// turn calls next, the reader calls check, at the same time: what both need is kept twice, or
// in the pending entry.
type source interface {
	// next appends the body of the next request to b, and records its opcode, and what check
	// will need, in p.
	next(b []byte, p *pending) []byte
	// check returns the fault of the reply to p, or nil. It must not keep body, which is
	// empty if code is not 0.
	check(p *pending, code jute.Code, body []byte) error
}

// pending is a request without its reply.
type pending struct {
	xid  int32
	op   jute.OpCode
	key  int64 // a source's own
	sent int64 // when its latency starts: clock time in ns
}

// describe adds the operation and its node to a fault.
func describe(op jute.OpCode, name namer, i int64, err error) error {
	return fmt.Errorf("%s %s: %w", op, name(nil, i), err)
}

// digits is the width of the numbers in node names.
const digits = 10

// appendDigits appends i in decimal, with zeros in front up to width bytes.
func appendDigits(b []byte, i int64, width int) []byte {
	for range width {
		b = append(b, '0')
	}
	for at := len(b) - 1; i > 0; at-- {
		b[at] = byte('0' + i%10)
		i /= 10
	}
	return b
}

// inDir names the nodes of dir by their numbers.
func inDir(dir string) namer {
	prefix := dir + "/"
	return func(b []byte, i int64) []byte {
		return appendDigits(append(b, prefix...), i, digits)
	}
}

// creates makes nodes of consecutive numbers, each with version 0 of its value.
type creates struct {
	name   namer
	mode   jute.CreateMode
	values *values
	i      int64  // next: next number
	want   []byte // check: scratch
}

func (s *creates) next(b []byte, p *pending) []byte {
	p.op, p.key = jute.OpCreate, s.i
	s.i++
	return appendCreate(b, s.name, p.key, s.mode, s.values)
}

func appendCreate(b []byte, name namer, i int64, mode jute.CreateMode, v *values) []byte {
	b = appendPath(b, name, i)
	b = v.append(b, i, 0)
	b = append(b, openACL...)
	return jute.AppendInt32(b, mode)
}

func (s *creates) check(p *pending, code jute.Code, body []byte) error {
	if code != 0 {
		return describe(p.op, s.name, p.key, code)
	}
	s.want = appendPath(s.want[:0], s.name, p.key)
	if !bytes.Equal(body, s.want) {
		return describe(p.op, s.name, p.key, fmt.Errorf("reply has %q, want the path of the request", body))
	}
	return nil
}

// churn alternately creates an ephemeral node and deletes it.
type churn struct {
	creates
	deleting bool // sender
}

func (s *churn) next(b []byte, p *pending) []byte {
	if !s.deleting {
		s.deleting = true
		return s.creates.next(b, p)
	}
	s.deleting = false
	p.op, p.key = jute.OpDelete, s.i-1
	return jute.AppendInt32(appendPath(b, s.name, p.key), int32(-1))
}

func (s *churn) check(p *pending, code jute.Code, body []byte) error {
	switch {
	case p.op == jute.OpCreate:
		return s.creates.check(p, code, body)
	case code != 0:
		return describe(p.op, s.name, p.key, code)
	case len(body) != 0:
		return describe(p.op, s.name, p.key, fmt.Errorf("reply has a body of %d bytes, want none", len(body)))
	}
	return nil
}

// keyed reads and writes a set of keys that belongs to one connection. next and check both
// count the versions: replies come in the order of requests, so a reply must show the count
// of check.
type keyed struct {
	name   namer
	values *values
	rng    *rand.Rand
	pick   func() jute.OpCode // next: the next operation
	sent   []int32            // next: version of each key after all requests
	seen   []int32            // check: version of each key after all replies
}

func (s *keyed) next(b []byte, p *pending) []byte {
	p.op, p.key = s.pick(), int64(s.rng.Uint64N(uint64(len(s.sent))))
	b = appendPath(b, s.name, p.key)
	if p.op != jute.OpSetData {
		return append(b, 0) // no watch
	}
	return s.appendSet(b, p.key)
}

// appendSet appends the rest of a setData of key after its path.
func (s *keyed) appendSet(b []byte, key int64) []byte {
	s.sent[key]++
	b = s.values.append(b, key, s.sent[key])
	return jute.AppendInt32(b, int32(-1))
}

func (s *keyed) check(p *pending, code jute.Code, body []byte) error {
	if err := s.judge(p, code, body); err != nil {
		return describe(p.op, s.name, p.key, err)
	}
	return nil
}

func (s *keyed) judge(p *pending, code jute.Code, body []byte) error {
	if p.op == jute.OpSetData {
		s.seen[p.key]++
	}
	if code != 0 {
		return code
	}
	version := s.seen[p.key]
	if p.op != jute.OpGetData {
		return checkStat(body, s.values.size, version)
	}
	d := jute.NewAliasDecoder(body)
	data := d.Buffer()
	if d.Err() != nil {
		return d.Err()
	}
	if err := s.values.check(data, p.key, version); err != nil {
		return err
	}
	return checkStat(d.Rest(), s.values.size, version)
}

// batches writes several of a connection's keys with each multi.
type batches struct {
	keyed
	n    int   // sets of one multi
	turn int64 // next: next key
}

func (s *batches) next(b []byte, p *pending) []byte {
	p.op, p.key = jute.OpMulti, s.turn
	for range s.n {
		b = appendMultiHeader(b, jute.OpSetData)
		b = appendPath(b, s.name, s.turn)
		b = s.appendSet(b, s.turn)
		s.turn = (s.turn + 1) % int64(len(s.sent))
	}
	return appendMultiEnd(b)
}

func (s *batches) check(p *pending, code jute.Code, body []byte) error {
	var first error
	if code != 0 {
		first = describe(p.op, s.name, p.key, code)
	}
	key := p.key
	for i := range s.n {
		s.seen[key]++
		if first == nil {
			var err error
			if body, err = s.result(key, body); err != nil {
				first = describe(p.op, s.name, key, fmt.Errorf("operation %d: %w", i, err))
			}
		}
		key = (key + 1) % int64(len(s.seen))
	}
	if first != nil {
		return first
	}
	return multiDone(body)
}

// result checks the result of one set at the start of body and returns the
// rest.
func (s *batches) result(key int64, body []byte) ([]byte, error) {
	rest, err := multiResult(body, jute.OpSetData, statSize)
	if err != nil {
		return nil, err
	}
	return rest, checkStat(body[multiHeader:multiHeader+statSize], s.values.size, s.seen[key])
}

// multiHeader is the length of the header of each result of a multi.
const multiHeader = 9

// multiResult checks that body starts with a result of op that has size bytes,
// and returns what follows it.
func multiResult(body []byte, op jute.OpCode, size int) (rest []byte, err error) {
	if len(body) < multiHeader {
		return nil, jute.ErrTruncated
	}
	got := jute.OpCode(binary.BigEndian.Uint32(body))
	switch {
	case got == jute.OpError && body[4] == 0:
		return nil, multiFailure(body)
	case got != op || body[4] != 0:
		return nil, fmt.Errorf("result is of %s, want %s", got, op)
	case len(body) < multiHeader+size:
		return nil, jute.ErrTruncated
	}
	return body[multiHeader+size:], nil
}

// multiFailure returns the code that made a multi fail. The results of the
// operations before it carry 0.
func multiFailure(body []byte) error {
	for at := multiHeader; at+4 <= len(body); at += multiHeader + 4 {
		if code := jute.Code(binary.BigEndian.Uint32(body[at:])); code != 0 {
			return code
		}
	}
	return jute.ErrTruncated
}

// multiDone checks that body is the end of a multi's reply.
func multiDone(body []byte) error {
	if len(body) != multiHeader || body[4] != 1 {
		return fmt.Errorf("multi: reply ends with %x, want an end marker", body)
	}
	return nil
}

// children lists one node, whose children are named by inDir from 0 to n-1.
type children struct {
	path string
	n    int
}

func (s *children) next(b []byte, p *pending) []byte {
	p.op = jute.OpGetChildren
	return append(jute.AppendString(b, s.path), 0)
}

// check accepts any order. The sum of the numbers shows a child that is missing, doubled or
// foreign.
func (s *children) check(p *pending, code jute.Code, body []byte) error {
	if code != 0 {
		return fmt.Errorf("%s %s: %w", p.op, s.path, code)
	}
	d := jute.NewAliasDecoder(body)
	n, _ := d.Count(4)
	sum := 0
	for range n {
		name := d.String()
		if len(name) != digits {
			return fmt.Errorf("%s %s: child %q is not of this run", p.op, s.path, name)
		}
		i := 0
		for _, c := range []byte(name) {
			i = i*10 + int(c-'0')
		}
		sum += i
	}
	switch {
	case d.Err() != nil:
		return fmt.Errorf("%s %s: %w", p.op, s.path, d.Err())
	case n != s.n || sum != s.n*(s.n-1)/2 || len(d.Rest()) != 0:
		return fmt.Errorf("%s %s: reply has other children than the %d created (%d, sum %d, %d bytes more)",
			p.op, s.path, s.n, n, sum, len(d.Rest()))
	}
	return nil
}

// deletes removes nodes, n with each multi.
type deletes struct {
	paths []string
	n     int
	i     int // next: next path
}

// requests is the number of multis that remove all paths.
func (s *deletes) requests() int64 { return int64((len(s.paths) + s.n - 1) / s.n) }

func (s *deletes) next(b []byte, p *pending) []byte {
	p.op, p.key = jute.OpMulti, int64(s.i)
	end := min(s.i+s.n, len(s.paths))
	for ; s.i < end; s.i++ {
		b = appendMultiHeader(b, jute.OpDelete)
		b = jute.AppendString(b, s.paths[s.i])
		b = jute.AppendInt32(b, int32(-1))
	}
	return appendMultiEnd(b)
}

func (s *deletes) check(p *pending, code jute.Code, body []byte) error {
	from := int(p.key)
	if code != 0 {
		return fmt.Errorf("delete %s and others: %w", s.paths[from], code)
	}
	for _, path := range s.paths[from:min(from+s.n, len(s.paths))] {
		rest, err := multiResult(body, jute.OpDelete, 0)
		if err != nil {
			return fmt.Errorf("delete %s: %w", path, err)
		}
		body = rest
	}
	return multiDone(body)
}

// single is one request with an encoded body; it keeps the reply.
type single struct {
	op    jute.OpCode
	body  []byte
	code  jute.Code
	reply []byte
}

func (s *single) next(b []byte, p *pending) []byte {
	p.op = s.op
	return append(b, s.body...)
}

func (s *single) check(_ *pending, code jute.Code, body []byte) error {
	s.code, s.reply = code, bytes.Clone(body)
	return nil
}
