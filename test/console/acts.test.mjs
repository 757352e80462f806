// What people change with the console: the plan before, the write, what others do meanwhile, the way back.

import assert from 'node:assert/strict';
import {readFileSync, writeFileSync} from 'node:fs';
import {after, before, test} from 'node:test';
import {session, start} from './lib/ensemble.mjs';
import {go, launch, open, violations} from './lib/browser.mjs';

const timeout = 600_000;
let ensemble, browser, first;
before(async () => {
  ensemble = await start(['extendedTypesEnabled=true', 'audit.enable=true']);
  [first] = ensemble.servers;
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await ensemble?.stop();
});

const data = path => first.call('GET', '/v1/nodes' + path);
const there = path => data(path).then(() => true, () => false);
const lines = async path => (await (await fetch(`${first.base}/v1/subtree${path}?show=stats`)).text()).trim().split('\n').length;

// editor opens a page in which editing is on.
async function editor(options) {
  const page = await open(browser, first.base + '/console/#/tree', options);
  await page.waitForSelector('.acts');
  await page.focus('main');
  await page.keyboard.press('e');
  await page.waitForSelector('.mode[aria-pressed=true]');
  page.panel = () => page.innerText('.panel');
  page.act = async (act, path, selector) => {
    await go(page, '/tree' + path);
    await go(page, `/tree${path}?do=${act}`);
    await page.waitForSelector('.panel ' + selector, {timeout: 0});
  };
  page.plan = async (selector = 'details') => {
    await page.click('.panel button.main');
    await page.waitForSelector('.panel ' + selector, {timeout: 0});
  };
  page.ended = () => page.waitForFunction(() => /^(Done|Cancelled|Stopped)/.test(document.querySelector('.panel')?.innerText ?? ''), undefined, {timeout: 0});
  page.confirm = async () => {
    if (await page.isVisible('.panel .typed')) await page.fill('.panel .typed input', await page.textContent('.panel .typed code'));
    await page.click('.panel button.main');
    await page.ended();
    return page.panel();
  };
  page.undo = async () => {
    await page.click('.panel button[data-key=undo]');
    await page.waitForSelector('.panel details', {timeout: 0});
    return page.confirm();
  };
  return page;
}

async function grow(path, n) {
  await first.create(path, 'top');
  for (let i = 0; i < n; i += 500) await first.multi(Array.from({length: Math.min(500, n - i)}, (_, j) => ({op: 'create', path: `${path}/n${String(i + j).padStart(5, '0')}`, text: String(i + j)})));
}

test('it begins as pages that only read', {timeout}, async () => {
  const page = await open(browser, first.base + '/console/#/tree/zookeeper?do=delete');
  await page.waitForSelector('.panel');
  assert.match(await page.innerText('.panel'), /only reads/);
  assert.equal(await page.$('.panel textarea, .panel input'), null);
  await page.focus('main');
  await page.keyboard.press('e');
  await page.waitForFunction(() => /belongs to the servers/.test(document.querySelector('.panel').innerText));
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => !location.hash.includes('?'));
  await page.keyboard.press('Escape');
  await page.waitForSelector('.mode[aria-pressed=false]');
  assert.deepEqual(await page.done(), []);
});

test('data: the difference, a conflict with three sides, the way back', {timeout}, async () => {
  await first.create('/set', '{"a":1,"b":2}');
  const page = await editor();
  const write = async text => {
    await page.act('set', '/set', 'textarea');
    await page.fill('.panel textarea', text);
    await page.plan('.diff');
  };
  await write('{"a":1,"b":3}');
  assert.match(await page.innerText('.diff'), /−\s*"b": 2[^]*\+\s*"b": 3/);
  assert.match(await page.confirm(), /^Done/);
  assert.equal(JSON.stringify(await data('/set')), JSON.stringify('{"a":1,"b":3}'));
  assert.match(await page.undo(), /^Done/);
  assert.equal(await data('/set'), '{"a":1,"b":2}');
  await write('{"a":1,"b":4}');
  await first.call('PUT', '/v1/nodes/set', '{"a":5,"b":2}');
  await page.plan('.three');
  assert.match(await page.panel(), /Nothing of yours was written[^]*You began with[^]*There now[^]*You want/);
  assert.equal(await data('/set'), '{"a":5,"b":2}');
  await page.click('text=Write yours over theirs');
  await page.waitForSelector('.diff');
  await page.confirm();
  assert.equal(await data('/set'), '{"a":1,"b":4}');
  await first.call('PUT', '/v1/nodes/set', 'somebody else');
  await page.click('.panel button[data-key=undo]');
  await page.waitForSelector('.panel details');
  await page.click('.panel button.main');
  await page.waitForSelector('.panel .problem');
  assert.match(await page.panel(), /Nothing was done/);
  assert.equal(await data('/set'), 'somebody else');
  assert.deepEqual(await page.done(), []);
});

test('nodes of all kinds are created', {timeout}, async () => {
  await first.create('/made');
  const page = await editor();
  for (const mode of ['persistent', 'persistent_sequential', 'ephemeral', 'ephemeral_sequential', 'container', 'persistent_with_ttl', 'persistent_sequential_with_ttl']) {
    await page.act('create', '/made', 'input');
    await page.fill('.panel input[aria-label=Name]', mode + '-');
    await page.selectOption('.panel select', mode);
    await page.plan();
    assert.match(await page.confirm(), /^Done/, mode);
  }
  const {children} = await first.call('GET', '/v1/children/made?show=stats');
  assert.equal(children.filter(c => /-\d{10}$/.test(c.name)).length, 3);
  assert.equal(children.filter(c => c.stat.ephemeralOwner !== '0x0' && !c.stat.ephemeralOwner.startsWith('0xff') && c.name.startsWith('ephemeral')).length, 2);
  assert.deepEqual(await page.done(), []);
});

test('an ACL is changed, and taken back', {timeout}, async () => {
  await first.create('/acl');
  const page = await editor();
  await page.act('acl', '/acl', '.entry');
  await page.uncheck('.entry input[title=write]');
  await page.click('text=Add an entry');
  await page.fill('.entry:nth-child(2) input[aria-label=Scheme]', 'ip');
  await page.fill('.entry:nth-child(2) input[aria-label=Id]', '10.0.0.1');
  await page.plan('.diff');
  await page.confirm();
  assert.deepEqual((await first.call('GET', '/v1/acl/acl')).acl.map(a => `${a.scheme}:${a.id}:${a.perms}`), ['world:anyone:cdra', 'ip:10.0.0.1:r']);
  await page.undo();
  assert.equal((await first.call('GET', '/v1/acl/acl')).acl.length, 1);
  assert.deepEqual(await page.done(), []);
});

test('a subtree is copied, moved, exported, imported, and deleted, with a cancel between', {timeout}, async () => {
  await grow('/wood', 1500);
  const page = await editor();
  await page.act('copy', '/wood', 'input');
  await page.fill('.panel input', '/far/away');
  await page.plan();
  assert.match(await page.confirm(), /^Done/);
  assert.equal(await lines('/far/away'), 1501);
  await page.undo();
  assert.equal(await there('/far'), false);
  await page.act('move', '/wood', 'input');
  await page.fill('.panel input', '/moved');
  await page.plan();
  assert.equal(await page.isDisabled('.panel button.main'), true);
  assert.match(await page.confirm(), /^Done/);
  assert.deepEqual([await there('/wood'), await lines('/moved')], [false, 1501]);
  await page.undo();
  assert.deepEqual([await there('/moved'), await lines('/wood'), await data('/wood/n00007')], [false, 1501, '7']);
  await page.act('export', '/wood', 'button.main');
  const download = page.waitForEvent('download');
  await page.click('.panel button.main');
  const file = await (await download).path();
  await page.act('import', '/imported', 'input[type=file]');
  await page.setInputFiles('.panel input[type=file]', file);
  await page.plan();
  assert.match(await page.confirm(), /^Done/);
  assert.equal(await lines('/imported'), 1501);
  writeFileSync(file + '-bad', readFileSync(file, 'utf8').replace('"text":"9"', '"text":"8"'));
  await page.act('import', '/imported', 'input[type=file]');
  await page.setInputFiles('.panel input[type=file]', file + '-bad');
  await page.plan('.problem');
  assert.match(await page.panel(), /changed or damaged/);
  await page.act('delete', '/imported', 'details');
  await page.fill('.panel .typed input', 'imported');
  await page.route('**/v1/multi', async route => { await route.continue(); await page.unroute('**/v1/multi'); page.evaluate(() => [...document.querySelectorAll('.panel button')].find(b => b.textContent === 'Cancel').click()); });
  await page.click('.panel button.main');
  await page.ended();
  const said = (await page.panel()).match(/^Cancelled. ([\d,]+) of 1,501 operations done; ([\d,]+) were not/);
  assert.ok(said, await page.panel());
  assert.equal(await lines('/imported'), Number(said[2].replace(',', '')));
  await page.undo();
  assert.equal(await lines('/imported'), 1501);
  await page.act('delete', '/imported', 'details');
  await first.create('/imported/late');
  await page.fill('.panel .typed input', 'imported');
  await page.click('.panel button.main');
  await page.waitForSelector('.panel .problem');
  assert.equal(await lines('/imported'), 1502);
  assert.deepEqual(await page.done(), []);
});

test('a lock is broken, and the page says who is next', {timeout}, async () => {
  await first.create('/lock');
  const line = [];
  for (let i = 0; i < 2; i++) {
    line.push(await session(first));
    await line[i].create('/lock/_c_5f1d3c7a-0b1c-4d2e-8f3a-4b5c6d7e8f90-lock-', 'me', 'ephemeral_sequential');
  }
  const page = await editor();
  await go(page, '/coordination/lock');
  await page.click('.line .act[href]');
  await page.waitForSelector('.say');
  assert.match(await page.innerText('.say'), new RegExp(`The holder is ${line[0].id}[^]*Next: ${line[1].id}`));
  assert.match(await page.confirm(), /^Done/);
  assert.equal(await page.$('.panel button[data-key=undo]'), null);
  const {objects: [lock]} = await first.call('GET', '/v1/coordination?path=/lock');
  assert.deepEqual(lock.places.map(p => [p.role, p.session]), [['holds', line[1].id]]);
  assert.deepEqual(await page.done(), []);
  for (const s of line) await s.end();
});

test('the leader, and then the page\'s server, is killed under a write', {timeout}, async () => {
  await first.create('/kept', 'before');
  const page = await editor();
  await page.act('set', '/kept', 'textarea');
  await page.fill('.panel textarea', 'after');
  await page.plan('.diff');
  const leader = await ensemble.leader();
  await leader.kill();
  if (leader === first) {
    await page.plan('.problem');
    first.start();
    await ensemble.ready();
  }
  assert.match(await page.confirm(), /^Done/);
  if (leader !== first) leader.start();
  await ensemble.ready();
  assert.equal(await data('/kept'), 'after');
  await grow('/felled', 5000);
  await page.act('delete', '/felled', 'details');
  await page.fill('.panel .typed input', 'felled');
  await page.click('.panel button.main');
  await page.waitForFunction(() => document.querySelector('progress')?.value > 0, undefined, {timeout: 0, polling: 5});
  await first.kill();
  await Promise.race([page.waitForSelector('.panel .note:not([hidden])', {timeout: 0}).catch(() => {}), page.ended()]); // a quick machine may have ended
  first.start();
  await ensemble.ready();
  await page.ended();
  assert.match(await page.panel(), /^Done/);
  assert.equal(await there('/felled'), false);
  await page.done();
});

test('the forms have nothing that axe finds', {timeout}, async () => {
  await first.create('/axe', '{"a":1}');
  const page = await editor({bypassCSP: true});
  for (const act of ['set', 'create', 'acl', 'copy', 'move', 'delete', 'export', 'import']) {
    await page.act(act, '/axe', 'button.main');
    assert.deepEqual(await violations(page), [], act);
  }
  await page.act('set', '/axe', 'textarea');
  await page.fill('.panel textarea', '{"a":2}');
  await page.plan('.diff');
  assert.deepEqual(await violations(page), []);
  await first.call('PUT', '/v1/nodes/axe', '{"a":3}');
  await page.plan('.three');
  assert.deepEqual(await violations(page), []);
  await go(page, '/done');
  assert.deepEqual(await violations(page), []);
});
