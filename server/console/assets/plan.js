// Plans of writes: the operations that do what is wanted, the pieces in which they go, and those that undo them. All is pure.
//
// A node is {path, stat, data, acl, error}: path as it is, data in base64 or null. A step is an operation of /v1/multi, or
// {op: 'acl', path, acl, version}, with was, the node before.

export const most = {steps: 200, bytes: 256 << 10, nodes: 100_000, kept: 8 << 20};

export const parentOf = path => path.slice(0, path.lastIndexOf('/')) || '/';
export const join = (root, rest) => rest === '' || rest === '/' ? root : root === '/' ? rest : root + rest;
export const inside = (path, root) => path === root || root === '/' || path.startsWith(root + '/');
export const system = path => inside(path, '/zookeeper');

// wrongPath says what is wrong with the path of a node, '' if nothing is.
export function wrongPath(path) {
  if (!path.startsWith('/')) return 'A path begins with /.';
  if (path === '/') return '';
  if (path.endsWith('/') || path.includes('//')) return 'A path has no empty names.';
  if (path.split('/').some(p => p === '.' || p === '..')) return 'No node is named . or …'.replace('…', '..');
  return system(path) ? '/zookeeper belongs to the servers.' : '';
}

// kindOf returns the mode in which a node like this is created. Servers show most containers and nodes with a TTL as persistent ones.
export function kindOf(stat) {
  const owner = BigInt(stat.ephemeralOwner);
  if (owner === 0n) return {mode: 'persistent'};
  if (owner === 1n << 63n) return {mode: 'container'};
  if (owner >> 56n === 0xffn) return {mode: 'persistent_with_ttl', ttl: Number(owner & 0xffffffffffn)};
  return {mode: 'ephemeral'};
}

export const isEphemeral = node => !!node.stat && kindOf(node.stat).mode === 'ephemeral';

// isNumbered reports whether a name looks as if a server had added its number.
export const isNumbered = path => /[^/]\d{10}$/.test(path);

// isMasked reports whether the server has hidden a hash in the ACL, as it does for those who may not change it.
export const isMasked = acl => acl.some(a => a.scheme === 'digest' && a.id.endsWith(':x'));

const some = (list, what) => `${list.length.toLocaleString('en')} ${what}, the first is ${list[0].path}`;

// createStep creates a node as another one is.
function createStep(path, node, acl) {
  const step = /** @type {any} */ ({op: 'create', path, data: node.data, ...kindOf(node.stat)});
  if (acl) step.acl = acl;
  if (step.mode === 'persistent') delete step.mode;
  return step;
}

const deleteStep = node => ({op: 'delete', path: node.path, version: node.stat.version, was: node});

// deleting plans the deletion of nodes, parents first in the list, which are all that there are below the first one.
export function deleting(nodes) {
  const plan = {steps: [], refused: [], notes: []};
  const hidden = nodes.filter(n => !n.stat);
  const ephemeral = nodes.filter(isEphemeral);
  if (hidden.length) plan.refused.push(`You may not read ${some(hidden, hidden.length === 1 ? 'node' : 'nodes')}: what is below can't be seen.`);
  if (nodes.some(n => n.path === '/' || system(n.path))) plan.refused.push('The root and /zookeeper stay.');
  if (ephemeral.length) plan.notes.push(`Ephemerals of sessions go as well: ${some(ephemeral, ephemeral.length === 1 ? 'node' : 'nodes')}. Their programs lose what they stand for, such as a lock, and undo can't bring them back.`);
  if (!plan.refused.length) plan.steps = nodes.map(deleteStep).reverse();
  return plan;
}

// copying plans a copy of a subtree. to does not exist, and absent are those of its parents that do not, the highest first.
export function copying(nodes, to, {absent = [], openACL = false} = {}) {
  const plan = {steps: [], refused: [], notes: []};
  const from = nodes[0].path;
  const hidden = nodes.filter(n => n.error);
  const left = nodes.filter(n => isEphemeral(n));
  const rest = nodes.filter(n => !n.error && n.stat && !isEphemeral(n) && !system(n.path));
  const masked = openACL ? [] : rest.filter(n => isMasked(n.acl));
  if (hidden.length) plan.refused.push(`You may not read ${some(hidden, hidden.length === 1 ? 'node' : 'nodes')}.`);
  if (masked.length) plan.refused.push(`The server hides passwords in the ACLs of ${some(masked, masked.length === 1 ? 'node' : 'nodes')}: copy as somebody who may change the ACL, or without ACLs.`);
  if (isEphemeral(nodes[0])) plan.refused.push('An ephemeral belongs to its session.');
  if (wrongPath(to)) plan.refused.push(wrongPath(to));
  if (left.length) plan.notes.push(`Ephemerals are left out, as each belongs to its session: ${some(left, left.length === 1 ? 'node' : 'nodes')}.`);
  const numbered = rest.filter(n => isNumbered(n.path));
  if (numbered.length) plan.notes.push(`Names that end in a number keep it: ${some(numbered, numbered.length === 1 ? 'node' : 'nodes')}. The server begins to count afresh in the copy, so numbers may come again.`);
  if (absent.length) plan.notes.push(`Parents are created, open to all: ${absent.join(', ')}`);
  if (plan.refused.length) return plan;
  plan.steps = absent.map(path => ({op: 'create', path, data: null}));
  for (const n of rest) plan.steps.push(createStep(to + (from === '/' ? n.path : n.path.slice(from.length)).replace(/^\/$/, ''), n, openACL ? undefined : n.acl));
  return plan;
}

// moving plans a copy, and then the deletion of what was copied.
export function moving(nodes, to, options) {
  const plan = copying(nodes, to, options);
  const away = deleting(nodes);
  const ephemeral = nodes.filter(isEphemeral);
  plan.refused.push(...away.refused.filter(r => !plan.refused.some(p => p.startsWith(r.slice(0, 20)))));
  if (ephemeral.length) plan.refused.push(`Ephemerals can't be moved: ${some(ephemeral, ephemeral.length === 1 ? 'node' : 'nodes')}.`);
  if (inside(to, nodes[0].path)) plan.refused.push('It can\'t be moved below itself.');
  plan.steps = plan.refused.length ? [] : [...plan.steps, ...away.steps];
  return plan;
}

const aclText = list => list.map(a => `${a.scheme}:${a.id}:${[...a.perms].sort().join('')}`).sort().join('\n');
export const sameACL = (a, b) => aclText(a) === aclText(b);

// importing plans what makes a subtree like the nodes of a file. there has what exists, by path. existing says what becomes of
// nodes that differ: refuse, overwrite or skip.
export function importing(nodes, to, there, {absent = [], openACL = false, existing = 'refuse'} = {}) {
  const plan = {steps: [], refused: [], notes: []};
  const count = {same: 0, skipped: 0, changed: 0, created: 0};
  const differ = [], left = [], foreign = [];
  if (to !== '/' && wrongPath(to)) plan.refused.push(wrongPath(to));
  const masked = openACL ? [] : nodes.filter(n => isMasked(n.acl));
  if (masked.length) plan.refused.push(`The file has no passwords for the ACLs of ${some(masked, masked.length === 1 ? 'node' : 'nodes')}: import without ACLs.`);
  plan.steps = absent.map(path => ({op: 'create', path, data: null}));
  for (const n of nodes) {
    const path = join(to, n.path);
    const old = there.get(path);
    if (isEphemeral(n)) { left.push(n); continue; }
    if (system(path)) { foreign.push(n); continue; }
    if (!old) {
      plan.steps.push(createStep(path, n, openACL ? undefined : n.acl));
      count.created++;
      continue;
    }
    const sameData = old.data === n.data;
    const same = openACL || !!old.acl && sameACL(old.acl, n.acl);
    if (sameData && same) count.same++;
    else if (existing === 'skip') count.skipped++;
    else if (existing === 'refuse' || old.error || isEphemeral(old)) differ.push({path});
    else {
      if (!sameData) plan.steps.push({op: 'set', path, data: n.data, version: old.stat.version, was: old});
      if (!same) plan.steps.push({op: 'acl', path, acl: n.acl, version: old.stat.aversion, was: old});
      count.changed++;
    }
  }
  if (left.length) plan.notes.push(`Ephemerals of the file are left out: ${some(left, left.length === 1 ? 'node' : 'nodes')}.`);
  if (foreign.length) plan.notes.push('/zookeeper is left out.');
  if (differ.length) plan.refused.push(`What is there differs from the file, or can't be read or changed: ${some(differ, differ.length === 1 ? 'node' : 'nodes')}.`);
  plan.notes.push(`${count.created} are created, ${count.changed} changed, ${count.same} are there as in the file` + (count.skipped ? `, ${count.skipped} differ and are left` : '') + '.');
  if (plan.refused.length) plan.steps = [];
  return plan;
}

const size = s => 100 + s.path.length + (s.data?.length ?? 0) + (s.acl ?? []).reduce((n, a) => n + 50 + a.id.length, 0);

// pieces groups steps: each piece is done as a whole or not at all. A change of an ACL stands alone, as long data does.
export function pieces(steps, {steps: count, bytes} = most) {
  const out = [];
  let piece = [], length = 0;
  const end = () => { if (piece.length) out.push(piece); piece = []; length = 0; };
  for (const s of steps) {
    const n = size(s);
    const alone = s.op === 'acl';
    if (alone || piece.length === count || length + n > bytes) end();
    piece.push(s);
    length += n;
    if (alone) end();
  }
  end();
  return out;
}

// stale returns what is no more as a plan saw it. now has the Stat of each node that there is, by path.
export function stale(steps, now) {
  const made = new Set(), gone = new Set();
  const out = [];
  for (const s of steps) {
    const stat = now.get(s.path);
    if (s.op === 'create') {
      if (!s.mode?.includes('sequential') && stat && !gone.has(s.path)) out.push({path: s.path, what: 'is there now'});
      made.add(s.path);
      continue;
    }
    if (made.has(s.path)) continue;
    const was = s.was?.stat;
    if (!stat) out.push({path: s.path, what: 'was deleted'});
    else if (was && stat.czxid !== was.czxid) out.push({path: s.path, what: 'was deleted and created again'});
    else if ((s.op === 'acl' ? stat.aversion : stat.version) !== s.version) out.push({path: s.path, what: s.op === 'acl' ? 'has another ACL now' : 'has other data now'});
    else if (s.op === 'delete' && was?.pzxid && stat.pzxid !== was.pzxid) out.push({path: s.path, what: 'has got or lost children'});
    if (s.op === 'delete') gone.add(s.path);
  }
  return out;
}

// undoing returns the steps that undo those that were done, each with its result {path, stat}. lost are nodes that can't come back.
export function undoing(done) {
  const steps = [], lost = [];
  for (const {step: s, result} of done.toReversed()) {
    const path = result?.path ?? s.path;
    if (s.op === 'create') steps.push({op: 'delete', path, version: result.stat.version, was: {path, stat: {...result.stat, pzxid: undefined}, data: s.data, acl: s.acl}});
    else if (s.op === 'set') steps.push({op: 'set', path, data: s.was.data, version: result.stat.version, was: {...s.was, stat: result.stat, data: s.data}});
    else if (s.op === 'acl') steps.push({op: 'acl', path, acl: s.was.acl, version: result.stat.aversion, was: {...s.was, stat: result.stat, acl: s.acl}});
    else if (isEphemeral(s.was)) lost.push({path, why: 'an ephemeral is its session\'s'});
    else if (s.was.data === undefined || !s.was.acl || isMasked(s.was.acl)) lost.push({path, why: 'its data or ACL could not be kept'});
    else steps.push(createStep(path, s.was, s.was.acl));
  }
  return {steps, lost};
}

// sent is a step as /v1/multi takes it.
export function sent(step) {
  const {was, data, ...op} = step;
  if (data !== null && data !== undefined) op.data = data;
  return op;
}

// said is a step in words.
export function said(s) {
  const bytes = s.data === null || s.data === undefined ? 'no data' : `${base64Length(s.data)} bytes`;
  const acl = s.acl ? ', ' + s.acl.map(a => `${a.scheme}:${a.id}:${a.perms}`).join(' ') : '';
  if (s.op === 'create') return `create ${s.path} (${(s.mode ?? 'persistent').replaceAll('_', ' ')}${s.ttl ? ` of ${s.ttl} ms` : ''}), ${bytes}${acl}`;
  if (s.op === 'set') return `set ${s.path} at version ${s.version}, ${bytes}`;
  if (s.op === 'acl') return `ACL of ${s.path} at version ${s.version}${acl}`;
  return `${s.op} ${s.path} at version ${s.version}`;
}

// base64Length is the number of bytes that a text in base64 stands for.
export const base64Length = text => text.length / 4 * 3 - (text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0);
