// The frame of all pages: the head, the keys, and which page a URL is about.

import {h, render, problem} from './dom.js';
import {identity} from './identity.js';
import {overview} from './overview.js';
import * as api from './api.js';
import {mode} from './api.js';

const titles = {overview: 'Overview', tree: 'Tree', coordination: 'Coordination', sessions: 'Sessions', live: 'Live', search: 'Search',
  ...!mode.fixed && {members: 'Members', limits: 'Limits', configuration: 'Config', audit: 'Audit', backups: 'Backups'}}; // what only a server has
const others = {done: 'Done here', history: 'History', ...!mode.fixed && {restore: 'Restore'}}; // not in the navigation
let pages = {overview}; // the others come after it

// load gets the others, all their modules at once.
async function load() {
  for (const url of document.documentElement.dataset.rest.trim().split(' ')) document.head.append(h('link', {rel: 'modulepreload', href: url}));
  pages = {overview, ...await import('./pages.js')};
}


const main = h('main', {id: 'main', tabindex: '-1'});
const nav = h('nav', {'aria-label': 'Pages'}, Object.entries(titles).map(([page, title]) => h('a', {href: '#/' + page, 'data-page': page}, title)));
const field = h('input', {type: 'search', id: 'search', placeholder: '/path or a name', 'aria-label': 'Go to a path, or search on this page', autocomplete: 'off', spellcheck: 'false', maxlength: '4096'});
const who = identity(show);
const edit = h('button', {type: 'button', class: 'quiet mode', hidden: mode.fixed, title: 'Editing on and off (e)', on: {click: () => mode.edit(!mode.editing())}}, 'Read-only');
const help = dialog('Keys', h('table', {class: 'keys'}, [
  ['/', 'search on this page, or type a path'], ['g', 'go to a path'], ['↑ ↓', 'to the next row'], ['→ ←', 'open and close a node'], ['Enter', 'show'],
  ['1 – 9', 'to a page'], ['s', 'search all nodes'], ['e', 'editing on and off'], ['Esc', 'leave a form, then editing'], ['t', 'theme'], ['?', 'this list'],
].map(([key, does]) => h('tr', {}, h('td', {}, h('kbd', {}, key)), h('td', {}, does)))));

document.body.append(
  h('a', {href: '#main', class: 'skip', on: {click: e => { e.preventDefault(); main.focus(); }}}, 'To the content'),
  h('header', {}, h('a', {class: 'brand', href: '#/overview'}, 'zkd'), nav,
    h('form', {role: 'search', on: {submit: e => { e.preventDefault(); search(field.value, true); }}}, field), h('div', {class: 'tools'}, edit, who.button,
      h('button', {type: 'button', class: 'quiet', 'aria-label': 'Theme', title: 'Theme (t)', on: {click: switchTheme}}, '◐'),
      h('button', {type: 'button', class: 'quiet', 'aria-label': 'Keys', title: 'Keys (?)', on: {click: () => help.showModal()}}, '?'))),
  who.note, main, help, who.dialog);

function dialog(title, ...children) {
  const d = h('dialog', {'aria-label': title}, h('h2', {}, title), children, h('form', {method: 'dialog'}, h('button', {}, 'Close')));
  d.addEventListener('click', e => { if (e.target === d) d.close(); });
  return d;
}

// A writing console looks different, and its pages are drawn again.
mode.onchange(editing => {
  render(edit, editing ? 'Editing' : 'Read-only');
  edit.setAttribute('aria-pressed', String(editing));
  document.documentElement.toggleAttribute('data-editing', editing);
  show();
});

function switchTheme() {
  const dark = (document.documentElement.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';
  setTheme(dark ? 'light' : 'dark');
}

function setTheme(theme) {
  if (theme !== 'dark' && theme !== 'light') return;
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem('theme', theme); } catch { /* it is not kept then */ }
}

try { setTheme(localStorage.getItem('theme')); } catch { /* none is kept */ }

// search goes to a path, or has the page search for a text. done: the field was left by Enter.
function search(value, done) {
  if (value.startsWith('/')) {
    if (done) {
      location.hash = '/tree' + value.replace(/(.)\/+$/, '$1').split('/').map(encodeURIComponent).join('/');
      field.value = '';
      main.focus();
    }
    return;
  }
  if (current?.search) current.search(value, done);
  else if (done && value) location.hash = '/search/?name=' + encodeURIComponent(value);
}
field.addEventListener('input', () => search(field.value, false));

let current; // the page: {search, keydown}
let leave = new AbortController();

// show shows the page of the URL.
function show() {
  leave.abort();
  leave = new AbortController();
  const [, page, rest] = location.hash.match(/^#\/([a-z]+)(\/[^?]*)?/) ?? [null, 'overview', ''];
  const title = [titles, others].find(some => Object.hasOwn(some, page))?.[page];
  if (!title) {
    location.hash = '/overview';
    return;
  }
  let path = '/';
  try { path = (rest || '/').split('/').map(decodeURIComponent).join('/').replace(/(.)\/$/, '$1'); } catch { /* it is no path of ours */ }
  for (const a of nav.children) {
    if (a.dataset.page === page) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  document.title = `${title} – zkd`;
  field.value = '';
  if (main.dataset.page !== page) {
    main.dataset.page = page;
    main.replaceChildren();
    current = undefined;
  }
  if (!pages[page]) {
    const {signal} = leave;
    render(main, h('p', {class: 'dim page'}, 'Looking…'));
    load().then(() => { if (!signal.aborted) show(); }, () => render(main, problem(new Error('The server has no such page any more, or does not answer. Load this one again.'))));
    return;
  }
  try {
    if (current?.show) current = current.show(path, leave.signal) ?? current; // the page knows what it has
    else current = pages[page](main, path, leave.signal);
  } catch (e) {
    render(main, problem(e));
  }
}

addEventListener('hashchange', show);

addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
  if (/** @type {Element} */ (e.target).matches('input, textarea, select')) {
    if (e.key === 'Escape') { field.value = ''; search('', false); main.focus(); }
    return;
  }
  const number = Number(e.key);
  if (e.key === '/') field.focus();
  else if (e.key === 'g') { field.focus(); field.value = '/'; }
  else if (e.key === '?') help.showModal();
  else if (e.key === 't') switchTheme();
  else if (e.key === 's') location.hash = '/search';
  else if (e.key === 'e') mode.edit(!mode.editing());
  else if (number >= 1 && number <= nav.children.length) location.hash = '/' + nav.children[number - 1].dataset.page;
  else if (current?.keydown?.(e)) { /* it is the page's */ }
  else if (e.key === 'Escape' && location.hash.includes('?do=')) location.hash = location.hash.replace(/\?.*/, '');
  else if (e.key === 'Escape' && mode.editing()) mode.edit(false);
  else return;
  e.preventDefault();
});

who.begin();
show();
api.first.then(() => setTimeout(() => load().catch(() => {}), 50)); // it is tried again when it is needed
