package standby

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/migrate/mirror"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/data"
)

// Promote makes the copy of a stopped standby the data of a member of a new ensemble.
type Promote struct {
	Place data.Place // that of Options
	// Members names all standbys that are promoted, each as its Status does, if there are others. Each of
	// them is promoted with the same Members.
	Members []string
	copies.Consent
	Logger *zap.Logger
}

// Promoted is what a promotion has made.
type Promoted struct {
	Dir      string    `json:"dir"`
	Members  []string  `json:"members"`
	Zxid     string    `json:"zxid"`
	Time     time.Time `json:"time"` // of the last transaction, by the clock of its leader
	Digest   string    `json:"digest"`
	Znodes   int       `json:"znodes"`
	Sessions int       `json:"sessions"`
}

// Run promotes. It may be repeated until the new ensemble has a leader.
func (p *Promote) Run(ctx context.Context) (r *Promoted, err error) {
	m, err := open(ctx, p.Place, p.Logger)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if !m.Ensemble().Seeded() {
		return nil, fmt.Errorf("there is no copy in %s yet", p.Place.DataDir)
	}
	members, err := p.members(m)
	if err != nil {
		return nil, err
	}
	stats := m.Tree().Stats()
	r = &Promoted{Dir: p.Place.DataDir, Zxid: m.Last().String(), Time: time.UnixMilli(m.Tree().LastTime()).UTC(),
		Digest: m.Tree().Digest().String(), Znodes: stats.Nodes, Sessions: stats.Sessions}
	for _, f := range members {
		r.Members = append(r.Members, fmt.Sprint(f.Server))
	}
	if !m.MayBePromoted(p.Consent) && !m.Promoted() {
		since := "It is not retired in the copy."
		if m.Complete() {
			since = fmt.Sprintf("It is retired since zxid %v in the copy: if zkcli member retire has printed this zxid, repeat the command with --retired-since %v.", m.Tree().RetiredSince(), m.Tree().RetiredSince())
		}
		return nil, fmt.Errorf("the copy in %s ends at zxid %v, of %s: what the other ensemble has acknowledged after that would be given up. "+
			"If its servers run, retire it, and let the standby follow to its end: zkcli member retire. %s "+
			"If they are lost, or stopped for good, repeat it with --accept-data-loss-after %v", p.Place.DataDir, m.Last(), r.Time.Format(time.RFC3339Nano), since, m.Last())
	}
	if err := m.Promote(ctx, members); err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(p.Place.DataDir, StatusFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return r, nil
}

// members returns the members to be. Their copies must be equal to that of m.
func (p *Promote) members(m *mirror.Mirror) (list []mirror.Founder, err error) {
	if m.Promoted() {
		return m.Ensemble().Admitted, nil // by a command that was interrupted
	}
	if len(p.Members) == 0 {
		return []mirror.Founder{m.Founder()}, nil
	}
	own := copies.Member{Admission: m.Founder(), Last: m.Last()}
	var members []copies.Member
	for _, text := range p.Members {
		one, err := copies.ParseMember(text)
		if err != nil {
			return nil, err
		}
		members, list = append(members, one), append(list, one.Admission)
	}
	if err := copies.Check(own, members); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Place.DataDir, err)
	}
	return list, nil
}

// Text returns the result for people.
func (p *Promoted) Text() string {
	return fmt.Sprintf("promoted      %s, of an ensemble with the members %s\nzxid          %s, of %s\nstate has     %d znodes, %d sessions, digest %s\n",
		p.Dir, strings.Join(p.Members, ", "), p.Zxid, p.Time.Format(time.RFC3339Nano), p.Znodes, p.Sessions, p.Digest)
}
