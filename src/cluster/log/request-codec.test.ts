import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../../test/support/random.ts'
import {
  type Attributes,
  type AttributeValue,
  DateTime,
  GeoPoint,
  type Scalar,
} from '../../base/attributes.ts'
import { wordsText } from '../../base/collection.ts'
import { type Filter, filterLimits, type Test } from '../../base/filter.ts'
import { idFromBytes } from '../../base/ids.ts'
import type { NewPoint, Patch, Payload, Precondition } from '../../base/point.ts'
import { LogRequestSchema } from '../../messages/generated/cluster_pb.js'
import { encode } from '../../messages/writer.ts'
import { UnknownRecord } from './records.ts'
import { type ClusterRequest, decodeInTurns, encodeRequest } from './request-codec.ts'

/** Random requests of every kind, from a seed. */
class Requests {
  readonly #random: () => number

  constructor(seed: number) {
    this.#random = seededRandom(seed)
  }

  any(): ClusterRequest {
    const kinds: readonly (() => ClusterRequest)[] = [
      () => ({ kind: 'barrier' }),
      () => ({ kind: 'audit' }),
      () => ({
        kind: 'insert',
        points: this.#list(5, () => this.#newPoint()),
        onError: this.#pick('abort', 'continue'),
        idSeed: this.#bytes(16),
        ...this.#maybe({ identity: { keyHash: this.#bytes(16), bodyHash: this.#bytes(16) } }),
      }),
      () => ({
        kind: 'put',
        id: this.#id(),
        point: this.#point(),
        when: this.#condition(),
        ...this.#maybe({ keyFilter: this.#filter(2) }),
      }),
      () => ({ kind: 'patch', id: this.#id(), patch: this.#patch(), when: this.#condition() }),
      () => ({ kind: 'remove', id: this.#id() }),
      () => this.each(),
      () => ({ kind: 'expire', ids: this.#list(9, () => this.#id()) }),
      () => ({
        kind: 'create',
        name: this.#text(),
        settings: {
          dimension: this.#isTrue() ? this.#count() % 65_536 : undefined,
          hnsw: { m: this.#isTrue() ? this.#count() % 64 : undefined, efConstruction: undefined },
          ...this.#maybe({ quotas: this.#isTrue() ? {} : { points: this.#count(), searchesInFlight: 3 } }),
        },
      }),
      () => ({ kind: 'drop', name: this.#text() }),
      () => ({
        kind: 'aliases',
        set: new Map(this.#list(3, () => [this.#text(), this.#text()] as const)),
        remove: this.#list(3, () => this.#text()),
      }),
    ]
    return this.#pick(...kinds)()
  }

  each(): ClusterRequest & { readonly kind: 'each' } {
    return {
      kind: 'each',
      ids: this.#list(9, () => this.#id()),
      filter: this.#filter(3),
      change: this.#isTrue() ? 'delete' : this.#patch(),
    }
  }

  #newPoint(): NewPoint {
    return {
      ...this.#point(),
      ...this.#maybe({ id: this.#id(), ...this.#maybe({ onConflict: this.#pick('replace', 'skip') }) }),
    }
  }

  #point(): { vector: Float32Array; payload: Payload } {
    const vector = Float32Array.from(this.#list(7, () => this.#number()))
    const payload: Payload = {
      contentType: this.#pick('Text', 'Image'),
      content: this.#text(),
      ...this.#maybe({ attributes: this.#attributes(2) }),
      ...this.#maybe({ expiresAtUs: this.#count() }),
    }
    return { vector, payload }
  }

  #patch(): Patch {
    return {
      ...this.#maybe({ set: this.#attributes(2) }),
      ...this.#maybe({ unset: ['a', ...this.#list(3, () => this.#text())] }),
      ...this.#maybe({ content: this.#text() }),
      ...this.#maybe({ contentType: this.#pick('Text', 'Image') }),
      ...this.#maybe({ expiresAtUs: this.#pick(null, this.#count()) }),
      ...this.#maybe({ vector: new Float32Array([this.#number(), 0]) }),
    }
  }

  #condition(): Precondition | undefined {
    return this.#pick<Precondition | undefined>(
      undefined,
      { kind: 'absent' },
      { kind: 'version', version: this.#count() },
      { kind: 'filter', filter: this.#filter(3) },
    )
  }

  #filter(depth: number): Filter {
    const of = (): Filter[] => this.#list(3, () => this.#filter(depth - 1))
    const leaves: readonly (() => Filter)[] = [
      () => ({ kind: 'ids', ids: Uint8Array.from({ length: 32 }, (_, at) => at) }),
      () => ({ kind: 'condition', path: this.#pick('a', 'ä.b', '__proto__'), test: this.#test() }),
    ]
    const nodes: readonly (() => Filter)[] = [
      () => ({ kind: 'all', of: of() }),
      () => ({ kind: 'any', of: of() }),
      () => ({ kind: 'not', of: this.#filter(depth - 1) }),
    ]
    return this.#pick(...leaves, ...(depth > 0 ? nodes : []))()
  }

  #test(): Test {
    const kind = this.#pick<() => string | number | DateTime>(
      () => this.#text(),
      () => this.#number(),
      () => new DateTime(this.#count()),
    )
    const bound = (): string | number | DateTime => kind()
    return this.#pick<Test>(
      { op: 'in', values: this.#list(4, () => this.#scalar()) },
      { op: 'contains', values: this.#list(4, () => this.#scalar()) },
      { op: 'range', bounds: { gt: bound(), ...this.#maybe({ lte: bound() }) } },
      { op: 'range', bounds: { ...this.#maybe({ gte: bound() }), lt: bound() } },
      { op: 'exists' },
      { op: 'prefix', text: this.#text() },
      { op: 'near', center: this.#place(), radiusM: Math.abs(this.#number()) },
      {
        op: 'box',
        southWest: new GeoPoint(-1, this.#degrees()),
        northEast: new GeoPoint(0.5, this.#degrees()),
      },
    )
  }

  #attributes(depth: number): Attributes {
    // Sorted, as canonical JSON has them: maps are compared with their order.
    const names = [...new Set(this.#list(4, () => `n${this.#text()}`))].sort()
    return new Map(names.map((name) => [name, this.#value(depth)]))
  }

  #value(depth: number): AttributeValue {
    if (depth === 0 || this.#isTrue()) return this.#scalar()
    return this.#isTrue() ? this.#list(3, () => this.#value(depth - 1)) : this.#attributes(depth - 1)
  }

  #scalar(): Scalar {
    const moment = new DateTime(this.#count())
    return this.#pick<Scalar>(this.#text(), this.#number(), true, false, moment, this.#place())
  }

  #place(): GeoPoint {
    return new GeoPoint(this.#degrees(), this.#degrees())
  }

  #degrees(): number {
    return this.#pick(0, 1.5, -2e-7, 89.75)
  }

  #id(): string {
    return idFromBytes(this.#bytes(16))
  }

  #bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => Math.floor(this.#random() * 256))
  }

  #text(): string {
    return this.#pick('', 'a', 'ä€𝄞', '"\\', '__proto__', '$x'.repeat(Math.floor(this.#random() * 100)))
  }

  #number(): number {
    return this.#pick(0, 1.5, -2e-7, 123_456.75, Math.fround(this.#random()))
  }

  #count(): number {
    return Math.floor(this.#random() * 2 ** Math.floor(this.#random() * 50))
  }

  #isTrue(): boolean {
    return this.#random() < 0.5
  }

  #maybe<Fields extends object>(fields: Fields): Fields | object {
    return this.#isTrue() ? fields : {}
  }

  #list<Item>(lengthMax: number, item: () => Item): Item[] {
    return Array.from({ length: Math.floor(this.#random() * (lengthMax + 1)) }, item)
  }

  #pick<Item>(...items: readonly Item[]): Item {
    return items[Math.floor(this.#random() * items.length)]!
  }
}

describe('the codec of requests', () => {
  it('reads back what was written', async () => {
    for (let seed = 1; seed <= 3000; seed += 1) {
      const request = new Requests(seed).any()
      const decoded = await decodeInTurns(encodeRequest({ request, timeUs: seed * 1e9 + 0.5 }))
      assert.deepEqual(decoded, { request, timeUs: seed * 1e9 + 0.5 }, `seed ${seed}`)
    }
  })

  it('keeps the order in which a patch sets paths', async () => {
    const set = new Map<string, AttributeValue>([
      ['b.c', 1],
      ['b', new Map()],
    ])
    const request = { kind: 'patch', id: idFromBytes(new Uint8Array(16)), patch: { set } } as const
    const decoded = (await decodeInTurns(encodeRequest({ request, timeUs: 0 }))).request
    assert.deepEqual(decoded.kind === 'patch' && [...decoded.patch.set!.keys()], ['b.c', 'b'])
  })

  it('keeps what words declare, which nodes compare', async () => {
    const words = { language: 'german', paths: [{ path: 'content', weight: 2 }], k1: 1.5, b: 0.5 } as const
    const settings = { dimension: undefined, hnsw: { m: undefined, efConstruction: undefined }, words }
    const request = { kind: 'create', name: 'a', settings } as const
    const decoded = (await decodeInTurns(encodeRequest({ request, timeUs: 0 }))).request
    const declared = (decoded.kind === 'create' && decoded.settings.words) || undefined
    assert.equal(declared && wordsText(declared), wordsText(words))
    const { language, paths, k1, b } = words
    assert.equal(wordsText({ b, k1, paths, language }), wordsText(words))
    assert.notEqual(wordsText({ ...words, b: undefined }), wordsText(words))
  })

  it('refuses the records of later programs', async () => {
    const bytes = encodeRequest({ request: { kind: 'barrier' }, timeUs: 1 })
    for (const later of [
      { version: 2, request: { case: 'barrier', value: {} } },
      { version: 1 },
      { version: 1, request: { case: 'each', value: { ids: Buffer.alloc(16), filter: {} } } },
      { version: 1, request: { case: 'each', value: { ids: Buffer.alloc(17), filter: all } } },
      { version: 1, request: { case: 'patch', value: { patch: {} } } },
    ] as const) {
      await assert.rejects(async () => await decodeInTurns(encode(LogRequestSchema, later)), UnknownRecord)
    }
    await assert.rejects(async () => await decodeInTurns(Buffer.concat([bytes, Buffer.of(0)])), UnknownRecord)
  })

  it('reads a filter that is as deep as any can be', async () => {
    let filter: Filter = { kind: 'condition', path: 'a', test: { op: 'exists' } }
    for (let depth = 0; depth < 3 * filterLimits.depth; depth += 1) filter = { kind: 'not', of: filter }
    const request = { ...new Requests(1).each(), filter }
    assert.deepEqual((await decodeInTurns(encodeRequest({ request, timeUs: 1 }))).request, request)
  })

  it('refuses bytes that end inside a part, and allocates nothing for them', async () => {
    for (let seed = 1; seed <= 200; seed += 1) {
      const request = new Requests(seed).any()
      const bytes = encodeRequest({ request, timeUs: 1 })
      for (let end = 0; end < bytes.length; end += 1 + (bytes.length >> 6)) {
        try {
          assert.notDeepEqual(await decodeInTurns(bytes.subarray(0, end)), { request, timeUs: 1 })
        } catch (error) {
          assert(error instanceof UnknownRecord, `seed ${seed}, ${end} bytes: ${error}`)
        }
      }
    }
  })
})

const all = { node: { case: 'all', value: {} } } as const
