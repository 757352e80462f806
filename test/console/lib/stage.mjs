// What the pages show in the tests: locks that are waited for, an election, nodes of each kind, hostile names and values.

import {session} from './ensemble.mjs';

const uuid = n => `${String(n).repeat(8)}-0b1c-4d2e-8f3a-4b5c6d7e8f90`;

// hostile are names and values that try to become something else than a text.
export const hostile = [
  '<img src=x onerror=alert(1)>', '<script>alert(1)<\u2215script>', '"><svg onload=alert(1)>', 'javascript:alert(1)', '{{7*7}}${7*7}',
  'right\u202eto left', 'zero\u200bwidth', 'e\u0301'.repeat(30), 'x'.repeat(900), '..%2f..%2fetc', "'; drop table--", '#sessions', '?a=b&c=d',
];

// populate makes all that, and returns the sessions, which have to be ended.
export async function populate(s) {
  await s.create('/app', '{"name":"shop","ports":[80,443],"tls":true}');
  await s.create('/app/config', 'timeout=30\nretries=3\n');
  await s.create('/app/binary', new Uint8Array([0, 1, 2, 254, 255]));
  await s.create('/app/long', 'line of a long value\n'.repeat(5000));
  await s.create('/app/secret', 'no', '?acl=' + encodeURIComponent('digest:ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM=:cdrwa')); // ann's, whose password is secret
  for (let i = 0; i < 40; i++) await s.create(`/app/item-${String(i).padStart(3, '0')}`, `value ${i}`);
  for (const path of ['/locks', '/locks/backup', '/election', '/workers', '/hostile']) await s.create(path);
  for (const name of hostile) await s.create('/hostile/' + name, name + '\n\u0085\u2066\u{10ffff}');
  const all = [];
  for (let i = 1; i <= 3; i++) {
    const one = await session(s);
    all.push(one);
    await one.create(`/locks/backup/_c_${uuid(i)}-lock-`, `host-${i}`, 'ephemeral_sequential');
    await one.create(`/election/_c_${uuid(i)}-latch-`, `host-${i}`, 'ephemeral_sequential');
    await one.create(`/workers/host-${i}`, '', 'ephemeral');
  }
  return all;
}
