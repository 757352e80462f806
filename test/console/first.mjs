// How long the first page takes, of one program or of several in turn, without and with 40 ms to the server: node first.mjs OLD/zkd NEW/zkd

import {start} from './lib/ensemble.mjs';
import {launch} from './lib/browser.mjs';

const rounds = Number(process.env.ROUNDS ?? 12);
const programs = process.argv.length > 2 ? process.argv.slice(2) : ['../../bin/zkd'];
const browser = await launch();

// visit is the first visit of a browser that has nothing kept.
async function visit(base, latency) {
  const context = await browser.newContext();
  const page = await context.newPage();
  if (latency) {
    const cdp = await context.newCDPSession(page);
    await cdp.send('Network.enable');
    await cdp.send('Network.emulateNetworkConditions', {offline: false, latency, downloadThroughput: -1, uploadThroughput: -1});
  }
  await page.addInitScript(() => { new MutationObserver(() => { if (document.querySelector('.headline')) window.shown ??= performance.now(); }).observe(document, {childList: true, subtree: true}); });
  await page.goto(base + '/console/');
  await page.waitForFunction(() => window.shown && performance.getEntriesByName('first-contentful-paint').length, undefined, {timeout: 0});
  const out = await page.evaluate(() => ({
    shown: window.shown, paint: performance.getEntriesByName('first-contentful-paint')[0].startTime,
    requests: performance.getEntriesByType('resource').filter(r => r.startTime <= window.shown).map(r => ({from: r.startTime, to: r.responseEnd, bytes: r.transferSize})),
  }));
  await context.close();
  return out;
}

// series is how many requests came one after the other: each begins when the one before has ended.
function series(requests) {
  let n = 0, end = -1;
  for (const r of requests.toSorted((a, b) => a.from - b.from)) if (r.from >= end) { n++; end = r.to; }
  return n + 1; // the page itself
}

const ensembles = [];
for (const zkd of programs) ensembles.push(await start([], {zkd}));
const visits = new Map();
for (let i = 0; i < rounds; i++) {
  for (const latency of [0, 40]) {
    for (const [n, e] of ensembles.entries()) {
      const key = `${programs[n]}, ${latency} ms`;
      visits.set(key, [...visits.get(key) ?? [], await visit(e.servers[0].base, latency)]);
    }
  }
}
for (const [key, list] of visits) {
  const of = f => { const all = list.map(f).sort((a, b) => a - b); return `${Math.round(all[0])} ${Math.round(all[all.length >> 1])} ${Math.round(all.at(-1))}`; };
  console.log(`${key}: shown ${of(v => v.shown)} ms (least, median, most), painted ${of(v => v.paint)}, ${of(v => series(v.requests))} requests in series of ${of(v => v.requests.length + 1)}, ${of(v => v.requests.reduce((n, r) => n + r.bytes, 0))} bytes`);
}
await browser.close();
for (const e of ensembles) await e.stop();
process.exit();
