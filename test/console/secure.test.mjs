// The console over TLS: signing in by a password, at a provider (OpenID Connect), and by a certificate.

import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {createHash, createSign, generateKeyPairSync, randomUUID} from 'node:crypto';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {createServer} from 'node:https';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {start, superLines} from './lib/ensemble.mjs';
import {go, launch, open, signIn} from './lib/browser.mjs';

const timeout = 600_000;
const dir = mkdtempSync(join(tmpdir(), 'zkd-secure-'));
const file = name => join(dir, name);
let ensemble, browser, provider, first, second;

// certify makes a key and a certificate that the authority signs.
function certify(name, subject, ...extensions) {
  const openssl = (...args) => execFileSync('openssl', args, {stdio: 'pipe'});
  openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', file(name + '.key'), '-subj', subject, '-out', file(name + '.csr'));
  writeFileSync(file('extensions'), ['basicConstraints=CA:FALSE', ...extensions].join('\n'));
  openssl('x509', '-req', '-in', file(name + '.csr'), '-CA', file('ca.pem'), '-CAkey', file('ca.key'), '-CAcreateserial', '-days', '2', '-extfile', file('extensions'), '-out', file(name + '.pem'));
  writeFileSync(file(name + '-both.pem'), readFileSync(file(name + '.key'), 'utf8') + readFileSync(file(name + '.pem'), 'utf8'));
}

// startProvider starts a provider at which ann is signed in already. Its refuses says whether she declines.
async function startProvider() {
  const keys = generateKeyPairSync('rsa', {modulusLength: 2048});
  const asked = new Map(); // by code
  const part = value => Buffer.from(JSON.stringify(value)).toString('base64url');
  const p = {refuses: false};
  const server = createServer({key: readFileSync(file('server.key')), cert: readFileSync(file('server.pem'))}, async (request, response) => {
    const url = new URL(request.url, p.issuer);
    const json = value => response.setHeader('Content-Type', 'application/json').end(JSON.stringify(value));
    let body = '';
    for await (const piece of request) body += piece;
    switch (url.pathname) {
      case '/.well-known/openid-configuration':
        return json({issuer: p.issuer, jwks_uri: p.issuer + '/keys', authorization_endpoint: p.issuer + '/authorize', token_endpoint: p.issuer + '/token', response_types_supported: ['code'], authorization_response_iss_parameter_supported: true});
      case '/keys':
        return json({keys: [{...keys.publicKey.export({format: 'jwk'}), kid: '1', alg: 'RS256', use: 'sig'}]});
      case '/authorize': {
        const q = Object.fromEntries(url.searchParams);
        const code = randomUUID(), back = new URL(q.redirect_uri);
        asked.set(code, q);
        for (const [name, value] of Object.entries({...p.refuses ? {error: 'access_denied'} : {code}, state: q.state, iss: p.issuer})) back.searchParams.set(name, value);
        return response.writeHead(302, {Location: back.href}).end();
      }
      case '/token': {
        const form = new URLSearchParams(body), q = asked.get(form.get('code'));
        asked.delete(form.get('code'));
        if (!q || q.code_challenge_method !== 'S256' || createHash('sha256').update(form.get('code_verifier') ?? '').digest('base64url') !== q.code_challenge) return response.writeHead(400).end('{"error":"invalid_grant"}');
        const now = Math.floor(Date.now() / 1000);
        const text = part({alg: 'RS256', kid: '1', typ: 'JWT'}) + '.' + part({iss: p.issuer, aud: 'zkd-console', sub: 'ann', nonce: q.nonce, iat: now, exp: now + 600});
        const token = text + '.' + createSign('RSA-SHA256').update(text).sign(keys.privateKey).toString('base64url');
        return json({token_type: 'Bearer', expires_in: 600, id_token: token, access_token: token});
      }
      default:
        return response.writeHead(404).end();
    }
  });
  await new Promise(done => server.listen(0, '127.0.0.1', done));
  p.issuer = `https://127.0.0.1:${server.address().port}`;
  p.close = () => server.close();
  return p;
}

before(async () => {
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', file('ca.key'), '-subj', '/CN=ca', '-days', '2', '-out', file('ca.pem')], {stdio: 'pipe'});
  certify('server', '/CN=zkd', 'subjectAltName=IP:127.0.0.1', 'extendedKeyUsage=serverAuth,clientAuth');
  certify('ann', '/CN=ann', 'extendedKeyUsage=clientAuth');
  provider = await startProvider();
  const lines = n => ['admin.forceHttps=true', 'ssl.quorum.keyStore.location=' + file('server-both.pem'), 'ssl.quorum.trustStore.location=' + file('ca.pem'), 'audit.enable=true',
    'authProvider.1=org.apache.zookeeper.server.auth.X509AuthenticationProvider', 'zkd.jwt.issuer=' + provider.issuer, 'zkd.jwt.audience=zkd-console', 'zkd.oidc.clientId=zkd-console', ...superLines,
    ...n === 2 ? ['admin.needClientAuth=true'] : []];
  ensemble = await start(lines, {secure: true, env: {SSL_CERT_FILE: file('ca.pem')}});
  [first, second] = ensemble.servers;
  browser = await launch();
  const page = await visit(first);
  await signIn(page, 'super', 'secret');
  for (const [path, acl] of [['/jwt', 'jwt:ann:cdrwa'], ['/x509', 'x509:CN=ann:cdrwa']]) {
    await page.evaluate(async ([path, acl]) => {
      const {token} = await (await fetch('/console/session', {headers: {'X-Console': 'visitor'}})).json();
      const r = await fetch(`/console/v1/nodes${path}?acl=${encodeURIComponent(acl)}`, {method: 'POST', body: 'secret of ' + acl, headers: {'X-Console': token}});
      if (!r.ok) throw new Error(await r.text());
    }, [path, acl]);
  }
  await page.done();
});
after(async () => {
  await browser?.close();
  await ensemble?.stop();
  provider?.close();
  rmSync(dir, {recursive: true});
});

const visit = (server, more) => open(browser, server.base + '/console/', {ignoreHTTPSErrors: true, ...more});
const who = (page, pattern) => page.waitForFunction(p => new RegExp(p).test(document.querySelector('.tools [aria-haspopup=dialog]')?.innerText), pattern, {timeout: 0});
const reads = async (page, path) => {
  await go(page, '/sessions');
  await go(page, '/tree' + path);
  await page.waitForSelector('main :is(pre.data, .problem)', {timeout: 0});
  return page.innerText('main :is(pre.data, .problem)');
};

test('a password over TLS: a cookie that only the server reads', {timeout}, async () => {
  const page = await visit(first);
  await signIn(page, 'super', 'secret');
  await who(page, 'digest:super');
  const cookies = await page.context().cookies();
  assert.ok(cookies.length > 0);
  for (const c of cookies) assert.deepEqual([c.name.startsWith('__Host-'), c.secure, c.httpOnly, c.sameSite], [true, true, true, 'Strict'], c.name);
  assert.match(await reads(page, '/jwt'), /secret of jwt/);
  assert.equal(await page.innerText('body').then(t => /no TLS/.test(t)), false);
  assert.deepEqual(await page.done(), []);
});

test('a provider: there and back, to the page of before', {timeout}, async () => {
  const page = await visit(first);
  assert.match(await reads(page, '/jwt'), /may not/);
  await page.click('.tools [aria-haspopup=dialog]');
  await page.click('text=Sign in at 127.0.0.1');
  await who(page, 'jwt:ann');
  assert.equal(new URL(page.url()).hash, '#/tree/jwt');
  assert.match(await reads(page, '/jwt'), /secret of jwt/);
  await page.reload();
  await who(page, 'jwt:ann');
  await page.click('.tools [aria-haspopup=dialog]');
  await page.click('text=Sign out');
  await who(page, 'anyone');
  await page.keyboard.press('Escape');
  assert.match(await reads(page, '/jwt'), /may not/);
  assert.deepEqual((await page.done()).filter(p => !p.startsWith('elsewhere: ' + provider.issuer + '/authorize')), []);
});

test('a provider that refuses', {timeout}, async () => {
  const page = await visit(first);
  provider.refuses = true;
  await page.click('.tools [aria-haspopup=dialog]');
  await page.click('text=Sign in at 127.0.0.1');
  await page.waitForSelector('text=Not signed in', {timeout: 0});
  provider.refuses = false;
  await page.click('text=Back to the console');
  await who(page, 'anyone');
  await page.done();
});

test('a certificate: nothing is to be done, and without one nothing is there', {timeout}, async () => {
  const page = await visit(second, {clientCertificates: [{origin: second.base, certPath: file('ann.pem'), keyPath: file('ann.key')}]});
  await who(page, 'x509:CN=ann');
  assert.match(await reads(page, '/x509'), /secret of x509/);
  assert.match(await reads(page, '/jwt'), /may not/);
  assert.deepEqual(await page.done(), []);
  await assert.rejects(visit(second), /ERR_/);
});
