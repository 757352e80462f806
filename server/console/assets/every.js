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
