// Live changes of a subtree: one feed, whatever it has.

import {h, render, table, text, toPath, toSession, name, problem, utc, moment, count} from './dom.js';
import * as api from './api.js';

const most = 500; // changes that are kept

export function live(main, path, signal) {
  const list = h('tbody', {});
  const state = h('span', {class: 'dim', role: 'status'}, 'connecting…');
  const place = h('div');
  let paused = false;
  const waiting = [];
  const button = h('button', {type: 'button', on: {click: toggle}}, 'Pause');
  function toggle() {
    paused = !paused;
    button.textContent = paused ? 'Continue' : 'Pause';
    if (!paused) { add(waiting.splice(0)); tell(); }
  }
  let said = '';
  function tell(value = said) {
    said = value;
    state.textContent = paused && waiting.length ? `${count(waiting.length, 'change')} waiting` : said;
  }
  const quiet = 'following; nothing has changed yet';
  function add(rows) {
    if (said === quiet) tell('following');
    list.prepend(...rows.reverse());
    while (list.children.length > most) list.lastChild.remove();
  }
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  render(main, h('div', {class: 'page'}, h('h1', {}, 'Live ', h('span', {class: 'mono'}, name(path, 90))),
    h('p', {class: 'row'}, button, state), place,
    table('Changes', ['Time', 'Change', 'Path', ['Version'], 'Session', 'Zxid'], list),
    h('p', {class: 'dim small'}, `Changes of ${path === '/' ? 'all nodes' : 'this node and those below it'} that you may read, since this page is open. Times are of ${zone}${zone === 'UTC' ? '' : '; point at one for UTC'}.`)));
  follow();
  return {keydown(e) { if (e.key === ' ' && e.target === main) { toggle(); return true; } }};

  async function follow() {
    let after = await api.now(signal).catch(() => undefined);
    while (!signal.aborted) {
      const seen = new AbortController(); // a hidden tab has no feed
      const hide = () => { if (document.hidden || signal.aborted) seen.abort(); };
      document.addEventListener('visibilitychange', hide);
      signal.addEventListener('abort', hide);
      try {
        after = await api.feed(path, after, seen.signal, () => { render(place); tell(list.children.length ? 'following' : quiet); }, (kind, c, id) => {
          after = id ?? after;
          if (kind === 'compacted') { after = undefined; render(place, h('p', {class: 'note'}, 'Some changes were missed: the server has forgotten them.')); return; }
          if (kind === 'unauthorized') throw new Error('The identity has ended.');
          const r = row(kind, c);
          if (paused) { waiting.push(r); if (waiting.length > most) waiting.shift(); tell(); } else add([r]);
        });
        tell('the server ended the feed; connecting…');
      } catch (e) {
        if (signal.aborted) return;
        tell(seen.signal.aborted ? 'connecting…' : 'lost; connecting…');
        if (!seen.signal.aborted) render(place, problem(e));
      }
      document.removeEventListener('visibilitychange', hide);
      await api.pause(2000, signal);
    }
  }
}

function row(kind, c) {
  const at = Date.parse(c.time);
  return h('tr', {class: 'change ' + kind}, h('td', {}, h('time', {datetime: c.time, title: `${moment(at)}\n${utc(at)}`}, new Date(at).toLocaleTimeString(undefined, {hour12: false}))),
    h('td', {}, h('span', {class: 'tag'}, text(kind))), h('td', {}, toPath(c.path, 80)), h('td', {class: 'number'}, c.stat ? String(c.stat.version) : ''),
    h('td', {}, c.session === '0x0' ? '' : toSession(c.session)), h('td', {class: 'mono dim'}, c.zxid));
}
