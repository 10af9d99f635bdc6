// Checks of values: every type at its edges, collections, null and unset.
'use strict';

const assert = require('assert');
const { types } = require('cassandra-driver');

const { BigDecimal, Duration, InetAddress, Integer, LocalDate, LocalTime, Long, TimeUuid, Tuple, Uuid } = types;

const NATIVES = {
  ascii: ['', 'plain'],
  bigint: [Long.ZERO, Long.NEG_ONE, Long.MAX_VALUE, Long.MIN_VALUE],
  blob: [Buffer.alloc(0), Buffer.from([0]), Buffer.alloc(70000, 255)],
  boolean: [true, false],
  date: [LocalDate.fromString('1970-01-01'), LocalDate.fromString('1969-12-31'), LocalDate.fromString('2024-02-29')],
  decimal: ['0', '-0.00', '1.50', '-123456789012345678901234567890.123456789'].map(text => BigDecimal.fromString(text)),
  double: [0, -0, 1.5, Number.MIN_VALUE, Number.MAX_VALUE, Infinity, -Infinity, NaN],
  duration: [new Duration(0, 0, 0), new Duration(1, 2, 3), new Duration(-1, -2, -3)],
  float: [0, -1.5, Infinity, NaN],
  inet: ['0.0.0.0', '127.0.0.1', '2001:db8::1'].map(text => InetAddress.fromString(text)),
  int: [0, -1, 2147483647, -2147483648],
  smallint: [0, -1, 32767, -32768],
  text: ['', 'grün', '日本語', '🦀', "it's \0 \n", 'x'.repeat(70000)],
  time: ['00:00:00', '00:00:00.000000001', '23:59:59.999999999'].map(text => LocalTime.fromString(text)),
  timestamp: [new Date(0), new Date(-1), new Date('2024-02-29T12:00:00.123Z')],
  timeuuid: [TimeUuid.fromString('50554d6e-29bb-11e5-b345-feff819cdc9f')],
  tinyint: [0, -1, 127, -128],
  uuid: [Uuid.fromString('550e8400-e29b-41d4-a716-446655440000'), Uuid.fromString('00000000-0000-0000-0000-000000000000')],
  varint: ['0', '-129', (2n ** 1000n).toString()].map(text => Integer.fromString(text)),
};

function same(found, expected, what) {
  if (expected && typeof expected.equals === 'function') {
    assert(expected.equals(found), `${what}: found ${found}, expected ${expected}`);
  } else {
    assert.deepStrictEqual(found, expected, what);
  }
}

async function natives(world) {
  for (const [type, all] of Object.entries(NATIVES)) {
    await world.table(`n_${type}`, `pk int PRIMARY KEY, v ${type}`);
    for (const [pk, value] of all.entries()) {
      await world.run(`INSERT INTO n_${type} (pk, v) VALUES (?, ?)`, [pk, value]);
      const row = (await world.run(`SELECT v FROM n_${type} WHERE pk = ?`, [pk])).first();
      same(row.v, value, `${type} ${pk}`);
    }
  }
}

async function collections(world) {
  await world.run('DROP TABLE IF EXISTS collected');
  await world.run('CREATE TYPE address (street text, number int, tags frozen<set<text>>)');
  await world.table('collected', 'pk int PRIMARY KEY, l list<int>, s set<text>, m map<text, bigint>, '
    + 'n frozen<map<int, frozen<list<text>>>>, t tuple<int, text>, u frozen<address>, v vector<float, 3>');
  const home = { street: 'Rue Émile 1', number: 7, tags: ['a', 'ß'] };
  // The driver writes an empty list within a map as null.
  const nested = { 1: ['a', 'b'], 2: ['c'] };
  const vector = new Float32Array([1.5, -2, 0]);
  await world.run('INSERT INTO collected (pk, l, s, m, n, t, u, v) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
    [1, [3, 1, 2], ['z', 'a'], { k: Long.NEG_ONE }, nested, new Tuple(5, 'five'), home, vector]);
  const row = (await world.run('SELECT * FROM collected WHERE pk = ?', [1])).first();
  assert.deepStrictEqual(row.l, [3, 1, 2]);
  assert.deepStrictEqual(row.s, ['a', 'z']);
  assert(row.m.k.equals(Long.NEG_ONE));
  assert.deepStrictEqual(row.n, nested);
  assert.deepStrictEqual(row.t.values(), [5, 'five']);
  assert.deepStrictEqual({ ...row.u }, home);
  assert.deepStrictEqual([...row.v], [...vector]);
}

async function nullsAndUnset(world) {
  await world.table('optional', 'pk int PRIMARY KEY, a int, b text');
  await world.run('INSERT INTO optional (pk, a, b) VALUES (?, ?, ?)', [1, 1, 'x']);
  await world.run('INSERT INTO optional (pk, a, b) VALUES (?, ?, ?)', [1, types.unset, null]);
  const row = (await world.run('SELECT * FROM optional WHERE pk = ?', [1])).first();
  assert.deepStrictEqual([row.a, row.b], [1, null]);
}

module.exports = { values: { natives, collections, nulls_and_unset: nullsAndUnset } };
