// Real servers, each a process of bin/zkd, with the console on.

import {execFileSync, spawn} from 'node:child_process';
import {mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync} from 'node:fs';
import {connect, createServer} from 'node:net';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';

const program = resolve(process.env.ZKD ?? '../../bin/zkd');

async function freePort() {
  const s = createServer();
  await new Promise(done => s.listen(0, '127.0.0.1', done));
  const {port} = s.address();
  await new Promise(done => s.close(done));
  return port;
}

export const pause = ms => new Promise(done => setTimeout(done, ms));

// word returns the answer to a four-letter word.
export const word = (port, name) => new Promise(done => {
  const c = connect(port, '127.0.0.1', () => c.write(name));
  let said = '';
  c.on('data', d => { said += d; });
  c.on('error', () => done(''));
  c.on('close', () => done(said));
});

// serves reports whether a server takes clients, by its port for them.
const serves = async port => /^Mode: (leader|follower)/m.test(await word(port, 'srvr'));

// until calls f until it returns something, and returns that. Nothing here has a limit of its own: the test has.
export async function until(f) {
  for (;;) {
    try {
      const got = await f();
      if (got) return got;
    } catch { /* not yet */ }
    await pause(200);
  }
}

// superLines make the user super with the password secret the super user, who may operate the servers.
export const superLines = ['DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4='];

class Server {
  constructor({zkd, env, secure}, id, dir, ports) {
    Object.assign(this, {zkd, env, id, dir, ...ports});
    this.base = `${secure ? 'https' : 'http'}://127.0.0.1:${ports.admin}`;
  }

  start() {
    const log = openSync(this.dir + '.log', 'a');
    this.process = spawn(this.zkd, [...this.args ?? [], join(this.dir, 'zoo.cfg')], {stdio: ['ignore', log, log], env: {...process.env, ...this.env}});
    this.ended = new Promise(done => this.process.once('exit', done));
  }

  async kill(signal = 'SIGKILL') {
    this.process.kill(signal);
    await this.ended;
  }

  // run runs a command of the program, and returns what it prints.
  run(...args) { return execFileSync(this.zkd, args, {encoding: 'utf8'}); }

  // call sends a request to the API.
  async call(method, path, body, headers = {}) {
    const r = await fetch(this.base + path, {method, body, headers});
    const text = await r.text();
    if (!r.ok) throw new Error(`${method} ${path}: ${r.status} ${text}`);
    return text && (r.headers.get('Content-Type') ?? '').startsWith('application/json') ? JSON.parse(text) : text;
  }

  create(path, data = '', args = '', headers) { return this.call('POST', '/v1/nodes' + path.split('/').map(encodeURIComponent).join('/') + args, data, headers); }

  multi(ops) { return this.call('POST', '/v1/multi', JSON.stringify({ops})); }
}

// start starts an ensemble of three servers, and waits until each serves. Their files have the lines, or for server n lines(n). secure: their AdminServers
// have TLS.
export async function start(lines = [], {zkd = program, env = {}, secure = false} = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'zkd-console-'));
  const ports = [];
  const own = async () => ({client: await freePort(), quorum: await freePort(), election: await freePort(), admin: await freePort()});
  for (let i = 0; i < 3; i++) ports.push(await own());
  const line = (n, own) => `${n}=127.0.0.1:${own.quorum}:${own.election};127.0.0.1:${own.client}`;
  const write = (n, own, members) => {
    const at = join(dir, String(n));
    mkdirSync(at);
    writeFileSync(join(at, 'myid'), String(n));
    writeFileSync(join(at, 'zoo.cfg'), ['tickTime=2000', 'initLimit=10', 'syncLimit=5', `dataDir=${at}`, `admin.serverPort=${own.admin}`, 'zkd.api=true', 'zkd.console=true',
      '4lw.commands.whitelist=*', ...members.map(m => 'server.' + m), ...typeof lines === 'function' ? lines(n) : lines, ''].join('\n'));
    return new Server({zkd: resolve(zkd), env, secure}, n, at, own);
  };
  const members = ports.map((own, i) => line(i + 1, own));
  const servers = ports.map((own, i) => write(i + 1, own, members));
  servers.forEach(s => s.start());
  const e = {
    servers,
    // another starts a server that is no member yet, and returns it with the line that it would have.
    async another() {
      const n = servers.length + 1, its = await own();
      const s = write(n, its, [...members, line(n, its)]);
      servers.push(s);
      s.start();
      await e.ready();
      return {server: s, line: line(n, its)};
    },
    // standby starts a standby of the servers, which is to be an ensemble of its own. It needs superLines, and standaloneEnabled=false.
    async standby() {
      const n = servers.length + 1, its = await own(), s = write(n, its, [line(n, its)]), auth = join(dir, 'auth');
      writeFileSync(auth, 'digest:super:secret\n');
      s.args = ['standby', '--of', servers.map(o => o.base).join(), '--auth-file', auth];
      servers.push(s);
      s.start();
      await e.ready();
      return s;
    },
    ready: () => Promise.all(servers.filter(s => s.process.exitCode === null && s.process.signalCode === null).map(s => until(() => secure ? serves(s.client) : s.call('GET', '/v1/children/')))),
    // leader returns the server that leads.
    leader: () => until(async () => {
      for (const s of servers) {
        const {leader} = await s.call('GET', '/v1/members').catch(() => ({}));
        if (leader > 0) return servers[leader - 1];
      }
    }),
    async stop() {
      await Promise.all(servers.map(s => s.kill()));
      rmSync(dir, {recursive: true});
    },
  };
  process.once('exit', () => servers.forEach(s => s.process.kill('SIGKILL')));
  await e.ready();
  return e;
}

// session opens a session that lives until it is ended.
export async function session(server) {
  const s = await server.call('POST', '/v1/sessions?timeout=40000');
  const beat = setInterval(() => server.call('POST', `/v1/sessions/${s.id}/touch`, '', {'X-Session': s.token}).catch(() => {}), 5000);
  beat.unref();
  return {...s, create: (path, data, mode) => server.create(path, data, '?mode=' + mode, {'X-Session': s.token}),
    async end() { clearInterval(beat); await server.call('DELETE', '/v1/sessions/' + s.id, undefined, {'X-Session': s.token}); }};
}
