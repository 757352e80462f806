// Requests to the server. It knows who the reader is by a cookie, which no script can read, and the token of the sign-in.

const commands = document.documentElement.dataset.commands;
let token = 'visitor';
let changed = (/** @type {any} */ _) => {};

// onIdentity has f called with what the server knows of the reader, and with {refused: why} when it has refused a request for that.
export function onIdentity(f) { changed = f; }

// Problem is an answer of the API that is no success.
export class Problem extends Error {
  constructor(status, p) {
    super(p.detail || p.title || `the server answered ${status}`);
    this.status = status;
    this.code = p.name ?? '';
    this.results = p.results;
    this.oldest = p.oldest;
  }
}

// exchange sends a request. Those to the API go by the console's door, which knows the reader.
/** @type {(url: string, options?: RequestInit) => Promise<Response>} */
async function exchange(url, {signal, headers, method, body} = {}) {
  try {
    return await fetch(url.startsWith('/v1/') ? '/console' + url : url,
      {method, body, signal, headers: {...headers, 'X-Console': token}, cache: 'no-store', redirect: 'error', credentials: 'same-origin'});
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw new Problem(0, {detail: 'The server does not answer. It is down, or can\'t be reached from here.'});
  }
}

async function problemOf(r) {
  const said = await r.text();
  let p = {detail: said.slice(0, 300)};
  try { p = JSON.parse(said); } catch { /* it is a text */ }
  return new Problem(r.status, p);
}

// ask sends a request, and throws a Problem if the answer is none of success. If the reader has signed in on another page meanwhile, a read is
// repeated; a write never is.
async function ask(url, options = {}) {
  const before = token;
  const r = await exchange(url, options);
  if (r.ok) return r;
  const p = await problemOf(r);
  if (r.status === 401) {
    if (token === before) await identity().catch(() => {});
    if (token !== before && token !== 'visitor' && ['GET', 'HEAD'].includes(options.method ?? 'GET')) return ask(url, options);
    changed({refused: p.message});
  }
  throw p;
}

// send sends a write. A record is sent as JSON, and bytes as they are.
/** @type {(method: string, url: string, options?: {body?: any, headers?: any, signal?: AbortSignal}) => Promise<Response>} */
export const send = (method, url, {body, headers, signal} = {}) => ask(url, {method, signal, body: body && !(body instanceof Uint8Array) ? JSON.stringify(body) : body, headers});

async function session(options) {
  const r = await exchange('/console/session', options);
  if (!r.ok) throw await problemOf(r);
  const state = await r.json();
  token = state.token;
  changed(state);
  return state;
}

// identity returns what the server knows of the reader: name, since, until, and the ways to sign in.
export const identity = () => session();

// enter signs in with {user, password} or {token}, leave signs out.
export const enter = proof => session({method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(proof)});
export const leave = () => session({method: 'DELETE'});

// elsewhere returns the address at which the provider asks who the reader is.
export async function elsewhere() {
  const r = await exchange('/console/provider', {method: 'POST'});
  if (!r.ok) throw await problemOf(r);
  return (await r.json()).address;
}

// inURL is a node's path as the end of a URL.
export const inURL = path => path.slice(1).split('/').map(encodeURIComponent).join('/');

// query is the query of a URL. An array is a parameter that comes several times.
export function query(args) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(args)) {
    if (value !== undefined && value !== '') for (const v of [value].flat()) q.append(name, v);
  }
  return q.size ? '?' + q : '';
}

const json = async (url, options) => (await ask(url, options)).json();

let turn = Promise.resolve();

// inTurn asks for something of the past. A server looks back for one caller at a time: requests of this page come one after the other, and wait for
// those of others, or for a leader.
const inTurn = (url, options) => turn = turn.catch(() => {}).then(async () => {
  for (let n = 0; ; n++) {
    try {
      return await json(url, options);
    } catch (e) {
      if (e.status !== 429 && e.status !== 503 || n === 60) throw e;
      await pause(500, options.signal);
    }
  }
});

// children returns a page of them, at a moment if when says which.
export const children = (path, after, signal, when) => (when ? inTurn : json)('/v1/children/' + inURL(path) + query({after, limit: 500, show: 'stats', ...when}), {signal});

// former returns a node as it was at a moment.
export const former = (path, when, signal) => inTurn('/v1/nodes/' + inURL(path) + query(when), {signal, headers: {Accept: 'application/json'}});
export const acl = (path, signal) => json('/v1/acl/' + inURL(path), {signal});

// members asks for the ensemble. The pages of a standby that has been promoted are others: they are loaded again.
async function members(signal) {
  const e = await json('/v1/ensemble', {signal});
  if (mode.standby && !e.standby) location.reload();
  return e;
}

export const ensemble = signal => { const now = asked; asked = null; return now ?? members(signal); };
export const coordination = (paths, signal, without) => json('/v1/coordination' + query({path: paths, without}), {signal});
export const whoami = signal => json('/v1/whoami', {signal});

// first is what the first page shows. It is asked for as soon as this module is there, and the other modules when it has come.
let asked = /^(#\/overview)?$/.test(location.hash) ? members() : null;
setTimeout(() => { asked = null; }, 4000); // what nobody has taken is old then
export const first = Promise.resolve(asked).catch(() => {});

// read asks for something of which the answer is long.
export const read = (url, signal) => ask(url, {signal});

// record returns a node with its data in base64, null if there is none.
export async function record(path, signal) {
  try {
    return await json('/v1/nodes/' + inURL(path), {signal, headers: {Accept: 'application/json'}});
  } catch (e) {
    if (e.code === 'NONODE') return null;
    throw e;
  }
}

// stat returns the Stat of a node, null if there is none.
export async function stat(path, signal) {
  try {
    return statOf((await ask('/v1/nodes/' + inURL(path), {method: 'HEAD', signal})).headers);
  } catch (e) {
    if (e.status === 404) return null;
    throw e;
  }
}

// now returns the zxid of the present state, undefined if that is not told.
export async function now(signal) {
  const r = await ask('/v1/children/?limit=1', {signal});
  return r.headers.get('X-Zxid') ?? undefined;
}

function statOf(headers) {
  const text = name => headers.get('X-Stat-' + name);
  const number = name => Number(text(name));
  return {
    czxid: text('Czxid'), mzxid: text('Mzxid'), pzxid: text('Pzxid'), ctime: number('Ctime'), mtime: number('Mtime'), version: number('Version'),
    cversion: number('Cversion'), aversion: number('Aversion'), ephemeralOwner: text('Ephemeral-Owner'), dataLength: number('Data-Length'), numChildren: number('Num-Children'),
  };
}

// Longer values are sent in part, unless somebody asks for all.
export const part = 64 << 10;

// node returns the data of a node, or its beginning, and the Stat.
export async function node(path, whole, signal) {
  const head = whole ? null : await stat(path, signal).catch(() => null); // the next request says why
  const range = head?.dataLength > part ? {Range: `bytes=0-${part - 1}`} : {};
  const r = await ask('/v1/nodes/' + inURL(path), {signal, headers: {Accept: 'application/octet-stream', ...range}});
  return {stat: statOf(r.headers), data: new Uint8Array(await r.arrayBuffer()), zxid: r.headers.get('X-Zxid')};
}

// command returns the answer of a command of the AdminServer. Numbers of more than 15 digits, such as ids of sessions, become strings: as
// numbers they would not be exact.
export async function command(name, signal) {
  const text = await (await ask(`${commands}/${name}`, {signal})).text();
  const answer = JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|-?\d{16,}/g, m => m[0] === '"' ? m : `"${m}"`));
  if (answer.error) throw new Problem(0, {detail: answer.error});
  return answer;
}

// hex is the id of a session, a decimal number, as everything else shows it.
export const hex = id => '0x' + BigInt.asUintN(64, BigInt(id)).toString(16);

// lines calls each for the records of an answer that has one in each line.
export async function lines(r, each) {
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const all = (rest + value).split('\n');
    rest = all.pop();
    for (const line of all) if (line) each(JSON.parse(line));
  }
}

// feed calls each(kind, change, id) for the changes of a subtree until the server or the signal ends it.
export const feed = (path, after, signal, begun, each) => follow('/v1/feed' + query({path, after}), after, signal, begun, each);

// follow calls each(kind, data, id) for the server-sent events of a URL until the server or the signal ends them, and returns the last id.
export async function follow(url, after, signal, begun, each) {
  const r = await ask(url, {signal, headers: {Accept: 'text/event-stream'}});
  begun();
  let id = after;
  await events(r, (kind, data, at) => { if (at) id = at; if (data !== undefined) each(kind, data, id); });
  return id;
}

// events calls each for server-sent events.
export async function events(r, each) {
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const event = {};
      for (const line of text.slice(0, end).split('\n')) {
        const at = line.indexOf(': ');
        if (at > 0) event[line.slice(0, at)] = line.slice(at + 2);
      }
      text = text.slice(end + 2);
      if (event.data) each(event.event, JSON.parse(event.data), event.id);
      else if (event.id) each(undefined, undefined, event.id);
    }
  }
}

// every does something now, and again after a pause, as long as the signal does not end it. Hidden tabs wait. What takes the
// server long is asked for less often: a tenth of the time at most.
export async function every(ms, signal, f) {
  while (!signal.aborted) {
    const began = performance.now();
    if (!document.hidden) await f();
    await pause(Math.max(ms, 9 * (performance.now() - began)), signal);
  }
}

// pause waits, and in a hidden tab until it is seen.
export function pause(ms, signal) {
  return new Promise(resolve => {
    let over = false;
    const end = () => {
      if (!signal.aborted && (!over || document.hidden)) return;
      document.removeEventListener('visibilitychange', end);
      resolve();
    };
    setTimeout(() => { over = true; end(); }, ms);
    document.addEventListener('visibilitychange', end);
    signal.addEventListener('abort', end, {once: true});
  });
}

let on = false;
const listeners = [];

// mode is whether the page writes. It begins as one that only reads.
export const mode = {
  fixed: 'readOnly' in document.documentElement.dataset, // what serves the page only reads
  standby: document.documentElement.dataset.readOnly === 'standby',
  editing: () => on,
  edit(value) {
    if (value === on || mode.fixed) return;
    on = value;
    for (const f of listeners) f(on);
  },
  onchange: f => { listeners.push(f); },
};
