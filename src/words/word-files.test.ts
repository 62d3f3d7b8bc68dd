import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { BruteForceWords } from '../../test/support/brute-force-words.ts'
import { seededRandom } from '../../test/support/random.ts'
import { atOnce } from '../base/turns.ts'
import { defaultB, defaultK1 } from './bm25.ts'
import { mergeParts } from './merge-parts.ts'
import { Arena, Part } from './part.ts'
import type { PartContent } from './part-content.ts'
import { PendingPart } from './pending-part.ts'
import { decodePart, loadPart, savePart, WordFiles } from './word-files.ts'
import { WordIndex } from './word-index.ts'

const seed = 20_261_129
const directory = mkdtempSync(join(tmpdir(), 'vicinal-words-'))
after(() => rmSync(directory, { recursive: true, force: true }))

const parameters = { k1: defaultK1, b: defaultB, weights: [1, 2] }
const origin = { language: 'english', paths: ['content', 'title'] }

/** A part of random documents, whose slots are in no order. */
function randomContent(documents: number): PartContent {
  const random = seededRandom(seed)
  const pending = new PendingPart(2)
  for (let document = 0; document < documents; document += 1) {
    const words = Math.floor(random() * 30)
    for (let word = 0; word < words; word += 1)
      pending.word(`word${Math.floor(200 * random() ** 3)}`, word < 20 ? 0 : 1, word)
    const lengths = [Math.min(words, 20), Math.max(0, words - 20)]
    pending.add((document * 7919) % 10_007, 5 * document + 3, document % 3, lengths)
  }
  return pending.freeze(parameters)
}

describe('the file of a part', () => {
  const content = randomContent(900)
  const path = join(directory, 'part')
  before(() => savePart(path, content, origin))

  it('has all of the part', async () => {
    const plain = (part: PartContent): object =>
      Object.fromEntries(
        Object.entries(part).map(([name, value]) => [
          name,
          ArrayBuffer.isView(value) ? [...(value as Uint8Array)] : value,
        ]),
      )
    // Found again in the dictionary.
    const { groups: _, ...written } = content
    assert.deepEqual(plain(await loadPart(path, origin)), plain(written))
  })

  it('is restored in steps', () => {
    const index = new WordIndex({ language: 'english', weights: [1, 2] })
    const steps = index.restore(
      [{ content, removed: [0, 1], adopted: () => {} }],
      (slot) => slot !== content.slots[5],
    )
    let count = 0
    for (const _ of steps) count += 1
    assert.equal(count, Math.ceil(900 / 256))
    assert.equal(index.statistics.documents, 897)
  })

  it('is compressed', () => {
    const { dictionary, postings, positions } = content
    assert.ok(readFileSync(path).length < 0.8 * (dictionary.length + postings.length + positions.length))
  })

  it('is refused if a byte changed, or if it ends early', async () => {
    const bytes = readFileSync(path)
    for (const [at, fault] of [
      [0, /not a file of words/],
      [20, /header does not match its checksum/],
      [bytes.length - 1, /the positions are damaged/],
      [Math.floor(bytes.length / 2), /are damaged/],
    ] as const) {
      const damaged = Buffer.from(bytes)
      damaged[at]! ^= 1
      await assert.rejects(decodePart(damaged, origin), fault)
    }
    await assert.rejects(decodePart(bytes.subarray(0, -1), origin), /end inside of the positions/)
    writeFileSync(join(directory, 'empty'), '')
    await assert.rejects(loadPart(join(directory, 'empty'), origin), /not a file of words/)
  })

  it('is refused if its texts were analyzed in another way', async () => {
    await assert.rejects(loadPart(path, { ...origin, language: 'german' }), /are of .*english/)
    await assert.rejects(loadPart(path, { ...origin, paths: ['content'] }), /title/)
  })
})

describe('the files of an index', () => {
  const make = (): WordIndex => new WordIndex({ language: 'english', weights: [1, 2] })

  it(`restore it as it was, whatever changed between, seed ${seed}`, async () => {
    const random = seededRandom(seed)
    const below = (limit: number): number => Math.floor(random() * limit)
    const folder = join(directory, 'index')
    const words = (): string => Array.from({ length: 1 + below(9) }, () => `w${below(40)}`).join(' ')
    const reference = new BruteForceWords(make().analyzer, [1, 2])
    const sequences = new Map<number, number>()
    let index = make()
    let sequence = 0
    for (let round = 0; round < 12; round += 1) {
      const files = new WordFiles(folder, origin)
      const saved = await files.load()
      assert.equal(saved === undefined, round === 0)
      if (saved !== undefined) {
        index = make()
        // Removed while the index was not there to see it.
        const gone = [...sequences.keys()][0]!
        sequences.delete(gone)
        reference.remove(gone)
        atOnce(index.restore(saved, (slot, each) => sequences.get(slot) === each))
      }
      for (let change = 0; change < 60; change += 1) {
        const slot = below(100)
        if (below(4) === 0) {
          sequences.delete(slot)
          index.remove(slot)
          reference.remove(slot)
          continue
        }
        // A new text of the same point has the same sequence number.
        if (!sequences.has(slot) || below(2) === 0) sequences.set(slot, ++sequence)
        const texts = [[words()], [words()]]
        index.put(slot, sequences.get(slot)!, texts)
        reference.put(slot, sequences.get(slot)!, texts)
        if (below(20) === 0) index.freeze()
      }
      for (let search = 0; search < 5; search += 1) {
        const query = words()
        assert.deepEqual(index.search(query, 20), reference.search(query, 20))
      }
      await files.save(index)
      const names = readdirSync(folder).filter((name) => name.endsWith('.part'))
      assert.equal(names.length, index.parts.length, 'files of parts that are gone were deleted')
    }
  })

  it('of other words are those of before until the last of them is written', async () => {
    const folder = join(directory, 'others')
    const index = make()
    for (const slot of [1, 2, 3]) {
      index.put(slot, slot, [[`old${slot}`], ['title']])
      index.freeze()
    }
    await new WordFiles(folder, origin).save(index)
    const saved = readdirSync(folder)
    const others = make()
    others.put(1, 1, [['new'], ['title']])
    others.freeze()
    const [part] = others.parts
    const unwritable = { ...part!.content, dictionary: undefined }
    const stopped = { parts: [part!, { content: unwritable } as never] }
    await assert.rejects(new WordFiles(folder, origin).save(stopped))
    const again = make()
    atOnce(again.restore((await new WordFiles(folder, origin).load())!, () => true))
    assert.deepEqual(again.search('new', 10), [])
    assert.equal(again.search('old1', 10).length, 1)
    await new WordFiles(folder, origin).save(others)
    assert.ok(readdirSync(folder).every((name) => name === 'words.json' || !saved.includes(name)))
  })

  it('are refused if words.json changed', async () => {
    const folder = join(directory, 'damaged')
    await new WordFiles(folder, origin).save({ parts: [] })
    writeFileSync(
      join(folder, 'words.json'),
      readFileSync(join(folder, 'words.json'), 'utf8').replace(':1', ':2'),
    )
    await assert.rejects(new WordFiles(folder, origin).load(), /checksum of words.json/)
  })
})

describe('merging parts', () => {
  it('writes the same as a part that had all documents at once', () => {
    const whole = randomContent(900)
    const arena = new Arena()
    const part = new Part(arena, whole)
    const again = atOnce(mergeParts([part], parameters))
    for (const name of ['slots', 'sequences', 'codes', 'dictionary', 'postings', 'positions'] as const) {
      assert.deepEqual([...again[name]], [...whole[name]], name)
    }
    part.release()
    assert.equal(arena.allocatedBytes, 0)
  })
})
