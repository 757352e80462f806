// Limits and quotas: the rules, who uses how much of them, and their change.

import {h, digits, render, table, text, problem} from './dom.js';
import * as api from './api.js';
import {mode} from './api.js';
import {get, asked, go, button, change} from './operate.js';

const prefix = 'zkd.limit.';

export function limits(main, _, signal) {
  const panel = h('div'), list = h('div');
  render(main, h('div', {class: 'page'}, h('h1', {}, 'Limits and quotas'), panel, list));
  let rules = null; // of the configuration, null if it can't be seen
  let why = null;
  const leave = () => go('limits');

  async function load() {
    try {
      rules = (await get('/v1/configuration', signal)).settings.filter(s => s.key.startsWith(prefix));
    } catch (e) { why = e; }
    if (!signal.aborted) begin();
  }
  const loaded = load();

  api.every(3000, signal, async () => {
    await loaded;
    try {
      const [{limits: figures, uses}, {quotas}] = await Promise.all([get('/v1/limits', signal), get('/v1/quotas', signal)]);
      render(list, ruleTable(figures), used(uses), quotaTable(quotas));
    } catch (e) {
      if (!signal.aborted) render(list, problem(e));
    }
  });

  function begin() {
    const q = asked(), key = q.get('key');
    if (key) {
      const was = rules?.find(s => s.key === key)?.value ?? '';
      change(panel, {key, was, value: q.get('do') === 'unset' ? null : q.get('to') ?? was, signal, leave, done: () => { leave(); load(); }});
      return;
    }
    if (!mode.editing()) { render(panel); return; }
    if (!rules) { render(panel, why ? problem(why) : null); return; }
    render(panel, h('h2', {}, 'Change a rule'), rules.map(s => form(s.key.slice(prefix.length), s.value)), form('', ''),
      h('p', {class: 'dim small'}, 'Such as identity * requests/s=1000,2000 watches=500: whom it is for, and a soft and a hard limit. On this server alone: change it on the others, too, and in their files.'));
  }

  function form(name, value) {
    const rule = h('input', {value: name, readonly: !!name, required: true, pattern: '[^\\s=]+', size: '12', 'aria-label': 'Name of the rule', placeholder: 'new', spellcheck: 'false', autocomplete: 'off'});
    const text = h('input', {value, required: true, size: '52', 'aria-label': 'Rule', spellcheck: 'false', autocomplete: 'off', placeholder: 'address * connections=50'});
    return h('form', {class: 'row wrap', on: {submit: e => { e.preventDefault(); go('limits', {key: prefix + rule.value, do: 'set', to: text.value}); }}}, rule, text,
      h('button', {}, 'Show the difference'), name ? button('Back to the file\'s', () => go('limits', {key: prefix + name, do: 'unset'}), 'quiet') : null);
  }

  const rows = (title, head, body, none) => [h('h2', {}, title), body.length ? table(title, head, h('tbody', {}, body)) : h('p', {class: 'dim'}, none)];
  const number = n => h('td', {class: 'number'}, digits(n));
  const of = rule => rules?.find(s => s.key === prefix + rule);

  const ruleTable = figures => rows('Rules', ['Rule', 'For', 'Resource', ['Subjects'], ['Over'], ['Slowed'], ['Refused']],
    figures.map(f => h('tr', {}, h('td', {}, text(f.rule)), h('td', {class: 'mono', title: of(f.rule)?.from}, text(of(f.rule)?.value ?? '')), h('td', {}, text(f.resource)), number(f.subjects), number(f.over), number(f.slowed), number(f.refused))), 'No rule limits clients.');

  const used = uses => rows('Who uses most of a limit, on this server', ['Subject', 'Rule', 'Resource', ['Used'], ['Limit'], 'Part'],
    uses.map(u => h('tr', {}, h('td', {class: 'mono'}, text(u.subject)), h('td', {}, text(u.rule)), h('td', {}, text(u.resource)), number(u.used), h('td', {class: 'number'}, text(u.soft && u.hard ? `${digits(u.soft)}, ${digits(u.hard)}` : digits(u.hard || u.soft))),
      h('td', {}, h('meter', {min: '0', max: String(u.hard || u.soft), value: String(u.used), high: String(0.8 * (u.hard || u.soft)), 'aria-label': `${u.used} of ${u.hard || u.soft}`})))), 'Nobody uses anything that is limited.');

  const quotaTable = quotas => rows('Quotas by namespace, of the ensemble', ['Namespace', ['Nodes'], ['Limit'], ['Bytes'], ['Limit']],
    quotas.map(q => h('tr', {}, h('td', {class: 'mono'}, text('/' + q.namespace)), number(q.nodes), h('td', {class: 'number'}, q.nodesLimit < 0 ? 'none' : digits(q.nodesLimit)), number(q.bytes), h('td', {class: 'number'}, q.bytesLimit < 0 ? 'none' : digits(q.bytesLimit)))), 'There are none. zkcli setquota makes one.');

  return {};
}
