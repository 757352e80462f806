// The archive of this server: what there is, how far it reaches, a backup now.

import {h, digits, render, text, count, problem, moment, utc} from './dom.js';
import * as api from './api.js';
import {mode} from './api.js';
import {button, get} from './operate.js';
import {atMoment} from './moment.js';

export function backups(main, _, signal) {
  const place = h('div'), state = h('p', {role: 'status', class: 'dim'}, 'reading…');
  render(main, h('div', {class: 'page'}, h('h1', {}, 'Backups'), state, place));
  read().catch(e => { if (!signal.aborted) { state.textContent = ''; render(place, problem(e)); } });
  return {show: (_, signal) => backups(main, _, signal)};

  async function read() {
    const list = await get('/v1/backups', signal);
    state.textContent = (list.since ? `This server can look back to zxid ${list.since}` : 'This server can\'t look back yet') + `; it is at ${list.now}.`;
    render(place, h('p', {class: 'row wrap'}, h('a', {href: atMoment('restore', '/', {})}, 'Restore a subtree'), list.archive && mode.editing() ? button('Back up now', e => act(e.target, 'POST', '/v1/backups', 'The backup is made and verified'), 'main') : null),
      !list.archive ? h('p', {class: 'note'}, 'It knows no archive: ', h('code', {}, 'zkd.archive'), ' is the directory of one, as zkcli backup follow fills it.') : [h('p', {class: 'dim'}, 'In ', h('code', {}, text(list.archive)), ', as this server sees it: ', count(list.backups.length, 'backup'), '.'),
        list.backups.length ? h('div', {class: 'scroll', tabindex: '0'}, h('table', {class: 'list'}, h('thead', {}, h('tr', {}, ['Fetched', 'State of zxid', 'Reaches to', 'Bytes', 'Verified', ...mode.editing() ? ['Action'] : []].map(c => h('th', {}, c)))),
          h('tbody', {}, list.backups.map(row)))) : null]);
  }

  function row(b) {
    const at = Date.parse(b.time);
    return h('tr', {}, h('td', {}, h('time', {datetime: b.time, title: b.name}, moment(at), h('span', {class: 'dim'}, ' · ', utc(at)))), h('td', {class: 'mono'}, b.zxid), h('td', {class: 'mono'}, b.ours ? b.reaches : 'of another history'), h('td', {}, digits(b.bytes)),
      h('td', {}, b.problem ? h('strong', {}, 'Not sound: ', text(b.problem)) : b.verified ? `sound, ${moment(Date.parse(b.verified))}` : 'not by this server'),
      mode.editing() ? h('td', {}, button('Verify', e => act(e.target, 'POST', `/v1/backups/${encodeURIComponent(b.name)}/verify`, 'It was read'))) : null);
  }

  // act sends a request, and reads the list again.
  async function act(pressed, method, url, done) {
    pressed.disabled = true;
    state.textContent = 'At work…';
    try {
      await api.send(method, url, {signal});
      await read();
      state.textContent = `${done}. ${state.textContent}`;
    } catch (e) {
      if (signal.aborted) return;
      pressed.disabled = false;
      state.textContent = '';
      place.prepend(problem(e));
    }
  }
}
