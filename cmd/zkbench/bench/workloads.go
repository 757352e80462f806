package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// dirDigits is the width of the numbers of nodes below the root.
const dirDigits = 5

// dirs names the nodes right below the root.
func (r *run) dirs() namer {
	prefix := r.root + "/"
	return func(b []byte, i int64) []byte {
		return appendDigits(append(b, prefix...), i, dirDigits)
	}
}

// dir is the node below the root for the nodes of connection i.
func (r *run) dir(i int) string { return string(r.dirs()(nil, int64(i))) }

// connectAll opens the connections of the run, and makes a node for each.
func (r *run) connectAll() error {
	if err := r.connect(r.cfg.Connections, func(int) connOptions { return r.options(r.cfg.Window) }); err != nil {
		return err
	}
	return r.mkdirs(r.cfg.Connections, r.dirs())
}

// sources makes one source for each connection.
func (r *run) sources(newSource func(i int) source) []source {
	var s []source
	for i := range r.conns {
		s = append(s, newSource(i))
	}
	return s
}

func (r *run) create() error {
	if err := r.connectAll(); err != nil {
		return err
	}
	return r.stream(r.sources(func(i int) source {
		return &creates{name: inDir(r.dir(i)), values: r.values}
	}))
}

func (r *run) ephemeral() error {
	if err := r.connectAll(); err != nil {
		return err
	}
	return r.stream(r.sources(func(i int) source {
		return &churn{creates: creates{name: inDir(r.dir(i)), mode: jute.ModeEphemeral, values: r.values}}
	}))
}

// keyed runs the workloads whose operations each concern one of Config.Keys.
func (r *run) keyed() error {
	keys, err := r.makeKeys()
	if err != nil {
		return err
	}
	return r.stream(r.sources(func(i int) source { return &keys[i] }))
}

func (r *run) multi() error {
	keys, err := r.makeKeys()
	if err != nil {
		return err
	}
	return r.stream(r.sources(func(i int) source { return &batches{keyed: keys[i], n: r.cfg.Batch} }))
}

// makeKeys creates the keys, and returns each connection's.
func (r *run) makeKeys() ([]keyed, error) {
	if err := r.connectAll(); err != nil {
		return nil, err
	}
	all := make([]keyed, len(r.conns))
	for i := range all {
		n := max(1, share(int64(r.cfg.Keys), i, len(r.conns)))
		rng := rand.New(rand.NewPCG(r.cfg.Seed, uint64(i)+1))
		all[i] = keyed{
			name: inDir(r.dir(i)), values: r.values, rng: rng, pick: r.picker(rng),
			sent: make([]int32, n), seen: make([]int32, n),
		}
	}
	return all, r.prepare(func(i int) *job {
		k := &all[i]
		return &job{
			src:    &creates{name: k.name, values: k.values},
			count:  int64(len(k.sent)),
			window: r.cfg.Window,
			stop:   r.ctx.Done(),
		}
	})
}

// picker returns the choice of the next operation.
func (r *run) picker(rng *rand.Rand) func() jute.OpCode {
	always := func(op jute.OpCode) func() jute.OpCode { return func() jute.OpCode { return op } }
	switch r.cfg.Workload {
	case Get:
		return always(jute.OpGetData)
	case Exists:
		return always(jute.OpExists)
	case Mixed:
		return func() jute.OpCode {
			if rng.Float64() < r.cfg.Reads {
				return jute.OpGetData
			}
			return jute.OpSetData
		}
	}
	return always(jute.OpSetData)
}

func (r *run) children() error {
	if err := r.connectAll(); err != nil {
		return err
	}
	path := r.dir(0)
	if err := r.mkdirs(r.cfg.Children, inDir(path)); err != nil {
		return err
	}
	return r.stream(r.sources(func(int) source { return &children{path: path, n: r.cfg.Children} }))
}

// loadDir is the number of nodes that Load puts under one node.
const loadDir = 1000

// minPathLength leaves room for the names of nodes: /zb-xxxxxxxx/ddddd/iiiiiiiiii.
const minPathLength = 1 + len(rootPrefix) + 8 + 1 + dirDigits + 1 + digits - 1

// load creates Count nodes with paths of PathLength bytes below the target's base. There is no
// warm-up: it would leave nodes that are not counted.
func (r *run) load() error {
	r.cfg.Warmup = 0
	parent := len(r.dir(0)) - len(r.target.Base) + 1
	pad := r.cfg.PathLength - parent
	if limit := int64(loadDir) * 99_999; pad < 9 || r.cfg.Count < 1 || r.cfg.Count > limit {
		return &ConfigError{fmt.Errorf("load %d nodes with paths of %d bytes: want 1 to %d nodes, at least %d bytes",
			r.cfg.Count, r.cfg.PathLength, limit, parent+9)}
	}
	if err := r.connect(r.cfg.Connections, func(int) connOptions { return r.options(r.cfg.Window) }); err != nil {
		return err
	}
	if err := r.mkdirs(int((r.cfg.Count+loadDir-1)/loadDir), r.dirs()); err != nil {
		return err
	}
	name := r.loadName(pad)
	n := int64(len(r.conns))
	err := r.stream(r.sources(func(i int) source {
		return &creates{name: name, values: r.values, i: r.cfg.Count * int64(i) / n}
	}))
	r.result.growth()
	if r.cfg.Keep {
		r.result.Last = string(name(nil, r.cfg.Count-1))
	}
	return err
}

// loadName names the nodes that load makes, with pad bytes after the last slash.
func (r *run) loadName(pad int) namer {
	dir, zeros := r.dirs(), strings.Repeat("0", max(0, pad-digits))
	return func(b []byte, i int64) []byte {
		b = append(append(dir(b, i/loadDir), '/'), zeros...)
		return appendDigits(b, i, min(pad, digits))
	}
}
