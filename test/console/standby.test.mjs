// The console of a standby.

import assert from 'node:assert/strict';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {session, start, superLines, until} from './lib/ensemble.mjs';
import {populate} from './lib/stage.mjs';
import {edit, go, launch, open, settled} from './lib/browser.mjs';

let ensemble, browser, standby;
let sessions = [];
before(async () => {
  ensemble = await start(['standaloneEnabled=false', ...superLines]);
  sessions = [...await populate(ensemble.servers[0]), await session(ensemble.servers[1])];
  standby = await ensemble.standby();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await ensemble?.stop();
});

test('a standby: it only reads, is cut off, and is promoted under an open page', {timeout: 600_000}, async () => {
  await until(async () => (await standby.call('GET', '/v1/overview')).standby.from);
  const page = await open(browser, standby.base + '/console/');
  await page.waitForFunction(() => /Standby of .*Follows.*Zxid.*Lag/s.test(document.querySelector('.headline.good')?.innerText), undefined, {timeout: 0});
  assert.equal(await page.isVisible('.mode'), false, 'it offers edits');
  const pages = await page.$$eval('nav a', list => list.map(a => a.dataset.page));
  assert.deepEqual(pages, ['overview', 'tree', 'coordination', 'sessions', 'live', 'search']);
  for (const name of pages) {
    await go(page, '/' + name);
    assert.equal(await page.$('.problem'), null, name);
  }
  await go(page, '/sessions');
  for (const s of sessions) await page.waitForSelector(`a[href="#/sessions/${s.id}"]`);
  await go(page, '/sessions/' + sessions[0].id);
  assert.match(await page.innerText('main'), /Ephemeral nodes.*backup/s);
  await go(page, '/coordination/locks/backup');
  assert.match(await page.innerText('main'), /host-1.*host-2/s);
  await go(page, '/tree/app/config');
  assert.match(await page.innerText('.data'), /timeout=30/);
  await go(page, '/tree/app/secret');
  assert.match(await page.innerText('.problem'), /may not read/);
  await go(page, '/history/app');
  assert.equal(await page.$('.problem'), null);
  const answer = await page.evaluate(async () => (await fetch('/console/v1/nodes/x', {method: 'POST', headers: {'X-Console': 'visitor'}})).json());
  assert.equal(answer.name, 'NOTREADONLY');
  await go(page, '/live/app');
  await page.waitForFunction(() => document.querySelector('main').innerText.includes('following'), undefined, {timeout: 0});
  await ensemble.servers[1].create('/app/while-it-follows', '');
  await page.waitForSelector('tr.change.created', {timeout: 0});

  for (const s of ensemble.servers) if (s !== standby) await s.kill();
  await go(page, '/overview');
  await page.waitForFunction(() => /none for/.test(document.querySelector('.headline.danger')?.innerText), undefined, {timeout: 0});
  assert.match(await page.innerText('.findings'), /follows none of them.*connection refused/s);
  await go(page, '/tree/app/while-it-follows');
  await page.waitForSelector('.data');

  await go(page, '/overview');
  await standby.kill('SIGTERM');
  const [{zxid}] = JSON.parse(standby.run('standby', 'status', '-o', 'json', standby.dir));
  standby.run('standby', 'promote', '--accept-data-loss-after', zxid, join(standby.dir, 'zoo.cfg'));
  standby.args = [];
  standby.start();
  await page.waitForFunction(() => /All is well.*Voters/s.test(document.querySelector('.headline')?.innerText), undefined, {timeout: 0});
  await page.waitForSelector('.mode', {timeout: 0}); // it was loaded again
  await settled(page);
  await edit(page);
  assert.deepEqual(await page.done(), []);
});
