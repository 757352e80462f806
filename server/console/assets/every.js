// every does something now, and again after a pause, as long as the signal does not end it. Hidden tabs wait.
export async function every(ms, signal, f) {
  while (!signal.aborted) {
    if (!document.hidden) {
      try { await f(); } catch (e) { if (signal.aborted) return; throw e; }
    }
    await pause(ms, signal);
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
