// Whether this page writes. It begins as one that only reads.

// fixed: what serves the page only reads.
export const fixed = 'readOnly' in document.documentElement.dataset;

let on = false;
const listeners = [];

export const editing = () => on;

// edit switches editing on or off.
export function edit(value) {
  if (value === on || fixed) return;
  on = value;
  for (const f of listeners) f(on);
}

// onchange has f called with each change.
export const onchange = f => { listeners.push(f); };
