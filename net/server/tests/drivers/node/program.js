// The Node.js driver against a CQL server, as applications use it. Prints one line per check; exits 1 at the first that fails.
//
//     program.js HOST[,HOST...] PORT VERSION-none... [--only=NAMES] [--restarts] [--ca=FILE] [--login=USER:PASSWORD]
//
// A variant is like v4-none. With --restarts the program prints "restart" and reads a line when the server is to be restarted
// by whoever runs it. With --ca the connections are encrypted and the server shows a certificate that FILE has signed. Everything happens in keyspaces of its own, dropped first and last.
'use strict';

const assert = require('assert');
const fs = require('fs');
const readline = require('readline');
const cassandra = require('cassandra-driver');
const { statements } = require('./statements');
const { values } = require('./values');

const [contacts, port, ...rest] = process.argv.slice(2);
const variants = rest.filter(argument => argument.startsWith('v'));
const option = name => rest.find(argument => argument.startsWith(`--${name}=`))?.slice(name.length + 3);
const ca = option('ca');
const only = option('only')?.split(',');
const login = option('login')?.split(':');
const restarts = rest.includes('--restarts');

/** One server or cluster, one protocol version, one client that the checks share. */
class World {
  constructor(version) {
    this.version = version;
    this.hosts = contacts.split(',');
    this.keyspace = `node_v${version}`;
  }

  async open() {
    const first = await this.connect(undefined);
    const factor = Math.min(this.hosts.length, 3);
    await first.execute(`DROP KEYSPACE IF EXISTS ${this.keyspace}`);
    await first.execute(`CREATE KEYSPACE ${this.keyspace} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': ${factor}}`);
    await first.shutdown();
    this.client = await this.connect(this.keyspace);
  }

  /** A new client: other connections, nothing remembered. */
  async connect(keyspace) {
    const client = new cassandra.Client({
      contactPoints: this.hosts,
      localDataCenter: 'datacenter1',
      keyspace,
      sslOptions: ca && { ca: [fs.readFileSync(ca)], rejectUnauthorized: true, checkServerIdentity: () => undefined },
      authProvider: login && new cassandra.auth.PlainTextAuthProvider(...login),
      protocolOptions: { port: Number(port), maxVersion: this.version },
      socketOptions: { readTimeout: 30000 },
      queryOptions: { consistency: cassandra.types.consistencies.localQuorum },
      pooling: { maxRequestsPerConnection: 2048 },
      policies: { reconnection: new cassandra.policies.reconnection.ConstantReconnectionPolicy(200) },
    });
    await client.connect();
    assert.strictEqual(client.controlConnection.protocolVersion, this.version, 'protocol version');
    return client;
  }

  run(query, parameters, options) {
    return this.client.execute(query, parameters, { prepare: parameters !== undefined, ...options });
  }

  /** Makes a table anew. */
  async table(name, columns) {
    await this.run(`DROP TABLE IF EXISTS ${name}`);
    await this.run(`CREATE TABLE ${name} (${columns})`);
  }

  async eventually(what, condition) {
    for (const deadline = Date.now() + 20000; ; await new Promise(resolve => setTimeout(resolve, 20))) {
      if (await condition()) {
        return;
      }
      assert(Date.now() < deadline, `${what}: not within 20 s`);
    }
  }
}

/** The server is restarted by whoever runs the program; the client finds it again by itself. */
async function restart(world) {
  if (!restarts) {
    return;
  }
  await world.table('restarted', 'pk int PRIMARY KEY, v int');
  await world.run('INSERT INTO restarted (pk, v) VALUES (?, ?)', [1, 2]);
  console.log('restart');
  const lines = readline.createInterface({ input: process.stdin });
  await new Promise(resolve => lines.once('line', resolve));
  lines.close();
  await world.eventually('a read after the restart', async () => {
    try {
      return (await world.run('SELECT v FROM restarted WHERE pk = ?', [1])).first().v === 2;
    } catch {
      return false;
    }
  });
}

async function main() {
  for (const variant of variants) {
    const world = new World(Number(variant.slice(1).split('-')[0]));
    await world.open();
    for (const [name, check] of Object.entries({ ...values, ...statements, restart })) {
      if (only && !only.includes(name)) {
        continue;
      }
      const begin = Date.now();
      try {
        await check(world);
      } catch (error) {
        console.log(`node ${variant} ${name}: FAILED: ${error.stack}`);
        process.exit(1);
      }
      console.log(`node ${variant} ${name}: ok, ${Date.now() - begin} ms`);
    }
    await world.run(`DROP KEYSPACE ${world.keyspace}`);
    await world.client.shutdown();
  }
}

// What is left open, like standard input, does not keep the program alive.
main().then(() => process.exit(0), error => {
  console.log(error.stack);
  process.exit(1);
});
