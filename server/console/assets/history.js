// What has changed in a node, or below it, as far as this server remembers, with the values before and after.

import {h, render, text, address, toPath, toSession, count, problem, moment, utc} from './dom.js';
import * as api from './api.js';
import * as diff from './diff.js';
import * as mode from './mode.js';
import {beside, preview} from './acts.js';
import {toBytes} from './exportfile.js';
import {former} from './past.js';

const most = 500; // changes that are shown, the newest
const longest = 64 << 10; // bytes of a value that is compared
const mostBack = 100; // nodes whose data comes back at once

export function history(main, path, signal) {
  const below = new URLSearchParams(location.hash.split('?')[1] ?? '').get('below') === 'true' || path === '/';
  const said = h('p', {role: 'status', class: 'dim'}, 'reading…'), place = h('div'), list = h('ol', {class: 'history', reversed: true});
  const here = '#' + address('history', path);
  render(main, h('div', {class: 'page'}, h('h1', {}, 'History ', h('span', {class: 'mono'}, toPath(path, 90))),
    h('p', {class: 'row'}, h('span', {class: 'choice', role: 'group', 'aria-label': 'Of what'}, path === '/' ? null : [['This node', here, !below], ['And all below it', here + '?below=true', below]].map(([title, to, on]) =>
      h('button', {type: 'button', 'aria-pressed': String(on), on: {click: () => { location.hash = to; }}}, title))), h('a', {href: '#' + address('live', path)}, 'Follow the changes')), said, place, list));
  read().catch(e => { if (!signal.aborted) { said.textContent = ''; render(place, problem(e)); } });
  return {show: (path, signal) => history(main, path, signal)};

  async function read() {
    const {changes, since, left} = await api.changes(path, below, most, signal);
    render(list, changes.map(c => change(c, c.data, below, mode.editing() && c.kind === 'data' && (place => back(place, changes.slice(changes.findIndex(o => o.zxid === c.zxid)))))).reverse());
    list.start = changes.length + left;
    said.textContent = (changes.length ? count(changes.length + left, 'change') : 'No change') + ` that you may read, after zxid ${since}: this server remembers nothing older` +
      (left ? `. These are the newest ${most}.` : '.');
  }

  // back plans that nodes get the data that they had before the first of some changes.
  async function back(place, changes) {
    const then = former(changes);
    const plan = {title: 'Data before ' + changes[0].zxid, verb: 'Bring back', steps: [], notes: [], roots: [path]};
    try {
      if (then.nodes > mostBack) throw new Error(`${then.nodes} nodes have changed since: more than ${mostBack} are for zkcli restore, from a backup.`);
      for (const [at, data] of then.data) {
        const now = await api.record(at, signal);
        if (now && (now.data ?? '') !== data) plan.steps.push({op: 'set', path: at, data, version: now.stat.version, was: {path: at, stat: now.stat, data: now.data}});
      }
      if (then.others) plan.notes.push(`${count(then.others, 'node')} created, deleted or with another ACL since: left as they are. zkcli restore brings them back from a backup.`);
      if (then.unknown) plan.notes.push(`${count(then.unknown, 'node')} had data that this server does not remember: left as it is.`);
      if (!plan.steps.length) plan.notes.push('There is no data to bring back.');
      const body = h('div');
      render(place, body);
      preview({body, path, signal, close: () => render(place)}, plan);
    } catch (e) {
      if (!signal.aborted) render(place, problem(e));
    }
  }
}

const words = {created: 'created', deleted: 'deleted', data: 'data set', acl: 'ACL set'};

function change(c, after, below, bring) {
  const at = Date.parse(c.time), place = h('div');
  const both = c.before !== undefined && after !== undefined;
  const shows = after !== undefined && c.kind !== 'deleted' && c.kind !== 'acl';
  const title = both ? 'Differences' : 'The value';
  const open = h('button', {type: 'button', class: 'quiet', 'aria-expanded': 'false', on: {click: () => {
    const closed = place.childElementCount === 0;
    open.setAttribute('aria-expanded', String(closed));
    render(place, closed ? compared(c.before, after) : null);
  }}}, title);
  return h('li', {class: c.kind === 'data' ? '' : 'change ' + c.kind}, h('div', {class: 'row'}, h('span', {class: 'tag'}, text(words[c.kind] ?? c.kind)), below ? toPath(c.path, 80) : null,
    h('time', {datetime: c.time}, moment(at), h('span', {class: 'dim'}, ' · ', utc(at))), h('span', {class: 'dim mono small'}, c.zxid),
    c.session === '0x0' ? h('span', {class: 'dim'}, 'by the servers') : toSession(c.session), c.stat && c.kind !== 'deleted' ? h('span', {class: 'dim'}, `version ${c.kind === 'acl' ? c.stat.aversion : c.stat.version}`) : null, shows ? open : null,
    bring ? h('button', {type: 'button', on: {click: () => bring(place)}}, 'Data before this…') : null), place);
}

function compared(before, after) {
  const a = toBytes(before ?? ''), b = toBytes(after);
  if (a.length > longest || b.length > longest) return h('p', {class: 'note'}, `It had ${count(a.length, 'byte')}, and has ${count(b.length, 'byte')}: too long to be compared here.`);
  const kind = diff.kindOf(a, b);
  return beside(diff.lines(a, kind), diff.lines(b, kind), before === undefined ? 'Before: not known, or there was none' : 'Before', `After, as ${kind}`);
}
