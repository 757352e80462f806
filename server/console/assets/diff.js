// Differences of two texts, and the three sides of a conflict. All is pure.

// decode returns the text that bytes are, null if they are none. Nothing of them is lost.
export function decode(bytes) {
  try { return new TextDecoder('utf-8', {fatal: true, ignoreBOM: true}).decode(bytes); } catch { return null; }
}

// isPlain reports whether a text can be edited as one: no control characters but the ends of lines and tabs.
export const isPlain = text => text !== null && !/[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/.test(text);

export function parsed(text) {
  if (text === null || !/^\s*[[{]/.test(text)) return undefined;
  try { return JSON.parse(text); } catch { return undefined; }
}

// kindOf returns as what values are compared: JSON if all are, text, or hex. Empty ones fit all.
export function kindOf(...values) {
  const texts = values.filter(v => v.length).map(decode);
  if (texts.some(t => !isPlain(t))) return 'hex';
  return texts.length && texts.every(t => parsed(t) !== undefined) ? 'JSON' : 'text';
}

// lines are those of a value.
export function lines(bytes, kind) {
  if (!bytes.length) return [];
  if (kind === 'hex') return hexRows(bytes);
  const text = decode(bytes);
  return (kind === 'JSON' ? JSON.stringify(JSON.parse(text), null, 2) : text).split('\n');
}

export function hexRows(bytes) {
  const rows = [];
  for (let i = 0; i < bytes.length; i += 16) {
    const row = [...bytes.subarray(i, i + 16)];
    rows.push(row.map(b => b.toString(16).padStart(2, '0')).join(' ').padEnd(49) + row.map(b => b > 31 && b < 127 ? String.fromCharCode(b) : '·').join(''));
  }
  return rows;
}

// fromHex returns the bytes of hex digits, null if they are none. Spaces and ends of lines have no meaning.
export function fromHex(text) {
  const digits = text.replace(/\s/g, '');
  if (digits.length % 2 || /[^0-9a-fA-F]/.test(digits)) return null;
  return Uint8Array.from({length: digits.length / 2}, (_, i) => parseInt(digits.slice(2 * i, 2 * i + 2), 16));
}

const cells = 4_000_000; // of the table that compare fills

// compare returns the pairs [old, new] of two lists of lines: both if they are the same line, undefined for none.
export function compare(a, b) {
  let from = 0, enda = a.length, endb = b.length;
  while (from < enda && from < endb && a[from] === b[from]) from++;
  while (enda > from && endb > from && a[enda - 1] === b[endb - 1]) { enda--; endb--; }
  const out = a.slice(0, from).map(l => [l, l]);
  const n = enda - from, m = endb - from;
  const olds = [], news = [];
  const flush = () => {
    for (let i = 0; i < Math.max(olds.length, news.length); i++) out.push([olds[i], news[i]]);
    olds.length = news.length = 0;
  };
  if (n * m > cells) {
    olds.push(...a.slice(from, enda));
    news.push(...b.slice(from, endb));
  } else {
    const w = m + 1, length = new Uint32Array((n + 1) * w); // of what the ends have in common
    for (let i = n - 1; i >= 0; i--) {
      for (let j = m - 1; j >= 0; j--) length[i * w + j] = a[from + i] === b[from + j] ? length[(i + 1) * w + j + 1] + 1 : Math.max(length[(i + 1) * w + j], length[i * w + j + 1]);
    }
    for (let i = 0, j = 0; i < n || j < m;) {
      if (i < n && j < m && a[from + i] === b[from + j]) { flush(); out.push([a[from + i], b[from + j]]); i++; j++; }
      else if (j === m || i < n && length[(i + 1) * w + j] >= length[i * w + j + 1]) olds.push(a[from + i++]);
      else news.push(b[from + j++]);
    }
  }
  flush();
  return [...out, ...a.slice(enda).map(l => [l, l])];
}

// isSame reports whether a pair is of one line that both have.
export const isSame = ([a, b]) => a !== undefined && b !== undefined && a === b;

// folded leaves out what is the same, but for some lines around what is not: {skipped: n} stands for n lines.
export function folded(pairs, around = 3) {
  const near = new Uint8Array(pairs.length);
  pairs.forEach((p, i) => { if (!isSame(p)) near.fill(1, Math.max(0, i - around), i + around + 1); });
  const out = [];
  for (let i = 0; i < pairs.length;) {
    if (near[i]) { out.push(pairs[i++]); continue; }
    let end = i;
    while (end < pairs.length && !near[end]) end++;
    if (end - i > 1) out.push({skipped: end - i});
    else out.push(pairs[i]);
    i = end;
  }
  return out;
}

// cut shortens the two lines of a pair, if they are long, to where they begin to differ.
export function cut(pair, most = 1000) {
  const [a, b] = pair;
  if ((a?.length ?? 0) <= most && (b?.length ?? 0) <= most) return pair;
  let same = 0;
  if (a !== undefined && b !== undefined && a !== b) while (a[same] === b[same] && same < a.length) same++;
  const from = Math.max(0, same - 60);
  return pair.map(l => l === undefined ? l : (from ? '… ' : '') + l.slice(from, from + most) + (l.length > from + most ? ` … ${l.length} characters` : ''));
}

const equal = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);

// sides compares what one began with, what is there now, and what one wants, lists of lines.
//   done      what is there is what is wanted
//   same      the data is as it was: somebody wrote the same, or wrote and took it back
//   conflict  somebody else wants something else
export function sides(base, now, mine) {
  return {verdict: equal(now, mine) ? 'done' : equal(now, base) ? 'same' : 'conflict', theirs: compare(base, now), mine: compare(base, mine)};
}
