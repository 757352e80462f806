// What has changed in a node, or below it, with the values before and after: what this server remembers, and on demand what its log and its archive have.

import {h, render, text, address, toPath, toSession, count, problem, moment, utc} from './dom.js';
import * as api from './api.js';
import * as diff from './diff.js';
import {mode} from './api.js';
import {beside} from './acts.js';
import {asked, button, get} from './operate.js';
import {toBytes} from './exportfile.js';
import {atMoment} from './moment.js';
import {past} from './past.js';

const most = 500; // changes that are shown, the newest
const longest = 64 << 10; // bytes of a value that is compared
const page = 200; // older changes that are read at a time

export function history(main, path, signal) {
  const below = asked().get('below') === 'true' || path === '/';
  const said = h('p', {role: 'status', class: 'dim'}, 'reading…'), place = h('div'), list = h('ol', {class: 'history', reversed: true}), rest = h('div', {class: 'row wrap'});
  const here = '#' + address('history', path);
  render(main, h('div', {class: 'page'}, h('h1', {}, 'History ', h('span', {class: 'mono'}, toPath(path, 90))),
    h('p', {class: 'row'}, h('span', {class: 'choice', role: 'group', 'aria-label': 'Of what'}, path === '/' ? null : [['This node', here, !below], ['And all below it', here + '?below=true', below]].map(([title, to, on]) =>
      h('button', {type: 'button', 'aria-pressed': String(on), on: {click: () => { location.hash = String(to); }}}, title))), h('a', {href: '#' + address('live', path)}, 'Follow the changes'), mode.fixed ? null : h('a', {href: atMoment('restore', path)}, 'Restore to a moment')), said, place, list, rest));
  read().catch(e => { if (!signal.aborted) { said.textContent = ''; render(place, problem(e)); offer(); } });
  return {show: (path, signal) => history(main, path, signal)};

  async function read() {
    const {changes, since, left} = await changesOf(path, below, most, signal);
    render(list, changes.map(c => change(path, c, c.data, below)).reverse());
    list.start = changes.length + left;
    said.textContent = (changes.length ? count(changes.length + left, 'change') : 'No change') + ` that you may read, after zxid ${since}: this server remembers nothing older` +
      (left ? `. These are the newest ${most}.` : '.');
    const oldest = BigInt(left ? changes[0].zxid : since);
    offer('0x' + (left ? oldest : oldest + 1n).toString(16));
  }

  // offer has the changes before a zxid read from the log and the archive, if that is wanted.
  function offer(before) {
    if (mode.fixed) return;
    const state = h('span', {role: 'status', class: 'dim'});
    const more = button('Older, from the log and the archive', async () => {
      more.disabled = true;
      state.textContent = 'reading…';
      try {
        const got = await get('/v1/history/' + api.inURL(path) + api.query({before, below: below || undefined, limit: page}), signal);
        list.removeAttribute('start');
        list.append(...got.changes.map(c => change(path, c, c.data, below)).reverse());
        if (got.more) offer(got.next);
        else render(rest, h('p', {class: 'dim'}, `Nothing before that is known, back to zxid ${got.after}.`));
      } catch (e) {
        if (signal.aborted) return;
        more.disabled = false;
        render(state, problem(e));
      }
    });
    render(rest, more, state);
  }
}

const words = {created: 'created', deleted: 'deleted', data: 'data set', acl: 'ACL set'};

// atBefore is the moment before a change.
const atBefore = c => '0x' + (BigInt(c.zxid) - 1n).toString(16);

function change(root, c, after, below) {
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
    mode.fixed || atBefore(c) === '0x0' ? null : [c.kind === 'created' ? null : h('a', {href: atMoment('tree', c.path, {zxid: atBefore(c)})}, 'As it was before'), h('a', {href: atMoment('restore', root, {zxid: atBefore(c)})}, 'Restore to before this')]), place);
}

function compared(before, after) {
  const a = toBytes(before ?? ''), b = toBytes(after);
  if (a.length > longest || b.length > longest) return h('p', {class: 'note'}, `It had ${count(a.length, 'byte')}, and has ${count(b.length, 'byte')}: too long to be compared here.`);
  const kind = diff.kindOf(a, b);
  return beside(diff.lines(a, kind), diff.lines(b, kind), before === undefined ? 'Before: not known, or there was none' : 'Before', `After, as ${kind}`);
}

// changesOf returns the newest changes of a node, or of a subtree, that the server remembers, the oldest first: since which zxid, and how many
// others there are. before is the data that the node had before a change, if that is known.
async function changesOf(path, below, most, signal) {
  const from = after => '/v1/feed' + api.query({path, after, follow: 'false', data: 'true'});
  let since = '0x0', r;
  for (let round = 0; !r; round++) {
    try {
      r = await api.read(from(since), signal);
    } catch (e) { // it says from which zxid on it has all
      if (e.status !== 410 || !e.oldest || round === 5) throw e;
      since = e.oldest;
    }
  }
  const known = past(most);
  await api.events(r, (kind, c) => {
    if (!c) return;
    if (kind === 'compacted') throw new api.Problem(0, {detail: 'The server forgot changes while they were read. Read again.'});
    if (kind === 'unauthorized') throw new api.Problem(401, {detail: 'The identity has ended.'});
    if (!below && c.path !== path) return;
    known.add(kind, c);
  });
  return {changes: known.changes, since, left: known.left};
}
