// The writer of node-zookeeper-client: see storm.py.
'use strict';
const {createRequire} = require('module');
const zookeeper = createRequire(process.env.PROGRAM + '/node-zookeeper-client/')('node-zookeeper-client');

const [servers, own, other] = process.argv.slice(2);
const gap = 20, patience = 60000; // milliseconds
const counts = {sets: 0, creates: 0, events: 0, missed: 1, disconnected: 0, errors: 0, 'longest-ms': 0, 'at-once': 0};
const client = zookeeper.createClient(servers, {sessionTimeout: 20000});

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

function failed(err) {
  counts.errors++;
  console.error('node: ' + err);
}

function atLeast(name, n) {
  counts[name] = Math.max(counts[name], n);
}

function done(name, operate) {
  const began = Date.now();
  return new Promise((next) => operate((err) => {
    if (err) {
      failed(err);
    } else {
      counts[name]++;
    }
    atLeast('longest-ms', Date.now() - began);
    next();
  }));
}

const set = (value) => done('sets', (answered) => client.setData(own, Buffer.from(String(value)), -1, answered));
const add = () => done('creates', (answered) => client.create(own + '/n-', zookeeper.CreateMode.PERSISTENT_SEQUENTIAL, answered));

function follow(last, version) {
  const told = () => { counts.events++; follow(last, version); };
  client.getData(other, told, (err, value, stat) => {
    if (err) {
      failed(err);
      return;
    }
    if (counts.events > 0) {
      atLeast('at-once', stat.version - version);
    }
    version = stat.version;
    if (String(value) === 'last') {
      counts.missed = 0;
      last();
    }
  });
}

async function main() {
  for (const state of ['disconnected', 'expired']) {
    client.on(state, () => { counts.disconnected++; console.error('node: ' + state); });
  }
  const connected = new Promise((done) => client.once('connected', done));
  client.connect();
  await connected;
  let over = false;
  process.stdin.resume().on('end', () => { over = true; });
  const last = new Promise((done) => follow(done));
  await set('first');
  console.log('ready');
  for (; !over; await sleep(gap)) {
    await set(counts.sets);
    await add();
  }
  await set('last');
  await Promise.race([last, sleep(patience)]);
  console.log(Object.entries(counts).map(([name, n]) => name + '=' + n).join(' '));
  process.exit(0);
}

main();
