// Coordination: who holds which lock, who waits for whom, who leads.

import {h, digits, render, text, name, toPath, toSession, address, ago, count, problem, plain} from './dom.js';
import * as api from './api.js';
import {mode} from './api.js';

const titles = {
  'lock': 'Lock', 'read-write-lock': 'Read-write lock', 'semaphore': 'Semaphore', 'election': 'Election', 'queue': 'Queue', 'barrier': 'Barrier', 'group': 'Group', 'unknown': 'Node',
};
const order = Object.keys(titles);
const most = 256; // paths in a request

export function coordination(main, path, signal) {
  const out = h('div', {class: 'page'});
  render(main, out);
  let wanted = '';
  let draw = () => {};
  render(out, h('p', {class: 'dim'}, 'Looking…'));
  api.every(3000, signal, async () => {
    try {
      const known = await addresses(signal);
      const one = path !== '/';
      const paths = one ? [path] : candidates(known.ephemerals);
      const found = paths.length ? await api.coordination(paths.slice(0, most), signal) : {objects: [], cycles: []};
      draw = () => render(out, one ? single(found.objects[0], known, path) : all(found, paths.length, known, wanted));
      draw();
    } catch (e) {
      if (!signal.aborted) render(out, problem(e));
    }
  });
  return {search(value) { wanted = value.toLowerCase(); draw(); }};
}

// addresses returns the ephemerals of all sessions, and the address of each session that is connected to this server.
async function addresses(signal) {
  const [dump, list] = await Promise.all([api.command('dump', signal), api.command('connections', signal)]);
  const address = new Map();
  for (const c of [...list.connections, ...list.secure_connections]) if (c.session_id) address.set(api.hex(c.session_id), c.remote_socket_address.replace(/^\//, ''));
  return {address, ephemerals: Object.values(dump.session_id_to_ephemeral_paths).flat()};
}

const inner = new Set(['leases', 'locks', 'taken']);

// candidates returns the parents of ephemeral nodes. Those of inner directories are a level higher.
function candidates(ephemerals) {
  const paths = new Set();
  for (const path of ephemerals) {
    const parts = path.split('/').slice(0, -1);
    if (inner.has(parts.at(-1)) && parts.length > 2) {
      paths.add(parts.slice(0, -1).join('/'));
      if (parts.at(-1) !== 'locks') continue;
    }
    if (parts.length > 1) paths.add(parts.join('/'));
  }
  return [...paths].sort();
}

function all(found, candidates, known, wanted) {
  const objects = found.objects.filter(o => o.kind !== 'unknown' && o.kind !== 'group' || o.error);
  const groups = found.objects.filter(o => o.kind === 'group');
  const inObject = new Set(found.objects.filter(o => o.kind === 'semaphore').map(o => o.path + '/locks')); // shown with their semaphores
  const shown = [...objects, ...groups].filter(o => !inObject.has(o.path) && (!wanted || text(o.path).textContent.toLowerCase().includes(wanted) || o.kind.includes(wanted)));
  const waiting = o => o.places.filter(m => m.role === 'waits').length;
  shown.sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind) || waiting(b) - waiting(a) || (a.path < b.path ? -1 : 1));
  const contended = shown.filter(o => waiting(o) > 0 && o.kind !== 'barrier').length;
  return [
    h('h1', {}, 'Coordination', h('span', {class: 'dim small'}, `  ${count(shown.length, 'object')}${contended ? `, ${contended} with somebody waiting` : ''}`)),
    cycles(found.cycles),
    candidates > most && h('p', {class: 'note'}, `Of ${digits(candidates)} nodes with ephemerals these are the first ${most}.`),
    shown.length ? h('div', {class: 'objects'}, shown.map(o => card(o, known, 6))) :
      h('p', {class: 'dim'}, wanted ? 'Nothing has this name.' : 'No program holds a lock or leads, and no group has members: there are no ephemeral nodes that a known recipe makes.'),
  ];
}

function cycles(list) {
  if (!list.length) return null;
  return h('section', {class: 'deadlock', role: 'alert'}, h('h2', {}, list.length === 1 ? 'A deadlock' : `${list.length} deadlocks`), list.map(cycle => h('ol', {},
    cycle.map(w => h('li', {}, toSession(w.session), ' waits at ', toPath(w.path), ' for ', toSession(w.for))))), h('p', {class: 'dim'}, 'None of them can continue. Ending the session of one of them lets the others continue.'));
}

function single(o, known, path) {
  const up = path.slice(0, path.lastIndexOf('/'));
  return [h('h1', {}, titles[o.kind], ' ', h('span', {class: 'mono'}, name(path, 90))),
    h('p', {}, h('a', {href: '#/coordination'}, 'All'), ' · ', h('a', {href: '#' + address('tree', path)}, 'In the tree'), ' · ', h('a', {href: '#' + address('live', path)}, 'Live'), up ? [' · ', h('a', {href: '#' + address('coordination', up)}, 'Up')] : null),
    o.error ? h('div', {class: 'problem'}, o.error === 'NONODE' ? 'There is no such node.' : o.error === 'NOAUTH' ? 'You may not read this node.' : o.error) : card(o, known, 500, true),
    o.kind === 'lock' ? h('p', {class: 'dim small'}, 'kazoo\'s Election and Curator\'s LeaderSelector have the nodes of a lock. The time is since when each has been in the line.') : null];
}

const does = {
  'lock': {holds: 'holds', waits: 'waits'}, 'read-write-lock': {holds: 'holds', waits: 'waits'}, 'semaphore': {holds: 'has a lease', waits: 'waits'}, 'election': {holds: 'leads', waits: 'stands by'},
  'barrier': {member: 'inside', waits: 'waits'}, 'group': {member: 'member'}, 'queue': {item: 'item', taken: 'taken'},
};

// plural is a verb or a noun for a number of those that do it.
const plural = (word, n) => n === 1 ? word : {holds: 'hold', waits: 'wait', leads: 'lead', 'stands by': 'stand by', 'has a lease': 'have a lease', member: 'members', item: 'items'}[word] ?? word;

// card draws an object: the holders, and those that wait, one below the other in their order.
function card(o, known, limit, alone) {
  const roles = {};
  for (const m of o.places) roles[m.role] = (roles[m.role] ?? 0) + 1;
  const summary = Object.entries(roles).map(([role, n]) => `${n} ${plural(does[o.kind]?.[role] ?? role, n)}`).join(' · ');
  const rest = o.places.length - limit;
  return h('article', {class: 'object ' + o.kind}, h('header', {},
    alone ? null : h('h2', {}, h('a', {href: '#' + address('coordination', o.path), key: 'card' + o.path, class: 'path'}, name(o.path, 56))),
    h('p', {class: 'dim small'}, alone ? '' : h('b', {}, titles[o.kind]), alone || !o.by.length ? '' : ' · ', o.by.length ? 'layout of ' + o.by.join(', ') : '', o.limit ? ` · ${o.limit} at a time` : '', o.open ? ' · open' : '', summary ? ' · ' + summary : '')),
  o.error ? h('p', {class: 'dim'}, o.error === 'NOAUTH' ? 'You may not read it.' : text(o.error)) : null,
  o.remark ? h('p', {class: 'note'}, text(o.remark)) : null,
  h('ol', {class: 'line'}, o.places.slice(0, limit).map(m => row(o, m, known, alone))),
  rest > 0 ? h('p', {class: 'dim small more'}, h('a', {href: '#' + address('coordination', o.path)}, `${count(rest, 'more')}`.replace('mores', 'more'))) : null,
  o.more ? h('p', {class: 'dim small more'}, 'There are more than can be shown.') : null,
  o.others && alone ? h('p', {class: 'dim small more'}, `${count(o.others, 'other child', 'other children')} do not belong to it.`) : null);
}

function row(o, m, known, alone) {
  const where = known.address.get(m.session);
  const role = does[o.kind]?.[m.role] ?? m.role;
  return h('li', {class: m.role + (m.mode ? ' ' + m.mode : '')},
    h('span', {class: 'dot', 'aria-hidden': 'true'}),
    h('span', {class: 'act'}, role, m.mode ? h('i', {}, ' ' + m.mode) : null),
    h('span', {class: 'who'}, m.label ? name(m.label, 40) : o.kind === 'group' ? name(m.name, 40) : where ? text(where) : m.session ? 'session' : name(m.name, 40)),
    h('span', {class: 'where dim'}, m.session ? [toSession(m.session), where && (m.label || o.kind === 'group') ? [' ', text(where)] : null, where || !m.session ? null : h('span', {title: 'its client is connected to another server, or to none now'}, ' elsewhere')] : null),
    h('span', {class: 'age', title: `node ${plain(m.name)}\nfencing token ${m.token}`}, ago(m.since)),
    alone && mode.editing() && m.session ? h('span', {class: 'detail'}, h('a', {href: `#${address('tree', (o.path === '/' ? '' : o.path) + '/' + m.name)}?do=break&of=${encodeURIComponent(o.path)}`, key: 'break' + m.name, class: 'act'}, m.role === 'waits' ? 'Take out of the line…' : 'Break…')) : null,
    alone ? h('span', {class: 'detail dim small mono'}, h('a', {href: '#' + address('tree', (o.path === '/' ? '' : o.path) + '/' + m.name)}, name(m.name, 60)), ' token ', m.token) : null);
}
