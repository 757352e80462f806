// The members: their roles, what one more failure means, and their changes.

import {h, digits, render, table, text, problem, count} from './dom.js';
import * as api from './api.js';
import {mode} from './api.js';
import {get, act, asked, go, button, said} from './operate.js';

export function members(main, _, signal) {
  const list = h('div'), panel = h('div'), place = h('div', {class: 'page'}, h('h1', {}, 'Members'), list, panel);
  render(main, place);
  let present = null;
  async function look() {
    let known, state;
    try {
      known = await get('/v1/members', signal);
      state = await api.ensemble(signal).catch(e => ({members: [], problem: e}));
    } catch (e) {
      if (!signal.aborted) render(list, problem(e));
      return;
    }
    const first = !present;
    present = {known, state};
    render(list, roster(known, state));
    if (first) begin(); // a change of the URL draws the page again
  }
  api.every(4000, signal, look);

  const leave = () => go('members');
  const done = what => { go('members', {done: what}); look(); };

  // begin shows what the URL asks for.
  function begin() {
    const q = asked();
    if (q.get('done')) render(panel, h('p', {class: 'note', role: 'status'}, text(q.get('done'))));
    else if (Object.hasOwn(actions, q.get('do') ?? '')) actions[q.get('do')](Number(q.get('id')) || present.known.self, q);
    else if (mode.editing()) render(panel, forms());
    else render(panel, h('p', {class: 'dim'}, 'To change something, switch editing on (e).'));
  }

  const changing = (action, servers, title, verb, group) => {
    let version;
    return act(panel, {title, verb, signal, leave,
      request: plan => {
        if (plan) version = plan.version;
        return {method: 'POST', url: '/v1/members' + api.query(plan ? {version, force: 'true', timeout: 120000} : {'dry-run': 'true'}), body: {action, servers, ...(group ? {group} : {})}};
      },
      changes: plan => plan.does.length > 0,
      danger: plan => plan.asks,
      shown: plan => [h('ul', {class: 'plan'}, plan.does.map(d => h('li', {}, text(`This ${d}.`)))), said(plan.notes, 'note list'),
        plan.waits ? h('p', {class: 'note'}, text(`It waits first: ${plan.waits}.`)) : null,
        h('dl', {class: 'facts'}, h('div', {}, h('dt', {}, 'Now'), h('dd', {}, text(plan.before.text))), h('div', {}, h('dt', {}, 'Afterwards'), h('dd', {class: plan.after.spare < plan.before.spare ? 'worse' : ''}, text(plan.after.text))))],
      done: answer => done(answer.changed ? `Done: ${answer.does.join('; ')}. Now ${count(answer.members.length, 'member')}.` : 'There was nothing to do.')});
  };

  const actions = {
    remove: id => changing('remove', [String(id)], `Remove server ${id}`, 'Remove'),
    promote: id => changing('promote', [String(id)], `Make server ${id} a voter`, 'Make it a voter'),
    demote: id => changing('demote', [String(id)], `Make server ${id} an observer`, 'Make it an observer'),
    add: (_, q) => changing('add', [q.get('line') ?? ''], 'Add a server', 'Add', q.get('group')),
    replace: (id, q) => changing('replace', [String(id), q.get('line') ?? ''], `Replace server ${id}`, 'Replace'),
    lead: id => act(panel, {title: `Let server ${id} lead`, verb: 'Hand the lead over', signal, leave,
      request: plan => ({method: 'POST', url: '/v1/leader' + api.query({id, 'dry-run': plan ? undefined : 'true'})}),
      changes: () => present.known.leader !== id,
      shown: () => h('p', {}, present.known.leader === id ? `Server ${id} leads.` : `Server ${present.known.leader} hands over to server ${id}. Clients may have to connect again; no session ends.`),
      done: () => done(`Server ${id} leads.`)}),
    drain: id => act(panel, {title: `Move the clients of server ${id} away`, verb: 'Move them', signal, leave, danger: plan => plan.warning,
      request: plan => ({method: 'POST', url: '/v1/drain' + api.query({id, 'dry-run': plan ? undefined : 'true', force: plan?.warning ? 'true' : undefined})}),
      shown: plan => [plan.warning ? h('p', {class: 'note'}, text(plan.warning)) : null,
        h('p', {}, `${clients(plan)} go to other servers, bit by bit, and server ${id} keeps clients away for ${plan.keepsAwayMs / 60000} minutes. No session ends.`)],
      done: answer => done(`${clients(answer)} of server ${id} move to other servers.`)}),
    letin: id => act(panel, {title: `Let clients of server ${id} in again`, verb: 'Let them in', signal, leave,
      request: plan => ({method: 'DELETE', url: '/v1/drain' + api.query({id, 'dry-run': plan ? undefined : 'true'})}),
      shown: () => h('p', {}, 'This ends a drain, if there is one.'), done: () => done('Clients are let in.')}),
  };
  const clients = ({ended}) => ended < 0 ? 'All connections' : count(ended, 'connection');

  function roster({members: list, leader, self}, state) {
    if (!list.length) return h('p', {}, 'This is a single server, without members.');
    const of = id => state.members.find(m => m.id === id);
    const role = (m, s) => m.id === leader ? 'leader' : s?.role === 'leader' ? 'follower' : s?.role ?? 'not asked yet'; // who leads is known sooner
    const voters = list.filter(m => m.voter);
    const up = voters.filter(m => { return !of(m.id)?.problem; }).length;
    const spare = up - (Math.floor(voters.length / 2) + 1);
    return [h('p', {class: 'tolerance ' + (spare > 0 ? 'good' : spare === 0 ? 'danger' : 'broken')}, h('span', {class: 'lamp', 'aria-hidden': 'true'}),
      `${up} of ${count(voters.length, 'voter')} up: `, spare < 0 ? 'no quorum, so nothing can be written.' : spare === 0 ? 'one more failure loses the quorum, and nothing could be written.' : `after ${count(spare, 'more failure')} the others still serve.`),
    state.problem ? problem(state.problem) : null,
    table('Members', ['Id', 'Role', 'Vote', ['Behind'], 'For servers', 'For clients', 'Changes'],
      h('tbody', {}, list.map(m => {
        const s = of(m.id);
        return h('tr', {}, h('td', {}, String(m.id), m.id === self ? h('span', {class: 'dim'}, ' this one') : null),
          h('td', {}, h('span', {class: 'tag ' + (s?.problem ? 'broken' : '')}, role(m, s)), s?.problem ? h('span', {class: 'dim'}, ' ', text(s.problem)) : null),
          h('td', {}, m.voter ? 'yes' : 'no'),
          h('td', {class: 'number'}, s && s.lag >= 0 ? digits(s.lag) : ''),
          h('td', {class: 'mono'}, text(m.quorum.join(' | '))), h('td', {class: 'mono'}, text(m.client || s?.name || '')),
          h('td', {}, mode.editing() ? h('div', {class: 'acts'}, offers(m, leader).map(([does, label]) =>
            h('a', {class: 'act', key: does + m.id, href: '#/members' + api.query({do: does, id: m.id})}, label))) : null));
      })))];
  }

  const offers = (m, leader) => [
    m.voter && m.id !== leader && ['lead', 'Let it lead'], ['drain', 'Move clients away'], ['letin', 'Let clients in'],
    m.voter ? ['demote', 'Make an observer'] : ['promote', 'Make a voter'], ['remove', 'Remove'],
  ].filter(Boolean);

  // forms are those for servers that are not members.
  function forms() {
    const line = (label, next, id) => {
      const field = h('input', {autocomplete: 'off', spellcheck: 'false', required: true, size: '44', placeholder: '4=zk4:2888:3888;2181'});
      const old = id && h('select', {'aria-label': 'The server that goes'}, present.known.members.map(m => h('option', {value: String(m.id)}, `server ${m.id}`)));
      return h('form', {class: 'row wrap', on: {submit: e => { e.preventDefault(); go('members', {do: id ? 'replace' : 'add', id: old?.value, line: field.value.trim()}); }}},
        h('label', {class: 'field'}, h('span', {}, label), field), old, h('button', {}, next));
    };
    return [h('h2', {}, 'A new server'), h('p', {class: 'dim'}, 'It runs already, with an empty directory: its file has the lines of the members, its own, and reconfigEnabled=true.'),
      line('Its line', 'Plan the addition'), line('In the place of another one', 'Plan the replacement', true)];
  }

  return {};
}
