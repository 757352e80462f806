// Who the reader is: the button that says it, the dialog to sign in and out, and the note when the server asks for it. What is typed in is sent to
// the server once, and not kept.

import {h, render, problem, text, duration, moment, utc} from './dom.js';
import * as api from './api.js';

// identity makes these. changed is called when the reader is somebody else.
export function identity(changed) {
  const button = h('button', {type: 'button', class: 'quiet', 'aria-haspopup': 'dialog', on: {click: open}}, 'anyone');
  const note = h('div', {class: 'ask', role: 'status'});
  const about = h('div', {});
  const failed = h('div', {});
  const ways = h('div', {});
  const out = h('button', {type: 'button', hidden: true, on: {click: () => attempt(() => api.leave())}}, 'Sign out');
  const dialog = h('dialog', {'aria-labelledby': 'identity'}, h('h2', {id: 'identity'}, 'Identity'), about, failed, ways,
    h('div', {class: 'row'}, out, h('button', {type: 'button', on: {click: () => dialog.close()}}, 'Close')));
  dialog.addEventListener('click', e => { if (e.target === dialog) dialog.close(); });
  dialog.addEventListener('close', () => { render(failed); ways.querySelectorAll('input').forEach(i => { i.value = ''; }); });
  let state = /** @type {any} */ ({});
  let reader = ''; // the name of before

  api.onIdentity(now => {
    if (now.refused) {
      offer(now.refused);
      return;
    }
    state = now;
    if (state.name) render(note);
    else if (reader) offer(`The sign-in of ${reader} has ended.`);
    reader = state.name ?? '';
    out.hidden = !state.name;
    label(state.name);
    if (!state.name && location.protocol === 'https:') { // there may be a certificate
      api.whoami().then(({identities}) => { if (!state.name) label(identities.map(i => `${i.scheme}:${i.user}`).find(i => !i.startsWith('ip:'))); }, () => {});
    }
    const kinds = JSON.stringify([state.passwords, state.tokens, state.provider]);
    if (ways.dataset.of === kinds) return;
    ways.dataset.of = kinds;
    render(ways, forms(state));
  });

  function label(name) { render(button, text((name ?? 'anyone').slice(0, 32))); }

  // offer says why one should sign in. The page stays as it is.
  function offer(why) {
    if (note.firstChild) return;
    render(note, h('p', {}, text(why)), h('button', {type: 'button', class: 'main', on: {click: open}}, 'Sign in'),
      h('button', {type: 'button', class: 'quiet', 'aria-label': 'Dismiss', on: {click: () => render(note)}}, '✕'));
  }

  // elsewhere leaves for the provider. Which page this is stays in the browser: see begin.
  async function elsewhere() {
    render(failed);
    try {
      const address = await api.elsewhere();
      sessionStorage.setItem('page', location.hash);
      location.assign(address);
    } catch (e) {
      render(failed, problem(e));
    }
  }

  function forms({passwords, tokens, provider}) {
    const user = h('input', {autocomplete: 'username', spellcheck: 'false', required: true});
    const password = h('input', {type: 'password', autocomplete: 'current-password'});
    const token = h('input', {type: 'password', autocomplete: 'off', spellcheck: 'false', required: true});
    const form = (name, proof, ...fields) => h('form', {class: 'identity', 'aria-label': name, on: {submit: e => { e.preventDefault(); attempt(() => api.enter(proof()), true); }}}, fields,
      h('button', {class: 'main'}, 'Sign in'));
    return [
      provider && h('p', {}, h('button', {type: 'button', class: 'main', on: {click: elsewhere}}, 'Sign in at ', text(provider))),
      passwords && form('With a password', () => ({user: user.value, password: password.value}), h('label', {}, 'User', user), h('label', {}, 'Password', password)),
      tokens && form('With a token', () => ({token: token.value}), h('label', {}, 'Token (JWT)', token)),
      location.protocol !== 'https:' && h('p', {class: 'dim'}, 'This page has no TLS: everybody on the way can read what you send, unless the server is this machine.'),
    ];
  }

  async function attempt(f, closes) {
    render(failed);
    try {
      await f();
      render(note);
      if (closes) dialog.close();
      else describe();
      changed();
    } catch (e) {
      render(failed, problem(e));
    }
  }

  async function describe() {
    let known = [];
    try { known = (await api.whoami()).identities; } catch (e) { render(failed, problem(e)); }
    render(about,
      h('p', {}, 'The server knows you as ', known.length ? known.map((i, n) => [n ? ', ' : '', h('code', {}, text(`${i.scheme}:${i.user}`))]) : 'nobody', '.'),
      state.name && h('p', {class: 'dim'}, `Signed in for ${duration(Date.now() - state.since)}, until `, h('time', {datetime: new Date(state.until).toISOString(), title: utc(state.until)}, moment(state.until)),
        `, or ${duration(state.idleMs)} without a request. Signing out ends it on the server.`));
  }

  function open() {
    describe();
    dialog.showModal();
    ways.querySelector('button, input')?.focus();
  }

  // begin asks who the reader is, and first goes to the page from which they have left to sign in. Without an answer they are a visitor.
  async function begin() {
    try {
      const page = sessionStorage.getItem('page');
      sessionStorage.removeItem('page');
      if (page?.startsWith('#/') && !location.hash) history.replaceState(null, '', page);
    } catch { /* nothing is kept */ }
    await api.identity().catch(() => {});
  }

  return {button, note, dialog, begin};
}
