// What the pages of operators share: an action is planned by a dry run, the plan is shown, and then it is done.

import {h, render, text, problem} from './dom.js';
import * as api from './api.js';
import {mode} from './api.js';

export const get = async (url, signal) => (await api.read(url, signal)).json();

export const button = (label, click, kind = '') => h('button', {type: 'button', class: kind, on: {click}}, label);

// asked returns what the URL asks for: do, and what it is about.
export const asked = () => new URLSearchParams(location.hash.split('?')[1] ?? '');

// go changes the URL of a page.
export const go = (page, query = {}) => { location.hash = '/' + page + api.query(query); };

// act shows the plan of an action in place. request(dry) returns {method, url, body} of the dry run and of the action itself; shown(answer) is what
// the plan says, verb what the button does; done(answer) is called with the answer of the action. leave ends it.
/** @type {(place: any, of: {title: string, request: any, shown: any, verb: string, danger?: any, changes?: (plan: any) => boolean, done: any, leave: any, signal: AbortSignal}) => Promise<void>} */
export async function act(place, {title, request, shown, verb, danger, changes = () => true, done, leave, signal}) {
  const close = h('p', {class: 'row'}, button('Leave', leave, 'quiet'));
  const frame = (...children) => render(place, h('section', {class: 'panel', 'aria-label': title}, h('h2', {}, text(title)), children));
  if (!mode.editing()) {
    frame(h('p', {class: 'note'}, 'This page only reads. ', button('Switch editing on', () => mode.edit(true))), close);
    return;
  }
  frame(h('p', {class: 'dim', role: 'status'}, 'Asking what would change…'));
  let plan;
  try {
    plan = await send(request(null), signal);
  } catch (e) {
    if (!signal.aborted) frame(problem(e), close);
    return;
  }
  if (!changes(plan)) {
    frame(shown(plan), h('p', {class: 'note'}, 'There is nothing to do.'), close);
    return;
  }
  const start = h('button', {class: danger?.(plan) ? 'main danger' : 'main'}, verb);
  const state = h('div', {role: 'status'});
  frame(shown(plan), h('form', {class: 'row wrap', on: {submit: async e => {
    e.preventDefault();
    start.disabled = true;
    const began = Date.now();
    const clock = setInterval(() => render(state, h('p', {class: 'dim'}, `Under way for ${Math.round((Date.now() - began) / 1000)} s…`)), 1000);
    try {
      const answer = await send(request(plan), signal);
      clearInterval(clock);
      done(answer);
    } catch (err) {
      clearInterval(clock);
      if (!signal.aborted) render(state, problem(err), err.status === 0 || err.code === 'CONNECTIONLOSS' ? h('p', {class: 'note'}, 'What became of it is not known: look before you try again.') : null, button('Plan again', () => act(place, {title, request, shown, verb, danger, changes, done, leave, signal})));
    }
  }}}, start, button('Leave', leave, 'quiet')), state);
  start.focus();
}

const send = async ({method, url, body}, signal) => {
  const r = await api.send(method, url, {body, signal});
  return r.status === 204 ? {} : r.json();
};

// said shows lists of sentences.
export const said = (list, kind) => list.length ? h('ul', {class: kind}, list.map(s => h('li', {}, text(s)))) : null;

// difference shows an old and a new value.
export const difference = (before, after) => h('div', {class: 'scroll'}, h('table', {class: 'diff'}, h('thead', {}, h('tr', {}, h('th', {}, 'Now'), h('th', {}, 'Then'))),
  h('tbody', {}, h('tr', {}, h('td', {class: before === null ? 'none' : 'old'}, before === null ? '' : [h('span', {class: 'sign'}, '−'), text(before)]),
    h('td', {class: after === null ? 'none' : 'new'}, after === null ? '' : [h('span', {class: 'sign'}, '+'), text(after)])))));

// change has a key of the configuration set, or unset if value is null. was is the value now.
export function change(place, {key, was, value, done, leave, signal}) {
  const url = '/v1/configuration/' + encodeURIComponent(key);
  return act(place, {
    title: value === null ? `Unset ${key}` : `Set ${key}`, verb: value === null ? 'Unset' : 'Set', signal, done, leave,
    request: plan => ({method: value === null ? 'DELETE' : 'PUT', url: url + api.query({'dry-run': plan ? undefined : 'true'}) + (plan ? '?' : '&') + 'was=' + encodeURIComponent(was), body: value === null ? undefined : new TextEncoder().encode(value)}),
    changes: plan => plan.changes.length > 0,
    shown: plan => [plan.changes.map(line => {
      const [, after, before] = line.slice(key.length + 1).match(/^(.*) \(was (.*)\)$/s) ?? [null, line, ''];
      return difference(before === '' ? null : `${key}=${before}`, after === '' ? null : `${key}=${after}`);
    }), said(plan.warnings, 'note list'), h('p', {class: 'dim small'}, 'This server has it until it restarts, or reads its file again. The file stays as it is, and so do the other servers.')],
  });
}
