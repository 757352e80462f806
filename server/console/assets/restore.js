// A subtree as it was at a moment: the differences first, then the way back.

import {h, digits, render, text, name, address, toPath, count, problem, moment, utc, plain} from './dom.js';
import * as api from './api.js';
import * as diff from './diff.js';
import {mode} from './api.js';
import {beside} from './acts.js';
import {button, said} from './operate.js';
import {atMoment, chooser, momentOf} from './moment.js';
import {toBytes} from './exportfile.js';

const typedAbove = 100; // nodes that change, above which the name is typed

export function restore(main, path, signal) {
  const when = momentOf(), place = h('div');
  render(main, h('div', {class: 'page'}, h('h1', {}, 'Restore ', h('span', {class: 'mono'}, toPath(path, 90))), chooser(when, 'Show the differences', to => { location.hash = atMoment('restore', path, to); }, signal),
    h('p', {class: 'row wrap'}, when ? h('a', {href: atMoment('tree', path, when)}, 'The tree then') : null, h('a', {href: '#' + address('history', path) + '?below=true'}, 'History')), place));
  if (when) compare(place, path, when, signal);
  return {show: (path, signal) => restore(main, path, signal)};
}

async function compare(place, path, when, signal) {
  render(place, h('p', {class: 'dim', role: 'status'}, 'reading…'));
  const again = () => button('Look again', () => compare(place, path, when, signal));
  let plan, tag;
  try {
    const r = await api.read('/v1/past/' + api.inURL(path) + api.query(when), signal);
    tag = r.headers.get('ETag');
    plan = await r.json();
  } catch (e) {
    if (!signal.aborted) render(place, problem(e), h('p', {class: 'row wrap'}, again(), e.oldest ? h('a', {href: atMoment('restore', path, {zxid: e.oldest})}, 'The oldest moment') : null));
    return;
  }
  const many = plan.create + plan.change + plan.delete;
  const at = Date.parse(plan.time ?? '');
  const word = path.slice(path.lastIndexOf('/') + 1) || '/';
  const typed = many > typedAbove ? h('input', {'aria-label': `Type ${plain(word)} to change so many`, autocomplete: 'off', spellcheck: 'false'}) : null;
  const start = h('button', {class: plan.delete ? 'main danger' : 'main', disabled: !!typed}, 'Restore');
  typed?.addEventListener('input', () => { start.disabled = ![word, plain(word)].includes(typed.value); });
  const state = h('div', {role: 'status'});
  render(place, h('h2', {}, many ? `${count(many, 'node')} ${many === 1 ? 'differs' : 'differ'}` : 'Nothing differs'),
    h('p', {class: 'dim'}, 'As it was after zxid ', h('span', {class: 'mono'}, plan.zxid), at ? [', of ', h('time', {datetime: plan.time}, moment(at)), ` · ${utc(at)}`] : null, '. From ', text(plan.from), '.'),
    many ? h('p', {}, `${count(plan.create, 'node')} ${plan.create === 1 ? 'is' : 'are'} created, ${plan.change} changed, ${plan.delete} deleted.`) : null,
    said(notes(plan), 'note list'),
    h('ol', {class: 'history'}, plan.changes.map(change)), many > plan.changes.length ? h('p', {class: 'dim'}, `The first ${plan.changes.length} are shown.`) : null,
    !many ? null : !mode.editing() ? h('p', {class: 'note'}, 'This page only reads. ', button('Switch editing on', () => mode.edit(true)))
      : h('form', {class: 'row wrap panel', on: {submit: e => { e.preventDefault(); run(); }}}, typed ? h('label', {class: 'typed'}, 'Type ', h('code', {}, text(word)), ' to confirm ', typed) : null, start), state);

  async function run() {
    start.disabled = true;
    const bar = h('progress', {'aria-label': 'Nodes that are done'}), said = h('span', {}), cancel = button('Cancel', () => {
      cancel.disabled = true;
      api.send('DELETE', '/v1/restores/' + id).catch(() => { cancel.disabled = false; });
    });
    cancel.disabled = true; // until it is known how
    let id, /** @type {any} */ last;
    render(state, h('p', {class: 'row wrap'}, bar, said, cancel));
    const ended = (how, undo, more) => render(place, h('div', {class: 'panel', role: 'status'}, how,
      h('p', {class: 'row wrap'}, undo ? h('a', {class: 'act', href: atMoment('restore', path, {zxid: undo})}, 'Undo: as it was before') : null, h('a', {class: 'act', href: '#' + address('tree', path)}, 'To the node'), more && again())));
    try {
      const r = await api.send('POST', '/v1/restore/' + api.inURL(path) + api.query(when), {headers: {'If-Match': tag, Accept: 'application/jsonl'}, signal});
      await api.lines(r, step => {
        if (step.id) { id = step.id; cancel.disabled = false; }
        last = step;
        Object.assign(bar, {max: step.all, value: step.done});
        render(said, `${digits(step.done)} of ${count(step.all, 'node')}`);
      });
      if (!last?.undo || last.id) throw new api.Problem(0, {detail: 'The answer was cut off.'});
      const done = `${last.create ?? 0} created, ${last.change ?? 0} changed, ${last.delete ?? 0} deleted.`;
      ended(last.problem ? [problem(new Error(last.problem.detail)), h('p', {}, done)] : h('p', {}, h('strong', {}, 'Done'), '. ' + done), last.undo, last.problem);
    } catch (e) {
      if (!signal.aborted) ended([problem(e), e.status === 0 || e.code === 'CONNECTIONLOSS' || !e.status ? h('p', {class: 'note'}, 'What became of it is not known.') : null], id && plan.now, true);
    }
  }
}

// notes say what a restore leaves as it is.
function notes(plan) {
  const first = list => list.slice(0, 3).join(', ') + (list.length > 3 ? '…' : '');
  return [plan.leftOut.length && `Ephemerals that there were belonged to sessions, and do not come back: ${first(plan.leftOut)}`,
    plan.kept.length && `These stay, being ephemeral or above what stays: ${first(plan.kept)}`,
    plan.hidden && `${count(plan.hidden, 'node')} that you may not read, or could not read then, stay as they are.`].filter(Boolean);
}

function change(c) {
  const place = h('div');
  const both = c.then && c.now;
  const lists = c.acl && both ? [c.now.acl, c.then.acl].map(acl => acl.map(a => `${a.scheme}:${a.id}:${a.perms}`)) : null;
  const open = h('button', {type: 'button', class: 'quiet', 'aria-expanded': 'false', on: {click: () => {
    const closed = place.childElementCount === 0;
    open.setAttribute('aria-expanded', String(closed));
    render(place, closed ? [c.data || !both ? compared(c.now, c.then) : null, lists ? beside(...lists, 'ACL now', 'Then') : null] : null);
  }}}, both ? 'Differences' : 'The value');
  const word = {create: 'comes back', change: [c.data && 'data', c.acl && 'ACL'].filter(Boolean).join(' and '), delete: 'is deleted'}[c.op];
  return h('li', {class: {create: 'change created', change: '', delete: 'change deleted'}[c.op]}, h('div', {class: 'row'}, h('span', {class: 'tag'}, word), c.now ? toPath(c.path, 80) : name(c.path, 80), open), place);
}

function compared(now, then) {
  if (now && now.data === undefined || then && then.data === undefined) return h('p', {class: 'note'}, 'It is too long to be shown here.');
  const [a, b] = [now, then].map(n => toBytes(n?.data ?? ''));
  const kind = diff.kindOf(a, b);
  return beside(now ? diff.lines(a, kind) : [], then ? diff.lines(b, kind) : [], now ? 'Now' : 'Not there now', then ? `Then, as ${kind}` : 'Not there then');
}
