// Uses a server through node-zookeeper-client, which is JavaScript alone.
//
//   node pure.js HOSTS [SECONDS]
//
// With SECONDS it adds to a counter for so long, while somebody else stops servers.
"use strict";
const assert = require("node:assert/strict");
const { promisify } = require("node:util");
const zk = require("node-zookeeper-client");
const { within, refused, run } = require("./checks");

const hosts = process.argv[2];
const seconds = Number(process.argv[3] || 0);
const { Exception: codes, CreateMode: modes, Event: kinds } = zk;

const methods = ["create", "getData", "setData", "remove", "exists", "getChildren", "getACL", "setACL",
  "mkdirp", "removeRecursive", "listSubTreeBFS"];

// connect opens a session; its methods give promises.
async function connect(options) {
  const client = zk.createClient(hosts, { sessionTimeout: 10000, ...options });
  const zkc = { client, close: () => ended(client) };
  for (const name of methods) {
    zkc[name] = promisify(client[name].bind(client));
  }
  const connected = new Promise((resolve) => client.once("connected", resolve));
  client.connect();
  await within("connect", connected);
  return zkc;
}

function ended(client) {
  const gone = new Promise((resolve) => client.once("disconnected", resolve));
  client.close();
  return within("close", gone);
}

// read gives [data, stat] or [names, stat] of a call with two results, and its watch.
function read(zkc, method, path) {
  let fire;
  const event = new Promise((resolve) => { fire = resolve; });
  const reply = new Promise((resolve, reject) => {
    zkc.client[method](path, fire, (err, first, stat) => (err ? reject(err) : resolve([first, stat])));
  });
  return reply.then(([first, stat]) => ({ first, stat, event }));
}

async function nodes() {
  const zkc = await connect();
  assert.equal(await zkc.create("/node", Buffer.from("a")), "/node");
  await refused(codes.NODE_EXISTS, zkc.create("/node", null));
  const got = await read(zkc, "getData", "/node");
  assert.equal(got.first.toString(), "a");
  assert.equal(got.stat.version, 0);
  const stat = await zkc.setData("/node", Buffer.from("bc"), 0);
  assert.equal(stat.version, 1);
  assert.equal(stat.dataLength, 2);
  await refused(codes.BAD_VERSION, zkc.setData("/node", Buffer.from("d"), 0));
  await zkc.create("/node/child", null);
  await refused(codes.NOT_EMPTY, zkc.remove("/node", -1));
  const children = await read(zkc, "getChildren", "/node");
  assert.deepEqual(children.first, ["child"]);
  assert.equal(children.stat.numChildren, 1);
  await zkc.removeRecursive("/node", -1);
  assert.equal(await zkc.exists("/node"), null);
  await refused(codes.NO_NODE, zkc.getData("/node"));
  await zkc.close();
}

async function sequences() {
  const zkc = await connect();
  await zkc.mkdirp("/sequence/deep"); // not deeper: this client's walk sees one level of children
  const first = await zkc.create("/sequence/n-", modes.PERSISTENT_SEQUENTIAL);
  const second = await zkc.create("/sequence/n-", modes.EPHEMERAL_SEQUENTIAL);
  assert.match(first, /^\/sequence\/n-\d{10}$/);
  assert.equal(Number(second.slice(-10)), Number(first.slice(-10)) + 1);
  const tree = await zkc.listSubTreeBFS("/sequence");
  assert.equal(tree.length, 4);
  await zkc.removeRecursive("/sequence", -1);
  await zkc.close();
}

async function acls() {
  const owner = await connect();
  owner.client.addAuthInfo("digest", Buffer.from("node:secret"));
  await owner.create("/acl", Buffer.from("a"), zk.ACL.CREATOR_ALL_ACL, modes.PERSISTENT);
  const [list] = await new Promise((resolve, reject) => {
    owner.client.getACL("/acl", (err, ...rest) => (err ? reject(err) : resolve(rest)));
  });
  assert.equal(list[0].id.scheme, "digest");
  const stranger = await connect();
  await refused(codes.NO_AUTH, stranger.getData("/acl"));
  await owner.setACL("/acl", zk.ACL.READ_ACL_UNSAFE, 0);
  assert.equal((await read(stranger, "getData", "/acl")).first.toString(), "a");
  await refused(codes.NO_AUTH, stranger.setData("/acl", Buffer.from("b"), -1));
  await owner.remove("/acl", -1);
  await stranger.close();
  await owner.close();
}

async function transactions() {
  const zkc = await connect();
  const commit = (transaction) => promisify(transaction.commit.bind(transaction))();
  const results = await commit(zkc.client.transaction().create("/multi").create("/multi/a", Buffer.from("1"))
    .setData("/multi/a", Buffer.from("2"), 0).check("/multi/a", 1));
  assert.equal(results.length, 4);
  await refused(codes.BAD_VERSION, commit(zkc.client.transaction().remove("/multi/a", -1).check("/multi", 7)));
  assert.ok(await zkc.exists("/multi/a"));
  await commit(zkc.client.transaction().remove("/multi/a", 1).remove("/multi"));
  assert.equal(await zkc.exists("/multi"), null);
  await zkc.close();
}

async function watches() {
  const watcher = await connect();
  const writer = await connect();
  const absent = await read(watcher, "exists", "/watch");
  await writer.create("/watch", Buffer.from("a"));
  assert.equal((await within("creation", absent.event)).type, kinds.NODE_CREATED);
  const data = await read(watcher, "getData", "/watch");
  const children = await read(watcher, "getChildren", "/watch");
  await writer.setData("/watch", Buffer.from("b"), -1);
  assert.equal((await within("change", data.event)).type, kinds.NODE_DATA_CHANGED);
  await writer.create("/watch/child");
  assert.equal((await within("child", children.event)).type, kinds.NODE_CHILDREN_CHANGED);
  const last = await read(watcher, "exists", "/watch/child");
  await writer.removeRecursive("/watch", -1);
  const event = await within("deletion", last.event);
  assert.equal(event.type, kinds.NODE_DELETED);
  assert.equal(event.path, "/watch/child");
  await writer.close();
  await watcher.close();
}

async function sessions() {
  const owner = await connect();
  const other = await connect();
  await owner.create("/ephemeral", null, modes.EPHEMERAL);
  const there = await settled(() => read(other, "exists", "/ephemeral"));
  assert.deepEqual(there.first.ephemeralOwner, owner.client.getSessionId());
  // The socket breaks: the client comes back with its session, and its watch still fires.
  const again = new Promise((resolve) => other.client.once("connected", resolve));
  other.client.connectionManager.socket.destroy();
  await within("reconnect", again);
  await owner.close();
  assert.equal((await within("end of the session", there.event)).type, kinds.NODE_DELETED);
  await other.close();
}

// settled repeats a call of exists until the client's server has heard of the node.
async function settled(call) {
  for (;;) {
    const got = await call();
    if (got.first) {
      return got;
    }
    await within("creation", got.event);
  }
}

async function long() {
  const zkc = await connect({ sessionTimeout: 30000 }); // 2,000 at once take a busy machine a while
  const data = Buffer.alloc(900000, "x");
  await zkc.create("/long", data);
  assert.equal((await read(zkc, "getData", "/long")).first.length, data.length);
  await zkc.remove("/long", -1);
  await zkc.create("/many");
  await Promise.all(Array.from({ length: 2000 }, (_, i) => zkc.create(`/many/${i}`)));
  assert.equal((await read(zkc, "getChildren", "/many")).first.length, 2000);
  await zkc.removeRecursive("/many", -1);
  await zkc.close();
}

// counter adds one at a time while servers are stopped. A lost connection leaves open
// whether the addition was done; the version tells, for nobody else writes.
async function counter() {
  const zkc = await connect({ sessionTimeout: 20000 });
  await zkc.create("/counter", Buffer.from("0"));
  await zkc.create("/counter/alive", null, modes.EPHEMERAL);
  const end = Date.now() + seconds * 1000;
  let value = 0;
  let lost = 0;
  while (Date.now() < end) {
    try {
      await zkc.setData("/counter", Buffer.from(String(value + 1)), value);
      value++;
    } catch (err) {
      assert.ok([codes.CONNECTION_LOSS, codes.BAD_VERSION].includes(err.code), err.message);
      lost++;
      value = await survived(zkc, value);
    }
  }
  const got = await read(zkc, "getData", "/counter");
  assert.equal(got.first.toString(), String(value));
  assert.equal(got.stat.version, value);
  assert.ok(await zkc.exists("/counter/alive"), "the session ended");
  console.log(`counted to ${value}, ${lost} connections lost`);
  await zkc.removeRecursive("/counter", -1);
  await zkc.close();
}

// survived is what the counter has: the value, or one more.
async function survived(zkc, value) {
  for (;;) {
    try {
      const { first, stat } = await read(zkc, "getData", "/counter");
      assert.equal(first.toString(), String(stat.version));
      assert.ok(stat.version === value || stat.version === value + 1, `${stat.version} after ${value}`);
      return stat.version;
    } catch (err) {
      assert.equal(err.code, codes.CONNECTION_LOSS, err.message);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

run(seconds > 0 ? { counter } : { nodes, sequences, acls, transactions, watches, sessions, long }, seconds);
