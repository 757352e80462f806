// Messages of protocol buffers without their schema: numbers of fields, and what their values may be.

const deepest = 12;

// protobuf returns the lines of a message, null if the bytes are none.
export function protobuf(bytes) {
  const lines = message(bytes, '', 0);
  return lines?.length ? lines : null;
}

function message(bytes, indent, depth) {
  const out = [];
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; at < bytes.length && shift < 70n; shift += 7n) {
      const b = bytes[at++];
      value |= BigInt(b & 0x7f) << shift;
      if (b < 0x80) return value < 1n << 64n ? value : null;
    }
    return null;
  };
  const fixed = n => {
    if (bytes.length - at < n) return null;
    const view = new DataView(bytes.buffer, bytes.byteOffset + at, n);
    at += n;
    return n === 4 ? `0x${view.getUint32(0, true).toString(16)} (${view.getFloat32(0, true)})` : `0x${view.getBigUint64(0, true).toString(16)} (${view.getFloat64(0, true)})`;
  };
  while (at < bytes.length) {
    const tag = varint();
    if (tag === null || tag >> 3n < 1n || tag >> 3n >= 1n << 29n) return null;
    const field = `${indent}${tag >> 3n}: `;
    switch (Number(tag & 7n)) {
      case 0: {
        const v = varint();
        if (v === null) return null;
        out.push(field + v + (v >= 1n << 63n ? ` (${BigInt.asIntN(64, v)})` : ''));
        break;
      }
      case 1: case 5: {
        const v = fixed(Number(tag & 7n) === 1 ? 8 : 4);
        if (v === null) return null;
        out.push(field + v);
        break;
      }
      case 2: {
        const n = varint();
        if (n === null || n > BigInt(bytes.length - at)) return null;
        const part = bytes.subarray(at, at += Number(n));
        out.push(...value(part, field, indent, depth));
        break;
      }
      default: return null; // groups are not in use any more
    }
  }
  return out;
}

// value is a text, a message, or bytes, whichever fits first.
function value(part, field, indent, depth) {
  let said = null;
  try { said = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true}).decode(part); } catch { /* it is none */ }
  if (said !== null && !/[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/.test(said)) return [field + JSON.stringify(said)];
  const inner = depth < deepest ? message(part, indent + '  ', depth + 1) : null;
  if (inner?.length) return [field + '{', ...inner, indent + '}'];
  return [field + Array.from(part.subarray(0, 64), b => b.toString(16).padStart(2, '0')).join(' ') + (part.length > 64 ? ` … ${part.length} bytes` : '')];
}
