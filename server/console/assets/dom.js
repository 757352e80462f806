// What pages are made of. Text that comes from a server is only ever a text node.

const svgSpace = 'http://www.w3.org/2000/svg';

// h makes an element. Properties are attributes, but for class, on (listeners by their events) and key, which keeps the focus over updates.
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

// svg makes an element of a drawing.
export function svg(tag, props, ...children) {
  return fill(document.createElementNS(svgSpace, tag), props, children);
}

function fill(el, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'on') for (const [event, f] of Object.entries(value)) el.addEventListener(event, f);
    else if (name === 'key') el.dataset.key = value;
    else el.setAttribute(name, value === true ? '' : value);
  }
  el.append(...children.flat(Infinity).filter(c => c !== null && c !== undefined && c !== false));
  return el;
}

// render replaces what an element has. The focus stays on the element of the same key, and so do tables that were scrolled.
export function render(el, ...children) {
  const active = /** @type {HTMLElement} */ (document.activeElement);
  const key = el.contains(active) ? active.dataset.key : undefined;
  const scrolled = [...el.querySelectorAll('.scroll')].map(box => [box.dataset.key, box.scrollLeft]).filter(([, left]) => left > 0);
  el.replaceChildren(...children.flat(Infinity).filter(c => c !== null && c !== undefined && c !== false));
  for (const [of, left] of scrolled) for (const box of el.querySelectorAll('.scroll')) if (box.dataset.key === of) box.scrollLeft = left;
  if (key !== undefined) el.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({preventScroll: true});
}

// Characters that are not to be seen, or that change how others are shown: control, format and bidirectional ones, separators,
// unpaired surrogates, and such that are private or not assigned.
const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}]|[\u00a0\u2000-\u200a\u3000\u115f\u1160\u3164\uffa0]/u;
const hiddenAll = new RegExp(hidden.source, 'gu');

function escaped(c) {
  const n = c.codePointAt(0);
  return c === '\n' ? '\\n' : c === '\t' ? '\\t' : n < 0x10000 ? '\\u' + n.toString(16).padStart(4, '0') : `\\u{${n.toString(16)}}`;
}

// plain is a text with such characters written out.
export const plain = text => text.replace(hiddenAll, escaped);

// text is a text as nodes, with such characters written out and marked. lines keeps the ends of lines and tabs.
export function text(value, lines = false) {
  const out = document.createDocumentFragment();
  let kept = '';
  for (const c of value) {
    if (!hidden.test(c) || lines && (c === '\n' || c === '\t')) {
      kept += c;
      continue;
    }
    out.append(kept, h('span', {class: 'hidden-char', title: 'a character that can\'t be seen'}, escaped(c)));
    kept = '';
  }
  out.append(kept);
  return out;
}

// name is a name, cut in the middle if it is long; the whole is its title.
export function name(value, most = 72) {
  const chars = Array.from(value);
  if (chars.length <= most) return h('bdi', {}, text(value));
  const half = (most - 1) >> 1;
  return h('bdi', {title: plain(value)}, text(chars.slice(0, half).join('')), h('span', {class: 'cut'}, '…'), text(chars.slice(-half).join('')));
}

// link is a link to a page of the console.
export const link = (to, ...children) => h('a', {href: '#' + to, key: to}, ...children);

// address is the URL of a page about a path.
export const address = (page, path) => '/' + page + path.split('/').map(encodeURIComponent).join('/');

// toPath is a link to a node.
export const toPath = (path, most = 72) => h('a', {href: '#' + address('tree', path), key: 'tree' + path, class: 'path'}, name(path, most));

// toSession is a link to a session.
export const toSession = id => h('a', {href: '#/sessions/' + id, key: 'session' + id, class: 'mono'}, id);

/** @type {[number, string][]} */
const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];

// duration is a time in ms in words.
export function duration(ms) {
  let s = Math.max(0, Math.round(ms / 1000));
  if (ms < 1000) return ms < 1 ? '0 s' : Math.round(ms) + ' ms';
  const i = units.findIndex(([n]) => s >= n);
  const [n, unit] = units[i];
  const whole = Math.floor(s / n);
  const next = units[i + 1];
  const rest = next && whole < 10 ? Math.floor((s - whole * n) / next[0]) : 0;
  return `${whole} ${unit}` + (rest ? ` ${rest} ${next[1]}` : '');
}

let zone; // it takes long to make

// moment is a time in the reader's zone; utc is that in UTC.
export const moment = ms => (zone ??= new Intl.DateTimeFormat(undefined, {dateStyle: 'medium', timeStyle: 'medium'})).format(ms);
export const utc = ms => new Date(ms).toISOString().replace('T', ' ').replace(/\.\d+Z/, ' UTC');

// ago says how long ago something was.
export const ago = ms => h('time', {datetime: new Date(ms).toISOString(), title: `${moment(ms)}\n${utc(ms)}`}, duration(Date.now() - ms));

// digits is a number with commas between thousands.
export const digits = n => String(Math.round(n * 1000) / 1000).replace(/\B(?<!\.\d*)(?=(\d{3})+(?!\d))/g, ',');

export const count = (n, one, many = one + 's') => `${digits(n)} ${n === 1 ? one : many}`;

// table is a list with a name. Where the window is narrow it scrolls sideways, with the keyboard too. A column in an array has numbers.
export const table = (label, columns, body, kind = '') => h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label, key: 'table' + label},
  h('table', {class: 'list ' + kind}, h('thead', {}, h('tr', {}, columns.map(c => Array.isArray(c) ? h('th', {class: 'number'}, c[0]) : h('th', {}, c)))), body));

// problem shows an error.
export const problem = e => h('div', {class: 'problem', role: 'alert'}, text(e.message ?? String(e)));
