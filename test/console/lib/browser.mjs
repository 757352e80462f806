// Pages of the console in Chromium.

import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {chromium} from 'playwright-core';

const axePath = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

export const widths = [1280, 768, 360];
export const themes = ['light', 'dark'];

export const launch = () => chromium.launch({executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage', '--js-flags=--expose-gc']});

// open opens a page, which notes violations of the policy, errors of scripts, and requests to elsewhere.
export async function open(browser, url, {width = 1280, height = 800, theme = 'light', bypassCSP = false, ...more} = {}) {
  const context = await browser.newContext({viewport: {width, height}, colorScheme: theme, reducedMotion: 'reduce', locale: 'en-GB', timezoneId: 'UTC', bypassCSP, ...more});
  const page = await context.newPage();
  const problems = [];
  const {origin} = new URL(url);
  page.on('pageerror', e => problems.push('error: ' + e));
  page.on('console', m => { if (/Content Security Policy|Trusted ?Type/i.test(m.text())) problems.push('policy: ' + m.text()); });
  page.on('request', r => { if (!r.url().startsWith(origin + '/') && !r.url().startsWith('data:')) problems.push('elsewhere: ' + r.url()); });
  page.on('dialog', d => { problems.push('dialog: ' + d.message()); d.dismiss(); });
  page.problems = problems;
  if (bypassCSP) await context.addInitScript(readFileSync(axePath, 'utf8'));
  await page.goto(url);
  await page.waitForSelector('main[data-page]');
  page.done = async () => {
    await context.close();
    return problems;
  };
  return page;
}

// go shows another page of the console, and waits until it has more than a word.
export async function go(page, hash) {
  await page.evaluate(to => new Promise(done => {
    if (location.hash === '#' + to) { done(); return; }
    addEventListener('hashchange', () => setTimeout(done), {once: true}); // the page that was there goes first
    location.hash = to;
  }), hash);
  await settled(page);
}

// settled waits until a page has got what it asked for.
export async function settled(page) {
  await page.waitForFunction(() => {
    const main = document.querySelector('main');
    const detail = main.querySelector('.split > .detail');
    return main.firstChild && (!detail || detail.firstChild) && !/(Looking|Asking the members|connecting|reading)…/.test(main.innerText);
  });
}

// signIn signs in with a password.
export async function signIn(page, user, password) {
  await page.click('.tools [aria-haspopup=dialog]');
  await page.fill('dialog[open] input[autocomplete=username]', user);
  await page.fill('dialog[open] input[type=password]', password);
  await page.press('dialog[open] input[type=password]', 'Enter');
  await page.waitForSelector('dialog[open]', {state: 'detached', timeout: 0});
}

// edit switches editing on.
export async function edit(page) {
  await page.focus('main');
  await page.keyboard.press('e');
  await page.waitForSelector('.mode[aria-pressed=true]');
}

// violations are those of axe's rules on the page as it is. It has to be opened with bypassCSP: axe adds a style.
export async function violations(page) {
  const found = await page.evaluate(() => axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], resultTypes: ['violations']}));
  return found.violations.map(v => `${v.id}: ${v.help}\n` + v.nodes.map(n => `    ${n.target} ${n.html.slice(0, 160)}\n    ${n.failureSummary.split('\n').slice(1, 3).join(' ')}`).join('\n'));
}
