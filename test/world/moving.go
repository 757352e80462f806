package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// zkdIDs is what is added to the id of a server of Apache's to get that of the server of zkd that takes its
// place: a takeover wants ids that Apache's servers do not have.
const zkdIDs = 100

// move puts servers of the other kind, with all data, in the place of a running ensemble: zkd's by a
// takeover, Apache's by an export. Clients find them at the same addresses.
func move(ctx context.Context, e *ensemble) error {
	e.moves++
	if e.kind == zkd {
		return export(ctx, e)
	}
	return takeOver(ctx, e)
}

// takeOver lets mirrors follow Apache's servers, which are stopped when these are up to date.
func takeOver(ctx context.Context, e *ensemble) error {
	next := e.successors(zkd)
	var from []string
	for _, s := range e.members {
		_, quorum, _ := strings.Cut(s.line, "=")
		from = append(from, strings.Join(strings.Split(quorum, ":")[:2], ":"))
	}
	args := []string{"takeover", "finish"}
	for _, s := range next {
		serve := s.argv
		s.argv = []string{e.tools.zkd, "takeover", "mirror", "--from", strings.Join(from, ","), "--to", s.data(), "--sid", fmt.Sprint(s.id)}
		if err := errors.Join(os.MkdirAll(s.dir, 0o755), s.start()); err != nil {
			return err
		}
		if err := await(ctx, append(slices.Clone(e.members), s), s.isSynced); err != nil {
			return fmt.Errorf("mirror %d is not synced: %w", s.id, err)
		}
		s.argv = serve
	}
	e.stopFollowersFirst()
	for _, s := range next {
		s.stop()
	}
	for _, s := range e.members {
		args = append(args, "--from", s.data())
	}
	for _, s := range next {
		args = append(args, s.data())
	}
	if err := command(ctx, e.tools.zkd, args...); err != nil {
		return err
	}
	return e.replace(ctx, zkd, next)
}

// isSynced reports whether a mirror has all that its leader has.
func (s *server) isSynced() bool {
	var status struct{ State string }
	text, err := os.ReadFile(filepath.Join(s.data(), "mirror.status"))
	return err == nil && json.Unmarshal(text, &status) == nil && status.State == "synced"
}

// export makes directories of Apache's servers of those of zkd's, which are stopped.
func export(ctx context.Context, e *ensemble) error {
	next := e.successors(apache)
	e.stopFollowersFirst()
	var ids []string
	for _, s := range next {
		ids = append(ids, fmt.Sprint(s.id))
	}
	to := filepath.Join(e.dir, fmt.Sprintf("exported%d", e.moves))
	args := []string{"export", "--format", "apache", "--ttl-enabled", "--members", strings.Join(ids, ","), "--to", to}
	for _, s := range e.members {
		args = append(args, "--from", s.data())
	}
	if err := command(ctx, e.tools.zkd, args...); err != nil {
		return err
	}
	for i, s := range next {
		if err := errors.Join(os.MkdirAll(s.dir, 0o755), os.Rename(filepath.Join(to, ids[i]), s.data())); err != nil {
			return err
		}
	}
	return e.replace(ctx, apache, next)
}

// successors are servers of the kind with the addresses of the members.
func (e *ensemble) successors(kind string) []*server {
	var next []*server
	for _, old := range e.members {
		s := &server{id: old.id % zkdIDs, addr: old.addr, tls: old.tls}
		if kind == zkd {
			s.id += zkdIDs
		}
		_, addresses, _ := strings.Cut(old.line, "=")
		s.line = fmt.Sprintf("server.%d=%s", s.id, addresses)
		s.dir = filepath.Join(e.dir, fmt.Sprintf("server%d-%d", s.id, e.moves))
		s.argv = e.tools.argv(kind, e.dir, filepath.Join(s.dir, "zoo.cfg"), e.program.secure)
		next = append(next, s)
	}
	return next
}

// replace starts servers that have the data of the members, in their place.
func (e *ensemble) replace(ctx context.Context, kind string, next []*server) error {
	var list strings.Builder
	for _, s := range next {
		fmt.Fprintln(&list, s.line)
	}
	e.gone = append(e.gone, e.members...)
	e.kind, e.members = kind, next
	for _, s := range next {
		if err := s.prepare(list.String(), e.program); err != nil {
			return err
		}
	}
	return e.start(ctx)
}

// stopFollowersFirst stops all members. What the leader has committed it can still deliver then.
func (e *ensemble) stopFollowersFirst() {
	for _, s := range e.members {
		if s.mode() == "follower" {
			s.stop()
		}
	}
	for _, s := range e.members {
		s.stop()
	}
}
