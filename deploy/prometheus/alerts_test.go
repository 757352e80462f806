// Package prometheus has alerts for zkd, and a test that makes each of them fire. It is a
// module of its own, because Prometheus's code must not become a dependency of zkd.
package prometheus

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v3"
)

// suite is rules_test.yml.
type suite struct {
	Interval model.Duration `yaml:"evaluation_interval"`
	Tests    []struct {
		Name     string
		Interval model.Duration
		Series   []struct{ Series, Values string } `yaml:"input_series"`
		Alerts   []struct {
			At       model.Duration `yaml:"eval_time"`
			Name     string         `yaml:"alertname"` // * means all
			Expected []struct {
				Labels map[string]string `yaml:"exp_labels"`
			} `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	}
}

func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("rules_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	var s suite
	if err := yaml.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	fired := make(map[string]bool)
	var known []string
	for _, test := range s.Tests {
		t.Run(test.Name, func(t *testing.T) {
			var load strings.Builder
			fmt.Fprintf(&load, "load %v\n", test.Interval)
			for _, x := range test.Series {
				fmt.Fprintf(&load, "  %s %s\n", x.Series, x.Values)
			}
			data, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
			if err != nil {
				t.Fatal(err)
			}
			defer data.Close()
			group := loadRules(t, data)
			for _, r := range group.Rules() {
				known = append(known, r.Name())
			}
			firing := make(map[model.Duration]map[string][]string) // by time, by name
			last := model.Duration(0)
			for _, a := range test.Alerts {
				last = max(last, a.At)
			}
			for at := model.Duration(0); at <= last; at += s.Interval {
				now := time.Unix(0, 0).UTC().Add(time.Duration(at))
				data.WithSamplesTill(now, func(err error) {
					if err != nil {
						t.Fatal(err)
					}
					group.Eval(data.Context(), now)
				})
				firing[at] = alertsOf(t, group)
			}
			for _, a := range test.Alerts {
				var want, got []string
				for _, e := range a.Expected {
					e.Labels[labels.AlertName] = a.Name
					want = append(want, labels.FromMap(e.Labels).String())
				}
				for name, list := range firing[a.At] {
					if name == a.Name || a.Name == "*" {
						got = append(got, list...)
					}
				}
				slices.Sort(want)
				slices.Sort(got)
				if !slices.Equal(want, got) {
					t.Errorf("%s after %v: firing\n%s\nwant\n%s", a.Name, a.At, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				fired[a.Name] = fired[a.Name] || len(want) > 0
			}
		})
	}
	slices.Sort(known)
	for _, name := range slices.Compact(known) {
		if !fired[name] {
			t.Errorf("no test makes %s fire", name)
		}
	}
}

func loadRules(t *testing.T, data *promqltest.LazyLoader) *rules.Group {
	t.Helper()
	m := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:    rules.EngineQueryFunc(data.QueryEngine(), data.Storage()),
		AppendableV2: data.Storage(),
		Context:      context.Background(),
		NotifyFunc:   func(context.Context, string, ...*rules.Alert) {},
		Logger:       promslog.NewNopLogger(),
		Parser:       parser.NewParser(parser.Options{}),
	})
	groups, errs := m.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, "rules.yml")
	if len(errs) > 0 || len(groups) != 1 {
		t.Fatalf("%d groups; %v", len(groups), errs)
	}
	for _, g := range groups {
		return g
	}
	return nil
}

// alertsOf returns the labels of the alerts that fire, by name.
func alertsOf(t *testing.T, group *rules.Group) map[string][]string {
	t.Helper()
	list := make(map[string][]string)
	for _, r := range group.Rules() {
		if err := r.LastError(); err != nil {
			t.Errorf("%s: %v", r.Name(), err)
		}
		a := r.(*rules.AlertingRule)
		for _, name := range []string{"summary", "description", "runbook_url"} {
			if a.Annotations().Get(name) == "" {
				t.Errorf("%s has no %s", r.Name(), name)
			}
		}
		for _, x := range a.ActiveAlerts() {
			x.Annotations.Range(func(l labels.Label) {
				if strings.Contains(l.Value, "error expanding") || strings.Contains(l.Value, "<no value>") {
					t.Errorf("%s: %s: %s", r.Name(), l.Name, l.Value)
				}
			})
			if x.State == rules.StateFiring {
				list[r.Name()] = append(list[r.Name()], x.Labels.String())
			}
		}
	}
	return list
}
