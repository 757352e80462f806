// A node: where it is, its data, its Stat in words, and its ACL.

import {h, digits, render, text, name, address, toSession, duration, count, problem, moment, utc} from './dom.js';
import * as api from './api.js';
import * as acts from './acts.js';
import {mode} from './api.js';
import {button, get} from './operate.js';
import {protobuf} from './protobuf.js';
import {decode, hexRows, parsed} from './diff.js';
import {toBytes} from './exportfile.js';
import {asOf, atMoment} from './moment.js';

const kinds = {lock: 'a lock', 'read-write-lock': 'a read-write lock', semaphore: 'a semaphore', election: 'an election', queue: 'a queue', barrier: 'a barrier', group: 'a group'};

export function node(out, path, signal, changed, when) {
  let whole = false;
  let as; // how the data is shown; undefined leaves it to the data
  const act = acts.asked();
  if (act && !when) {
    const place = h('section', {'aria-label': 'Action'});
    render(out, crumbs(path), acts.bar(path), place);
    acts.panel(place, act, path, signal, changed);
    return {again() {}};
  }
  again();
  return {again};

  async function again() {
    if (when) return then();
    try {
      const got = await api.node(path, whole, signal);
      const place = h('div'), list = h('div');
      render(out, crumbs(path), acts.bar(path), mode.fixed ? null : asOf(path, when, signal), place, dataIn(got), statOf(got), list, mode.fixed ? null : watched(path, signal), h('p', {class: 'dim small'}, 'As of zxid ', got.zxid, '. ', h('a', {href: '#' + address('live', path)}, 'Follow its changes'), ' · ', h('a', {href: '#' + address('history', path)}, 'History'), ' · ', h('a', {href: '#' + address('search', path)}, 'Search below it')));
      api.acl(path, signal).then(a => render(list, aclOf(a.acl)), e => { if (!signal.aborted) render(list, h('h2', {}, 'ACL'), problem(e)); });
      if (got.stat.numChildren) {
        const {objects: [o]} = await api.coordination([path], signal);
        if (o && kinds[o.kind]) {
          const waiting = o.places.filter(m => m.role === 'waits').length;
          render(place, h('p', {class: 'note'}, 'Its children are those of ', h('a', {href: '#' + address('coordination', path)}, kinds[o.kind]), waiting ? `: ${waiting} ${waiting === 1 ? 'waits' : 'wait'}.` : '.'));
        }
      }
    } catch (e) {
      if (signal.aborted) return;
      const words = {NONODE: 'There is no such node.', NOAUTH: 'You may not read this node. Another identity may: see the button at the top.'}[e.code];
      render(out, crumbs(path), acts.bar(path, e.code === 'NONODE' ? ['create', 'import'] : ['acl']), mode.fixed ? null : asOf(path, when, signal), words ? h('div', {class: 'problem'}, words) : problem(e));
    }
  }

  // dataIn is a section with the data, which shows it in another way when that is wanted.
  function dataIn(got) {
    const data = h('section');
    const draw = () => render(data, dataOf(got, as, how => { as = how; draw(); }, () => { whole = true; again(); }));
    draw();
    return data;
  }

  // then shows the node as it was.
  async function then() {
    render(out, h('p', {class: 'dim', role: 'status'}, 'reading…'));
    try {
      const got = await api.former(path, when, signal), bytes = toBytes(got.data ?? ''), at = Date.parse(got.time ?? '');
      render(out, crumbs(path, when), dataIn({stat: got.stat, data: whole ? bytes : bytes.subarray(0, api.part)}), statOf(got), aclOf(got.acl),
        h('p', {class: 'dim small'}, 'The last change anywhere before this was ', at ? instant(at, got.zxid) : ['zxid ', got.zxid], '. ', h('a', {href: '#' + address('history', path)}, 'History')));
    } catch (e) {
      if (signal.aborted) return;
      render(out, crumbs(path, when), e.code === 'NOAUTH' ? h('div', {class: 'problem'}, 'You may not read this node, or could not then.') : problem(e), e.oldest ? h('p', {}, h('a', {href: atMoment('tree', path, {zxid: e.oldest})}, 'The oldest moment')) : null);
    }
  }
}

function crumbs(path, when) {
  const parts = path === '/' ? [] : path.slice(1).split('/');
  return h('h1', {class: 'crumbs mono'}, h('a', {href: atMoment('tree', '', when)}, '/'), parts.map((p, i) => [i ? '/' : null, h('a', {href: atMoment('tree', '/' + parts.slice(0, i + 1).join('/'), when), 'aria-current': i === parts.length - 1 ? 'page' : undefined}, name(p, 48))]));
}

// watched tells on demand who watches a node.
function watched(path, signal) {
  const place = h('p', {role: 'status'}, button('Who watches it', async () => {
    try {
      const {watches: [found]} = await get('/v1/watches' + api.query({path}), signal);
      const all = found?.sessions ?? [];
      render(place, all.length ? `${count(all.length, 'client')} of this server: ` : 'No client of this server watches its data.', all.slice(0, 100).map((id, i) => [i ? ', ' : '', toSession(id)]), all.length > 100 ? '…' : '');
    } catch (e) {
      if (!signal.aborted) render(place, problem(e));
    }
  }));
  return place;
}

const views = ['text', 'JSON', 'hex'];

// dataOf shows the data, in the way that suits it unless another one is asked for.
function dataOf({stat, data}, as, choose, all) {
  const cut = data.length < stat.dataLength;
  const packed = data[0] === 0x1f && data[1] === 0x8b;
  let end = data.length; // a text that was cut may end within a character
  if (cut) while (end > data.length - 4 && decode(data.subarray(0, end)) === null) end--;
  const plainText = decode(data.subarray(0, end));
  const json = cut ? undefined : parsed(plainText);
  if (packed) as ??= 'gzip';
  as ??= json !== undefined ? 'JSON' : plainText !== null && !/[\0-\x08\x0e-\x1a]/.test(plainText) ? 'text' : 'hex';
  const fields = cut || packed || json !== undefined || data.length > api.part ? null : protobuf(data);
  const body = h('pre', {class: 'data', tabindex: '0'});
  if (!stat.dataLength) body.append(h('span', {class: 'dim'}, 'no data'));
  else if (as === 'gzip') unpack(data, body, cut);
  else if (as === 'protobuf' && fields) body.append(text(fields.join('\n'), true));
  else if (as === 'JSON' && json !== undefined) body.append(text(JSON.stringify(json, null, 2), true));
  else if (as === 'text' && plainText !== null) body.append(text(plainText, true));
  else {
    body.classList.add('hex');
    body.append(hexOf(data.subarray(0, 16 << 10)));
  }
  const offered = views.filter(v => v === 'hex' || v === 'text' && plainText !== null || v === 'JSON' && json !== undefined);
  if (packed) offered.push('gzip');
  if (fields) offered.push('protobuf');
  return [h('div', {class: 'title'}, h('h2', {}, 'Data'), h('span', {class: 'dim'}, count(stat.dataLength, 'byte')),
    stat.dataLength ? h('div', {class: 'choice', role: 'group', 'aria-label': 'Show the data as'}, offered.map(v => h('button', {type: 'button', key: 'as' + v, 'aria-pressed': String(v === as), on: {click: () => choose(v)}}, v))) : null), body,
  cut ? h('p', {class: 'note'}, `These are the first ${count(data.length, 'byte')}. `, h('button', {type: 'button', on: {click: all}}, 'Read all')) :
    as === 'hex' && data.length > 16 << 10 ? h('p', {class: 'note'}, 'These are the first 16 KiB.') : null];
}

const hexOf = bytes => hexRows(bytes).map((row, i) => (16 * i).toString(16).padStart(6, '0') + '  ' + row).join('\n');

const unpacked = 1 << 20; // bytes that are shown of what was compressed

async function unpack(data, body, cut) {
  const out = [];
  let length = 0;
  try {
    const reader = new Blob([data]).stream().pipeThrough(new DecompressionStream('gzip')).getReader();
    for (let {done, value} = await reader.read(); !done && length < unpacked; {done, value} = await reader.read()) {
      out.push(value);
      length += value.length;
    }
    reader.cancel().catch(() => {});
  } catch (e) {
    if (!cut && !length) { body.append('It begins like gzip, and is not.'); return; }
  }
  const bytes = new Uint8Array(await new Blob(out).arrayBuffer());
  const plainText = decode(bytes);
  body.append(plainText !== null ? text(plainText, true) : hexOf(bytes.subarray(0, 16 << 10)));
}

const instant = (ms, zxid) => [h('time', {datetime: new Date(ms).toISOString()}, moment(ms), h('span', {class: 'dim'}, ` · ${utc(ms)} · ${duration(Date.now() - ms)} ago`)), h('span', {class: 'dim mono small'}, ' zxid ', zxid)];

function statOf({stat: s}) {
  const facts = [['Kind', s.ephemeralOwner === '0x0' ? 'stays until it is deleted' : ['ephemeral: goes with session ', toSession(s.ephemeralOwner)]],
    ['Created', instant(s.ctime, s.czxid)],
    ['Data', s.version ? [`changed ${count(s.version, 'time')}, last `, instant(s.mtime, s.mzxid)] : 'never changed'],
    ['Children', [s.numChildren ? count(s.numChildren, 'child', 'children') : 'none', s.cversion ? h('span', {class: 'dim'}, `; creates and deletes: ${digits(s.cversion)}, the last at zxid ${s.pzxid}`) : null]],
    ['ACL', s.aversion ? `changed ${count(s.aversion, 'time')}` : 'never changed']];
  return h('section', {}, h('h2', {}, 'Stat'), h('dl', {class: 'facts'}, facts.map(([k, v]) => h('div', {}, h('dt', {}, k), h('dd', {}, v)))));
}

const may = {r: 'read', w: 'write', c: 'create', d: 'delete', a: 'administer'};

function aclOf(list) {
  return [h('h2', {}, 'ACL'), h('table', {class: 'list acl'}, h('tbody', {}, list.map(a => h('tr', {}, h('td', {}, a.scheme === 'world' ? 'anyone' : h('code', {}, text(`${a.scheme}:${a.id}`))),
    h('td', {}, a.perms === 'cdrwa' ? 'may do everything' : a.perms ? 'may ' + ['r', 'w', 'c', 'd', 'a'].filter(p => a.perms.includes(p)).map(p => may[p]).join(', ') : 'may do nothing')))))];
}
