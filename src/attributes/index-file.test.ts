import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import type { Payload } from '../../src/base/point.ts'
import { seededRandom } from '../../test/support/random.ts'
import { RandomDocuments } from '../../test/support/random-documents.ts'
import type { FileMoment } from '../base/files.ts'
import { AttributeIndex } from './attribute-index.ts'
import { loadIndex, saveIndex } from './index-file.ts'
import { MemoryCount } from './memory-count.ts'
import { NumberField } from './number-field.ts'

const seed = 8
const directory = mkdtempSync(join(tmpdir(), 'vicinal-attributes-'))
after(() => rmSync(directory, { recursive: true }))

function emptyIndex(journalLength = 65_536): AttributeIndex {
  return new AttributeIndex({ findSlot: () => -1, copyId: () => {}, journalLength })
}

/** An index together with a plain copy of the points in its slots. */
class Subject {
  readonly held = new Map<number, { readonly payload: Payload; readonly version: number }>()
  readonly index: AttributeIndex
  version = 0

  constructor(index = emptyIndex()) {
    this.index = index
  }

  get moment(): FileMoment {
    return { databaseId: 'one', sequence: this.version }
  }

  change(documents: RandomDocuments): void {
    const slot = documents.below(2) === 0 ? documents.below(3000) : 65_000 + documents.below(3000)
    this.version += 1
    if (documents.below(4) === 0) {
      this.held.delete(slot)
      this.index.delete(slot)
    } else this.set(slot, documents.payload())
  }

  set(slot: number, payload: Payload): void {
    const point = { payload, version: this.version }
    this.held.set(slot, point)
    this.index.set(slot, point)
  }
}

function run<Result>(work: Iterator<void, Result>): Result {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}

/** Updates a loaded index as a start does: sets and deletes the changed points. Returns the number of changed slots. */
function catchUp(index: AttributeIndex, { held }: Subject): number {
  let changed = 0
  for (const slot of run(index.evaluate({ kind: 'all', of: [] }))) {
    if (held.has(slot)) continue
    index.delete(slot)
    changed += 1
  }
  for (const [slot, point] of held) {
    if (index.has(slot) && index.versionOf(slot) === point.version) continue
    index.set(slot, point)
    changed += 1
  }
  return changed
}

function assertSame(index: AttributeIndex, other: AttributeIndex, documents: RandomDocuments): void {
  assert.deepEqual([...index.paths].sort(), [...other.paths].sort())
  assert.equal(index.count, other.count)
  for (let round = 0; round < 300; round += 1) {
    const filter = documents.filter([])
    assert.deepEqual(
      [...run(index.evaluate(filter))],
      [...run(other.evaluate(filter))],
      JSON.stringify(filter),
    )
    const path = documents.path()
    const facets = (each: AttributeIndex) => run(each.facets([path], undefined, 100))
    assert.deepEqual(facets(index), facets(other), path)
  }
}

describe(`the file of an attribute index, seed ${seed}`, () => {
  const documents = new RandomDocuments(seededRandom(seed))
  const subject = new Subject()
  for (let count = 0; count < 6000; count += 1) subject.change(documents)

  it('restores everything', async () => {
    const path = join(directory, 'whole.bin')
    const orders = new NumberField(new MemoryCount())
    for (const slot of subject.held.keys()) orders.column.set(slot, slot * 1.5)
    assert.equal(await saveIndex(subject.index, path, subject.moment, orders), true)
    const index = emptyIndex()
    const file = await loadIndex(index, path, subject.moment)
    assert.deepEqual([file?.databaseId, file?.sequence], ['one', subject.version])
    for (const slot of subject.held.keys()) assert.equal(file!.orders.column.get(slot), slot * 1.5)
    assert.equal(file!.orders.count, subject.held.size)
    assert.equal(catchUp(index, subject), 0)
    assertSame(index, subject.index, documents)
    for (const [slot, { payload }] of subject.held)
      assert.equal(index.expiresAtUsOf(slot), payload.expiresAtUs)
    assert.ok(index.memoryBytes <= subject.index.memoryBytes, 'it uses no more memory')
    const built = emptyIndex()
    for (const [slot, point] of subject.held) built.set(slot, point)
    for (const each of [index, built]) for (const slot of subject.held.keys()) each.delete(slot)
    assert.deepEqual([index.pathCount, index.count], [0, 0])
    assert.ok(
      index.memoryBytes <= built.memoryBytes,
      `${index.memoryBytes} bytes are left, not ${built.memoryBytes}`,
    )
  })

  it('restores an index that can be changed like any other', async () => {
    const path = join(directory, 'changed.bin')
    await saveIndex(subject.index, path, subject.moment)
    const again = new Subject()
    await loadIndex(again.index, path, subject.moment)
    for (const [slot, point] of subject.held) again.held.set(slot, point)
    again.version = subject.version
    for (let count = 0; count < 6000; count += 1) again.change(documents)
    const built = new Subject()
    for (const [slot, point] of again.held) built.index.set(slot, point)
    assertSame(again.index, built.index, documents)
  })

  it('leaves out slots that change while it is written', async () => {
    const path = join(directory, 'changing.bin')
    const writing = saveIndex(subject.index, path, subject.moment)
    let isWritten = false
    void writing.then(() => (isWritten = true))
    // Changes before the file exists are not made while it is written.
    while (!isWritten && !existsSync(`${path}.new`)) await new Promise((resolve) => setImmediate(resolve))
    let changes = 0
    for (; !isWritten && changes < 20_000; changes += 20) {
      for (let count = 0; count < 20; count += 1) subject.change(documents)
      await new Promise((resolve) => setImmediate(resolve))
    }
    assert.equal(await writing, true)
    const index = emptyIndex()
    await loadIndex(index, path, subject.moment)
    const changed = catchUp(index, subject)
    assert.ok(changed > 0 && changed <= changes, `${changed} of ${changes}`)
    assertSame(index, subject.index, documents)
  })

  it('has each value once, also if a sparse column becomes a dense one while it is written', () => {
    const { index } = new Subject()
    const count = 20_000
    const point = (attributes: [string, number][]): { payload: Payload; version: number } => ({
      payload: { contentType: 'Text', content: '', attributes: new Map(attributes) },
      version: 1,
    })
    // The last slot first: a column with fewer values than a third of its slots is sparse.
    index.set(count - 1, point([['a', count - 1]]))
    for (let slot = 0; slot < count - 1; slot += 1) {
      index.set(slot, point(slot % 3 === 0 && slot < count - 30 ? [['a', slot]] : []))
    }
    const loaded = emptyIndex()
    const touched = new Set<number>()
    const loader = loaded.loader(touched)
    let isDense = false
    for (const block of index.blocks(new NumberField(new MemoryCount()))) {
      loader.add({ ...block, bytes: block.bytes.slice() })
      if (isDense || block.kind !== 'number' || block.form !== 'entries') continue
      isDense = true
      for (let slot = 1; slot < 6000; slot += 3) {
        index.set(slot, point([['a', slot]]))
        touched.add(slot)
      }
    }
    run(loader.complete())
    assert.ok(isDense)
    const found = run(loaded.evaluate({ kind: 'condition', path: 'a', test: { op: 'exists' } }))
    assert.equal([...found].length, Math.ceil((count - 30) / 3) + 1)
  })

  it('is not written if the journal overflows meanwhile, and the old file is kept', async () => {
    const path = join(directory, 'over.bin')
    writeFileSync(path, 'old')
    const small = new Subject(emptyIndex(4))
    for (let count = 0; count < 1000; count += 1) small.change(documents)
    const writing = saveIndex(small.index, path, small.moment)
    for (let count = 0; count < 10; count += 1) small.change(documents)
    let isWritten = false
    void writing.then(() => (isWritten = true))
    while (!isWritten) {
      for (let count = 0; count < 10; count += 1) small.change(documents)
      await new Promise((resolve) => setImmediate(resolve))
    }
    assert.equal(await writing, false)
    assert.equal(readFileSync(path, 'utf8'), 'old')
  })

  it('does not exist before it is written', async () => {
    const path = join(directory, 'none.bin')
    assert.equal(await loadIndex(emptyIndex(), path, subject.moment), undefined)
  })

  it('is refused if any part is damaged or if it ends early', async () => {
    const path = join(directory, 'damaged.bin')
    const small = new Subject()
    for (let count = 0; count < 60; count += 1) small.change(documents)
    await saveIndex(small.index, path, small.moment)
    const whole = readFileSync(path)
    for (let byte = 0; byte < whole.length; byte += 1 + Math.floor(whole.length / 400)) {
      const damaged = Buffer.from(whole)
      damaged[byte]! ^= 1 << (byte % 8)
      writeFileSync(path, damaged)
      const index = emptyIndex()
      const { memoryBytes } = index
      await assert.rejects(loadIndex(index, path, small.moment), `byte ${byte}`)
      assert.deepEqual([index.count, index.pathCount, index.memoryBytes], [0, 0, memoryBytes], 'it is empty')
      writeFileSync(path, whole.subarray(0, byte))
      await assert.rejects(loadIndex(emptyIndex(), path, small.moment), `the first ${byte} bytes`)
    }
    writeFileSync(path, whole)
    assert.equal((await loadIndex(emptyIndex(), path, small.moment))?.sequence, small.version)
  })

  it('is refused if it belongs to another database or a later state', async () => {
    const path = join(directory, 'other.bin')
    const { moment } = subject
    await saveIndex(subject.index, path, moment)
    await loadIndex(emptyIndex(), path, { ...moment, sequence: moment.sequence + 1 })
    for (const now of [
      { ...moment, databaseId: 'another' },
      { ...moment, sequence: moment.sequence - 1 },
    ]) {
      await assert.rejects(
        loadIndex(emptyIndex(), path, now),
        /it belongs to another database or to a later state/,
      )
    }
  })

  it('is no longer read when a start is aborted', async () => {
    const path = join(directory, 'whole.bin')
    const index = emptyIndex()
    const signal = AbortSignal.abort(new Error('start aborted'))
    await assert.rejects(loadIndex(index, path, subject.moment, signal), /start aborted/)
    assert.equal(index.count, 0)
  })

  it('leaves no unfinished file behind', async () => {
    const taken = join(directory, 'taken.bin')
    mkdirSync(taken)
    await assert.rejects(saveIndex(subject.index, taken, subject.moment), { code: 'EISDIR' })
    assert.ok(readdirSync(directory).includes('whole.bin'))
    assert.deepEqual(
      readdirSync(directory).filter((name) => name.endsWith('.new')),
      [],
    )
  })
})
