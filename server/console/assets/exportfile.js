// The files of zkcli export, byte by byte: package subtree has the format. All is pure.

import {decode} from './diff.js';
import {parentOf} from './plan.js';

const encoder = new TextEncoder();
const hexOf = bytes => [...bytes].map(b => b.toString(16).padStart(2, '0')).join('');
const sha256 = async bytes => hexOf(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)));

// line is a record as Go encodes it.
const line = record => JSON.stringify(record).replace(/[\u2028\u2029]/g, c => '\\u' + c.charCodeAt(0).toString(16)) + '\n';

export const toBytes = base64 => Uint8Array.from(atob(base64), c => c.charCodeAt(0));

export function toBase64(bytes) {
  let text = '';
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(text);
}

const kinds = {'0x0': undefined, '0x8000000000000000': 'container'};
const kindOf = owner => owner in kinds ? kinds[owner] : owner.startsWith('0xff') && owner.length === 18 ? 'ttl' : 'ephemeral';

function nodeLine(n) {
  const s = n.stat;
  const out = {path: n.path, kind: kindOf(s.ephemeralOwner)};
  if (n.data !== null) {
    const bytes = toBytes(n.data);
    const text = decode(bytes);
    if (text !== null) out.text = text;
    else out.base64 = n.data;
  }
  out.acl = n.acl.map(a => `${a.scheme}:${a.id}:${a.perms || '0'}`);
  out.stat = {czxid: s.czxid, mzxid: s.mzxid, pzxid: s.pzxid, ctime: s.ctime, mtime: s.mtime, version: s.version, cversion: s.cversion, aversion: s.aversion, owner: s.ephemeralOwner, children: s.numChildren};
  return line(out);
}

// write returns the bytes of an export of nodes, whose paths are relative to their root, /. header is {source, path, zxid, time, about}.
export async function write({source, path, zxid, time, about}, nodes) {
  let text = line({format: 'zkcli-export', version: 1, source, path, zxid, time: new Date(time).toISOString().replace(/\.\d+/, ''), about: about || undefined});
  for (const n of nodes) text += nodeLine(n);
  const bytes = encoder.encode(text);
  const end = encoder.encode(`{"end":true,"nodes":${nodes.length},"sha256":"${await sha256(bytes)}"}\n`);
  const out = new Uint8Array(bytes.length + end.length);
  out.set(bytes);
  out.set(end, bytes.length);
  return out;
}

/** @type {[string, number][]} */
const letters = [['c', 4], ['d', 8], ['r', 1], ['w', 2], ['a', 16]];

function aclEntry(entry) {
  const m = entry.match(/^([^:]*):(.*):([^:]*)$/s);
  if (!m) throw new Error(`the ACL entry ${entry} is not of the form scheme:id:perms`);
  const bits = /^\d+$/.test(m[3]) ? Number(m[3]) : null;
  if (bits === null && /[^cdrwa]/.test(m[3]) || bits > 31) throw new Error(`${m[3]} are no permissions`);
  return {scheme: m[1], id: m[2], perms: bits === null ? m[3] : letters.filter(([, bit]) => bits & bit).map(([l]) => l).join('')};
}

function nodeOf(l) {
  if (typeof l.path !== 'string' || !Array.isArray(l.acl) || !l.acl.length || !l.stat) throw new Error('it is no node');
  if (l.text !== undefined && l.base64 !== undefined) throw new Error('it has both text and base64');
  const s = l.stat;
  return {
    path: l.path, acl: l.acl.map(aclEntry),
    data: l.text !== undefined ? toBase64(encoder.encode(l.text)) : l.base64 ?? null,
    stat: {czxid: s.czxid, mzxid: s.mzxid, pzxid: s.pzxid, ctime: s.ctime, mtime: s.mtime, version: s.version, cversion: s.cversion, aversion: s.aversion, ephemeralOwner: s.owner, numChildren: s.children},
  };
}

// read returns the header and the nodes of a whole file. It fails for a file that was cut or changed.
export async function read(bytes) {
  const text = decode(bytes);
  if (text === null) throw new Error('The file is no text in UTF-8.');
  const lines = text.split('\n');
  let header;
  try { header = JSON.parse(lines[0]); } catch { /* it is none */ }
  if (header?.format !== 'zkcli-export') throw new Error('The file is no export of zkcli: it should begin with {"format":"zkcli-export".');
  if (header.version !== 1) throw new Error(`The file has version ${header.version}; version 1 can be read.`);
  const last = lines.length - 2;
  if (lines[last + 1] !== '' || !lines[last].startsWith('{"end":')) throw new Error('The file was cut: its last line is missing.');
  const before = encoder.encode(lines.slice(0, last).join('\n') + '\n');
  if (lines[last] !== `{"end":true,"nodes":${last - 1},"sha256":"${await sha256(before)}"}`) throw new Error('The file was changed or damaged: its last line does not fit.');
  const nodes = [], known = new Set();
  for (let i = 1; i < last; i++) {
    let n;
    try {
      n = nodeOf(JSON.parse(lines[i]));
      if (i === 1 ? n.path !== '/' : !/^(\/[^/]+)+$/.test(n.path) || !known.has(parentOf(n.path)) || known.has(n.path)) throw new Error(`${n.path} is out of place`);
    } catch (e) {
      throw new Error(`Line ${i + 1} of the file: ${e.message}`);
    }
    known.add(n.path);
    nodes.push(n);
  }
  return {header, nodes};
}
