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
