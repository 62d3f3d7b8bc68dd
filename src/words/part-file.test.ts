import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { seededRandom } from '../../test/support/random.ts'
import { Arena } from './arena.ts'
import { defaultB, defaultK1 } from './bm25.ts'
import { mergeParts } from './merge-parts.ts'
import { Part } from './part.ts'
import type { PartContent } from './part-content.ts'
import { decodePart, loadPart, savePart } from './part-file.ts'
import { PendingPart } from './pending-part.ts'

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
  savePart(path, content, origin)

  it('has all of the part', () => {
    const plain = (part: PartContent): object =>
      Object.fromEntries(
        Object.entries(part).map(([name, value]) => [
          name,
          ArrayBuffer.isView(value) ? [...(value as Uint8Array)] : value,
        ]),
      )
    assert.deepEqual(plain(loadPart(path, origin)), plain(content))
  })

  it('is refused if a byte changed, or if it ends early', () => {
    const bytes = readFileSync(path)
    for (const [at, fault] of [
      [0, /not one of words/],
      [20, /checksum of the header/],
      [bytes.length - 1, /checksum of the positions/],
      [Math.floor(bytes.length / 2), /checksum/],
    ] as const) {
      const damaged = Buffer.from(bytes)
      damaged[at]! ^= 1
      assert.throws(() => decodePart(damaged, origin), fault)
    }
    assert.throws(() => decodePart(bytes.subarray(0, -1), origin), /end inside of the positions/)
    writeFileSync(join(directory, 'empty'), '')
    assert.throws(() => loadPart(join(directory, 'empty'), origin), /not one of words/)
  })

  it('is refused if its texts were analyzed in another way', () => {
    assert.throws(() => loadPart(path, { ...origin, language: 'german' }), /are of .*english/)
    assert.throws(() => loadPart(path, { ...origin, paths: ['content'] }), /title/)
  })
})

describe('merging parts', () => {
  it('writes the same as a part that had all documents at once', () => {
    const whole = randomContent(900)
    const arena = new Arena()
    const part = new Part(arena, whole)
    const again = mergeParts([part], parameters)
    for (const name of ['slots', 'sequences', 'codes', 'dictionary', 'postings', 'positions'] as const) {
      assert.deepEqual([...again[name]], [...whole[name]], name)
    }
    part.release()
    assert.equal(arena.allocatedBytes, 0)
  })
})
