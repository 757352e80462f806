// The configuration of this server: each key, its value, where that comes from, and its change while the server runs.

import {h, render, table, text, problem, count} from './dom.js';
import {mode} from './api.js';
import {get, asked, go, button, change} from './operate.js';

export function configuration(main, _, signal) {
  const list = h('div'), panel = h('div');
  const all = h('input', {type: 'checkbox', on: {change: () => draw()}});
  const only = h('input', {type: 'checkbox', on: {change: () => draw()}});
  let words = '';
  let known = null;
  render(main, h('div', {class: 'page'}, h('h1', {}, 'Configuration'), panel,
    h('p', {class: 'row wrap'}, h('label', {}, all, ' with those at their defaults'), h('label', {}, only, ' only what can change while the server runs'), h('span', {class: 'dim small'}, 'The field at the top filters.')), list));

  async function load() {
    try {
      known = await get('/v1/configuration', signal);
    } catch (e) {
      if (!signal.aborted) render(list, problem(e));
      return;
    }
    draw();
    begin();
  }

  const leave = () => go('configuration');

  function begin() {
    const q = asked(), key = q.get('key');
    if (!key) { render(panel); return; }
    const s = known.settings.find(s => s.key === key);
    if (!s?.live && !(key.startsWith('zkd.limit.') && q.has('do'))) { render(panel, h('p', {class: 'problem'}, text(`${key} can't change while the server runs.`)), button('Leave', leave)); return; }
    const value = q.get('to');
    if (value !== null || q.get('do') === 'unset') {
      change(panel, {key, was: s?.value ?? '', value: q.get('do') === 'unset' ? null : value, signal, leave, done: () => { leave(); load(); }});
      return;
    }
    const field = h('input', {autocomplete: 'off', spellcheck: 'false', value: s.value, size: '50'});
    render(panel, h('section', {class: 'panel', 'aria-label': key}, h('h2', {class: 'mono'}, text(key)), h('p', {}, text(s.doc)), h('p', {class: 'dim'}, text(`Allowed: ${s.allowed}${s.unit ? `, in ${s.unit}` : ''}. Default: ${s.default || 'none'}.`)),
      h('form', {class: 'row wrap', on: {submit: e => { e.preventDefault(); go('configuration', {key, do: 'set', to: field.value || ' '}); }}},
        h('label', {class: 'field'}, h('span', {}, 'Value'), field), h('button', {class: 'main'}, 'Show the difference'), button('Back to the file\'s value', () => go('configuration', {key, do: 'unset'})), button('Leave', leave, 'quiet'))));
    field.focus();
  }

  function draw() {
    if (!known) return;
    const shown = known.settings.filter(s => (all.checked || words || s.from !== 'default') && (!only.checked || s.live) && (s.key + ' ' + s.value + ' ' + s.doc).toLowerCase().includes(words));
    render(list, h('p', {class: 'dim'}, `${count(shown.length, 'key')} of ${known.settings.length}, of ${known.self ? `server ${known.self}` : 'this server'}. Other servers have their own.`),
      table('Keys', ['Key', 'Value', 'From', 'While it runs'],
        h('tbody', {}, shown.map(s => h('tr', {}, h('td', {class: 'mono'}, h('span', {title: s.doc}, text(s.key))),
          h('td', {class: 'mono value'}, text(s.value), s.unit && s.value ? h('span', {class: 'dim'}, ' ' + s.unit) : null),
          h('td', {class: s.from === 'default' ? 'dim' : ''}, text(s.from)),
          h('td', {}, s.live ? mode.editing() ? h('a', {class: 'act', key: s.key, href: '#/configuration?key=' + encodeURIComponent(s.key)}, 'Change') : 'can change' : h('span', {class: 'dim'}, 'needs a restart'))))), 'wide'));
  }

  load();
  return {search(value) { words = value.toLowerCase(); draw(); }};
}
