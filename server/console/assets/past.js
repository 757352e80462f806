// What nodes had before changes. All is pure.

// past gathers changes of a feed, the newest so many. before is the data that the node had, if the changes tell.
export function past(most) {
  const data = new Map(), changes = [];
  let left = 0;
  return {
    changes,
    get left() { return left; },
    add(kind, c) {
      const next = {...c, kind, before: data.get(c.path)};
      if (kind === 'created' || kind === 'data') data.set(c.path, next.data ??= '');
      else if (kind === 'deleted') data.delete(c.path);
      changes.push(next);
      if (changes.length > most) { changes.shift(); left++; }
    },
  };
}

// former returns the data that nodes had before some changes, by path. others are nodes that were created or deleted, or have another
// ACL since; unknown are those whose data is not known.
export function former(changes) {
  const data = new Map(), others = new Set();
  for (const c of changes) {
    if (!data.has(c.path)) data.set(c.path, c.before);
    if (c.kind !== 'data') others.add(c.path);
  }
  const nodes = data.size;
  let unknown = 0;
  for (const [path, before] of data) {
    if (!others.has(path) && before === undefined) unknown++;
    if (others.has(path) || before === undefined) data.delete(path);
  }
  return {data, others: others.size, unknown, nodes};
}
