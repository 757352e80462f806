// The audit log of this server as it is written.

import {h, digits, render, table, text, toPath, toSession, problem, moment, utc} from './dom.js';
import * as api from './api.js';
import {get} from './operate.js';

const most = 500; // rows that are kept

export function audit(main, _, signal) {
  const list = h('tbody'), place = h('div');
  const state = h('span', {class: 'dim', role: 'status'}, 'connecting…');
  const button = h('button', {type: 'button', on: {click: toggle}}, 'Pause');
  const failed = h('input', {type: 'checkbox', on: {change: () => draw()}});
  let entries = [], waiting = [], paused = false, words = '', last = '', said = '';
  render(main, h('div', {class: 'page'}, h('h1', {}, 'Audit'), h('p', {class: 'row wrap'}, button, state, h('label', {}, failed, ' only what was refused or failed'), h('span', {class: 'dim small'}, 'The field at the top filters.')), place,
    table('Entries', ['Time', 'Operation', 'Result', 'Who', 'What'], list),
    h('p', {class: 'dim small'}, 'What this server did for its own clients. The last 1024 entries are kept for this page; the log itself has all.')));

  function tell(value = said) {
    said = value;
    state.textContent = paused && waiting.length ? `${waiting.length} entries wait` : said;
  }
  function toggle() {
    paused = !paused;
    button.textContent = paused ? 'Continue' : 'Pause';
    if (!paused) add(waiting.splice(0));
    tell();
  }
  const fits = e => (!failed.checked || e.result !== 'success') && Object.values(e).flat().join(' ').toLowerCase().includes(words);
  function add(more) {
    entries = [...entries, ...more].slice(-most);
    list.prepend(...more.filter(fits).map(row).reverse());
    while (list.children.length > most) list.lastChild.remove();
  }
  function draw() { list.replaceChildren(...entries.filter(fits).map(row).reverse()); }

  follow();
  return {search(value) { words = value.toLowerCase(); draw(); }, keydown(e) { if (e.key === ' ' && e.target === main) { toggle(); return true; } }};

  async function follow() {
    while (!signal.aborted) {
      const seen = new AbortController(); // a hidden tab follows nothing
      const hide = () => { if (document.hidden || signal.aborted) seen.abort(); };
      document.addEventListener('visibilitychange', hide);
      signal.addEventListener('abort', hide);
      try {
        if (last === '') {
          const page = await get('/v1/audit', signal);
          add(page.entries);
          last = String(page.entries.at(-1)?.number ?? 0);
        }
        await api.follow('/v1/audit/follow' + api.query({after: last}), last, seen.signal, () => { render(place); tell('following'); }, (kind, e, id) => {
          if (kind === 'missed') { render(place, h('p', {class: 'note'}, `${digits(e)} entries were missed: the page has forgotten them, the log has not.`)); return; }
          last = id;
          if (paused) { waiting.push(e); if (waiting.length > most) waiting.shift(); tell(); } else add([e]);
        });
        tell('connecting…');
      } catch (e) {
        if (signal.aborted) return;
        tell(seen.signal.aborted ? 'connecting…' : 'lost; connecting…');
        if (!seen.signal.aborted) render(place, problem(e));
        if (e.status === 403 || e.status === 404) { tell('not followed'); return; }
      }
      document.removeEventListener('visibilitychange', hide);
      await api.pause(2000, signal);
    }
  }
}

function row(e) {
  const at = Date.parse(e.time);
  const what = [e.znode ? toPath(e.znode, 60) : null, e.key ? h('code', {}, text(e.key)) : e.operation === 'configure' ? h('span', {class: 'dim'}, 'looked at, or a dry run') : null, e.value ? h('span', {class: 'mono'}, text((e.key ? '=' : ' ') + e.value)) : null, e.znode_type ? h('span', {class: 'dim'}, ' ', text(e.znode_type)) : null,
    e.acl ? h('span', {class: 'dim'}, ' ', text(e.acl.join(', '))) : null, e.scheme ? h('span', {class: 'dim'}, text(e.scheme)) : null];
  return h('tr', {class: e.result === 'failure' ? 'failed' : ''}, h('td', {}, h('time', {datetime: e.time, title: `${moment(at)}\n${utc(at)}`}, new Date(at).toLocaleTimeString(undefined, {hour12: false}))),
    h('td', {}, h('span', {class: 'tag'}, text(e.operation))), h('td', {}, text(e.result), e.error ? h('span', {class: 'dim'}, ' ', text(e.error)) : null),
    h('td', {class: 'who'}, text((e.users ?? [e.user ?? '']).join(', ')), e.ip ? h('span', {class: 'dim'}, ' ', text(e.ip)) : null, e.via ? h('span', {class: 'dim'}, ' via ', text(e.via)) : null, e.session ? [' ', toSession(e.session)] : null),
    h('td', {}, what));
}
