// A node with a million children (CHILDREN for another number): pages of 500, few rows in the page, and little memory.

import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {start} from './lib/ensemble.mjs';
import {go, launch, open} from './lib/browser.mjs';

const children = Number(process.env.CHILDREN ?? 1_000_000);
const most = 150; // MB of the browser's heap and the page
let ensemble, browser;
before(async () => {
  ensemble = await start();
  const [s] = ensemble.servers;
  await s.create('/wide');
  for (let i = 0; i < children; i += 5000) {
    await s.multi(Array.from({length: Math.min(5000, children - i)}, (_, n) => ({op: 'create', path: `/wide/n${String(i + n).padStart(7, '0')}`})));
  }
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await ensemble?.stop();
});

test('a million children', {timeout: 3600_000}, async t => {
  const page = await open(browser, ensemble.servers[0].base + '/console/');
  const pages = [];
  page.on('response', async r => { if (r.url().includes('/children/wide')) pages.push(await r.json().then(j => j.children.length, () => 0)); });
  const asked = await page.evaluate(() => performance.now());
  await go(page, '/tree/wide');
  await page.waitForFunction(() => document.querySelectorAll('.rows .row').length > 10);
  await page.waitForFunction(() => [...document.querySelectorAll('.rows .name')].some(n => n.textContent === 'n0000000'));
  t.diagnostic(`the first names after ${Math.round(await page.evaluate(() => performance.now()) - asked)} ms`);
  const rows = () => page.evaluate(() => document.querySelectorAll('.rows .row').length);
  let largest = await rows();
  for (let i = 0; i < 60; i++) {
    await page.evaluate(() => { const box = document.querySelector('.rows'); box.scrollTop = box.scrollHeight; });
    await page.waitForTimeout(100);
    largest = Math.max(largest, await rows());
  }
  assert.ok(largest < 150, `${largest} rows in the page`);
  assert.ok(pages.length > 5 && pages.every(n => n <= 500), pages.join());
  await page.fill('input[placeholder="jump to a name"]', 'n' + String(children - 1000).padStart(7, '0'));
  await page.waitForFunction(name => [...document.querySelectorAll('.rows .name')].some(n => n.textContent === name), 'n' + String(children - 999).padStart(7, '0'), {timeout: 0});
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const {usedSize, totalSize, embedderHeapUsedSize = 0, backingStorageSize = 0} = await session.send('Runtime.getHeapUsage');
  const mb = n => Math.round(n / 1e5) / 10;
  t.diagnostic(`${pages.length} pages asked for, at most ${largest} rows; heap ${mb(usedSize)} of ${mb(totalSize)} MB, DOM ${mb(embedderHeapUsedSize)} MB, buffers ${mb(backingStorageSize)} MB`);
  assert.ok(totalSize + embedderHeapUsedSize + backingStorageSize < most * 1e6);
  assert.deepEqual(await page.done(), []);
});
