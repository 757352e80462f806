// Tests of the console's pure modules, by node --test. plans.json has plans that a test in Go carries out on a tree: package console.
// UPDATE=1 writes plans.json and the export again.

import test from 'node:test';
import assert from 'node:assert/strict';
import {readFileSync, writeFileSync} from 'node:fs';

const home = new URL('../../server/console/', import.meta.url);
const plan = await import(new URL('assets/plan.js', home));
const diff = await import(new URL('assets/diff.js', home));
const files = await import(new URL('assets/exportfile.js', home));
const {past} = await import(new URL('assets/past.js', home));
const {protobuf} = await import(new URL('assets/protobuf.js', home));
const update = !!process.env.UPDATE;

const bytes = text => new TextEncoder().encode(text);
const base64 = text => files.toBase64(bytes(text));
const open = [{scheme: 'world', id: 'anyone', perms: 'cdrwa'}];
const look = [{scheme: 'world', id: 'anyone', perms: 'r'}, {scheme: 'digest', id: 'bob:hash=', perms: 'cdrwa'}];
let zxid = 16;
const stat = (owner = '0x0', version = 0) => ({czxid: '0x' + (zxid++).toString(16), mzxid: '0x10', pzxid: '0x10', ctime: 1767225600000, mtime: 1767225600001, version, cversion: 1, aversion: 0, ephemeralOwner: owner, dataLength: 1, numChildren: 0});
const node = (path, {data = base64('of ' + path), acl = open, owner, version, ...rest} = {}) => ({path, stat: stat(owner, version), data, acl, ...rest});

const tree = [
  node('/a', {version: 3}), node('/a/b', {acl: look}), node('/a/b/job-0000000007', {data: null}), node('/a/b/x', {data: ''}), node('/a/c', {owner: '0x8000000000000000'}),
  node('/a/t', {owner: '0xff00000000002710'}), node('/a/ümläut', {data: files.toBase64(Uint8Array.of(255, 0, 1))}),
];
const withEphemeral = [...tree, node('/a/z', {owner: '0x1a2247fbb090007'})];
const fileNodes = tree.map(n => ({...n, path: n.path.slice(2) || '/'}));
const there = [node('/im', {data: base64('of /a')}), node('/im/b', {data: base64('other'), acl: open, version: 5})];

const cases = [
  {name: 'delete', before: tree, plan: () => plan.deleting(tree)},
  {name: 'delete with an ephemeral', before: withEphemeral, plan: () => plan.deleting(withEphemeral)},
  {name: 'delete what may not be read', before: tree, plan: () => plan.deleting([...tree, {path: '/a/zz', error: 'NOAUTH'}])},
  {name: 'copy', before: tree, plan: () => plan.copying(tree, '/n/m', {absent: ['/n']})},
  {name: 'copy below itself', before: tree, plan: () => plan.copying(tree, '/a/b/copy')},
  {name: 'copy without ephemerals, open to all', before: withEphemeral, plan: () => plan.copying(withEphemeral, '/m', {openACL: true})},
  {name: 'copy hidden passwords', before: tree, plan: () => plan.copying([...tree, node('/a/zz', {acl: [{scheme: 'digest', id: 'bob:x', perms: 'r'}]})], '/m')},
  {name: 'copy to the servers\' nodes', before: tree, plan: () => plan.copying(tree, '/zookeeper/a')},
  {name: 'move', before: tree, plan: () => plan.moving(tree, '/m')},
  {name: 'move below itself', before: tree, plan: () => plan.moving(tree, '/a/b/m')},
  {name: 'move an ephemeral', before: withEphemeral, plan: () => plan.moving(withEphemeral, '/m')},
  {name: 'import', before: [], plan: () => plan.importing(fileNodes, '/new/im', new Map(), {absent: ['/new']})},
  {name: 'import over others, refused', before: there, plan: () => plan.importing(fileNodes, '/im', new Map(there.map(n => [n.path, n])))},
  {name: 'import over others', before: there, plan: () => plan.importing(fileNodes, '/im', new Map(there.map(n => [n.path, n])), {existing: 'overwrite'})},
  {name: 'import beside others', before: there, plan: () => plan.importing(fileNodes, '/im', new Map(there.map(n => [n.path, n])), {existing: 'skip'})},
];

// result is what the server answers to a step.
const result = s => s.op === 'delete' ? {path: s.path} : {path: s.path, stat: s.op === 'create' ? stat() : {...s.was.stat, version: s.op === 'set' ? s.version + 1 : s.was.stat.version, aversion: s.op === 'acl' ? s.version + 1 : s.was.stat.aversion}};

test('plans', () => {
  const made = cases.map(c => {
    const p = c.plan();
    const undo = plan.undoing(p.steps.map(step => ({step, result: result(step)})));
    return {name: c.name, before: c.before, steps: p.steps.map(plan.sent), refused: p.refused, notes: p.notes, undo: undo.steps.map(plan.sent), lost: undo.lost.map(l => l.path), pieces: plan.pieces(p.steps, {steps: 3, bytes: 1 << 20}).map(piece => piece.length)};
  });
  const text = '[\n' + made.map(c => JSON.stringify(c)).join(',\n') + '\n]\n';
  const file = new URL('testdata/plans.json', home);
  if (update) writeFileSync(file, text);
  assert.equal(text, readFileSync(file, 'utf8'));
});

test('exports', async () => {
  const nodes = [...fileNodes, {...node('/ü~'), data: base64('a\u2028"<&>\\\b\f\n\r\t\u0001\u007f\ufeff\ud83d\ude00')}];
  const made = await files.write({source: 'zk1:8080', path: '/a', zxid: '0x100000002', time: Date.UTC(2026, 0, 2, 3, 4, 5, 678), about: nodes.length}, nodes);
  const file = new URL('testdata/a.zkexport', home);
  if (update) writeFileSync(file, made);
  assert.deepEqual(Buffer.from(made), readFileSync(file));
  const {header, nodes: back} = await files.read(made);
  assert.equal(header.path, '/a');
  const {dataLength: _, ...kept} = stat();
  const known = n => ({path: n.path, data: n.data, acl: n.acl, stat: Object.fromEntries(Object.keys(kept).map(k => [k, n.stat[k]]))});
  assert.deepEqual(back.map(known), nodes.map(known));
});

test('damaged exports', async () => {
  const whole = readFileSync(new URL('testdata/a.zkexport', home), 'utf8');
  const lines = whole.split('\n');
  for (const bad of ['', 'x', whole.slice(0, -2), whole + '\n', whole.replace('zkcli-export', 'other'), whole.replace('"version":1', '"version":2'), whole.replace('/b/x', '/b/y'), lines.slice(0, -2).join('\n') + '\n', lines.slice(0, 3).join('\n')]) {
    await assert.rejects(files.read(bytes(bad)), bad.slice(-80));
  }
  await assert.rejects(files.read(Uint8Array.of(255)));
});

test('stale plans', () => {
  const {steps} = plan.deleting(tree);
  const now = new Map(tree.map(n => [n.path, n.stat]));
  assert.deepEqual(plan.stale(steps, now), []);
  const but = (path, change) => plan.stale(steps, new Map([...now, [path, change && {...now.get(path), ...change}]])).map(c => c.path);
  assert.deepEqual(but('/a/b', {version: 9}), ['/a/b']);
  assert.deepEqual(but('/a/b', {czxid: '0x999'}), ['/a/b']);
  assert.deepEqual(but('/a/b', {pzxid: '0x999'}), ['/a/b']);
  assert.deepEqual(but('/a/b', undefined), ['/a/b']);
  const copy = plan.moving(tree, '/m');
  assert.deepEqual(plan.stale(copy.steps, now), []);
  assert.deepEqual(plan.stale(copy.steps, new Map([...now, ['/m', stat()]])).map(c => c.path), ['/m']);
});

test('differences', () => {
  const words = t => t.split(' ').filter(Boolean);
  let seed = 7;
  const random = n => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n; };
  for (let i = 0; i < 300; i++) {
    const [a, b] = [0, 0].map(() => Array.from({length: random(12)}, () => 'abc'[random(3)]));
    const pairs = diff.compare(a, b);
    assert.deepEqual(pairs.map(p => p[0]).filter(l => l !== undefined), a);
    assert.deepEqual(pairs.map(p => p[1]).filter(l => l !== undefined), b);
  }
  assert.deepEqual(diff.compare(words('a b c'), words('a x c')), [['a', 'a'], ['b', 'x'], ['c', 'c']]);
  const long = Array.from({length: 3000}, (_, i) => String(i));
  assert.equal(diff.compare(long, long.map(l => l + 'x')).length, 3000);
  assert.deepEqual(diff.folded(diff.compare(long, [...long, 'end'])).map(p => p.skipped ?? p[1]), [2997, '2997', '2998', '2999', 'end']);
});

test('long lines', () => {
  const long = 'x'.repeat(5000);
  assert.deepEqual(diff.cut([long + 'a' + long, long + 'b']), ['… ' + 'x'.repeat(60) + 'a' + 'x'.repeat(939) + ' … 10001 characters', '… ' + 'x'.repeat(60) + 'b']);
  assert.deepEqual(diff.cut([undefined, 'y']), [undefined, 'y']);
  assert.deepEqual(diff.cut([undefined, long]), [undefined, 'x'.repeat(1000) + ' … 5000 characters']);
});

test('kinds of values', () => {
  assert.equal(diff.kindOf(bytes('{"a":1}'), bytes('[2]')), 'JSON');
  assert.equal(diff.kindOf(bytes('{"a":1}'), bytes('{"a":')), 'text');
  assert.equal(diff.kindOf(bytes('text'), Uint8Array.of(255)), 'hex');
  assert.equal(diff.kindOf(bytes('a\u0000')), 'hex');
  assert.equal(diff.kindOf(bytes(''), bytes('')), 'text');
  assert.deepEqual(diff.fromHex('00 ff\n1'), null);
  assert.deepEqual(diff.fromHex('00 ff\n1a'), Uint8Array.of(0, 255, 26));
  assert.equal(diff.decode(bytes('\ufeffx')), '\ufeffx');
});

test('three sides', () => {
  const verdict = (a, b, c) => diff.sides([a], [b], [c]).verdict;
  assert.equal(verdict('1', '2', '3'), 'conflict');
  assert.equal(verdict('1', '2', '2'), 'done');
  assert.equal(verdict('1', '1', '3'), 'same');
});

test('paths', () => {
  for (const good of ['/', '/a', '/a/b c']) assert.equal(plan.wrongPath(good), '');
  for (const bad of ['', 'a', '/a/', '/a//b', '/a/./b', '/..', '/zookeeper', '/zookeeper/x']) assert.notEqual(plan.wrongPath(bad), '', bad);
});

test('the data before changes, as far as they tell', () => {
  const known = past(5);
  for (const [kind, path, data] of [['data', '/a', 'MQ=='], ['created', '/b', undefined], ['data', '/a', 'Mg=='], ['data', '/b', 'Mw=='], ['data', '/c', 'NA=='], ['data', '/a', 'NQ=='], ['deleted', '/b'], ['created', '/b', 'Ng==']]) known.add(kind, {path, data});
  assert.equal(known.left, 3);
  assert.deepEqual(known.changes.map(c => [c.path, c.kind, c.before]), [['/b', 'data', ''], ['/c', 'data', undefined], ['/a', 'data', 'Mg=='], ['/b', 'deleted', 'Mw=='], ['/b', 'created', undefined]]);
});

test('messages of protocol buffers, and what is none', () => {
  const of = (...list) => protobuf(Uint8Array.from(list.flatMap(x => typeof x === 'string' ? [...bytes(x)] : x)));
  assert.deepEqual(of(8, 0x96, 1, 0x12, 7, 'testing', 0x1a, 3, 8, 0x96, 1, 0x2a, 2, 255, 0), ['1: 150', '2: "testing"', '3: {', '  1: 150', '}', '5: ff 00']);
  assert.deepEqual(of(0x21, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x0d, 0, 0, 0x80, 0x3f), ['4: 0x3ff0000000000000 (1)', '1: 0x3f800000 (1)']);
  assert.deepEqual(of(8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1), ['1: 18446744073709551615 (-1)']);
  for (const none of [[], [8], [0x0a, 5, 1], ['hello'], ['{"a":1}'], [0], [8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1], [0x0b, 8, 1, 0x0c]]) assert.equal(of(...none), null, String(none));
  let deep = Uint8Array.of(8, 1);
  for (let i = 0; i < 50; i++) deep = Uint8Array.of(0x0a, deep.length, ...deep);
  assert.ok(protobuf(deep).length < 40);
});
