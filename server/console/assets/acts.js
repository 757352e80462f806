// Actions on a node. Each is a form, the plan with its differences, the run, and a report. Nothing is written before the plan was seen.

import {h, digits, render, text, name, address, count, problem, toPath, toSession, ago, duration, plain} from './dom.js';
import * as api from './api.js';
import {mode} from './api.js';
import * as operate from './operate.js';
import {button} from './operate.js';
import * as plans from './plan.js';
import * as diff from './diff.js';
import * as files from './exportfile.js';
import {run, undo, watch, fresh, subtree, whole, jobs} from './write.js';

const titles = {set: 'Edit the data', create: 'New child', acl: 'Edit the ACL', copy: 'Copy', move: 'Move', delete: 'Delete', export: 'Export', import: 'Import', break: 'Break'};
const reads = new Set(['export']);

const to = (path, act) => address('tree', path) + (act ? '?do=' + act : '');
const go = (path, act) => { location.hash = to(path, act); };
const field = (label, el, hint) => h('label', {class: 'field'}, h('span', {}, label), el, hint ? h('span', {class: 'dim small'}, hint) : null);
const select = (options, props) => h('select', props, Object.entries(options).map(([value, label]) => h('option', {value}, label)));
const input = props => h('input', {autocomplete: 'off', spellcheck: 'false', ...props});

// asked returns the action that the URL asks for.
export const asked = () => operate.asked().get('do');

// bar has the actions that there are for a node.
export function bar(path, acts = ['set', 'create', 'acl', 'copy', 'move', 'delete', 'export', 'import']) {
  const here = asked();
  const offered = acts.filter(a => mode.editing() || reads.has(a)).filter(a => !plans.system(path) || reads.has(a)).filter(a => path !== '/' || !['move', 'delete', 'copy'].includes(a));
  return h('div', {class: 'acts', role: 'group', 'aria-label': 'Actions'}, offered.map(a => h('a', {href: '#' + to(path, a), key: 'do' + a, class: 'act', 'aria-current': a === here ? 'true' : undefined}, titles[a])),
    mode.editing() && !plans.system(path) ? h('a', {href: '#' + address('restore', path), class: 'act'}, 'Restore') : null,
    mode.editing() && jobs.length ? h('a', {href: '#/done', class: 'act'}, `Done here (${jobs.length})`) : null);
}

// panel shows an action. changed is called when something was written.
export async function panel(out, act, path, signal, changed) {
  const body = h('div', {class: 'panel'}), known = Object.hasOwn(forms, act);
  const self = {path, signal, changed, body, close: () => go(path)};
  render(out, h('div', {class: 'title'}, h('h2', {}, known ? titles[act] : 'No such action'), button('Leave', self.close, 'quiet')), body);
  if (!known) return;
  if (!mode.editing() && !reads.has(act)) {
    render(body, h('p', {class: 'note'}, 'This page only reads. ', button('Switch editing on', () => mode.edit(true))));
    return;
  }
  if (plans.system(path) && !reads.has(act)) {
    render(body, h('p', {class: 'note'}, '/zookeeper belongs to the servers. Quotas and members have their own commands.'));
    return;
  }
  try {
    await forms[act](self);
    body.querySelector('input, textarea, select, button')?.focus();
  } catch (e) {
    if (!signal.aborted) render(body, problem(failure(e)), h('p', {}, button('Again', () => panel(out, act, path, signal, changed))));
  }
}

// form is fields with what follows from them.
function form(next, submit, ...children) {
  const place = h('div');
  const el = h('form', {class: 'fields', on: {submit: async e => {
    e.preventDefault();
    render(place);
    const b = el.querySelector('button.main');
    b.disabled = true;
    try { await submit(place); } catch (err) { render(place, problem(failure(err))); }
    b.disabled = false;
  }}}, children, h('div', {class: 'row'}, h('button', {class: 'main'}, next)), place);
  return el;
}

// beside shows the old lines beside the new ones.
export function beside(before, after, oldTitle, newTitle) {
  const rows = diff.folded(diff.compare(before, after));
  const cell = (line, kind, sign) => h('td', {class: line === undefined ? 'none' : kind}, line === undefined ? '' : [h('span', {class: 'sign'}, kind ? sign : ' '), text(line)]);
  return h('div', {class: 'scroll'}, h('table', {class: 'diff'}, h('thead', {}, h('tr', {}, h('th', {}, oldTitle), h('th', {}, newTitle))),
    h('tbody', {}, rows.slice(0, 2000).map(p => p.skipped ? h('tr', {class: 'skipped'}, h('td', {colspan: '2'}, `${count(p.skipped, 'line')} as before`)) :
      h('tr', {}, diff.cut(p).map((line, i) => cell(line, diff.isSame(p) ? '' : i ? 'new' : 'old', i ? '+' : '−'))))),
    rows.length > 2000 ? h('tfoot', {}, h('tr', {}, h('td', {colspan: '2'}, `${digits(rows.length - 2000)} more`))) : null));
}

// differences shows those that the first steps make to nodes that there are.
function differences(steps) {
  const changes = steps.filter(s => s.op === 'acl' || s.op === 'set').slice(0, 20);
  return changes.length ? changes.map(s => {
    const [a, b] = s.op === 'acl' ? [s.was.acl, s.acl].map(linesOf) : [s.was.data, s.data].map(d => files.toBytes(d ?? ''));
    const kind = s.op === 'acl' ? '' : diff.kindOf(a, b);
    const title = [`Version ${s.version}` + (kind && `, as ${kind}`), 'New'];
    return [steps.length > 1 ? h('h3', {class: 'mono'}, name(s.path, 90)) : null, kind ? beside(diff.lines(a, kind), diff.lines(b, kind), ...title) : beside(a, b, ...title)];
  }) : null;
}

// threeSides shows what one began with, what is there now, and what one wants.
function threeSides(base, now, mine) {
  const theirs = diff.compare(base, now), ours = diff.compare(base, mine);
  const column = (title, pairs, side) => h('section', {}, h('h3', {}, title), h('pre', {class: 'data', tabindex: '0'}, pairs.filter(p => p[side] !== undefined).slice(0, 1000)
    .map(p => h('span', {class: diff.isSame(p) ? '' : side ? 'new' : 'old'}, text(diff.cut(p)[side]), '\n'))));
  return h('div', {class: 'three'}, column('You began with', ours, 0), column('There now', theirs, 1), column('You want', ours, 1));
}

// top puts the focus on the first button, and shows what comes before it.
function top(el) {
  el.querySelector('button').focus({preventScroll: true});
  el.parentElement.scrollIntoView({block: 'start'});
}

const save = (bytes, file) => {
  const url = URL.createObjectURL(new Blob([bytes]));
  h('a', {href: url, download: file}).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
};
const fileName = (path, end) => (path.slice(1).replace(/[^A-Za-z0-9._-]+/g, '-').slice(-80) || 'root') + end;

// preview shows a plan, and runs it when that is wanted. back leads to the form; conflict, if it is there, deals with what others have done meanwhile.
/** @type {(self: any, plan: any, more?: {back?: any, conflict?: any, shown?: any}) => void} */
export function preview(self, plan, {back, conflict, shown = differences(plan.steps)} = {}) {
  const {steps, refused = [], notes = [], lost = []} = plan;
  const groups = plans.pieces(steps);
  const place = h('div');
  const gone = steps.filter(s => s.op === 'delete').length;
  const word = plan.typed ?? '';
  const typed = gone > 100 && word ? input({'aria-label': `Type ${plain(word)} to delete so many`}) : null;
  const start = h('button', {class: gone ? 'main danger' : 'main'}, plan.verb ?? 'Do it');
  if (typed) { start.disabled = true; typed.addEventListener('input', () => { start.disabled = ![word, plain(word)].includes(typed.value); }); }
  const text1 = steps.map(plans.said).join('\n');
  render(self.body,
    refused.map(r => h('p', {class: 'problem'}, text(r))), notes.map(n => h('p', {class: 'note'}, text(n))),
    lost.length ? h('p', {class: 'note'}, `Not everything comes back: ${lost.length} of the deleted nodes do not, the first is `, text(lost[0].path), ` (${lost[0].why}).`) : null,
    shown,
    steps.length ? [gone ? h('p', {}, h('strong', {}, `${count(gone, 'node')} ${gone === 1 ? 'goes' : 'go'}.`)) : null,
      h('details', {open: !shown && steps.length <= 12}, h('summary', {}, `Exactly: ${count(steps.length, 'operation')}` + (groups.length > 1 ? ` in ${groups.length} pieces, each done as a whole or not at all` : steps.length > 1 ? ', all or none' : '')),
        h('pre', {class: 'data', tabindex: '0'}, text(text1.split('\n').slice(0, 300).join('\n'), true), steps.length > 300 ? `\n… ${steps.length - 300} more` : ''),
        button('Save the plan', () => save(text1 + '\n', fileName(self.path, '.plan.txt')))),
      h('form', {class: 'row wrap', on: {submit: e => { e.preventDefault(); begin(); }}}, typed ? h('label', {class: 'typed'}, 'Type ', h('code', {}, text(word)), ' to confirm ', typed) : null, start, back ? button('Back', back) : null, button('Leave', self.close, 'quiet'))]
      : h('p', {class: 'row'}, back ? button('Back', back) : null, button('Leave', self.close, 'quiet')), place);
  (typed ?? (steps.length && !gone ? start : self.body.querySelector('button')))?.focus();

  async function begin() {
    start.disabled = true;
    try {
      const changed = await fresh(plan, self.signal);
      if (changed.length && conflict) { await conflict(changed); return; }
      if (changed.length) { refuse(changed); return; }
    } catch (e) {
      start.disabled = false;
      render(place, problem(e));
      return;
    }
    const job = run(plan);
    report(self, job, back);
    await job.ended;
    if (job.done.length) self.changed?.();
    if (job.state === 'failed' && conflict && steps.length === 1 && ['BADVERSION', 'NONODE', 'NODEEXISTS', 'NOTEMPTY'].includes(job.error.code)) {
      try { await conflict([]); } catch (e) { render(place, problem(e)); }
    }
  }

  function refuse(changed) {
    render(place, h('div', {class: 'problem', role: 'alert'}, `Nothing was done: ${count(changed.length, 'node')} changed since the plan was made.`,
      h('ul', {}, changed.slice(0, 10).map(c => h('li', {}, text(c.path), ' ', c.what)))), back ? button('Plan again', back) : null);
  }
}

const states = {running: 'At work', done: 'Done', cancelled: 'Cancelled', failed: 'Stopped', unknown: 'Stopped, and the last piece is unknown'};

// summary says honestly what a job has done.
function summary(job) {
  const n = job.count ?? job.done.length, left = job.total - n;
  const of = `${digits(n)} of ${count(job.total, 'operation')}`;
  if (job.state === 'running') return `${of} done`;
  if (job.state === 'done') return `${count(n, 'operation')} done`;
  if (job.state === 'unknown') return `${of} done. What became of the next ${job.piece.length}, from ${job.piece[0].path} on, is not known; the others were not begun.`;
  return n ? `${of} done; ${digits(left)} were not, the first is ${job.piece[0].path}.` : 'Nothing was done.';
}

// report shows a job as it is. What is at work stays in its place, so that it can be pressed.
function report(self, job, again) {
  const state = h('strong'), said = h('span'), waiting = h('p', {class: 'note', hidden: true});
  const bar = h('progress', {max: job.total, value: 0, 'aria-label': 'How far it is'});
  const cancel = button('Cancel', job.cancel);
  const rest = h('div');
  const leave = () => {
    const last = job.piece.at(-1);
    if (job.state === 'done' && last?.op === 'delete' && last.path === self.path) go(plans.parentOf(self.path)); // it is gone
    else self.close();
  };
  const draw = () => {
    const over = job.state !== 'running';
    state.textContent = states[job.state];
    render(said, '. ', text(summary(job)));
    bar.value = job.count ?? job.done.length;
    bar.hidden = job.state === 'done';
    waiting.hidden = over || !job.waiting;
    waiting.textContent = job.waiting;
    cancel.disabled = job.cancelled;
    cancel.textContent = job.cancelled ? 'Stopping after this piece…' : 'Cancel';
    if (!over) return;
    const had = document.activeElement === cancel || !self.done && !self.body.contains(document.activeElement);
    cancel.remove();
    render(rest, job.error && job.state !== 'done' ? problem(failure(job.error)) : null, h('p', {class: 'row wrap'},
      job.done.length && job.undo && mode.editing() ? h('button', {type: 'button', key: 'undo', on: {click: () => preview(self, undo(job), {back: () => report(self, job, again)})}}, job.state === 'done' ? 'Undo' : 'Undo what was done') : null,
      again && job.state !== 'done' ? button('Plan again', again) : null, self.done ? null : button('Leave', leave)));
    if (had) rest.querySelector('button')?.focus();
  };
  render(self.body, h('p', {role: 'status'}, state, said), bar, waiting, cancel, rest);
  if (!self.done) cancel.focus();
  draw();
  watch(j => { if (j === job && state.isConnected) draw(); }, self.signal);
}

// failure is an error of a write, with the node that it is about.
function failure(e) {
  const bad = e.results?.find(r => r.code && r.name !== 'RUNTIMEINCONSISTENCY');
  if (e.status === 403 && !e.code) return new Error('You may not read or write that.');
  const words = {BADVERSION: 'somebody changed it meanwhile', NODEEXISTS: 'it is there already', NONODE: 'it is not there, or its parent is not', NOTEMPTY: 'it has got children meanwhile', NOAUTH: 'you may not do that',
    NOCHILDRENFOREPHEMERALS: 'an ephemeral has no children', QUOTAEXCEEDED: 'a quota does not allow it', INVALIDACL: 'the ACL is not valid'}[bad?.name ?? e.code];
  return words ? new Error(`${bad?.path ?? ''}${bad ? ': ' : ''}${words}.`.replace(/^./, c => c.toUpperCase())) : e;
}

// done is the page of everything that was done here.
export function done(main, _, signal) {
  render(main, h('div', {class: 'page'}, h('h1', {}, 'Done here'), h('p', {class: 'dim'}, 'What this page has written since it is open, and can undo. It is forgotten with the page; the audit log of the servers keeps it.'),
    jobs.length ? h('ul', {class: 'findings'}, jobs.map(job => {
      const body = h('div', {class: 'panel'});
      const self = {path: job.roots[0], signal, body, done: true, close: () => report(self, job)};
      report(self, job);
      return h('li', {}, h('p', {class: 'what'}, text(job.title), h('span', {class: 'dim'}, ' ', ago(job.at), ' ago')), body);
    })) : h('p', {class: 'dim'}, 'Nothing yet.')));
  return {};
}

const lineOf = a => `${a.scheme}:${a.id}:${a.perms}`;
const linesOf = acl => acl.map(lineOf);

// editor edits bytes as text or hex, or takes them from a file.
function editor(bytes) {
  const plain = diff.decode(bytes);
  const ends = plain === null ? 0 : (plain.match(/\r\n/g) ?? []).length;
  const crlf = ends > 0 && ends === (plain.match(/[\r\n]/g).length / 2);
  const canText = diff.isPlain(plain) && (crlf || !plain.includes('\r'));
  const area = h('textarea', {rows: '9', spellcheck: 'false', 'aria-label': 'Data'});
  const file = h('input', {type: 'file', 'aria-label': 'A file with the data'});
  const kind = select(canText ? {text: 'as text', hex: 'as hex', file: 'from a file'} : {hex: 'as hex', file: 'from a file'}, {'aria-label': 'Edit'});
  let as = kind.value;
  const fill = value => { area.value = as === 'hex' ? diff.hexRows(value).map(r => r.slice(0, 48).trim()).join('\n') : diff.decode(value) ?? ''; };
  const value = async () => {
    if (as === 'file') {
      if (!file.files[0]) throw new Error('Choose a file.');
      return new Uint8Array(await file.files[0].arrayBuffer());
    }
    if (as === 'text') return new TextEncoder().encode(crlf ? area.value.replaceAll('\n', '\r\n') : area.value);
    const b = diff.fromHex(area.value);
    if (!b) throw new Error('Hex digits come in pairs of 0 to 9 and a to f.');
    return b;
  };
  kind.addEventListener('change', async () => {
    const had = await value().catch(() => bytes);
    const plainNow = diff.decode(had);
    if (kind.value === 'text' && (!diff.isPlain(plainNow) || plainNow.includes('\r') && !crlf)) { kind.value = as; return; }
    as = kind.value;
    area.hidden = as === 'file';
    file.hidden = as !== 'file';
    if (as !== 'file') fill(had);
  });
  file.hidden = true;
  fill(bytes);
  return {el: h('div', {class: 'editor'}, kind, area, file), value, set: b => fill(b)};
}

// aclEditor edits the entries of an ACL.
function aclEditor(list) {
  const rows = h('div', {class: 'entries'});
  const add = (a = {scheme: '', id: '', perms: 'r'}) => {
    const scheme = input({value: a.scheme, 'aria-label': 'Scheme', list: 'schemes', size: '7', required: true});
    const id = input({value: a.id, 'aria-label': 'Id'});
    const perms = [['r', 'read'], ['w', 'write'], ['c', 'create'], ['d', 'delete'], ['a', 'administer']].map(([p, label]) => [p, h('input', {type: 'checkbox', checked: a.perms.includes(p), 'aria-label': label, title: label})]);
    const row = h('div', {class: 'entry', role: 'group', 'aria-label': 'Entry'}, scheme, id, h('span', {class: 'perms'}, perms.map(([p, box]) => h('label', {title: box.title}, box, p))), button('Remove', () => { row.remove(); rows.querySelector('input')?.focus(); }, 'quiet'));
    row.entry = () => ({scheme: scheme.value.trim(), id: id.value, perms: ['c', 'd', 'r', 'w', 'a'].filter(p => perms.find(([q]) => q === p)[1].checked).join('')});
    rows.append(row);
    return row;
  };
  list.forEach(add);
  const el = h('div', {}, rows, h('datalist', {id: 'schemes'}, ['world', 'auth', 'digest', 'ip', 'x509', 'sasl', 'jwt'].map(s => h('option', {value: s}))), button('Add an entry', () => add().querySelector('input').focus()));
  return {el, value: () => [...rows.children].map(r => r.entry())};
}

// mayStill warns if none of the caller's identities may change an ACL afterwards.
async function mayStill(acl, signal) {
  const {identities} = await api.whoami(signal);
  const mine = a => a.scheme === 'world' || a.scheme === 'auth' || identities.some(i => i.scheme === a.scheme && (i.user === a.id || a.id.startsWith(i.user + ':') || a.scheme === 'ip'));
  return acl.some(a => a.perms.includes('a') && mine(a)) ? [] : ['None of your identities may change this ACL afterwards: undo will be refused, too.'];
}

const absentParents = async (path, signal) => {
  const absent = [];
  for (let p = plans.parentOf(path); p !== '/'; p = plans.parentOf(p)) {
    if (await api.stat(p, signal)) break;
    absent.unshift(p);
  }
  return absent;
};

const tooMany = `There are more than ${digits(plans.most.nodes)} nodes, or too much data for a page. zkcli deleteall, export and import can.`;
const copyBytes = 96 << 20;
const reading = place => n => { place.textContent = `${digits(n)} nodes read…`; };
const progressIn = self => { const p = h('p', {class: 'dim', role: 'status'}, 'Reading…'); render(self.body, p); return reading(p); };

const forms = {
  async set(self) {
    let base = await api.record(self.path, self.signal);
    if (!base) throw new Error('There is no such node.');
    let bytes = files.toBytes(base.data ?? '');
    const edit = editor(bytes);
    const show = () => render(self.body, form('Show the difference', submit, plans.isEphemeral(base) ? h('p', {class: 'note'}, 'The node is a session\'s ephemeral: its program may rely on what it wrote.') : null, edit.el));
    show();
    async function submit() { planned(await edit.value()); }
    function planned(mine) {
      const data = mine.length || base.data !== null ? files.toBase64(mine) : null;
      if (data === base.data) throw new Error('The data is as before.');
      const kind = diff.kindOf(bytes, mine);
      const notes = diff.parsed(diff.decode(bytes)) !== undefined && kind !== 'JSON' ? ['The data was JSON, and is none now.'] : [];
      const plan = {title: `Set ${self.path}`, verb: 'Write', steps: [{op: 'set', path: self.path, data, version: base.stat.version, was: {path: self.path, stat: base.stat, data: base.data}}], roots: [self.path], notes};
      preview(self, plan, {back: show, conflict: () => conflict(mine)});
    }
    async function conflict(mine) {
      const now = await api.record(self.path, self.signal);
      if (!now) {
        const acl = 'open to all';
        render(self.body, h('p', {class: 'problem', role: 'alert'}, 'Somebody deleted the node meanwhile. Nothing was written.'), h('p', {class: 'row wrap'}, button('Leave it deleted', self.close),
          button(`Create it again, ${acl}, with your data`, () => preview(self, {title: `Create ${self.path}`, steps: [{op: 'create', path: self.path, data: files.toBase64(mine)}], roots: [self.path]}, {}))));
        return;
      }
      const there = files.toBytes(now.data ?? '');
      const kind = diff.kindOf(bytes, there, mine);
      const [a, b, c] = [bytes, there, mine].map(v => diff.lines(v, kind));
      const {verdict} = diff.sides(a, b, c);
      const again = now.stat.czxid !== base.stat.czxid ? ', deleted and created again' : '';
      const take = () => { base = now; bytes = there; };
      render(self.body, h('p', {class: 'problem', role: 'alert'}, `Somebody changed the node meanwhile: version ${base.stat.version} is ${now.stat.version} now${again}. Nothing of yours was written.`, verdict === 'done' ? ' It has what you want.' : verdict === 'same' ? ' Its data is what you began with.' : ''),
        threeSides(a, b, c),
        h('p', {class: 'row wrap'}, button('Leave theirs', self.close, 'main'), verdict === 'done' ? null : [button('Write yours over theirs…', () => { take(); planned(mine); }), button('Edit yours', () => { take(); edit.set(mine); show(); }), button('Edit theirs', () => { take(); edit.set(there); show(); })]));
      top(self.body);
    }
  },

  async create(self) {
    const parent = await api.stat(self.path, self.signal);
    const inherited = await api.acl(self.path, self.signal).then(a => a.acl, () => null);
    const usable = inherited && !plans.isMasked(inherited) ? inherited : null;
    const nameOf = input({'aria-label': 'Name'});
    const kind = select({persistent: 'persistent', persistent_sequential: 'persistent, the server adds a number', ephemeral: 'ephemeral, until this page is closed', ephemeral_sequential: 'ephemeral with a number', container: 'container, goes after its last child', persistent_with_ttl: 'with a TTL', persistent_sequential_with_ttl: 'with a TTL and a number'});
    const ttl = input({type: 'number', min: '1', value: '3600000', 'aria-label': 'TTL in ms'});
    const ttlField = field('TTL, ms without a change', ttl);
    const rights = select({...(usable ? {parent: 'as the parent'} : {}), open: 'open to all', own: 'another one'});
    const own = aclEditor(usable ?? [{scheme: 'world', id: 'anyone', perms: 'cdrwa'}]);
    const edit = editor(new Uint8Array());
    const shown = () => { ttlField.hidden = !kind.value.includes('ttl'); own.el.hidden = rights.value !== 'own'; };
    kind.addEventListener('change', shown);
    rights.addEventListener('change', shown);
    shown();
    const show = () => render(self.body, parent ? null : h('p', {class: 'note'}, 'The node above does not exist: it is created as well.'), form('Show the plan', submit, field('Name', nameOf, ['below ', h('span', {class: 'path'}, name(self.path, 60))]), field('Kind', kind), ttlField, h('label', {}, 'Data'), edit.el, field('ACL', rights), own.el));
    show();
    async function submit() {
      const path = plans.join(self.path, '/' + nameOf.value);
      const numbered = kind.value.includes('sequential');
      if (nameOf.value.includes('/') || !nameOf.value && !numbered) throw new Error('A name has no /, and is not empty.');
      if (nameOf.value && plans.wrongPath(path)) throw new Error(plans.wrongPath(path));
      const bytes = await edit.value();
      const step = {op: 'create', path, data: files.toBase64(bytes), mode: kind.value};
      if (kind.value.includes('ttl')) step.ttl = Number(ttl.value);
      step.acl = rights.value === 'own' ? own.value() : rights.value === 'parent' ? usable : [{scheme: 'world', id: 'anyone', perms: 'cdrwa'}];
      if (!step.acl.length) throw new Error('An ACL has an entry.');
      const notes = kind.value.startsWith('ephemeral') ? ['The node belongs to a session of this page, and goes within 30 s after the page is closed.'] : [];
      const absent = await absentParents(path, self.signal);
      const form = diff.kindOf(bytes);
      preview(self, {title: `Create ${path}`, verb: 'Create', notes, steps: [...absent.map(p => ({op: 'create', path: p, data: null})), step], roots: [path]}, {back: show, shown: [beside([], diff.lines(bytes, form), 'There is no such node', `New, as ${form}`)]});
    }
  },

  async acl(self) {
    let base = await api.acl(self.path, self.signal);
    let edit = aclEditor(base.acl);
    const show = () => render(self.body, plans.isMasked(base.acl) ? h('p', {class: 'problem'}, 'The server hides the passwords of this ACL from you, as you may not change it.') : null, form('Show the difference', submit, edit.el,
      h('p', {class: 'dim small'}, 'digest takes user:hash, ip an address or range, world anyone, auth nothing: your own identities.')));
    show();
    async function submit() {
      const mine = edit.value();
      if (!mine.length) throw new Error('An ACL has an entry.');
      if (plans.sameACL(mine, base.acl)) throw new Error('The ACL is as before.');
      await planned(mine);
    }
    async function planned(mine) {
      const plan = {title: `ACL of ${self.path}`, verb: 'Write', notes: await mayStill(mine, self.signal), steps: [{op: 'acl', path: self.path, acl: mine, version: base.stat.aversion, was: {path: self.path, stat: base.stat, acl: base.acl}}], roots: [self.path]};
      preview(self, plan, {back: show, conflict: () => conflict(mine)});
    }
    async function conflict(mine) {
      const now = await api.acl(self.path, self.signal);
      render(self.body, h('p', {class: 'problem', role: 'alert'}, `Somebody changed the ACL meanwhile: version ${base.stat.aversion} is ${now.stat.aversion} now. Nothing of yours was written.`), threeSides(linesOf(base.acl), linesOf(now.acl), linesOf(mine)),
        h('p', {class: 'row wrap'}, button('Leave theirs', self.close, 'main'), button('Write yours over theirs…', () => { base = now; planned(mine); }), button('Edit theirs', () => { base = now; edit = aclEditor(now.acl); show(); })));
      top(self.body);
    }
  },

  async delete(self) {
    const again = () => forms.delete(self);
    const progress = progressIn(self);
    const all = await subtree(self.path, 'stats', {signal: self.signal, progress});
    if (!all) throw new Error(tooMany);
    let {nodes} = all;
    const size = nodes.reduce((n, {stat: s}) => n + (s?.dataLength ?? 0), 0);
    if (nodes.length <= 20_000 && size <= plans.most.kept) nodes = (await whole(self.path, {signal: self.signal, progress}))?.nodes ?? nodes; // for undo
    const plan = plans.deleting(nodes);
    if (!plan.refused.length && nodes.some(n => n.data === undefined || !n.acl || plans.isMasked(n.acl)) && !(nodes.length === 1 && plans.isEphemeral(nodes[0]))) plan.notes.push('This can\'t be undone: there is too much to keep, or you may not read it.');
    const gone = plan.steps.length;
    Object.assign(plan, {title: `Delete ${self.path}` + (gone > 1 ? ` and ${count(gone - 1, 'node')} below it` : ''), verb: gone > 1 ? `Delete ${count(gone, 'node')}` : 'Delete', roots: [self.path], typed: self.path.slice(self.path.lastIndexOf('/') + 1)});
    if (gone > 1) plan.notes.push('The lowest nodes go first. What somebody changes or creates meanwhile stays, and stops it.');
    const data = gone === 1 && nodes[0].data ? files.toBytes(nodes[0].data) : null;
    preview(self, plan, {back: again, shown: data && [beside(diff.lines(data, diff.kindOf(data)), [], `There now, version ${nodes[0].stat.version}`, 'Gone')]});
  },

  async copy(self) { transfer(self, false); },
  async move(self) { transfer(self, true); },

  async export(self) {
    const go = async place => {
      const found = await whole(self.path, {signal: self.signal, bytes: copyBytes, progress: reading(place)});
      if (!found) throw new Error(tooMany);
      const nodes = found.nodes.filter(n => self.path !== '/' || !plans.system(n.path)).map(n => ({...n, path: self.path === '/' ? n.path : n.path.slice(self.path.length) || '/'}));
      const hidden = nodes.filter(n => n.error);
      if (hidden.length) throw new Error(`You may not read ${count(hidden.length, 'node')}, the first is ${hidden[0].path}: a part of a tree is no export of it.`);
      const masked = nodes.filter(n => plans.isMasked(n.acl));
      save(await files.write({source: location.host, path: self.path, zxid: found.zxid, time: Date.now(), about: nodes.length}, nodes), fileName(self.path, '.zkexport'));
      render(place, h('p', {}, `${count(nodes.length, 'node')} as of zxid ${found.zxid}.`), masked.length ? h('p', {class: 'note'}, `The server hides passwords in the ACLs of ${count(masked.length, 'node')} from you: an import of the file works only without ACLs.`) : null);
    };
    render(self.body, form('Export', go, h('p', {}, 'The node and all below it, as of one zxid, in the format of ', h('code', {}, 'zkcli export'), '. ', h('code', {}, 'zkcli import'), ' and this page read it.')));
  },

  async import(self) {
    const file = h('input', {type: 'file', required: true});
    const existing = select({refuse: 'nothing is done', overwrite: 'it becomes as in the file', skip: 'it is left'});
    const rights = select({keep: 'as in the file', open: 'new nodes are open to all'});
    const show = () => render(self.body, form('Show the plan', submit, field('File of an export', file), field('If a node differs', existing), field('ACLs', rights)));
    show();
    async function submit(place) {
      const f = file.files[0];
      if (f.size > copyBytes) throw new Error(tooMany);
      const {header, nodes} = await files.read(new Uint8Array(await f.arrayBuffer()));
      let there = [];
      try {
        const found = await whole(self.path, {signal: self.signal, bytes: copyBytes, progress: reading(place)});
        if (!found) throw new Error(tooMany);
        there = found.nodes;
      } catch (e) {
        if (e.code !== 'NONODE') throw e;
      }
      const plan = plans.importing(nodes, self.path, new Map(there.map(n => [n.path, n])), {absent: await absentParents(self.path, self.signal), openACL: rights.value === 'open', existing: existing.value});
      Object.assign(plan, {title: `Import to ${self.path}`, verb: 'Import', roots: [self.path]});
      plan.notes.unshift(`The file has ${count(nodes.length, 'node')} of ${header.path} at ${header.source}, of ${header.time}.`);
      if (!plan.steps.length && !plan.refused.length) plan.notes.push('There is nothing to do.');
      preview(self, plan, {back: show});
    }
  },

  async break(self) {
    const of = operate.asked().get('of') ?? plans.parentOf(self.path);
    const place = self.path.slice(of === '/' ? 1 : of.length + 1);
    const [before, after, node] = await Promise.all([api.coordination([of], self.signal), api.coordination([of], self.signal, [place]), api.record(self.path, self.signal)]).then(([a, b, n]) => [a.objects[0], b.objects[0], n]);
    const mine = before.places.find(p => p.name === place);
    if (!node || !mine) throw new Error('It is not in the line any more.');
    const known = await api.command('connections', self.signal).catch(() => null);
    const where = id => known?.connections.concat(known.secure_connections).find(c => c.session_id && api.hex(c.session_id) === id)?.remote_socket_address.replace(/^\//, '');
    const who = p => p.session ? `session ${p.session}` + (where(p.session) ? ` at ${where(p.session)}` : '') : p.name;
    const line = p => p ? `${p.role}  ${who(p)}${p.mode ? ', ' + p.mode : ''}, ${p.name}` : 'gone';
    const next = after.places.filter(p => p.role === 'holds' && before.places.find(q => q.name === p.name)?.role !== 'holds');
    const plan = plans.deleting([{path: self.path, stat: node.stat}]);
    Object.assign(plan, {title: `Break ${self.path}`, verb: mine.role === 'holds' ? 'Take it away' : 'Take it out of the line', roots: [self.path], undo: false, notes: []});
    const say = h('ul', {class: 'say'}, [
      [`${mine.role === 'holds' ? 'The holder' : 'This one'} is `, mine.session ? toSession(mine.session) : name(mine.name), mine.session && where(mine.session) ? ` at ${where(mine.session)}` : '', `, in the line for ${duration(Date.now() - mine.since)}, with the fencing token ${mine.token}.`],
      ['Its node ', toPath(self.path), ' is deleted, and nothing else. Its session stays, with its other nodes.'],
      ['Its program is not stopped. Unless it watches its node, it works on as if it had it; only what checks the fencing token refuses it. So stop that program first.'],
      [mine.role !== 'holds' ? 'Who holds it does not change.' : next.length ? ['Next: ', next.map((p, i) => [i ? ', ' : '', p.session ? toSession(p.session) : name(p.name)]), ', as soon as its watch tells it.'] : 'Nobody waits: the next one to ask gets it.'],
      ['It can\'t be undone.'],
    ].map(l => h('li', {}, l)));
    preview(self, plan, {back: () => forms.break(self), shown: [say, beside(before.places.map(line), before.places.map(p => line(after.places.find(q => q.name === p.name))), 'Now', 'After')]});
  },
};

// transfer copies or moves a subtree.
function transfer(self, move) {
  const target = input({required: true, value: self.path, 'aria-label': 'New path'});
  const rights = select({keep: 'as they are', open: 'open to all'});
  const show = () => render(self.body, form('Show the plan', submit, field(move ? 'Move to' : 'Copy to', target, 'the whole new path; nothing may be there'), field('ACLs', rights),
    h('p', {class: 'dim small'}, 'Servers don\'t tell containers and nodes with a TTL from others, so these become persistent. Quotas and watches stay with the old path.')));
  show();
  async function submit(place) {
    const path = target.value;
    if (plans.wrongPath(path)) throw new Error(plans.wrongPath(path));
    if (await api.stat(path, self.signal)) throw new Error(`${path} is there already.`);
    const found = await whole(self.path, {signal: self.signal, bytes: copyBytes, progress: reading(place)});
    if (!found) throw new Error(tooMany);
    const options = {absent: await absentParents(path, self.signal), openACL: rights.value === 'open'};
    const plan = move ? plans.moving(found.nodes, path, options) : plans.copying(found.nodes, path, options);
    Object.assign(plan, {title: `${move ? 'Move' : 'Copy'} ${self.path} to ${path}`, verb: move ? 'Move' : 'Copy', roots: move ? [self.path, path] : [path], typed: self.path.slice(self.path.lastIndexOf('/') + 1)});
    plan.notes.push(`${count(found.nodes.length, 'node')} as of zxid ${found.zxid}.` + (move && plans.pieces(plan.steps).length > 1 ? ' All are copied first, and deleted then: if it stops between, both are there.' : ''));
    preview(self, plan, {back: show});
  }
}
