// A moment of the past: in the URL, in words, and in a form.

import {h, render, digits, duration, address, problem, moment, utc} from './dom.js';
import * as api from './api.js';
import {asked, button, get} from './operate.js';

// momentOf is the moment that the URL asks for, {zxid} or {at}; undefined for the present.
export function momentOf() {
  const {zxid, at} = Object.fromEntries(asked());
  return zxid ? {zxid} : at ? {at} : undefined;
}

// atMoment is the address of a page about a node at a moment.
export const atMoment = (page, path, when) => '#' + address(page, path) + api.query(when ?? {});

// worded says which moment it is.
export const worded = ({zxid, at}) => zxid ? ['after zxid ', h('span', {class: 'mono'}, zxid)] : isNaN(Date.parse(at)) ? at : ['at ', h('time', {datetime: at}, moment(Date.parse(at))), ` · ${utc(Date.parse(at))}`];

// localOf is a time as the field has it, in the reader's zone.
const localOf = ms => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19);

// chooser is a form for a moment: show is called with it. It says how far back the server goes.
export function chooser(when, verb, show, signal) {
  const at = Date.parse(when?.at), far = h('span', {class: 'dim small', role: 'status'});
  const local = h('input', {type: 'datetime-local', step: '1', value: at ? localOf(at) : undefined});
  const zxid = h('input', {type: 'text', autocomplete: 'off', spellcheck: 'false', value: when?.zxid, pattern: '(0x)?[0-9a-fA-F]{1,15}', placeholder: '0x1000000a2'});
  get('/v1/overview', signal).then(({past: p}) => render(far, p.ageMs ? `This server goes back ${duration(p.ageMs)}, to zxid ${p.zxid}, with ${digits(Math.ceil(p.bytes / 2 ** 20))} MiB.` + (p.cut ? ' zkd.historyKb has no room for more.' : '') : 'This server knows no past yet.'), e => { if (!signal.aborted) render(far, problem(e)); });
  return [h('form', {class: 'row wrap', on: {submit: e => { e.preventDefault(); if (zxid.value || local.value) show(zxid.value ? {zxid: zxid.value} : {at: new Date(local.value).toISOString()}); }}},
    h('label', {}, 'As it was at ', local), h('label', {}, 'or after zxid ', zxid), h('button', {class: when ? '' : 'main'}, verb)),
  h('p', {class: 'row wrap'}, [[1, 'a minute ago'], [10, 'ten minutes ago'], [60, 'an hour ago'], [1440, 'a day ago']].map(([minutes, label]) => button(label, () => show({at: new Date(Date.now() - Number(minutes) * 60_000).toISOString()}), 'quiet')), far)];
}

// asOf is the form, which opens when it is wanted.
export function asOf(path, when, signal) {
  const place = h('div'), open = h('details', {class: 'asof', on: {toggle: () => { if (open.open && !place.firstChild) render(place, chooser(when, 'Show', to => { location.hash = atMoment('tree', path, to); }, signal)); }}},
    h('summary', {}, when ? 'Another moment…' : 'As it was…'), place);
  return open;
}

// band marks what is shown as the past.
export const band = (path, when, signal) => h('section', {class: 'then', 'aria-label': 'The past'}, h('p', {class: 'row wrap'}, h('strong', {}, 'The past'), h('span', {}, 'as it was ', worded(when), '. Read-only.'),
  h('a', {href: atMoment('restore', path, when)}, 'Changes since then, and restore'), h('a', {href: '#' + address('tree', path)}, 'Back to now')), asOf(path, when, signal));
