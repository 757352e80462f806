// Runs plans: piece by piece, each with its versions, until the end, a refusal or a cancel. What was done is known at each moment.

import * as api from './api.js';
import {most, pieces, sent, stale, undoing, join, inside} from './plan.js';
import {toBytes} from './exportfile.js';

// The session to which ephemerals belong that are created here. It ends with this page.
let session;
async function ownSession() {
  if (!session) {
    session = await (await api.send('POST', '/v1/sessions?timeout=30000')).json();
    const touch = setInterval(() => api.send('POST', `/v1/sessions/${session.id}/touch`, {headers: {'X-Session': session.token}}).catch(e => {
      if (e.status === 410) { clearInterval(touch); session = undefined; }
    }), session.timeoutMs / 3);
  }
  return session.token;
}

// subtree reads a node and all nodes below it, as of one zxid. It returns null if there are too many, or too much data.
/** @type {(path: string, show: string, options?: {signal?: AbortSignal, bytes?: number, nodes?: number, progress?: (n: number) => void}) => Promise<any>} */
export async function subtree(path, show, {signal, bytes = Infinity, nodes = most.nodes, progress} = {}) {
  const r = await api.read('/v1/subtree' + (path === '/' ? '/' : '/' + api.inURL(path)) + '?show=' + show, signal);
  const out = [];
  let size = 0, rest = '';
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  const enough = () => { reader.cancel().catch(() => {}); return null; };
  for (;;) {
    const {done, value} = await reader.read();
    if (done) break;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      const {name, ...n} = JSON.parse(line);
      out.push({path: join(path, name), ...n});
      size += line.length;
    }
    if (out.length > nodes || size > bytes) return enough();
    progress?.(out.length);
  }
  if (rest) throw new Error('The answer was cut off.');
  return {nodes: out, zxid: r.headers.get('X-Zxid')};
}

// whole reads a subtree with its data and ACLs, each of its nodes. null: there is too much.
export async function whole(path, options) {
  const got = await subtree(path, 'acls', options);
  for (const n of got?.nodes ?? []) {
    if (n.error !== 'MARSHALLINGERROR') continue; // too long for the answer
    const one = await api.record(n.path, options?.signal);
    if (one.stat.mzxid !== n.stat.mzxid) throw new Error(`${n.path} was changed while it was read. Try again.`);
    n.data = one.data;
    delete n.error;
  }
  return got;
}

// fresh returns what has changed since the plan was made.
export async function fresh(plan, signal) {
  const now = new Map();
  const roots = plan.steps.length > 20 ? plan.roots : [];
  for (const path of new Set(plan.steps.map(s => s.path))) {
    if (!roots.some(r => inside(path, r))) now.set(path, await api.stat(path, signal));
  }
  for (const root of roots) {
    try {
      const found = await subtree(root, 'stats', {signal});
      if (!found) throw new Error(`There are too many nodes below ${root} to compare them with the plan.`);
      for (const n of found.nodes) now.set(n.path, n.stat);
    } catch (e) {
      if (e.code !== 'NONODE') throw e;
    }
  }
  return stale(plan.steps, now);
}

// apply does a piece, and returns the result of each step.
async function apply(piece) {
  const [s] = piece;
  const headers = s.mode?.startsWith('ephemeral') ? {'X-Session': await ownSession()} : {};
  if (piece.length > 1 || (s.op === 'set' || s.op === 'create') && (s.data ?? null) === null) { // no data is not the same as data without bytes
    const {results} = await (await api.send('POST', '/v1/multi', {body: {ops: piece.map(sent)}, headers})).json();
    return results;
  }
  const match = {'If-Match': `"${s.version}"`};
  const at = '/' + api.inURL(s.path);
  if (s.op === 'acl') return [await (await api.send('PUT', '/v1/acl' + at, {body: {acl: s.acl}, headers: match})).json()];
  if (s.op === 'delete') { await api.send('DELETE', '/v1/nodes' + at, {headers: match}); return [{path: s.path}]; }
  const body = toBytes(s.data);
  if (s.op === 'set') return [await (await api.send('PUT', '/v1/nodes' + at, {body, headers: match})).json()];
  return [await (await api.send('POST', '/v1/nodes' + at + api.query({mode: s.mode, ttl: s.ttl, acl: (s.acl ?? []).map(a => `${a.scheme}:${a.id}:${a.perms}`)}), {body, headers})).json()];
}

const pause = ms => new Promise(r => setTimeout(r, ms));

// results are those of a piece that was done, undefined if somebody has deleted something since.
async function results(piece) {
  const out = [];
  for (const s of piece) out.push({path: s.path, stat: s.op === 'delete' ? undefined : await api.stat(s.path)});
  return out.every((r, i) => r.stat || piece[i].op === 'delete') ? out : undefined;
}

// became finds out what became of a piece whose answer was lost. A piece is done as a whole or not at all, so one step tells, and the versions say of whom a
// change is. It returns results, null for not done, undefined if that can't be known.
async function became(piece, giveUp) {
  for (let i = 0; i < 60 && !giveUp(); i++) {
    try {
      const s = piece.at(-1);
      const now = await api.record(s.path);
      if (s.mode?.includes('sequential')) return undefined;
      if (s.op === 'delete') {
        if (now) return now.stat.czxid === s.was?.stat.czxid ? null : undefined;
        return await results(piece);
      }
      if (s.op === 'create' && !now) return null;
      if (s.op === 'acl') {
        if (now?.stat.aversion === s.version) return null;
        return now?.stat.aversion === s.version + 1 ? [{path: s.path, stat: now.stat}] : undefined;
      }
      if (s.op === 'set' && now?.stat.version === s.version) return null;
      if (!now || now.data !== (s.data ?? null) && (now.data || s.data)) return undefined;
      if (now.stat.version !== (s.op === 'set' ? s.version + 1 : 0)) return undefined;
      return await results(piece);
    } catch (e) {
      if (e.code === 'NOAUTH') return undefined;
      await pause(1000);
    }
  }
  return undefined;
}

// jobs are all runs of this page, the last one first.
export const jobs = [];
const watchers = new Set();
export function watch(f, signal) {
  watchers.add(f);
  signal.addEventListener('abort', () => watchers.delete(f));
}
const tell = job => { for (const f of watchers) f(job); };

addEventListener('beforeunload', e => { if (jobs.some(j => j.state === 'running')) e.preventDefault(); });

// run runs a plan, {title, steps, roots}, and returns its job at once: {state, done, total, error, …}. state is running, done, cancelled, failed, or unknown, if
// what became of the last piece is not known.
export function run(plan) {
  const job = {title: plan.title, at: Date.now(), state: 'running', done: [], total: plan.steps.length, piece: [], undo: plan.undo !== false, roots: plan.roots, cancelled: false, waiting: ''};
  job.cancel = () => { job.cancelled = true; tell(job); };
  job.ended = work(job, plan).then(() => { keep(); tell(job); return job; });
  jobs.unshift(job);
  return job;
}

async function work(job, plan) {
  for (const piece of pieces(plan.steps)) {
    job.piece = piece;
    for (let again = 0; ; again++) {
      if (job.cancelled) { job.state = 'cancelled'; return; }
      let got;
      try {
        got = await apply(piece);
      } catch (e) {
        job.error = e;
        const lost = e.status === 0 || e.code === 'CONNECTIONLOSS' || e.code === 'OPERATIONTIMEOUT' || e.code === 'REQUESTTIMEOUT';
        if (lost) {
          job.waiting = 'The answer was lost. Looking what became of it…';
          tell(job);
          got = await became(piece, () => job.cancelled);
          if (got === undefined) { job.state = 'unknown'; return; }
        }
        // A server without a leader, or of too much work, has done nothing.
        if (!got && (lost || e.status === 503 || e.status === 429) && again < 30) {
          job.waiting = `${e.message}. Trying again…`;
          tell(job);
          await pause(1000);
          continue;
        }
        if (!got) { job.state = 'failed'; return; }
      }
      job.waiting = '';
      job.error = undefined;
      piece.forEach((step, i) => job.done.push({step, result: got[i]}));
      break;
    }
    tell(job);
  }
  job.state = 'done';
}

// keep forgets what old jobs would need to be undone, if all of them have much.
function keep() {
  let size = 0;
  for (const j of jobs) {
    size += j.done.reduce((n, {step: s}) => n + 300 + (s.data?.length ?? 0) + (s.was?.data?.length ?? 0), 0);
    if (size > 4 * most.kept && j !== jobs[0]) { j.undo = false; j.count = j.done.length; j.done = []; }
  }
}

// undo returns the plan that undoes a job, or what was done of it. lost are nodes that it can't bring back.
export function undo(job) {
  const {steps, lost} = undoing(job.done);
  const root = job.roots.at(-1);
  return {title: `Undo: ${job.title}`, steps, lost, roots: job.roots, typed: root.slice(root.lastIndexOf('/') + 1)};
}
