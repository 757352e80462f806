// The past in the console: older changes, a subtree brought back to a moment, backups.

import assert from 'node:assert/strict';
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {start, until} from './lib/ensemble.mjs';
import {hostile} from './lib/stage.mjs';
import {go, launch, open, settled, themes, violations, widths} from './lib/browser.mjs';

const timeout = 600_000;
const archive = mkdtempSync(join(tmpdir(), 'zkd-archive-'));
let ensemble, browser, first;
before(async () => {
  ensemble = await start(['audit.enable=true', `zkd.archive=${archive}`, 'DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=']);
  [first] = ensemble.servers;
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await ensemble?.stop();
  rmSync(archive, {recursive: true});
});

const data = (path, server = first) => server.call('GET', '/v1/nodes' + path);
const there = path => data(path).then(() => true, () => false);
const zxid = async (server = first) => (await fetch(server.base + '/v1/children/?limit=1')).headers.get('X-Zxid');
const said = (page, pattern) => page.waitForFunction(p => new RegExp(p).test(document.querySelector('main').innerText), pattern.source, {timeout: 0});

async function editor(server = first, options) {
  const page = await open(browser, server.base + '/console/#/tree', options);
  await page.waitForSelector('.acts');
  await page.focus('main');
  await page.keyboard.press('e');
  await page.waitForSelector('.mode[aria-pressed=true]');
  return page;
}

// stage makes 150 nodes, and then changes, deletes and creates. It returns the zxid between.
async function stage(path) {
  await first.create(path, 'one');
  const names = Array.from({length: 150}, (_, i) => `${path}/n${i}`);
  await first.multi(names.map(path => ({op: 'create', path, text: 'then'})));
  const then = await zxid();
  await first.multi([{op: 'set', path, text: 'two'}, ...names.slice(0, 120).map(path => ({op: 'delete', path})), {op: 'create', path: path + '/new'}]);
  return then;
}

test('a subtree is restored: the differences, the name, the way back', {timeout}, async () => {
  const then = await stage('/back');
  const page = await editor();
  await go(page, '/tree/back');
  await page.click('.acts a:has-text("Restore")');
  await page.fill('main form input[type=text]', then);
  await page.click('main form button.main');
  await said(page, /122 nodes differ[^]*120 nodes are created, 1 changed, 1 deleted/);
  await page.click('.history li:has-text("data") button');
  await page.waitForSelector('.history .diff .new');
  assert.ok(await page.isDisabled('form.panel button.main'));
  await page.fill('form.panel input', 'bac');
  assert.ok(await page.isDisabled('form.panel button.main'));
  await page.fill('form.panel input', 'back');
  assert.equal(await data('/back'), 'two');
  await page.click('form.panel button.main');
  await said(page, /Done[^]*120 created, 1 changed, 1 deleted/);
  assert.equal(await data('/back'), 'one');
  assert.equal(await data('/back/n0'), 'then');
  assert.ok(!await there('/back/new'));
  await page.click('main a:has-text("Undo")');
  await said(page, /1 node is created, 1 changed, 120 deleted/);
  await page.fill('form.panel input', 'back');
  await page.click('form.panel button.main');
  await said(page, /Done/);
  assert.equal(await data('/back'), 'two');
  assert.ok(await there('/back/new') && !await there('/back/n0'));
  assert.deepEqual(await page.done(), []);
});

test('somebody else is faster than a restore; a moment that is not known', {timeout}, async () => {
  const then = await stage('/raced');
  const page = await editor();
  await go(page, `/restore/raced?zxid=${then}`);
  await said(page, /122 nodes differ/);
  await first.call('PUT', '/v1/nodes/raced', 'three');
  await page.fill('form.panel input', 'raced');
  await page.click('form.panel button.main');
  await said(page, /others than those that were seen/);
  assert.equal(await data('/raced'), 'three');
  await page.click('main button:has-text("Look again")');
  await said(page, /122 nodes differ/);
  await go(page, '/restore/raced?at=2001-01-01T00:00:00Z');
  await said(page, /before the first transaction/);
  assert.deepEqual(await page.done(), []);
});

test('a restore shows how far it is, and is cancelled between two pieces', {timeout}, async () => {
  await first.create('/long');
  const then = await zxid(), all = 10_000;
  for (let i = 0; i < all; i += 500) await first.multi(Array.from({length: 500}, (_, n) => ({op: 'create', path: `/long/n${i + n}`})));
  const page = await editor();
  await go(page, `/restore/long?zxid=${then}`);
  await said(page, /10,000 nodes differ/);
  await page.evaluate(() => new MutationObserver(() => { // as soon as it can be
    const bar = document.querySelector('progress'), cancel = [...document.querySelectorAll('main button')].find(b => b.innerText === 'Cancel');
    if (bar?.value > 0 && !cancel.disabled) cancel.click();
  }).observe(document.querySelector('main'), {subtree: true, childList: true, attributes: true}));
  await page.fill('form.panel input', 'long');
  await page.click('form.panel button.main');
  await said(page, /of 10000 nodes are done, the next is \/long\/n[0-9]+: it was cancelled[^]*0 created, 0 changed, [0-9]+ deleted/);
  const left = (await first.call('GET', '/v1/nodes/long', undefined, {Accept: 'application/json'})).stat.numChildren;
  assert.ok(left > 0 && left < all && left % 500 === 0, `${left} are left`);
  await page.click('main a:has-text("Undo")');
  await said(page, new RegExp(`${(all - left).toLocaleString('en')} nodes? differ`));
  assert.deepEqual(await page.done(), []);
});

test('the leader is killed between the differences and the restore', {timeout}, async () => {
  const then = await stage('/killed');
  const leader = await ensemble.leader();
  const other = ensemble.servers.find(s => s !== leader);
  const page = await editor(other);
  await go(page, `/restore/killed?zxid=${then}`);
  await said(page, /122 nodes differ/);
  await leader.kill();
  await page.fill('form.panel input', 'killed');
  await page.click('form.panel button.main');
  await page.waitForFunction(() => /Done/.test(document.querySelector('main .panel')?.innerText) || document.querySelector('main [role=status] .problem'), undefined, {timeout: 0});
  while (!/Done/.test(await page.innerText('main .panel'))) { // the connection was lost: what is there tells
    await page.click('main button:has-text("Look again")');
    await page.waitForFunction(() => /differ/.test(document.querySelector('main').innerText) || document.querySelector('main .problem'), undefined, {timeout: 0});
    if (/Nothing differs/.test(await page.innerText('main'))) break;
    if (await page.isVisible('form.panel button.main')) {
      await page.fill('form.panel input', 'killed').catch(() => {});
      await page.click('form.panel button.main');
      await page.waitForFunction(() => /Done/.test(document.querySelector('main .panel')?.innerText) || document.querySelector('main [role=status] .problem'), undefined, {timeout: 0});
    }
  }
  assert.equal(await data('/killed', other), 'one');
  leader.start();
  await ensemble.ready();
  assert.deepEqual(await page.done(), []);
});

test('a deleted subtree is looked at as it was, while the leader dies, and brought back from there', {timeout}, async () => {
  await first.create('/gone', '{"of":"old"}');
  await first.create('/gone/below', 'x'.repeat(70_000));
  await first.create('/gone/below/leaf', 'leaf');
  await first.create('/gone/<img src=x onerror=alert(1)>', hostile.join('\n'));
  await first.create('/gone/secret', 'no', '?acl=' + encodeURIComponent('digest:ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM=:cdrwa'));
  const then = await zxid();
  await first.multi(['below/leaf', 'below', '<img src=x onerror=alert(1)>', 'secret', ''].map(p => ({op: 'delete', path: ('/gone/' + p).replace(/\/$/, '')})));
  const leader = await ensemble.leader(), other = ensemble.servers.find(s => s !== leader);
  await until(async () => BigInt(await zxid(other)) > BigInt(then));
  const page = await editor(other);
  await go(page, '/tree/gone');
  await said(page, /There is no such node/);
  await page.focus('details.asof summary'); // all by the keyboard
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => /goes back/.test(document.querySelector('.asof')?.innerText));
  await page.fill('.asof input[type=text]', then);
  await page.keyboard.press('Enter');
  await said(page, /as it was after zxid[^]*Read-only[^]*"of": "old"[^]*may do everything/);
  assert.equal(await page.evaluate(() => location.hash), `#/tree/gone?zxid=${then}`);
  assert.equal(await page.$('.acts'), null);
  const rows = () => page.$$eval('.rows .row .name', list => list.map(e => e.innerText));
  await page.waitForFunction(() => document.querySelectorAll('.rows [aria-level="3"]').length === 3, undefined, {timeout: 0});
  assert.deepEqual((await rows()).filter(n => /img|below|secret/.test(n)), ['<img src=x onerror=alert(1)>', 'below', 'secret']);
  await leader.kill();
  await page.click('.rows .row:has-text("below") .name');
  await page.waitForFunction(() => /first 65,536 bytes/.test(document.querySelector('.detail').innerText), undefined, {timeout: 0});
  await page.click('.detail button:has-text("Read all")');
  await page.waitForFunction(() => document.querySelector('.detail pre').innerText.length === 70_000, undefined, {timeout: 0});
  await page.click('.rows .row:has-text("secret") .name');
  await said(page, /You may not read this node, or could not then/);
  await page.reload(); // the URL has it all
  await said(page, /You may not read this node, or could not then/);
  await page.click('.crumbs a:has-text("gone")');
  await said(page, /"of": "old"/);
  await page.click('.then a:has-text("Changes since then")');
  await said(page, /4 nodes differ[^]*4 nodes are created/);
  await page.focus('main');
  if (await page.getAttribute('.mode', 'aria-pressed') !== 'true') await page.keyboard.press('e');
  await page.waitForSelector('form.panel button.main');
  await until(() => other.call('GET', '/v1/nodes/?consistency=linearizable').then(() => true)); // there is another leader
  await page.click('form.panel button.main');
  await said(page, /Done/);
  assert.equal(await data('/gone/below/leaf', other), 'leaf');
  assert.ok(!await other.call('GET', '/v1/nodes/gone/secret').then(() => true, () => false));
  await page.click('main a:has-text("To the node")');
  await said(page, /"of": "old"/);
  assert.equal(await page.$('.then'), null);
  leader.start();
  await ensemble.ready();
  await go(page, '/tree/gone?at=2001-01-01T00:00:00Z');
  await said(page, /before the first transaction/);
  assert.deepEqual(await page.done(), []);
});

test('older changes from the log, and the moment before one of them', {timeout}, async () => {
  await first.create('/older', 'a');
  await first.call('PUT', '/v1/nodes/older', 'b');
  const page = await editor();
  await go(page, '/history/older');
  await said(page, /2 changes/);
  await page.click('main button:has-text("Older")');
  await said(page, /Nothing before that is known/);
  await page.click('.history li:has-text("data set") a:has-text("Restore to before this")');
  await said(page, /1 node differs/);
  await page.click('form.panel button.main');
  await said(page, /Done/);
  assert.equal(await data('/older'), 'a');
  const audit = await fetch(first.base + '/v1/audit', {headers: {Authorization: 'digest super:secret'}}).then(r => r.json());
  assert.ok(audit.entries.some(e => e.operation === 'setData' && e.znode === '/older' && e.via === 'console'));
  assert.deepEqual(await page.done(), []);
});

test('backups: for operators alone; one is made and verified', {timeout}, async () => {
  const page = await editor();
  await go(page, '/backups');
  await said(page, /only those may do this/);
  await page.click('.tools [aria-haspopup=dialog]');
  await page.fill('dialog[open] input[autocomplete=username]', 'super');
  await page.fill('dialog[open] input[type=password]', 'secret');
  await page.press('dialog[open] input[type=password]', 'Enter');
  await page.waitForSelector('dialog[open]', {state: 'detached'});
  await go(page, '/overview');
  await go(page, '/backups');
  await page.click('main button:has-text("Back up now")');
  await said(page, /is made and verified/);
  await page.click('main tbody button:has-text("Verify")');
  await said(page, /It was read[^]*sound/);
  assert.deepEqual(await page.done(), []);
});

test('restore and backups at each width, in both themes', {timeout}, async () => {
  const then = await stage('/shown');
  const wrong = [];
  for (const width of widths) {
    for (const theme of themes) {
      const page = await open(browser, first.base + '/console/', {width, theme, bypassCSP: true});
      await settled(page);
      for (const hash of [`/tree/shown?zxid=${then}`, '/tree/shown?zxid=1', `/restore/shown?zxid=${then}`, '/restore/shown', '/backups', '/history/shown?below=true']) {
        await go(page, hash);
        await page.waitForTimeout(300);
        if (hash.startsWith('/tree')) await page.click('.asof summary');
        wrong.push(...(await violations(page)).map(v => `${hash} ${width} ${theme}: ${v}`));
        const over = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
        if (over > 0) wrong.push(`${hash} is ${over} px wider than ${width}`);
        const cut = await page.$$eval('nav a', list => list.filter(a => a.getBoundingClientRect().right > innerWidth).map(a => a.textContent));
        if (cut.length) wrong.push(`${width}: the navigation is cut before ${cut}`);
        if (process.env.PICTURES) await page.screenshot({path: join(process.env.PICTURES, `${hash.slice(1).replace(/[^a-z]+/g, '-')}-${width}-${theme}.png`)});
      }
      wrong.push(...await page.done());
    }
  }
  assert.deepEqual(wrong, [], wrong.join('\n'));
});
