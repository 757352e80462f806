// What operators do with the console: each action with its plan, its refusal, and its entry in the audit log. And what they look up: search,
// history, audit.

import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {session, start, superLines, until, word} from './lib/ensemble.mjs';
import {populate} from './lib/stage.mjs';
import {edit, go, launch, open, signIn} from './lib/browser.mjs';

const timeout = 900_000;
let ensemble, browser, first, page;
before(async () => {
  ensemble = await start(['audit.enable=true', 'reconfigEnabled=true', 'extendedTypesEnabled=true', 'zkd.limit.each=address * connections=500', ...superLines]);
  [first] = ensemble.servers;
  await populate(first);
  browser = await launch();
  page = await open(browser, first.base + '/console/');
  await signIn(page, 'super', 'secret');
  await edit(page);
});
after(async () => {
  await browser?.close();
  await ensemble?.stop();
});

const text = () => page.innerText('main');
const shows = pattern => until(async () => pattern.test(await text()));

// get asks the API as the operator.
const get = url => page.evaluate(async url => {
  const {token} = await (await fetch('/console/session', {headers: {'X-Console': 'visitor'}})).json();
  const r = await fetch('/console' + url, {headers: {'X-Console': token}});
  if (!r.ok) throw new Error(`${url}: ${r.status} ${await r.text()}`);
  return r.json();
}, url);

const value = async key => (await get('/v1/configuration')).settings.find(s => s.key === key)?.value;

// plan shows the plan of an action, and returns its text.
async function plan(to) {
  await go(page, to);
  await page.waitForSelector('.panel form button.main', {timeout: 0});
  return page.innerText('.panel');
}

const confirm = () => page.press('.panel form button.main', 'Enter');

// audited returns the entries of the console's operator about an operation, with a key or a value.
async function audited(operation, words = '') {
  const {entries} = await get('/v1/audit');
  return entries.filter(e => e.operation === operation && e.via === 'console' && e.users.includes('digest:super') && e.result === 'success' && JSON.stringify(e).includes(words));
}

test('a limit is changed, by the keyboard alone', {timeout}, async () => {
  await go(page, '/limits');
  await page.waitForSelector('form input[aria-label=Rule]', {timeout: 0});
  await page.focus('form:nth-of-type(1) input[aria-label=Rule]');
  await page.keyboard.press('Control+A');
  await page.keyboard.type('address * connections=400');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.panel .diff', {timeout: 0});
  assert.match(await page.innerText('.panel'), /−zkd.limit.each=address \* connections=500\s+\+zkd.limit.each=address \* connections=400/);
  assert.equal(await value('zkd.limit.each'), 'address * connections=500', 'the plan changes nothing');
  await page.waitForFunction(() => document.activeElement.matches('.panel button.main'), undefined, {timeout: 0});
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash === '#/limits', undefined, {timeout: 0});
  assert.equal(await value('zkd.limit.each'), 'address * connections=400');
  assert.equal((await audited('configure', 'connections=400')).length, 1);
  await plan('/limits?key=zkd.limit.each&do=unset');
  await confirm();
  await until(async () => await value('zkd.limit.each') === 'address * connections=500');
  await go(page, '/limits?key=zkd.limit.each&do=set&to=nonsense');
  await page.waitForSelector('.panel .problem', {timeout: 0});
  assert.equal(await page.$('.panel form'), null, 'what is wrong can be confirmed');
});

test('a key is changed, unless somebody else was faster', {timeout}, async () => {
  assert.match(await plan('/configuration?key=maxClientCnxns&do=set&to=70'), /−maxClientCnxns=60\s+\+maxClientCnxns=70/);
  await confirm();
  await until(async () => await value('maxClientCnxns') === '70');
  assert.equal((await audited('configure', '"70"')).length, 1);
  await plan('/configuration?key=maxClientCnxns&do=set&to=80');
  const other = await open(browser, first.base + '/console/');
  await signIn(other, 'super', 'secret');
  await edit(other);
  await go(other, '/configuration?key=maxClientCnxns&do=set&to=75');
  await other.press('.panel form button.main', 'Enter');
  await until(async () => await value('maxClientCnxns') === '75');
  await other.done();
  await confirm();
  await page.waitForSelector('.panel .problem', {timeout: 0});
  assert.match(await page.innerText('.panel .problem'), /is "75" meanwhile/);
  assert.equal(await value('maxClientCnxns'), '75');
  await page.click('text=Plan again');
  await go(page, '/configuration?key=tickTime&do=set&to=1000');
  await shows(/tickTime can't change while the server runs/);
  await plan('/configuration?key=maxClientCnxns&do=unset');
  await confirm();
  await until(async () => await value('maxClientCnxns') === '60');
});

test('the lead is handed over', {timeout}, async () => {
  const leader = await ensemble.leader();
  const next = ensemble.servers.find(s => s !== leader);
  assert.match(await plan('/members?do=lead&id=' + next.id), new RegExp(`Server ${leader.id} hands over to server ${next.id}`));
  assert.equal(await ensemble.leader(), leader, 'the plan changes nothing');
  await confirm();
  await until(async () => await ensemble.leader() === next);
  await shows(new RegExp(`Server ${next.id} leads`));
  await go(page, '/members?do=lead&id=9');
  await page.waitForSelector('.panel .problem', {timeout: 0});
});

test('clients are moved away, and let in again', {timeout}, async () => {
  const s = await session(ensemble.servers[1]);
  assert.match(await plan('/members?do=drain'), /go to other servers, bit by bit, and server 1 keeps clients away for 10 minutes/);
  await confirm();
  await shows(/of server 1 move to other servers/);
  assert.equal((await audited('drain')).length, 1);
  await plan('/members?do=letin');
  await confirm();
  await shows(/Clients are let in/);
  await plan('/members?do=drain&id=2'); // of another server, which obeys
  await confirm();
  await shows(/of server 2 move to other servers/);
  const srvr = () => word(ensemble.servers[1].client, 'srvr');
  await until(async () => /keeps clients away: an operator has ordered it/.test(await srvr()));
  await plan('/members?do=letin&id=2');
  await confirm();
  await shows(/Clients are let in/);
  await until(async () => !/Drain/.test(await srvr()));
  await s.end();
});

test('the session of another client is ended', {timeout}, async () => {
  const there = () => first.call('GET', '/v1/nodes/workers/stuck').then(() => true, () => false);
  const stuck = await session(ensemble.servers[1]);
  await stuck.create('/workers/stuck', '', 'ephemeral');
  await until(there);
  await go(page, '/sessions/' + stuck.id);
  await page.click('text=End this session…');
  await page.waitForSelector('.panel form button.main', {timeout: 0});
  assert.match(await page.innerText('.panel'), /Deleted with it: 1 ephemeral node[^]*\/workers\/stuck/);
  assert.ok(await there(), 'the plan changes nothing');
  await confirm();
  await shows(/It has ended, and 1 ephemeral node with it/);
  assert.equal(await there(), false);
  assert.equal((await audited('endSession', stuck.id)).length, 1);
  await assert.rejects(stuck.create('/workers/again', '', 'ephemeral'), /SESSIONEXPIRED/);
  await go(page, '/sessions/' + stuck.id + '?do=end');
  await page.waitForSelector('.panel .problem', {timeout: 0});
  assert.match(await page.innerText('.panel'), /no such session/);
  const visitor = await open(browser, first.base + '/console/');
  await edit(visitor);
  await go(visitor, '/sessions/0x1?do=end');
  await visitor.waitForSelector('.panel .problem', {timeout: 0});
  assert.match(await visitor.innerText('.panel'), /only those may do this/);
  assert.deepEqual(await visitor.done(), []);
});

test('a server is added, promoted, demoted, replaced, removed', {timeout}, async () => {
  const {server: four, line} = await ensemble.another();
  const ids = async () => (await get('/v1/members')).members.map(m => m.id + (m.voter ? '' : 'o')).join();
  assert.match(await plan('/members?do=add&line=' + encodeURIComponent(line)), /adds/);
  assert.equal(await ids(), '1,2,3', 'the plan changes nothing');
  await confirm();
  await until(async () => await ids() === '1,2,3,4');
  await plan('/members?do=demote&id=4');
  await confirm();
  await until(async () => await ids() === '1,2,3,4o');
  await plan('/members?do=promote&id=4');
  await confirm();
  await until(async () => await ids() === '1,2,3,4');
  assert.match(await plan('/members?do=remove&id=4'), /removes server 4/);
  await confirm();
  await until(async () => await ids() === '1,2,3');
  assert.ok((await audited('reconfig')).length >= 4);
  const three = ensemble.servers[2];
  if (await ensemble.leader() === three) {
    await plan('/members?do=lead&id=1');
    await confirm();
    await until(async () => await ensemble.leader() === first);
  }
  await four.kill();
  const {line: its} = await ensemble.another();
  await three.kill();
  await plan(`/members?do=replace&id=3&line=${encodeURIComponent(its)}`);
  await confirm();
  await until(async () => await ids() === '1,2,5');
  await go(page, '/members?do=remove&id=9');
  await page.waitForSelector('.panel :is(.problem, .note)', {timeout: 0});
  assert.equal(await page.$('.panel form'), null, 'what does nothing can be confirmed');
});

test('search: found, cancelled, bounded, within the ACLs', {timeout}, async () => {
  await go(page, '/search/?name=' + encodeURIComponent('^item-00[0-4]$'));
  await shows(/5 found\./);
  await go(page, '/search/app?data=' + encodeURIComponent('retries=\\d'));
  await shows(/1 found\./);
  assert.match(await text(), /\/app\/config/);
  await go(page, '/search/?name=(');
  await page.waitForSelector('.problem', {timeout: 0});
  await first.create('/many');
  await first.multi(Array.from({length: 1200}, (_, i) => ({op: 'create', path: `/many/x${i}`})));
  await go(page, '/search/many?name=x');
  await shows(/1,000 found\. These are the first 1,000/);
  const visitor = await open(browser, first.base + '/console/');
  await go(visitor, '/search/app?name=secret');
  await visitor.waitForFunction(() => / 0 found\./.test(document.querySelector('main').innerText), undefined, {timeout: 0});
  assert.deepEqual(await visitor.done(), []);
  let ended = () => {};
  const stopped = new Promise(done => { ended = done; });
  page.on('requestfailed', r => { if (r.url().includes('/v1/search/')) ended(); });
  await page.route('**/v1/search/**', () => {}); // an answer that takes long
  await go(page, '/search/?name=y');
  await page.click('text=Cancel');
  await shows(/Cancelled\./);
  await stopped;
  await page.unroute('**/v1/search/**');
});

test('history: values beside each other', {timeout}, async () => {
  await first.create('/told', 'one\n');
  for (const data of ['two\n', 'three\n']) await first.call('PUT', '/v1/nodes/told', data);
  await first.create('/told/below', 'x');
  await go(page, '/history/told');
  await page.waitForSelector('.history li:nth-child(3)', {timeout: 0});
  assert.equal(await page.$$eval('.history li', list => list.length), 3);
  await page.click('.history li:first-child button:has-text("Differences")');
  await page.waitForSelector('.history .diff', {timeout: 0});
  assert.match(await page.innerText('.history .diff'), /two[^]*three/);
  await page.click('text=And all below it');
  await page.waitForSelector('.history li:nth-child(4)', {timeout: 0});
  assert.match(await page.innerText('.history li:has-text("version 1")'), /data set[^]*Restore to before this/);
});

test('audit: followed, filtered, paused', {timeout}, async () => {
  await go(page, '/audit');
  await shows(/following/);
  await first.create('/audited', '');
  await page.waitForSelector('tr:has-text("/audited")', {timeout: 0});
  assert.match(await page.innerText('tr:has-text("/audited")'), /create[^]*success[^]*via http/);
  await first.create('/audited', '').catch(() => {});
  await first.call('DELETE', '/v1/nodes/app').catch(() => {});
  await page.click('text=only what was refused or failed');
  await page.waitForFunction(() => [...document.querySelectorAll('main tbody tr')].every(r => r.classList.contains('failed')), undefined, {timeout: 0});
  await page.click('text=only what was refused or failed');
  await page.fill('#search', 'audited');
  await page.waitForFunction(() => { const rows = [...document.querySelectorAll('main tbody tr')]; return rows.length && rows.every(r => r.innerText.includes('/audited')); }, undefined, {timeout: 0});
  await page.fill('#search', '');
  await page.click('text=Pause');
  await first.create('/audited/later', '');
  await shows(/1 entries wait|[2-9] entries wait/);
  assert.equal(await page.$('tr:has-text("/audited/later")'), null);
  await page.click('text=Continue');
  await page.waitForSelector('tr:has-text("/audited/later")', {timeout: 0});
  assert.deepEqual(page.problems, []);
});
