// The console of zkcli in a browser.

import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import {resolve} from 'node:path';
import {createInterface} from 'node:readline';
import {after, before, test} from 'node:test';
import {start} from './lib/ensemble.mjs';
import {populate} from './lib/stage.mjs';
import {go, launch, open, settled} from './lib/browser.mjs';

const zkcli = resolve(process.env.ZKCLI ?? '../../bin/zkcli');
let ensemble, browser, program;
before(async () => {
  ensemble = await start();
  await populate(ensemble.servers[0]);
  browser = await launch();
});
after(async () => {
  program?.kill();
  await browser?.close();
  await ensemble?.stop();
});

test('zkcli console', {timeout: 600_000}, async () => {
  program = spawn(zkcli, ['console', ensemble.servers.map(s => `127.0.0.1:${s.client}`).join()], {stdio: ['ignore', 'pipe', 'ignore']});
  const [link] = await new Promise(done => createInterface(program.stdout).once('line', line => done([line])));
  const context = await browser.newContext();
  const stranger = await context.newPage();
  await stranger.goto(new URL('/console/', link).href);
  assert.match(await stranger.innerText('body'), /for those who started it/);
  await context.close();
  const page = await open(browser, link);
  await settled(page);
  assert.equal(await page.isVisible('.mode'), false, 'it offers edits');
  assert.equal(await page.$$eval('tbody tr', rows => rows.length), 3);
  await go(page, '/coordination');
  await page.waitForSelector('[data-key="card/locks/backup"]');
  for (const name of await page.$$eval('nav a', list => list.map(a => a.dataset.page))) await go(page, '/' + name);
  await go(page, '/live/app');
  await page.waitForFunction(() => document.querySelector('main').innerText.includes('following'));
  await ensemble.servers[1].create('/app/by-zkcli', '');
  await page.waitForSelector('tr.change.created');
  await (await ensemble.leader()).kill();
  await go(page, '/overview');
  await page.waitForFunction(() => document.querySelector('.role.unreachable') && document.querySelector('.role.leader'), undefined, {timeout: 0});
  await go(page, '/tree/app/config');
  await page.waitForSelector('.data');
  assert.deepEqual(await page.done(), []);
});
