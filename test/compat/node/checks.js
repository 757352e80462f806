// What the programs here share: groups of checks, each of which prints PASS or FAIL.
"use strict";
const assert = require("node:assert/strict");

const deadline = 60; // seconds

// within fails when a promise has not settled after the deadline, and so many seconds more.
function within(what, promise, more = 0) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not after ${deadline + more} s`)), (deadline + more) * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// refused asserts that a promise fails with a ZooKeeper error code.
async function refused(code, promise) {
  await assert.rejects(promise, (err) => {
    assert.equal(err.code, code, err.message);
    return true;
  });
}

// run runs the groups in turn, each of which may take so many seconds more than the
// deadline, and ends the process with 1 if one failed.
async function run(groups, more = 0) {
  let failed = 0;
  for (const [name, group] of Object.entries(groups)) {
    try {
      await within(name, group(), more);
      console.log(`PASS ${name}`);
    } catch (err) {
      failed++;
      console.log(`FAIL ${name}: ${err.stack}`);
    }
  }
  process.exit(failed > 0 ? 1 : 0);
}

module.exports = { within, refused, run };
