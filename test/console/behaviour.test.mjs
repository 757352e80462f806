// What people do with the console, and what others try with it.

import assert from 'node:assert/strict';
import {createServer} from 'node:http';
import {after, before, test} from 'node:test';
import {session, start, superLines, until} from './lib/ensemble.mjs';
import {hostile, populate} from './lib/stage.mjs';
import {edit, go, launch, open, settled, signIn} from './lib/browser.mjs';

const timeout = 600_000;
let ensemble, browser, first;
before(async () => {
  ensemble = await start(['audit.enable=true', 'reconfigEnabled=true', 'zkd.limit.odd=identity "x509:CN=<img src=x onerror=alert(1)>" watches=5', ...superLines]);
  [first] = ensemble.servers;
  await populate(first);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await ensemble?.stop();
});

const at = (page, path = '') => `${first.base}/console/${path}`;
const text = page => page.innerText('main');

test('every page, without a violation', {timeout}, async () => {
  const page = await open(browser, at());
  for (const name of await page.$$eval('nav a', list => list.map(a => a.dataset.page))) {
    await go(page, '/' + name);
    await page.waitForFunction(() => document.querySelector('main').innerText.length > 20, undefined, {timeout: 0});
  }
  assert.deepEqual(await page.done(), []);
});

test('hostile names and values are texts', {timeout}, async () => {
  const page = await open(browser, at('', '#/tree/hostile'));
  for (const name of hostile) {
    await go(page, '/tree/hostile/' + encodeURIComponent(name));
    await page.waitForSelector('.data');
    const value = await page.textContent('.data');
    assert.ok(value.includes('\\u0085') && value.includes('\\u2066'), `characters that can't be seen are written out: ${value}`);
    assert.equal(await page.evaluate(() => document.querySelectorAll('main img, main script, main iframe, main svg').length), 0, name);
    const over = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `${name}: ${over} px too wide`);
  }
  await go(page, '/tree/hostile');
  assert.ok(!/[\u202a-\u202e\u2066-\u2069]/.test(await text(page)), 'characters that change the direction');
  assert.deepEqual(await page.done(), []);
});

// harmless checks that a page has made nothing of what it shows but texts.
async function harmless(page, what) {
  assert.deepEqual(await page.$$eval('main :is(img, script, iframe, object, embed, base, form[action])', list => list.map(e => e.outerHTML)), [], what);
  assert.deepEqual(await page.$$eval('main a', list => list.filter(a => !a.getAttribute('href').startsWith('#/')).map(a => a.outerHTML)), [], what);
  assert.ok(!/[\u202a-\u202e\u2066-\u2069]/.test(await text(page)), `${what}: characters that change the direction`);
  const over = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
  assert.ok(over <= 0, `${what}: ${over} px too wide`);
}

test('hostile names and values on the pages of lists', {timeout}, async () => {
  const s = await session(first);
  for (const name of hostile.slice(0, 7)) await s.create('/workers/' + name, name, 'ephemeral');
  const page = await open(browser, at());
  await signIn(page, 'super', 'secret');
  const shows = async (to, selector = 'tbody tr') => {
    await go(page, to);
    await page.waitForSelector('main ' + selector, {timeout: 0});
    await harmless(page, to);
  };
  await shows('/search/hostile?name=.');
  await until(async () => / found\./.test(await text(page)));
  for (const name of hostile.slice(0, 3)) assert.ok((await text(page)).includes(name), name);
  await shows('/history/hostile?below=true', '.history li');
  await page.$$eval('.history button', list => list.forEach(b => b.click()));
  await page.waitForSelector('.history .diff', {timeout: 0});
  await harmless(page, 'values in the history');
  await go(page, '/live/hostile');
  await until(async () => (await text(page)).includes('following'));
  for (const name of hostile) await first.call('PUT', '/v1/nodes/hostile/' + encodeURIComponent(name), name);
  await page.waitForFunction(n => document.querySelectorAll('tr.change').length === n, hostile.length, {timeout: 0});
  await harmless(page, 'live');
  await shows('/sessions/' + s.id, '.paths li');
  await shows('/sessions');
  await shows('/coordination/workers', '.object li');
  await shows('/limits');
  assert.match(await text(page), /<img src=x onerror=alert\(1\)>/);
  await shows('/configuration');
  await shows('/audit');
  assert.match(await text(page), /<img src=x onerror=alert\(1\)>/);
  await s.end();
  assert.deepEqual(await page.done(), []);
});

test('hostile addresses', {timeout}, async () => {
  const page = await open(browser, at());
  await signIn(page, 'super', 'secret');
  await edit(page);
  for (const odd of ['<img src=x onerror=alert(1)>', '\u202e', 'constructor', 'x'.repeat(2000)]) {
    const v = encodeURIComponent(odd);
    for (const to of ['members?done=', 'members?do=', 'members?do=remove&id=', 'members?do=add&line=', 'configuration?key=', 'configuration?do=set&to=1&key=', 'configuration?key=maxClientCnxns&do=set&to=',
      'limits?do=set&to=1&key=zkd.limit.', 'limits?do=set&key=zkd.limit.odd&to=', 'search/?name=', 'search/?data=', 'history/', 'live/', 'sessions/', 'coordination/', 'tree/app?do=', 'tree/', 'done?do=']) {
      await go(page, '/' + to + v);
      await harmless(page, to + odd.slice(0, 30));
    }
  }
  for (const odd of ['constructor', 'valueof', 'tostring', '%00', '%zz']) {
    await page.evaluate(to => { location.hash = to; }, '/' + odd);
    await page.waitForFunction(() => document.querySelector('main').firstChild, undefined, {timeout: 0});
    assert.doesNotMatch(await page.title(), /undefined/);
  }
  assert.deepEqual(await page.done(), []);
});

test('a change is seen live', {timeout}, async () => {
  const page = await open(browser, at());
  await go(page, '/live/app');
  await until(async () => (await text(page)).includes('following'));
  await first.create('/app/now', 'x');
  await page.waitForSelector('tr.change.created');
  assert.match(await page.textContent('tr.change.created'), /\/app\/now/);
  assert.deepEqual(await page.done(), []);
});

test('live changes pause, and a feed that is lost says so', {timeout}, async () => {
  const here = ensemble.servers[1];
  const page = await open(browser, here.base + '/console/');
  const shows = words => until(async () => (await text(page)).includes(words));
  await go(page, '/live/app');
  await shows('following');
  await page.click('text=Pause');
  await here.create('/app/paused', 'x');
  await shows('1 change waiting');
  assert.equal(await page.$('tr.change'), null);
  await page.click('text=Continue');
  await page.waitForSelector('tr.change.created');
  await here.kill();
  await shows('lost; connecting…');
  here.start();
  await shows('following');
  await first.create('/app/again', 'x');
  await shows('/app/again');
  assert.deepEqual(await page.done(), []);
  await ensemble.ready();
});

test('a long value is read in part, and on demand', {timeout}, async () => {
  await first.create('/app/wide', 'x'.repeat(100_000) + 'end');
  const page = await open(browser, at());
  const sizes = [];
  page.on('response', r => { if (r.url().endsWith('/v1/nodes/app/wide') && r.request().method() === 'GET') sizes.push(Number(r.headers()['content-length'])); });
  await go(page, '/tree/app/wide');
  await until(async () => /These are the first 65,536 bytes/.test(await text(page)));
  await page.click('text=Read all');
  await until(async () => /xend/.test(await page.textContent('pre.data')));
  assert.deepEqual(sizes, [65536, 100003]);
  await page.click('text=Who watches it');
  await until(async () => /No client of this server watches its data/.test(await text(page)));
  assert.deepEqual(await page.done(), []);
});

test('the leader is killed while pages are open', {timeout}, async () => {
  const leader = await ensemble.leader();
  const other = ensemble.servers.find(s => s !== leader);
  const here = await open(browser, other.base + '/console/');
  await settled(here);
  const there = await open(browser, leader.base + '/console/');
  await settled(there);
  await leader.kill();
  await here.waitForFunction(() => document.querySelector('.role.unreachable') && document.querySelector('.role.leader'), undefined, {timeout: 0});
  await there.waitForSelector('.problem', {timeout: 0});
  assert.match(await text(there), /does not answer/);
  leader.start();
  await there.waitForFunction(() => !document.querySelector('.problem') && document.querySelectorAll('.role.follower').length === 2, undefined, {timeout: 0});
  assert.deepEqual([...await here.done(), ...await there.done()], []);
  await ensemble.ready();
});

test('without an identity, with one, and with one that may nothing', {timeout}, async () => {
  const page = await open(browser, at());
  await go(page, '/tree/app/secret');
  await page.waitForFunction(() => /may not read/.test(document.querySelector('main').innerText), undefined, {timeout: 0});
  const as = async (user, password) => {
    await page.click('.tools [aria-haspopup=dialog]');
    await page.fill('dialog[open] input[autocomplete=username]', user);
    await page.fill('dialog[open] input[type=password]', password);
    await page.press('dialog[open] input[type=password]', 'Enter');
    await page.waitForSelector('dialog[open]', {state: 'detached'});
  };
  await as('bob', 'x');
  await go(page, '/tree/app');
  await go(page, '/tree/app/secret');
  await page.waitForSelector('main .problem');
  await as('ann', 'secret');
  await go(page, '/tree/app');
  await go(page, '/tree/app/secret');
  await page.waitForSelector('main .data');
  await page.reload();
  await page.waitForSelector('main .data'); // the sign-in is the server's
  assert.ok(!(await page.evaluate(() => document.cookie)).includes('zkd'), 'a script reads the cookie');
  assert.deepEqual(await page.done(), []);
});

test('every page with an identity that may nothing', {timeout}, async () => {
  const page = await open(browser, at());
  await signIn(page, 'bob', 'x');
  await edit(page);
  const refused = async (to, selector = '.problem') => {
    await go(page, to);
    await page.waitForSelector('main ' + selector, {timeout: 0});
    assert.match(await page.innerText('main ' + selector), /only those may do this who may write \/zookeeper\/config/, to);
    assert.equal(await page.$('.panel form button.main'), null, `${to}: it can be confirmed`);
  };
  for (const does of ['remove&id=3', 'promote&id=3', 'demote&id=3', 'lead&id=2', 'drain', 'letin', 'add&line=4=zk4:2888:3888;2181', 'replace&id=3&line=4=zk4:2888:3888;2181']) await refused('/members?do=' + does, '.panel .problem');
  for (const to of ['/configuration', '/audit', '/limits', '/limits?key=zkd.limit.odd&do=unset']) await refused(to);
  await go(page, '/search/app?name=secret');
  await until(async () => /0 found\./.test(await text(page)));
  for (const to of ['/history/app/secret', '/live/app/secret', '/tree/app/secret']) {
    await go(page, to);
    assert.equal(await page.$('main .history li, main tbody tr, main pre.data'), null, to);
  }
  assert.deepEqual(await page.done(), []);
});

test('keyboard alone', {timeout}, async () => {
  const page = await open(browser, at());
  await settled(page);
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
  await page.keyboard.press('2');
  await page.waitForSelector('main[data-page=tree]');
  await settled(page);
  await page.focus('[role=treegrid]');
  await page.keyboard.press('Home');
  const active = () => page.evaluate(() => { const grid = document.querySelector('[role=treegrid]'); return document.getElementById(grid.getAttribute('aria-activedescendant'))?.textContent ?? ''; });
  for (let i = 0; i < 20 && !(await active()).includes('app'); i++) await page.keyboard.press('ArrowDown');
  assert.match(await active(), /app/);
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash === '#/tree/app');
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('role')), 'treegrid', 'the focus stays');
  await page.keyboard.press('g');
  await page.keyboard.type('locks/backup');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash === '#/tree/locks/backup');
  await page.keyboard.press('?');
  await page.waitForSelector('dialog[open]');
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog[open]', {state: 'detached'});
  // Every page: Tab reaches the content, and what has the focus is seen.
  await signIn(page, 'super', 'secret');
  const names = await page.$$eval('nav a', list => list.map(a => a.dataset.page));
  for (const to of [...names, 'history/app/config', 'search/?name=config', 'members?do=drain', 'configuration?key=maxClientCnxns']) {
    await go(page, '/' + to);
    await page.waitForSelector('main :is(a, button, input, [tabindex])', {timeout: 0});
    await page.focus('main');
    let inside = 0;
    for (let i = 0; i < 12; i++) {
      await page.keyboard.press('Tab');
      const [hidden, within] = await page.evaluate(() => {
        const e = document.activeElement, s = getComputedStyle(e);
        return [e !== document.body && s.outlineStyle === 'none' && s.boxShadow === 'none' ? e.outerHTML.slice(0, 100) : '', !!e.closest('main') && e.tagName !== 'MAIN'];
      });
      assert.equal(hidden, '', `${to}: the focus is not seen`);
      inside += within;
    }
    assert.ok(inside > 0, `${to}: Tab does not reach the content`);
  }
  assert.deepEqual(await page.done(), []);
});

test('the focus survives updates', {timeout}, async () => {
  const page = await open(browser, at());
  await go(page, '/coordination');
  await page.waitForSelector('[data-key="card/locks/backup"]');
  await page.focus('[data-key="card/locks/backup"]');
  await first.create('/app/another', '');
  await page.waitForTimeout(7000); // two rounds of reading
  assert.equal(await page.evaluate(() => document.activeElement.dataset.key), 'card/locks/backup');
  assert.deepEqual(await page.done(), []);
});

test('other origins', {timeout}, async () => {
  const tried = `
    <body><script type=module>
    const out = {};
    const attempt = async (name, f) => { try { out[name] = await f(); } catch (e) { out[name] = 'failed'; } };
    await attempt('read', async () => (await fetch('${first.base}/v1/nodes/app')).status);
    await attempt('blind', async () => (await fetch('${first.base}/v1/nodes/stolen', {method: 'POST', mode: 'no-cors', body: 'x'})).type);
    await attempt('through', async () => (await fetch('${first.base}/console/v1/nodes/stolen', {method: 'POST', mode: 'no-cors', body: 'x', credentials: 'include'})).type);
    await attempt('header', async () => (await fetch('${first.base}/console/v1/nodes/stolen', {method: 'POST', headers: {'X-Console': 'visitor'}, body: 'x'})).status);
    await attempt('frame', () => new Promise(done => { const f = document.createElement('iframe'); f.src = '${first.base}/console/'; f.onload = () => { try { done(f.contentDocument ? 'blank' : 'other'); } catch { done('other'); } }; document.body.append(f); }));
    const form = document.createElement('form'); form.method = 'post'; form.action = '${first.base}/v1/nodes/stolen'; form.target = 'x'; document.body.append(form); form.submit();
    window.out = out;
    </script>`;
  const evil = createServer((_, r) => r.setHeader('Content-Type', 'text/html').end(tried));
  await new Promise(done => evil.listen(0, '127.0.0.1', done));
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`http://127.0.0.1:${evil.address().port}/`);
  await page.waitForFunction(() => window.out, undefined, {timeout: 0});
  const out = await page.evaluate(() => window.out);
  assert.equal(out.read, 'failed');
  assert.equal(out.header, 'failed');
  await page.waitForTimeout(1000);
  const names = (await first.call('GET', '/v1/children/')).children.map(c => c.name);
  assert.ok(!names.includes('stolen'), names.join());
  assert.ok(!page.frames().some(f => f.url().endsWith('/console/')), 'it can be framed');
  await context.close();
  evil.close();
  // A name that resolves to the server.
  const r = await fetch(first.base + '/console/', {headers: {Host: 'evil.example'}}).catch(() => ({status: 403}));
  assert.notEqual(r.status, 500);
});
