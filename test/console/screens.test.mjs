// Each screen at each width in both themes: no violation of the policy, of axe's rules, nothing wider than the window, and the columns of
// reference.json. REWRITE=1 writes that, and each picture is in build/console, for people.

import assert from 'node:assert/strict';
import {mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {after, before, test} from 'node:test';
import {start, superLines} from './lib/ensemble.mjs';
import {populate} from './lib/stage.mjs';
import {edit, go, launch, open, settled, signIn, themes, violations, widths} from './lib/browser.mjs';

const referenceFile = new URL('reference.json', import.meta.url);
const reference = JSON.parse(readFileSync(referenceFile));
const pictures = new URL('../../build/console/', import.meta.url);

let ensemble, browser, base;
let sessions = [];
before(async () => {
  mkdirSync(pictures, {recursive: true});
  ensemble = await start(['audit.enable=true', 'reconfigEnabled=true', 'zkd.limit.each=address * connections=500 requests/s=1000,2000', ...superLines]);
  base = ensemble.servers[0].base;
  sessions = await populate(ensemble.servers[0]);
  browser = await launch();
});
after(async () => {
  if (process.env.REWRITE) writeFileSync(referenceFile, '{\n' + Object.entries(reference).map(([k, v]) => `${JSON.stringify(k)}: ${JSON.stringify(v)}`).join(',\n') + '\n}\n');
  await browser?.close();
  await ensemble?.stop();
});

// screens are what is looked at besides the pages of the navigation, which an operator sees: a name, and how to get there.
const screens = () => [
  ['node', page => go(page, '/tree/app')],
  ['value', page => go(page, '/tree/app/config')],
  ['refused', page => go(page, '/tree/app/secret')],
  ['none', page => go(page, '/tree/none')],
  ['hostile', page => go(page, '/tree/hostile')],
  ['lock', page => go(page, '/coordination/locks/backup')],
  ['history', page => go(page, '/history/app/config')],
  ['session', page => go(page, '/sessions/' + sessions[0].id)],
  ['found', page => go(page, '/search/?name=item-00')],
  ['changes', async page => {
    await go(page, '/live/app');
    await page.waitForFunction(() => document.querySelector('main').innerText.includes('following'), undefined, {timeout: 0});
    await ensemble.servers[0].create('/app/live', 'x');
    await ensemble.servers[0].call('PUT', '/v1/nodes/app/live', 'y');
    await ensemble.servers[0].call('DELETE', '/v1/nodes/app/live');
    await page.waitForSelector('tr.change.deleted', {timeout: 0});
  }],
  ['keys', async page => { await go(page, '/sessions'); await page.keyboard.press('?'); await page.waitForSelector('dialog[open]'); }],
  ['identity', async page => { await go(page, '/sessions'); await page.click('.tools [aria-haspopup=dialog]'); await page.waitForSelector('dialog[open]'); await page.waitForSelector('dialog[open] code'); }],
  ['editing', async page => { await go(page, '/tree/app/config'); await edit(page); }],
  ['offers', async page => { await go(page, '/members'); await edit(page); await page.waitForSelector('.act'); }],
  ['plan', async page => { await go(page, '/members'); await edit(page); await go(page, '/members?do=drain'); await page.waitForSelector('.panel form'); }],
  ['rules', async page => { await go(page, '/limits'); await edit(page); await page.waitForSelector('form.row button'); }],
  ['key', async page => { await go(page, '/configuration'); await edit(page); await go(page, '/configuration?key=maxClientCnxns'); await page.waitForSelector('.panel form'); }],
  ['configured', async page => { await go(page, '/configuration'); await edit(page); await go(page, '/configuration?key=maxClientCnxns&do=set&to=70'); await page.waitForSelector('.panel .diff'); }],
];

// columns are where the blocks of a page begin, and how wide they are. Heights are those of fonts and of what there is to show.
const columns = page => page.evaluate(() => {
  const out = {};
  for (const selector of ['nav', 'body > header', 'main', '.page', 'main h1', '.headline', '.scroll', '.charts', '.objects', '.object', '.side', '.split > .detail', '.facts', '.data', 'dialog[open]']) {
    const box = document.querySelector(selector)?.getBoundingClientRect();
    if (box?.width) out[selector] = [Math.round(box.x), Math.round(box.width)];
  }
  return out;
});

const colours = page => page.evaluate(() => ['html', 'body > header', 'nav a', 'main h1'].map(s => { const c = getComputedStyle(document.querySelector(s) ?? document.body); return `${c.color} on ${c.backgroundColor}`; }));

for (const width of widths) {
  for (const theme of themes) {
    test(`screens at ${width} px, ${theme}`, {timeout: 3600_000}, async t => {
      const page = await open(browser, base + '/console/', {width, theme, bypassCSP: true}); // axe needs that; behaviour.test.mjs has the policy
      await settled(page);
      const pages = await page.$$eval('nav a', list => list.map(a => a.dataset.page));
      const refused = screens().filter(([name]) => name === 'refused');
      const all = [...refused, ['operator', page => signIn(page, 'super', 'secret')], ...pages.map(name => [name, page => go(page, '/' + name)]), ...screens().filter(s => s[0] !== 'refused')];
      const wrong = [];
      for (const [name, show] of all) {
        await show(page);
        await page.waitForTimeout(200); // the page draws what has come
        await page.screenshot({path: new URL(`${name}-${width}-${theme}.png`, pictures).pathname});
        wrong.push(...(await violations(page)).map(v => `${name}: ${v}`));
        const over = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
        if (over > 0) wrong.push(`${name}: the page is ${over} px wider than the window`);
        const cut = await page.$$eval('nav a', list => list.filter(a => a.getBoundingClientRect().right > Math.min(innerWidth, a.parentElement.getBoundingClientRect().right + 1)).map(a => a.textContent));
        if (cut.length) wrong.push(`${name}: the navigation is cut before ${cut}`);
        const found = await columns(page);
        const key = `${name} ${width}`;
        if (process.env.REWRITE) reference[key] = found;
        for (const [selector, [x, w]] of Object.entries(reference[key] ?? {})) {
          const [x2, w2] = found[selector] ?? [NaN, NaN];
          if (!(Math.abs(x - x2) <= 24 && Math.abs(w - w2) <= 24)) wrong.push(`${key}: ${selector} is at ${x2}, ${w2} wide; ${x}, ${w} in the reference`);
        }
        if (!reference[key]) t.diagnostic(`${key} is not in the reference: REWRITE=1`);
        await page.keyboard.press('Escape');
        await page.keyboard.press('Escape');
        if (await page.getAttribute('.mode', 'aria-pressed') === 'true') await page.click('.mode');
      }
      const shades = await colours(page);
      if (process.env.REWRITE) reference[theme] = shades;
      else assert.deepEqual(shades, reference[theme]);
      assert.deepEqual([...wrong, ...await page.done()], [], wrong.join('\n'));
    });
  }
}
