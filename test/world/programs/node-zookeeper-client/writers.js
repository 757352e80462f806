// Four writers add nodes until the faults are over; then all that was acknowledged must be there, and nothing else.
'use strict';
const {createRequire} = require('module');
const zookeeper = createRequire(process.env.PROGRAM + '/')('node-zookeeper-client');

const writers = 4;
const gap = 50; // milliseconds between the writes of a writer
const patience = 60000;
const acknowledged = Array(writers).fill(0);
let over = false;

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Returns a client that is connected. One whose session has expired does not come back. */
function connect() {
  return new Promise((done, failed) => {
    const client = zookeeper.createClient(process.env.ZK_SERVERS, {sessionTimeout: 10000, retries: 1});
    const late = setTimeout(() => failed(new Error('no connection')), patience);
    client.once('connected', () => { clearTimeout(late); done(client); });
    client.on('expired', () => { client.dead = true; });
    client.connect();
  });
}

/** Creates a node, and returns the error, or null. Without an answer it is an error, too. */
function create(client, path) {
  return Promise.race([
    new Promise((done) => client.create(path, Buffer.from('x'), (err) => done(err))),
    sleep(15000).then(() => new Error('no answer')),
  ]);
}

async function write(n) {
  let client = await connect();
  while (!over) {
    if (client.dead) {
      client.close();
      client = await connect();
    }
    const err = await create(client, `/node/${n}-${acknowledged[n]}`);
    // After an answer that was lost the node is there.
    if (!err || err.code === zookeeper.Exception.NODE_EXISTS) {
      acknowledged[n]++;
    }
    await sleep(gap);
  }
  client.close();
}

function children(client, path) {
  return new Promise((done, failed) => client.getChildren(path, (err, names) => err ? failed(err) : done(names)));
}

async function main() {
  const client = await connect();
  const err = await create(client, '/node');
  if (err) {
    throw err;
  }
  const all = Array.from({length: writers}, (_, n) => write(n));
  console.log('ready');
  process.stdin.resume();
  await Promise.race([new Promise((done) => process.stdin.on('end', done)), Promise.all(all)]);
  over = true;
  await Promise.all(all);
  const want = new Set(acknowledged.flatMap((count, n) => Array.from({length: count}, (_, i) => `${n}-${i}`)));
  const there = new Set(await children(await connect(), '/node'));
  const lost = [...want].filter((name) => !there.has(name)).length;
  const extra = [...there].filter((name) => !want.has(name)).length;
  console.log(`acknowledged=${want.size} lost=${lost} extra=${extra}`);
  process.exit(0);
}

main().catch((err) => {
  console.log(String(err));
  process.exit(1);
});
