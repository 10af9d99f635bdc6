// Checks of statements and sessions: paging, prepared statements, batches, conditions, counters, errors, tracing, metadata.
'use strict';

const assert = require('assert');
const { errors, types } = require('cassandra-driver');

const PARTITIONS = 20;
const ROWS = 15;

async function fillPaged(world) {
  await world.table('paged', 'pk int, ck int, v text, PRIMARY KEY (pk, ck)');
  for (let pk = 0; pk < PARTITIONS; pk++) {
    for (let ck = 0; ck < ROWS; ck++) {
      await world.run('INSERT INTO paged (pk, ck, v) VALUES (?, ?, ?)', [pk, ck, `${pk}-${ck}`]);
    }
  }
}

async function paging(world) {
  await fillPaged(world);
  for (const fetchSize of [1, 7, 15, 299, 300, 301]) {
    const keys = new Set();
    let rows = 0;
    let pageState;
    do {
      const page = await world.run('SELECT pk, ck, v FROM paged', [], { fetchSize, pageState });
      assert(page.rows.length <= fetchSize);
      for (const row of page.rows) {
        assert.strictEqual(row.v, `${row.pk}-${row.ck}`);
        keys.add(row.v);
        rows += 1;
      }
      pageState = page.pageState;
    } while (pageState);
    assert.deepStrictEqual([keys.size, rows], [PARTITIONS * ROWS, PARTITIONS * ROWS], `rows at ${fetchSize} a page`);
  }
  const last = await world.run('SELECT ck FROM paged WHERE pk = ? ORDER BY ck DESC LIMIT 5', [3], { fetchSize: 100 });
  assert.deepStrictEqual(last.rows.map(row => row.ck), [14, 13, 12, 11, 10]);
}

/** The state of a page goes on in another client. */
async function pagingResumed(world) {
  await fillPaged(world);
  let seen = 0;
  let pageState;
  do {
    const client = await world.connect(world.keyspace);
    const page = await client.execute('SELECT pk, ck FROM paged', [], { prepare: true, fetchSize: 70, pageState });
    seen += page.rows.length;
    pageState = page.pageState;
    await client.shutdown();
  } while (pageState);
  assert.strictEqual(seen, PARTITIONS * ROWS);
}

async function preparedAcrossAlter(world) {
  await world.table('altered', 'pk int PRIMARY KEY, a int');
  await world.run('INSERT INTO altered (pk, a) VALUES (?, ?)', [1, 10]);
  const read = async () => (await world.run('SELECT * FROM altered WHERE pk = ?', [1])).first();
  assert.deepStrictEqual({ ...await read() }, { pk: 1, a: 10 });
  await world.run('ALTER TABLE altered ADD b text');
  await world.run('INSERT INTO altered (pk, b) VALUES (?, ?)', [1, 'new']);
  // On the fourth version of the protocol a driver may keep the columns that it knows.
  const row = (await world.run('SELECT pk, a, b FROM altered WHERE pk = ?', [1])).first();
  assert.deepStrictEqual({ ...row }, { pk: 1, a: 10, b: 'new' });
}

async function batches(world) {
  await world.table('batched', 'pk int, ck int, v text, PRIMARY KEY (pk, ck)');
  for (const [pk, logged] of [[0, true], [1, false]]) {
    const queries = [];
    for (let ck = 0; ck < 10; ck++) {
      queries.push({ query: 'INSERT INTO batched (pk, ck, v) VALUES (?, ?, ?)', params: [pk, ck, 'v'] });
    }
    await world.client.batch(queries, { prepare: true, logged });
    const row = (await world.run('SELECT count(*) FROM batched WHERE pk = ?', [pk])).first();
    assert.strictEqual(row.count.toNumber(), 10);
  }
}

async function conditional(world) {
  await world.table('conditional', 'pk int PRIMARY KEY, v int');
  for (const [query, applied, current] of [
    ['INSERT INTO conditional (pk, v) VALUES (1, 1) IF NOT EXISTS', true, undefined],
    ['INSERT INTO conditional (pk, v) VALUES (1, 2) IF NOT EXISTS', false, 1],
    ['UPDATE conditional SET v = 3 WHERE pk = 1 IF v = 2', false, 1],
    ['UPDATE conditional SET v = 3 WHERE pk = 1 IF v = 1', true, undefined],
    ['DELETE FROM conditional WHERE pk = 1 IF EXISTS', true, undefined],
  ]) {
    const result = await world.run(query, undefined, { serialConsistency: types.consistencies.localSerial });
    assert.deepStrictEqual([result.wasApplied(), result.first().v], [applied, current], query);
  }
}

async function counters(world) {
  await world.table('counted', 'pk int PRIMARY KEY, c counter');
  const increments = Array.from({ length: 5 }, () => ({ query: 'UPDATE counted SET c = c + ? WHERE pk = 1', params: [types.Long.fromInt(3)] }));
  await world.client.batch(increments, { prepare: true, counter: true });
  await world.run('UPDATE counted SET c = c - 5 WHERE pk = 1');
  assert.strictEqual((await world.run('SELECT c FROM counted WHERE pk = 1')).first().c.toNumber(), 10);
}

async function refusals(world) {
  const { responseErrorCodes } = types;
  for (const [query, code, text] of [
    ['SELECT', responseErrorCodes.syntaxError, 'no viable alternative at input'],
    ['SELECT * FROM nowhere', responseErrorCodes.invalid, 'table nowhere does not exist'],
    [`CREATE KEYSPACE ${world.keyspace} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
      responseErrorCodes.alreadyExists, 'Cannot add existing keyspace'],
  ]) {
    await assert.rejects(world.run(query), error => error instanceof errors.ResponseError && error.code === code && error.message.includes(text), query);
  }
}

async function tracing(world) {
  await world.table('traced', 'pk int PRIMARY KEY, v text');
  const result = await world.run('INSERT INTO traced (pk, v) VALUES (?, ?)', [1, 'x'], { traceQuery: true });
  const trace = await world.client.metadata.getTrace(result.info.traceId);
  assert(trace.events.length > 0 && trace.coordinator, 'a trace with events');
}

async function warnings(world) {
  await world.table('warned', 'pk int PRIMARY KEY, v text');
  const result = await world.run('SELECT max(pk) FROM warned');
  assert.deepStrictEqual(result.info.warnings, ['Aggregation query used without partition key']);
}

async function metadata(world) {
  await world.table('described', 'pk int, ck text, s int static, m map<text, int>, PRIMARY KEY (pk, ck)) WITH CLUSTERING ORDER BY (ck DESC');
  const table = await world.client.metadata.getTable(world.keyspace, 'described');
  assert.deepStrictEqual(table.columns.map(column => column.name).sort(), ['ck', 'm', 'pk', 's']);
  assert.deepStrictEqual(table.partitionKeys.map(column => column.name), ['pk']);
  assert.deepStrictEqual(table.clusteringOrder, ['DESC']);
  assert.strictEqual(table.columnsByName.m.type.code, types.dataTypes.map);
}

/** The driver knows all nodes with their tokens, and who has a key. */
async function ring(world) {
  const hosts = world.client.getState().getConnectedHosts();
  assert(hosts.length > 0);
  assert.strictEqual(world.client.hosts.length, world.hosts.length);
  for (const host of world.client.hosts.values()) {
    assert(host.tokens.length > 0 && host.rack && host.hostId, `node ${host.address}`);
  }
  const replicas = world.client.metadata.getReplicas(world.keyspace, Buffer.from([0, 0, 0, 1]));
  assert.strictEqual(replicas.length, Math.min(world.hosts.length, 3));
}

/** Every change of the schema reaches another client. */
async function schemaEvents(world) {
  const other = await world.connect(world.keyspace);
  await world.table('seen', 'pk int PRIMARY KEY, a int');
  const columns = async () => (await other.metadata.getTable(world.keyspace, 'seen'))?.columns.length;
  await world.eventually('the table', async () => await columns() === 2);
  await world.run('ALTER TABLE seen ADD b text');
  await world.eventually('the column', async () => await columns() === 3);
  await world.run('DROP TABLE seen');
  await world.eventually('the end of the table', async () => await columns() === undefined);
  await other.shutdown();
}

/** Requests in flight at once, each with the answer that belongs to it. */
async function tenThousandAtOnce(world) {
  await world.table('many', 'pk int PRIMARY KEY, v text');
  const write = async pk => {
    await world.run('INSERT INTO many (pk, v) VALUES (?, ?)', [pk, `value ${pk}`]);
    assert.strictEqual((await world.run('SELECT v FROM many WHERE pk = ?', [pk])).first().v, `value ${pk}`);
  };
  for (let begin = 0; begin < 10000; begin += 2000) {
    await Promise.all(Array.from({ length: 2000 }, (_, at) => write(begin + at)));
  }
}

module.exports = {
  statements: {
    paging, paging_resumed: pagingResumed, prepared_across_alter: preparedAcrossAlter, batches, conditional, counters, errors: refusals,
    tracing, warnings, metadata, ring, schema_events: schemaEvents, ten_thousand: tenThousandAtOnce,
  },
};
