import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { describeBoth } from './support/both-transports.ts'
import { Desk } from './support/desk.ts'
import { assertEnded, run } from './support/process.ts'

/** Values that an import would silently change. The HTTP interface refuses the same JSON. */

const whole = (text: string): string => `{"vector":[1,2],"content":"whole","attributes":${text}}`

/** Lines of JSON, and the faults that the import prints. */
const faulty: readonly (readonly [line: string, fault: RegExp])[] = [
  [String.raw`{"vector":[1,2],"content":"a\ud800b"}`, /:2: `content` has half of a surrogate pair/],
  [whole(String.raw`{"a":{"b":["","\ud800"]}}`), /:2: `attributes\.a\.b\[1\]` has half of a surrogate pair/],
  [whole(String.raw`{"\ud800":1}`), /:2: `attributes\."\\ud800"` has half of a surrogate pair/],
  [
    whole('{"n":9007199254740993}'),
    /:2: `attributes\.n` is 9007199254740993: whole numbers are at most 2\^53/,
  ],
  [whole('{"a":[{"n":-12345678901234567890}]}'), /:2: `attributes\.a\[0\]\.n` is -12345678901234567890: /],
  [
    '{"payload":{"content":"x","attributes":{"n":9007199254740993}},"vector":[1,2]}',
    /:2: `attributes\.n` is 9007199254740993: /,
  ],
]

const exact = {
  max: 9007199254740992,
  min: -9007199254740992,
  fraction: 9007199254740994,
  exponent: 1e20,
  text: '9007199254740993',
}
const exactText =
  '{"max":9007199254740992,"min":-9007199254740992,"fraction":9007199254740994.0,"exponent":1e20,"text":"9007199254740993"}'

describe('import of JSON lines', () => {
  for (const [line, fault] of faulty) {
    it(`refuses ${line}`, async () => {
      await using desk = await Desk.open()
      const file = desk.file('points.jsonl', `${whole('{"n":1}')}\n${line}\n`)
      const refused = await desk.vicinal('import', file)
      assertEnded(refused, 1, fault)
      assertEnded(await desk.vicinal('import', file, '--skip-invalid'), 0, fault)
      assert.equal(await desk.client.count(), 1)
    })
  }

  it('keeps all numbers that the service accepts', async () => {
    await using desk = await Desk.open()
    const file = desk.file('points.jsonl', whole(exactText))
    for (const transport of [desk.overGrpc, desk.overHttp]) {
      assertEnded(await run(['import', file, '--again', ...transport]), 0)
    }
    const { points } = await desk.client.list({ include: { payload: true } })
    assert.deepEqual(
      points.map(({ payload }) => payload!.attributes),
      [exact, exact],
    )
  })
})

describe('import of CSV', () => {
  it('refuses a whole number beyond 2^53 in a column of attributes', async () => {
    await using desk = await Desk.open()
    const file = desk.file('points.csv', 'content,vector,attributes\na,1 2,"{""n"":9007199254740993}"\n')
    const refused = await desk.vicinal('import', file)
    assertEnded(refused, 1, /:2: `attributes\.n` is 9007199254740993: /)
  })
})

describe('options with JSON', () => {
  it('refuse a whole number beyond 2^53, which would select or store another one', async () => {
    await using desk = await Desk.open()
    await desk.client.insert({
      vector: [1, 2],
      payload: { contentType: 'Text', content: '', attributes: { n: 2 ** 53 } },
    })
    const refused = await desk.vicinal('delete', '--filter', '{"n":{"$in":[9007199254740993]}}')
    assertEnded(refused, 2, /--filter: `n\.\$in\[0\]` is 9007199254740993: /)
    assert.equal(await desk.client.count(), 1)
  })
})

describe('options with values that are no times and places', () => {
  for (const [args, fault] of [
    [['count', '--filter', '{"a":{"$date":"soon"}}'], /filter\.a\.\$date is "soon", it must be a time/],
    [['count', '--filter', '{"a":{"$geo":null}}'], /filter\.a\.\$geo is null/],
    [
      ['update', '--filter', '{"a":1}', '--set', '{"at":{"$date":5}}'],
      /set\.at\.\$date is a number, it must be a string/,
    ],
    [
      ['query', '--vector', '1,2', '--boost', '{"recent":null,"weight":1}'],
      /boost\[0\]\.recent is null, it must be an object/,
    ],
  ] as const) {
    it(`are refused with their place: ${args.at(-1)}`, async () => {
      await using desk = await Desk.open()
      assertEnded(await desk.vicinal(...args), 1, fault)
    })
  }
})

describeBoth('text with half of a surrogate pair', (transport) => {
  it('is refused with its place, and nothing is stored', async () => {
    const { client } = transport
    const payload = { contentType: 'Text', content: 'a\ud800b' } as const
    const refusal = { reason: 'invalid_argument', message: /^payload\.content has half of a surrogate pair/ }
    await assert.rejects(client.insert({ vector: [1, 2], payload }), refusal)
    const inBatch = { ...refusal, message: /^vectors\[0\]\.payload\.content has half of a surrogate pair/ }
    await assert.rejects(client.insertBatch([{ vector: [1, 2], payload }]), inBatch)
    assert.equal(await client.count(), 0)
  })
})
