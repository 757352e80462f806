// The overview: how the ensemble is, its members, what is wrong.

import {h, digits, svg, render, table, text, link, problem, duration, count, plain} from './dom.js';
import * as api from './api.js';

export function overview(main, _, signal) {
  const out = h('div', {class: 'page'}, h('p', {class: 'dim'}, 'Asking the members…'));
  render(main, out);
  api.every(4000, signal, async () => {
    let e;
    try {
      e = await api.ensemble(signal);
    } catch (err) {
      if (signal.aborted) return;
      render(out, problem(err));
      return;
    }
    render(out, headline(e), findings(e), e.standby ? null : [members(e), charts(e.load ?? [])]);
  });
  return {};
}

const lead = (state, words, facts, more) => h('section', {class: 'headline ' + state}, h('h1', {}, h('span', {class: 'lamp', 'aria-hidden': 'true'}), words), more,
  h('dl', {}, facts.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, text(value))))));

// standby is the headline of a standby, which is no member.
const standby = (s, wrong) => lead(s.from && !s.silentMs && !wrong ? 'good' : 'danger', ['Standby of ', text(s.of.replaceAll(',', ', '))], [
  ['Follows', s.silentMs ? `${s.from}, of which nothing was heard for ${duration(s.silentMs)}` : s.from || (s.fetches ? 'gets a whole state' + (s.fetchSize ? `, ${Math.floor(100 * s.fetched / s.fetchSize)} %` : '') : `none for ${duration(s.sinceMs)}`)],
  ['Zxid', s.zxid], ['Lag', s.lagMs < 0 ? 'no copy yet' : `${(s.lagMs / 1000).toFixed(1)} s` + (s.lagEntries > 0 ? `, ${count(s.lagEntries, 'entry', 'entries')}, ${count(s.lagBytes, 'byte')}` : '')],
  ['The ensemble', s.retired ? 'is retired, all of it is here' : 'is not retired'],
], s.problem && !s.from && !wrong ? h('p', {}, text(s.problem)) : null);

function headline(e) {
  if (e.standby) return standby(e.standby, e.findings.some(f => f.severity !== 'notice'));
  const voters = e.members.filter(m => m.voter);
  const up = voters.filter(m => !m.problem).length;
  const leader = e.members.find(m => m.role === 'leader');
  const alone = e.members.length === 1 && e.members[0].role === 'standalone';
  const broken = e.findings.some(f => f.severity === 'broken') || !alone && !leader;
  const danger = e.findings.some(f => f.severity === 'danger');
  const state = broken ? 'broken' : danger || !alone && e.mayFail < 1 && voters.length > 1 ? 'danger' : 'good';
  const words = {good: 'All is well', danger: 'It works, and may break', broken: leader || alone ? 'Something is broken' : 'Nobody leads'}[state];
  const facts = alone ? [['Server', 'stands alone']] : [
    ['Voters', `${up} of ${voters.length} up`],
    ['May fail', e.mayFail > 0 ? count(e.mayFail, 'more voter') : e.mayFail === 0 ? 'none' : 'no quorum'],
    ['Leader', leader ? `${leader.id || ''} · ${leader.name}` : 'none'],
    ['Last change', leader?.zxid ?? e.members.find(m => m.zxid)?.zxid ?? 'unknown'],
  ];
  return lead(state, words, facts);
}

function findings(e) {
  if (!e.findings.length) return null;
  const title = e.findings.every(f => f.severity === 'notice') ? 'Notices' : 'What is wrong';
  return h('section', {}, h('h2', {}, title), h('ul', {class: 'findings'}, sharing(e.findings).map(group => h('li', {class: group[0].severity},
    group.map(f => h('p', {class: 'what'}, h('span', {class: 'tag'}, f.severity), ' ', text(f.what), f.sinceMs ? h('span', {class: 'dim'}, ` for ${duration(f.sinceMs)}`) : null)),
    h('p', {class: 'do'}, text(group[0].do)), h('p', {class: 'dim small'}, 'docs/why.md#', group[0].id)))));
}

// sharing puts neighbours together that share a remedy, as zkcli why does.
function sharing(list) {
  const groups = [];
  for (const f of list) {
    const last = groups.at(-1)?.[0];
    if (last && last.id === f.id && last.severity === f.severity && last.do === f.do) groups.at(-1).push(f);
    else groups.push([f]);
  }
  return groups;
}

const unknown = h('span', {class: 'dim', title: 'not known'}, '–');
const figure = n => n < 0 ? unknown.cloneNode(true) : digits(n);

function members(e) {
  const silent = e.members.some(m => m.silent?.length);
  return h('section', {}, h('h2', {}, 'Members'), table('Members', ['Server', 'Role', ['Zxid'], ['Lag'], ['Requests/s'], ['Latency ms'], ['Clients'], 'Version'],
    h('tbody', {}, e.members.toSorted((a, b) => a.id - b.id).map(m => h('tr', {},
      h('td', {}, m.id ? h('span', {class: 'id'}, String(m.id)) : null, ' ', text(m.name), m.id === e.self && m.id ? h('span', {class: 'dim'}, ' this one') : null),
      h('td', {}, h('span', {class: 'role ' + m.role, title: plain(m.problem ?? '')}, m.role.replace('-', ' ')), m.problem ? h('span', {class: 'dim'}, ' ', text(m.problem)) : null),
      h('td', {class: 'number mono'}, m.zxid ?? unknown.cloneNode(true)), h('td', {class: 'number'}, figure(m.lag)), h('td', {class: 'number'}, figure(m.requests)),
      h('td', {class: 'number'}, m.latency == null ? unknown.cloneNode(true) : digits(m.latency)), h('td', {class: 'number'}, m.id === e.self && m.clients > 0 ? link('/sessions', figure(m.clients)) : figure(m.clients)), h('td', {class: 'dim'}, text(m.version ?? '')))))),
    silent && h('p', {class: 'dim small'}, 'Some figures are missing: 4lw.commands.whitelist=srvr,mntr,conf,cons allows the servers to tell them.'));
}

function charts(load) {
  if (load.length < 2) return h('section', {}, h('h2', {}, 'Load'), h('p', {class: 'dim'}, 'Charts begin when there are figures of two minutes.'));
  return h('section', {}, h('h2', {}, 'Load', h('span', {class: 'dim small'}, `  of the last ${duration(load.at(-1).at - load[0].at)}`)),
    h('div', {class: 'charts'}, chart(load, 'Requests per second, all members', s => s.requests), chart(load, 'Latency in ms, of the slowest member', s => s.latencyMs)));
}

// chart draws a figure over time.
function chart(load, title, value) {
  const list = load.filter(s => value(s) >= 0);
  if (!list.length) return null;
  const width = 480, height = 90, top = Math.max(...list.map(value)) || 1;
  const from = list[0].at, span = Math.max(1, list.at(-1).at - from);
  const points = list.map(s => `${((s.at - from) / span * width).toFixed(1)},${(height - value(s) / top * (height - 12) - 1).toFixed(1)}`).join(' ');
  const last = value(list.at(-1));
  return h('figure', {}, h('figcaption', {}, title, h('strong', {}, digits(last))),
    svg('svg', {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${title}: now ${digits(last)}, at most ${digits(top)}`},
      svg('polygon', {points: `0,${height} ${points} ${width},${height}`}), svg('polyline', {points})),
    h('div', {class: 'dim small'}, 'at most ', digits(top)));
}
