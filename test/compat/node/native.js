// Uses a server through zookeeper, the C client library as an add-on.
//
//   node native.js HOSTS
"use strict";
const assert = require("node:assert/strict");
const { constants, Promise: ZooKeeper } = require("zookeeper");
const { within, run } = require("./checks");

const hosts = process.argv[2];

async function connect() {
  const zkc = new ZooKeeper({ connect: hosts, timeout: 10000, debug_level: constants.ZOO_LOG_LEVEL_ERROR });
  const connected = new Promise((resolve) => zkc.once("connect", resolve));
  zkc.init({});
  await within("connect", connected);
  return zkc;
}

function ended(zkc) {
  const gone = new Promise((resolve) => zkc.once("close", resolve));
  zkc.close();
  return within("close", gone);
}

async function nodes() {
  const zkc = await connect();
  assert.equal(await zkc.create("/native", "a", 0), "/native");
  const sequential = await zkc.create("/native/n-", "", constants.ZOO_SEQUENCE | constants.ZOO_EPHEMERAL);
  assert.match(sequential, /^\/native\/n-\d{10}$/);
  const [stat, data] = await zkc.get("/native", false);
  assert.equal(data.toString(), "a");
  assert.equal(stat.numChildren, 1);
  assert.equal((await zkc.set("/native", "b", 0)).version, 1);
  await assert.rejects(zkc.set("/native", "c", 0), /bad version/);
  assert.equal((await zkc.get_children("/native", false)).length, 1);
  await zkc.delete_(sequential, -1);
  await zkc.delete_("/native", -1);
  assert.equal(await zkc.pathExists("/native", false), false);
  await assert.rejects(zkc.get("/native", false), /no node/);
  await ended(zkc);
}

async function acls() {
  const zkc = await connect();
  await zkc.create("/native-acl", "", 0);
  const list = await zkc.get_acl("/native-acl");
  assert.ok(JSON.stringify(list).includes("anyone"));
  await zkc.set_acl("/native-acl", 0, [{ perm: constants.ZOO_PERM_READ | constants.ZOO_PERM_DELETE, scheme: "world", auth: "anyone" }]);
  await assert.rejects(zkc.set("/native-acl", "x", -1), /not authenticated/);
  await zkc.delete_("/native-acl", -1);
  await ended(zkc);
}

async function watches() {
  const watcher = await connect();
  const writer = await connect();
  await writer.create("/native-watch", "a", 0);
  await watcher.sync("/native-watch");
  const event = new Promise((resolve, reject) => {
    watcher.aw_get("/native-watch", (type, state, path) => resolve([type, path]), (rc, error) => rc && reject(new Error(error)));
  });
  await watcher.exists("/native-watch", false); // behind the read with the watch
  await writer.set("/native-watch", "b", 0);
  assert.deepEqual(await within("change", event), [constants.ZOO_CHANGED_EVENT, "/native-watch"]);
  await writer.delete_("/native-watch", -1);
  await ended(writer);
  await ended(watcher);
}

async function sessions() {
  const first = await connect();
  const other = await connect();
  await first.create("/native-ephemeral", "", constants.ZOO_EPHEMERAL);
  await other.sync("/native-ephemeral");
  assert.equal(await other.pathExists("/native-ephemeral", false), true);
  await ended(first);
  await other.sync("/native-ephemeral");
  assert.equal(await other.pathExists("/native-ephemeral", false), false);
  await ended(other);
}

run({ nodes, acls, watches, sessions });
