// Search: the server reads a subtree at one zxid, and sends the nodes whose names and data match. It ends when nobody waits for it.

import {h, digits, render, table, address, toPath, ago, count, problem} from './dom.js';
import * as api from './api.js';
import {asked} from './operate.js';

const most = 1000; // results

export function search(main, path, signal) {
  const query = asked();
  const input = (label, value, hint) => h('input', {value, placeholder: hint, 'aria-label': label, spellcheck: 'false', autocomplete: 'off', maxlength: label === 'Below' ? 4096 : 256});
  const below = input('Below', path, '/'), byName = input('Name', query.get('name') ?? '', 'such as ^lock-'), byData = input('Data', query.get('data') ?? '', 'such as "port":\\s*22');
  const place = h('div'), list = h('tbody', {}), said = h('span', {role: 'status', class: 'dim'}), cancel = h('button', {type: 'button', hidden: true}, 'Cancel');
  const results = table('Nodes found', ['Node', ['Bytes'], ['Children'], 'Changed'], list);
  results.hidden = true;
  render(main, h('div', {class: 'page'}, h('h1', {}, 'Search'),
    h('form', {class: 'asked', on: {submit: e => {
      e.preventDefault();
      const root = ('/' + below.value).replace(/^\/+/, '/').replace(/(.)\/+$/, '$1');
      const to = '#' + address('search', root) + api.query({name: byName.value, data: byData.value});
      if (location.hash === to) dispatchEvent(new HashChangeEvent('hashchange'));
      else location.hash = to;
    }}}, h('label', {}, 'Below', below), h('label', {}, 'Name matches', byName), h('label', {}, 'Data matches', byData), h('button', {class: 'main'}, 'Search')),
    h('p', {class: 'dim small'}, 'Regular expressions (RE2) for a part of the name, the last one of a path, and for a part of the data. What you may not read is not found.'),
    h('p', {class: 'row'}, cancel, said), place,
    results));
  if (query.get('name') || query.get('data')) find();
  else byName.focus({preventScroll: true});
  return {search(value, done) { byName.value = value; if (done) byName.form.requestSubmit(); }, show: (path, signal) => search(main, path, signal)};

  async function find() {
    const stop = new AbortController();
    signal.addEventListener('abort', () => stop.abort());
    cancel.hidden = false;
    cancel.addEventListener('click', () => stop.abort());
    let found = 0, searched = 0;
    const tell = end => { said.textContent = `${count(searched, 'node')} searched, ${digits(found)} found${end}`; };
    tell('…');
    try {
      const r = await api.read('/v1/search/' + api.inURL(path) + api.query({name: query.get('name') ?? '', data: query.get('data') ?? '', limit: most}), stop.signal);
      await api.lines(r, row => {
        if (row.searched !== undefined) searched = row.searched;
        if (row.stat) {
          found++;
          const at = path === '/' ? row.name || '/' : path + (row.name === '/' ? '' : row.name);
          list.append(h('tr', {}, h('td', {}, toPath(at, 100)), h('td', {class: 'number'}, digits(row.stat.dataLength)), h('td', {class: 'number'}, digits(row.stat.numChildren)), h('td', {}, ago(row.stat.mtime), ' ago')));
          results.hidden = false;
        }
        tell('…');
      });
      tell(found === most ? `. These are the first ${digits(most)}: search below a node, or for less.` : '.');
    } catch (e) {
      if (signal.aborted) return;
      tell(stop.signal.aborted ? '. Cancelled.' : '. The search broke off.');
      if (!stop.signal.aborted) render(place, problem(e));
    }
    cancel.hidden = true;
  }
}
