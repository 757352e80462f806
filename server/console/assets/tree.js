// The tree, as a list of rows of which only those in sight are in the page, and the node that is chosen.

import {h, digits, render, text, name, problem, count, plain} from './dom.js';
import * as api from './api.js';
import {node} from './node.js';
import {parentOf} from './plan.js';
import {atMoment, band, momentOf} from './moment.js';

const rowHeight = 26;
const pageSize = 500;
const pagesKept = 20; // of the children of a node; the others are asked for again when they come in sight

const below = (path, child) => (path === '/' ? '' : path) + '/' + child;

export function tree(main, path, signal) {
  const root = branch('/', '/', null, -1), when = momentOf();
  let rows = [];       // what is shown: branches, pages that were dropped, and signs
  let chosen = path;   // the path of the URL
  let focus = 0;       // the index of the row that keys are about
  const life = new AbortController(); // as long as this page of the console is there

  const sizer = h('div', {class: 'sizer', role: 'rowgroup'});
  const box = h('div', {class: 'rows', role: 'treegrid', 'aria-label': 'Nodes', tabindex: '0', on: {scroll: () => requestAnimationFrame(draw)}}, sizer);
  const jump = h('input', {type: 'search', placeholder: 'jump to a name', 'aria-label': 'Jump to a name among the children of the chosen node', spellcheck: 'false', autocomplete: 'off'});
  const tell = h('span', {class: 'dim small', role: 'status'});
  const detail = h('section', {class: 'detail', 'aria-label': 'Node'}), top = h('div');
  render(main, h('div', {class: when ? 'split past' : 'split'}, when ? top : null, h('section', {class: 'side', 'aria-label': 'Tree'}, h('div', {class: 'bar'}, jump, tell, h('button', {type: 'button', class: 'quiet', title: 'Read again', 'aria-label': 'Read again', on: {click: () => refresh()}}, '↻')), box), detail));
  let typing;
  jump.addEventListener('input', () => { clearTimeout(typing); typing = setTimeout(() => jumpTo(jump.value), 250); });
  new ResizeObserver(() => draw()).observe(box);

  // branch is a node in the tree. Its pages of children are {after, list}; list is null if it was dropped.
  function branch(path, name, stat, depth) { return {path, name, stat, depth, open: false, pages: [], more: false, failed: null, loading: false, from: ''}; }

  async function load(b, i) {
    if (b.loading) return;
    b.loading = true;
    const page = b.pages[i] ?? {after: i ? b.pages[i - 1].last : b.from, list: null, count: 0};
    try {
      const got = await api.children(b.path, page.after, life.signal, when);
      const known = new Map((page.old ?? page.list ?? []).map(c => [c.name, c]));
      page.list = got.children.map(c => {
        const child = known.get(c.name) ?? branch(below(b.path, c.name), c.name, c.stat, b.depth + 1);
        child.stat = c.stat;
        child.forbidden = c.error === 'NOAUTH';
        return child;
      });
      page.old = null;
      page.last = page.list.at(-1)?.name ?? page.after;
      page.count = page.list.length;
      b.pages[i] = page;
      if (i === b.pages.length - 1) b.more = got.more;
      b.stat = got.stat;
      b.failed = null;
      drop(b, i);
    } catch (e) {
      if (life.signal.aborted) return;
      b.failed = e;
    } finally {
      b.loading = false;
    }
    flatten();
  }

  // drop forgets the pages that are far from one, unless a node in them is open.
  function drop(b, near) {
    b.pages.forEach((p, i) => {
      if (p.list && Math.abs(i - near) > pagesKept / 2 && b.pages.length > pagesKept && !p.list.some(c => c.open)) p.list = null;
    });
  }

  function flatten() {
    const at = rows[focus];
    rows = [];
    const walk = b => {
      rows.push(b);
      if (!b.open) return;
      if (b.from) rows.push({sign: 'earlier', of: b});
      b.pages.forEach((p, i) => {
        if (p.list) p.list.forEach(walk);
        else for (let n = 0; n < p.count; n++) rows.push({sign: 'dropped', of: b, page: i});
      });
      if (b.failed) rows.push({sign: 'failed', of: b});
      else if (b.more || b.loading || !b.pages.length) rows.push({sign: 'more', of: b});
    };
    walk(root);
    const same = rows.indexOf(at);
    focus = same >= 0 ? same : Math.min(focus, rows.length - 1);
    sizer.style.height = rows.length * rowHeight + 'px';
    box.setAttribute('aria-rowcount', String(rows.length));
    draw();
  }

  // draw puts the rows in sight into the page, and asks for what they lack.
  function draw() {
    const first = Math.max(0, Math.floor(box.scrollTop / rowHeight) - 8);
    const last = Math.min(rows.length, first + Math.ceil(box.clientHeight / rowHeight) + 16);
    const out = [];
    for (let i = first; i < last; i++) out.push(line(rows[i], i));
    sizer.replaceChildren(...out);
    box.setAttribute('aria-activedescendant', 'row' + focus);
    for (let i = first; i < last; i++) {
      const r = rows[i];
      if (r.sign === 'dropped') { load(r.of, r.page); break; }
      if (r.sign === 'more' && !r.of.loading) { load(r.of, r.of.pages.length); break; }
    }
  }

  function line(r, i) {
    const el = h('div', {class: 'row', role: 'row', id: 'row' + i, 'aria-rowindex': String(i + 1)});
    el.style.transform = `translateY(${i * rowHeight}px)`;
    el.style.paddingInlineStart = 8 + 14 * Math.min((r.sign ? r.of.depth + 1 : r.depth) + 1, 24) + 'px';
    if (i === focus) el.classList.add('focus');
    if (r.sign) {
      el.classList.add('sign');
      el.append(h('span', {role: 'gridcell'}, r.sign === 'failed' ? text(r.of.failed.message) : r.sign === 'earlier' ? 'earlier names…' : 'reading…'));
      el.addEventListener('click', () => { if (r.sign === 'failed') { r.of.failed = null; flatten(); } if (r.sign === 'earlier') restart(r.of, ''); });
      return el;
    }
    const children = r.stat?.numChildren ?? 0;
    el.setAttribute('aria-level', String(r.depth + 2));
    el.setAttribute('aria-selected', String(r.path === chosen));
    if (children || r.path === '/') el.setAttribute('aria-expanded', String(r.open));
    const ephemeral = r.stat && r.stat.ephemeralOwner !== '0x0';
    el.append(h('span', {class: 'twist', 'aria-hidden': 'true', on: {click: e => { e.stopPropagation(); focus = i; toggle(r); }}}, children || r.path === '/' ? (r.open ? '▾' : '▸') : ''),
      h('span', {class: 'name' + (ephemeral ? ' ephemeral' : '') + (r.forbidden ? ' dim' : ''), role: 'gridcell', title: ephemeral ? 'ephemeral' : r.forbidden ? 'you may not read it' : undefined}, name(r.name, 60)),
      h('span', {class: 'figure', role: 'gridcell', title: count(children, 'child', 'children')}, children ? digits(children) : ''));
    el.addEventListener('click', () => { focus = i; choose(r); });
    el.addEventListener('dblclick', () => toggle(r));
    return el;
  }

  function toggle(b, open = !b.open) {
    b.open = open;
    if (open && !b.pages.length) load(b, 0);
    flatten();
  }

  function choose(b) {
    const to = atMoment('tree', b.path, when);
    if (location.hash !== to) location.hash = to;
    else draw();
  }

  // restart shows the children of a node from a name on.
  async function restart(b, from) {
    while (b.loading) await new Promise(r => setTimeout(r, 20));
    Object.assign(b, {pages: [], more: false, failed: null, from: '', open: true});
    if (from) {
      const at = below(b.path, from), stat = await (when ? api.former(at, when, life.signal).then(n => n.stat) : api.stat(at, life.signal)).catch(() => null);
      b.from = from;
      if (stat) b.pages.push({after: '', last: from, count: 1, list: [branch(at, from, stat, b.depth + 1)]});
    }
    await load(b, b.pages.length);
  }

  // find opens a node's ancestors, and returns the node.
  async function find(path) {
    let b = root;
    if (!b.open) { b.open = true; await load(b, 0); }
    for (const part of path === '/' ? [] : path.slice(1).split('/')) {
      const look = () => { for (const p of b.pages) { const c = p.list?.find(c => c.name === part); if (c) return c; } };
      if (!b.open || !b.pages.length) { b.open = true; if (!b.pages.length) await load(b, 0); }
      let next = look();
      if (!next && (b.more || b.from || b.pages.some(p => !p.list))) {
        await restart(b, part);
        next = look();
      }
      if (!next) return null;
      b = next;
    }
    return b;
  }

  async function jumpTo(value) {
    const b = await find(chosen);
    if (!b) return;
    const at = b.stat && b.stat.numChildren === 0 && b.path !== '/' ? await find(parentOf(b.path)) : b;
    await restart(at, value);
    tell.textContent = value ? `names from “${plain(value)}” on` : '';
    const i = rows.indexOf(at);
    if (i >= 0) { focus = Math.min(i + (value ? 2 : 1), rows.length - 1); box.scrollTop = Math.max(0, i * rowHeight); draw(); }
  }

  async function refresh() {
    await reload();
    shown?.again();
  }

  // reload reads the rows again that there are.
  async function reload() {
    const again = [];
    const walk = b => { if (b.open) b.pages.forEach((p, i) => { if (p.list) { p.old = p.list; again.push([b, i]); p.list.forEach(walk); } }); };
    walk(root);
    for (const [b, i] of again.slice(0, 40)) await load(b, i);
  }

  let shown;
  async function show(path, signal) {
    signal.addEventListener('abort', () => { if (!location.hash.startsWith('#/tree')) life.abort(); });
    chosen = path;
    if (when) render(top, band(path, when, signal));
    shown = node(detail, path, signal, reload, when);
    const b = await find(path);
    if (signal.aborted) return;
    if (b) {
      if (b.stat?.numChildren && !b.open && path !== '/' && !touched) toggle(b, true);
      focus = rows.indexOf(b);
      const top = focus * rowHeight;
      if (top < box.scrollTop || top > box.scrollTop + box.clientHeight - rowHeight) box.scrollTop = Math.max(0, top - box.clientHeight / 3);
    }
    draw();
  }
  let touched = false;
  show(path, signal).catch(e => render(detail, problem(e)));

  return {
    show(path, signal) {
      if (String(api.query(momentOf() ?? {})) !== String(api.query(when ?? {}))) { life.abort(); return tree(main, path, signal); }
      touched = true;
      show(path, signal);
    },
    search(value, done) { jump.value = value; if (done) jumpTo(value); },
    keydown(e) {
      const r = rows[focus];
      const go = i => { focus = Math.max(0, Math.min(rows.length - 1, i)); const y = focus * rowHeight; if (y < box.scrollTop) box.scrollTop = y; if (y + rowHeight > box.scrollTop + box.clientHeight) box.scrollTop = y + rowHeight - box.clientHeight; draw(); };
      const screen = Math.max(1, Math.floor(box.clientHeight / rowHeight) - 1);
      switch (e.key) {
        case 'ArrowDown': go(focus + 1); break;
        case 'ArrowUp': go(focus - 1); break;
        case 'PageDown': go(focus + screen); break;
        case 'PageUp': go(focus - screen); break;
        case 'Home': go(0); break;
        case 'End': go(rows.length - 1); break;
        case 'ArrowRight': if (r && !r.sign && r.stat?.numChildren !== 0) { if (r.open) go(focus + 1); else toggle(r, true); } break;
        case 'ArrowLeft': if (r && !r.sign && r.open) toggle(r, false); else if (r) { const up = r.sign ? r.of : rows.find(b => b.path === parentOf(r.path)); if (up) go(rows.indexOf(up)); } break;
        case 'Enter': if (r && !r.sign && e.target.closest('.split .detail') === null && !e.target.matches('a, button')) choose(r); else return false; break;
        default: return false;
      }
      return true;
    },
  };
}
