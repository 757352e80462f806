// Sessions: of whom they are, what they have, and what their connections did last.

import {h, digits, render, table, text, toPath, toSession, ago, duration, count, problem} from './dom.js';
import * as api from './api.js';
import {mode} from './api.js';
import {act, asked, button, get, go} from './operate.js';

const most = 500; // rows; the search finds the others

export function sessions(main, path, signal) {
  const out = h('div'), panel = h('div');
  const id = path.slice(1);
  let wanted = '';
  let draw = () => {};
  render(main, h('div', {class: 'page'}, out, panel));
  if (id && !mode.fixed) end(panel, id, signal);
  render(out, h('p', {class: 'dim'}, 'Looking…'));
  api.every(4000, signal, async () => {
    try {
      const list = await load(signal);
      draw = () => render(out, id ? one(list.find(s => s.id === id), id) : all(list, wanted));
      draw();
    } catch (e) {
      if (!signal.aborted) render(out, problem(e));
    }
  });
  return {search(value) { wanted = value.toLowerCase(); draw(); }};
}

// load returns the sessions that the server knows, with the connections that it has.
async function load(signal) {
  const [dump, list, more, copied] = await Promise.all([api.command('dump', signal), api.command('connections', signal), mode.fixed && !mode.standby ? [] : get('/v1/connections', signal).then(r => r.connections, () => []),
    mode.standby ? get('/v1/sessions', signal).then(r => r.sessions) : []]);
  const known = new Map();
  const of = number => {
    const id = api.hex(number);
    if (!known.has(id)) known.set(id, {id, ephemerals: []});
    return known.get(id);
  };
  for (const [at, ids] of Object.entries(dump.expiry_time_to_session_ids)) for (const n of ids) of(n).expires = Number(at);
  for (const [n, paths] of Object.entries(dump.session_id_to_ephemeral_paths)) of(n).ephemerals = paths;
  for (const c of [...list.connections, ...list.secure_connections.map(c => ({...c, secure: true}))]) if (c.session_id) of(c.session_id).conn = c;
  for (const s of copied) of(s.id);
  for (const {session, identity, watches} of more) if (known.has(session)) Object.assign(known.get(session), {identity, watches});
  return [...known.values()].sort((a, b) => (b.conn?.packets_received ?? -1) - (a.conn?.packets_received ?? -1) || (a.id < b.id ? -1 : 1));
}

// everywhere is whether all servers were asked, as zkcli's console does, and not the one that serves this page.
const everywhere = mode.fixed && !mode.standby;
const elsewhere = everywhere ? 'away' : 'elsewhere';

const address = s => s.conn?.remote_socket_address.replace(/^\//, '') ?? '';

function all(list, wanted) {
  const found = list.filter(s => !wanted || s.id.includes(wanted) || address(s).includes(wanted) || s.identity?.toLowerCase().includes(wanted) || s.ephemerals.some(p => p.toLowerCase().includes(wanted)));
  const here = list.filter(s => s.conn).length;
  return [h('h1', {}, 'Sessions', h('span', {class: 'dim small'}, `  ${count(list.length, 'session')}, ${here} connected${everywhere ? '' : ' to this server'}`)),
    !list.length ? h('p', {class: 'dim'}, 'There are none.') : table('Sessions', ['Session', 'Address', ['Ephemerals'], ['Watches'], ['Requests'], ['Waiting'], ['Latency ms'], ['Timeout'], ['Connected'], 'Last request'],
      h('tbody', {}, found.slice(0, most).map(s => h('tr', {}, h('td', {}, toSession(s.id)), h('td', {}, address(s) ? [text(address(s)), h('span', {class: 'dim'}, s.conn.secure ? ' TLS' : '', s.identity ? [' ', text(s.identity)] : null)] : h('span', {class: 'dim'}, elsewhere)),
        h('td', {class: 'number'}, s.ephemerals.length ? digits(s.ephemerals.length) : h('span', {class: 'dim'}, '0')),
        h('td', {class: 'number'}, s.watches === undefined ? h('span', {class: 'dim'}, '–') : digits(s.watches)),
        s.conn ? [digits(s.conn.packets_received), digits(s.conn.outstanding_requests), `${s.conn.avg_latency} / ${s.conn.max_latency}`].map(v => h('td', {class: 'number'}, v)) : [0, 1, 2].map(() => h('td', {class: 'number dim'}, '–')),
        h('td', {class: 'number'}, s.conn ? duration(s.conn.session_timeout) : h('span', {class: 'dim'}, '–')), h('td', {class: 'number'}, s.conn ? ago(s.conn.established) : h('span', {class: 'dim'}, '–')),
        h('td', {class: 'mono'}, s.conn ? text(s.conn.last_operation) : ''))))),
    found.length > most && h('p', {class: 'dim'}, `${digits(found.length - most)} more: search for an id, an address or a path.`),
    h('p', {class: 'dim small'}, everywhere ? 'The client of a session that is away is not connected, or its server does not tell: see cons in 4lw.commands.whitelist.' :
      'A session that is elsewhere is connected to another server, or its client is away. Followers know the sessions of their own clients, and all that have ephemerals.')];
}

// end offers the end of a session, or plans it if the URL asks for that.
function end(panel, id, signal) {
  const page = 'sessions/' + encodeURIComponent(id);
  const answered = s => `It has ended, and ${count(s.ephemerals, 'ephemeral node')} with it.`;
  if (asked().get('done')) render(panel, h('p', {class: 'note', role: 'status'}, text(asked().get('done'))));
  else if (asked().get('do') !== 'end') render(panel, mode.editing() ? h('p', {}, button('End this session…', () => go(page, {do: 'end'}))) : null);
  else act(panel, {title: 'End session ' + id, verb: 'End it', danger: () => true, signal, leave: () => go(page),
    request: plan => ({method: 'DELETE', url: '/v1/sessions/' + encodeURIComponent(id) + api.query({'dry-run': plan ? undefined : 'true'})}),
    shown: plan => [h('p', {}, plan.ephemerals ? `Deleted with it: ${count(plan.ephemerals, 'ephemeral node')}. What they stand for, such as a lock, is lost; undo can't bring them back.` : 'It has no ephemeral nodes.'),
      h('ul', {class: 'paths'}, plan.paths.map(p => h('li', {}, toPath(p, 120)))), plan.ephemerals > plan.paths.length ? h('p', {class: 'dim'}, `${digits(plan.ephemerals - plan.paths.length)} more.`) : null,
      h('p', {class: 'dim'}, plan.address ? ['Its client is connected to this server, from ', text(plan.address), plan.identity ? [' as ', text(plan.identity)] : null, '. '] : 'Its client is not connected to this server. ', 'It is told that the session has expired, and may open another one.')],
    done: answer => go(page, {done: answered(answer)})});
}

function one(s, id) {
  if (!s) return [h('h1', {}, 'Session ', h('span', {class: 'mono'}, text(id))), h('p', {}, 'This server does not know it: it has ended, or is another server\'s and has no ephemerals.'), h('p', {}, h('a', {href: '#/sessions'}, 'All sessions'))];
  const c = s.conn;
  const facts = [['Address', address(s) || elsewhere], ['Ephemerals', digits(s.ephemerals.length)]];
  if (s.expires) facts.push(['Ends unless heard of', `within ${duration(s.expires - Date.now())}`]);
  if (s.identity) facts.push(['Identity', s.identity]);
  if (s.watches !== undefined) facts.push(['Watches', digits(s.watches)]);
  if (c) facts.push(['Timeout', duration(c.session_timeout)], ['Connected for', ago(c.established)], ['Last request', c.last_operation], ['Requests', digits(c.packets_received)], ['Waiting', String(c.outstanding_requests)], ['Latency', `${c.min_latency} / ${c.avg_latency} / ${c.max_latency} ms`]);
  return [h('h1', {}, 'Session ', h('span', {class: 'mono'}, s.id)), h('p', {}, h('a', {href: '#/sessions'}, 'All sessions')),
    h('dl', {class: 'facts'}, facts.map(([k, v]) => h('div', {}, h('dt', {}, k), h('dd', {}, typeof v === 'string' ? text(v) : v)))),
    s.ephemerals.length ? [h('h2', {}, 'Ephemeral nodes'), h('ul', {class: 'paths'}, s.ephemerals.slice(0, most).map(p => h('li', {}, toPath(p, 120)))),
      s.ephemerals.length > most ? h('p', {class: 'dim'}, `${digits(s.ephemerals.length - most)} more.`) : null] : null];
}
