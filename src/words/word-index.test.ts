import assert from 'node:assert/strict'
import { describe, it, mock } from 'node:test'
import { BruteForceWords } from '../../test/support/brute-force-words.ts'
import { seededRandom } from '../../test/support/random.ts'
import { atOnce } from '../base/turns.ts'
import { WordIndex } from './word-index.ts'
import type { SlotBitmap } from './word-matches.ts'

const seed = 20_261_128

/** Its words are counted in several steps. */
const manyPoints = 20_000

/** Random texts and operations, the same on an index and on the reference. */
class Pair {
  readonly index: WordIndex
  readonly reference: BruteForceWords
  readonly random: () => number
  /** Whether some points are prepared before they are put: each is a part of its own then. */
  prepares = true
  readonly #vocabulary: number
  readonly #wordsMax: number
  readonly #weights: readonly number[]
  #sequence = 0

  constructor(
    random: () => number,
    weights: readonly number[],
    vocabulary: number,
    wordsMax: number,
    k1 = 1.2,
    b = 0.75,
  ) {
    this.random = random
    this.#weights = weights
    this.#vocabulary = vocabulary
    this.#wordsMax = wordsMax
    this.index = new WordIndex({ language: 'english', weights, k1, b })
    this.reference = new BruteForceWords(this.index.analyzer, weights, k1, b)
  }

  below(limit: number): number {
    return Math.floor(this.random() * limit)
  }

  /** Frequent words are far more frequent than others, as in texts. */
  word(): string {
    return `w${Math.floor(this.#vocabulary * this.random() ** 3)}`
  }

  text(words: number): string {
    return Array.from({ length: words }, () => this.word()).join(' ')
  }

  put(slot: number): void {
    const texts = this.#weights.map(() => {
      if (this.below(10) === 0) return []
      return Array.from({ length: 1 + Number(this.below(8) === 0) }, () =>
        this.text(1 + this.below(this.#wordsMax)),
      )
    })
    this.#sequence += 1 + this.below(3)
    if (!this.prepares || this.below(4) > 0) this.index.put(slot, this.#sequence, texts)
    else this.index.putPrepared(slot, this.#sequence, atOnce(this.index.prepare(texts)))
    this.reference.put(slot, this.#sequence, texts)
  }

  remove(slot: number): void {
    this.index.remove(slot)
    this.reference.remove(slot)
  }

  filter(share: number, slots: number): SlotBitmap {
    const words = new Uint32Array(Math.ceil(slots / 32))
    let count = 0
    for (let slot = 0; slot < slots; slot += 1) {
      if (this.random() >= share) continue
      words[slot >> 5]! |= 1 << (slot & 31)
      count += 1
    }
    return { words, count }
  }

  compare(query: string, k: number, filter?: SlotBitmap): void {
    const matches = (slot: number): boolean =>
      filter === undefined || (((filter.words[slot >> 5] ?? 0) >>> (slot & 31)) & 1) === 1
    assert.deepEqual(this.index.search(query, k, filter), this.reference.search(query, k, matches), query)
  }
}

function slotsOf({ words, count }: SlotBitmap): number[] {
  const slots = Array.from({ length: 32 * words.length }, (_, slot) => slot).filter(
    (slot) => ((words[slot >> 5]! >>> (slot & 31)) & 1) === 1,
  )
  assert.equal(slots.length, count)
  return slots
}

describe('the index of words', () => {
  it('counts some of the points in steps, between which points are removed', () => {
    const index = new WordIndex({ language: 'none', weights: [1] })
    for (let slot = 0; slot < manyPoints; slot += 1) index.put(slot, slot + 1, [[`all n${slot % 3}`]])
    const isEven = (slot: number): boolean => slot % 2 === 0
    const counting = index.countWithin(['all', 'n1', 'nowhere'], 'even', isEven)
    const gone = new Set<number>()
    let counted = counting.next()
    for (let steps = 0; counted.done !== true; steps += 1, counted = counting.next()) {
      assert.ok(steps < 1000)
      // Some have been looked at already, some not.
      for (const slot of [steps * 10, manyPoints - 1 - steps * 10]) gone.add(slot)
      for (const slot of gone) index.remove(slot)
    }
    const live = Array.from({ length: manyPoints }, (_, slot) => slot).filter(
      (slot) => isEven(slot) && !gone.has(slot),
    )
    assert.ok(gone.size > 6)
    const having = live.filter((slot) => slot % 3 === 1).length
    assert.equal(counted.value.documents, live.length)
    assert.deepEqual(counted.value.lengths, [2 * live.length])
    assert.deepEqual(counted.value.terms, [
      { documents: live.length, occurrences: live.length },
      { documents: having, occurrences: having },
      { documents: 0, occurrences: 0 },
    ])
  })

  it(`finds what a brute force finds, while points come, change and go, seed ${seed}`, () => {
    const random = seededRandom(seed)
    for (const [weights, vocabulary, wordsMax, slots, k1, b] of [
      [[1], 30, 5, 60, 1.2, 0.75],
      [[1], 400, 40, 400, 1.2, 0.75],
      [[1, 3], 100, 12, 300, 1.2, 0.75],
      [[1, 0.3, 2.5], 60, 30, 200, 0.9, 0.4],
      [[2], 50, 8, 100, 2, 1],
      [[1], 50, 8, 100, 0, 0],
    ] as const) {
      const pair = new Pair(random, weights, vocabulary, wordsMax, k1, b)
      for (let round = 0; round < 180; round += 1) {
        for (let change = pair.below(round === 0 ? 2 * slots : 12); change > 0; change -= 1) {
          const slot = pair.below(slots)
          if (pair.below(4) === 0) pair.remove(slot)
          else pair.put(slot)
        }
        for (let search = 0; search < 4; search += 1) {
          const filter = pair.below(2) === 0 ? pair.filter(pair.random() ** 3, slots) : undefined
          pair.compare(pair.text(1 + pair.below(12)), 1 + pair.below(15), filter)
        }
      }
    }
  })

  it(`finds the same over several windows and blocks, seed ${seed}`, () => {
    const pair = new Pair(seededRandom(seed), [1], 3000, 12)
    for (let slot = 0; slot < 11_000; slot += 1) pair.put(slot)
    for (let slot = 0; slot < 11_000; slot += 1 + pair.below(6)) if (pair.below(3) > 0) pair.remove(slot)
    for (let search = 0; search < 12; search += 1) {
      const filter = search % 2 === 0 ? undefined : pair.filter(search < 6 ? 0.3 : 0.01, 11_000)
      pair.compare(pair.text(1 + pair.below(9)), 10, filter)
    }
  })

  it(`merges few times while nobody searches, and then what searches want, seed ${seed}`, () => {
    const pair = new Pair(seededRandom(seed), [1], 3000, 3)
    pair.prepares = false
    const { index } = pair
    let merged = 0
    for (let slot = 0; slot < 20_000; slot += 1) {
      pair.put(slot)
      if (pair.below(9) === 0) pair.remove(pair.below(slot))
      if (!index.isMergeable(false)) continue
      merged += index.parts.reduce((sum, part) => sum + part.liveDocuments, 0)
      for (const _ of index.mergeInSteps(false)) if (pair.below(3) === 0) pair.remove(pair.below(slot))
    }
    assert.ok(merged < 20_000, 'a point is merged at most once')
    assert.ok(index.parts.length < 8)
    index.freeze()
    for (const _ of index.mergeInSteps(true)) if (pair.below(3) === 0) pair.remove(pair.below(20_000))
    assert.ok(index.parts.length <= 2)
    for (let search = 0; search < 6; search += 1) pair.compare(pair.text(1 + pair.below(9)), 10)
  })

  it('finds the points of a word that all have', () => {
    const index = new WordIndex({ language: 'english', weights: [1] })
    index.put(7, 1, [['sour dough bread']])
    assert.deepEqual(
      index.search('breads', 3).map(({ slot }) => slot),
      [7],
    )
    for (let slot = 8; slot < 3000; slot += 1) index.put(slot, slot, [['the bread']])
    index.put(4000, 4000, [['zyzzyva']])
    assert.equal(index.search('the zyzzyva', 5000).length, 2993)
  })

  it(`takes the first words of a query that is too long, seed ${seed}`, () => {
    const pair = new Pair(seededRandom(seed), [1], 5000, 40)
    for (let slot = 0; slot < 300; slot += 1) pair.put(slot)
    pair.compare(pair.text(20_000), 10)
  })

  it(`finds points in several languages, seed ${seed}`, () => {
    const index = new WordIndex({ language: 'auto', weights: [1] })
    const reference = new BruteForceWords(index.analyzer, [1])
    const texts = [
      'The dogs are running in the park',
      'Die Hunde laufen durch den Park und sie sind nicht müde',
      'Собаки бегают в парке и они не устали',
      'Les chiens sont dans le parc avec les enfants',
      '公園で犬が走っています',
      'dog dogs doggy',
    ]
    for (let slot = 0; slot < 60; slot += 1) {
      index.put(slot, slot, [[texts[slot % texts.length]!]])
      reference.put(slot, slot, [[texts[slot % texts.length]!]])
    }
    for (const [query, place] of [
      ['dog', 0],
      ['Hund', 1],
      ['собака', 2],
      ['chien', 3],
      ['公園', 4],
    ] as const) {
      const hits = index.search(query, 100)
      assert.deepEqual(hits, reference.search(query, 100))
      assert.ok(
        hits.some(({ slot }) => slot % texts.length === place),
        query,
      )
    }
  })

  it('prepares a point of many words in steps', { timeout: 60_000 }, () => {
    const count = 120_000
    const words = Array.from({ length: count }, (_, index) => `w${(index * 7919) % count}`)
    const index = new WordIndex({ language: 'none', weights: [1] })
    const preparing = index.prepare([[words.join(' ')]])
    let steps = 0
    let step = preparing.next()
    for (; step.done !== true; step = preparing.next()) steps += 1
    assert.ok(steps > count / 1000, `${steps} steps`)
    index.putPrepared(3, 1, step.value)
    for (const word of ['w0', 'w77777', `w${count - 1}`]) {
      assert.deepEqual(
        index.search(word, 5).map(({ slot }) => slot),
        [3],
      )
    }
    assert.equal(index.matching({ kind: 'phrase', text: words.slice(500, 900).join(' ') }).count, 1)
    assert.equal(index.matching({ kind: 'phrase', text: words.slice(500, 900).reverse().join(' ') }).count, 0)
    index.remove(3)
    assert.deepEqual(index.statistics, { documents: 0, lengths: [0] })
  })

  it('finds a phrase that repeats a word in a text that does, without trying each place', {
    timeout: 60_000,
  }, () => {
    const index = new WordIndex({ language: 'none', weights: [1] })
    index.put(1, 1, [['a '.repeat(500_000)]])
    index.put(2, 2, [['a b '.repeat(1000)]])
    const matching = (text: string): readonly number[] => slotsOf(index.matching({ kind: 'phrase', text }))
    assert.deepEqual(matching('a '.repeat(1000)), [1])
    assert.deepEqual(matching('a b '.repeat(500)), [2])
    assert.deepEqual(matching(`${'a '.repeat(900)}b`), [])
    const long = 'a '.repeat(1025)
    assert.throws(() => matching(long), /has 1025 words, the maximum is 1024/)
    assert.throws(() => index.matchingMax({ kind: 'phrase', text: long }), /has 1025 words/)
  })

  it(`matches all words and phrases as a brute force does, seed ${seed}`, () => {
    const pair = new Pair(seededRandom(seed), [1, 2], 20, 12)
    let found = 0
    for (let round = 0; round < 100; round += 1) {
      for (let change = round === 0 ? 300 : 8; change > 0; change -= 1) {
        if (pair.below(5) === 0) pair.remove(pair.below(200))
        else pair.put(pair.below(200))
      }
      for (const kind of ['match', 'phrase'] as const) {
        const path = [undefined, 0, 1][pair.below(3)]
        const text = pair.text(1 + pair.below(6))
        const expected = pair.reference.matching(kind, text, path)
        assert.ok(pair.index.matchingMax({ kind, text, path }) >= expected.length)
        assert.deepEqual(
          slotsOf(pair.index.matching({ kind, text, path })),
          expected,
          `${kind} ${text} in ${path}`,
        )
        found += expected.length
      }
    }
    assert.ok(found > 1000)
  })

  it('matches words in the language of each point, whatever the languages of others are', () => {
    const german = 'Der Läufer und seine Hunde waren in den Häusern'
    for (const others of [1, 300]) {
      const index = new WordIndex({ language: 'auto', weights: [1] })
      for (let slot = 0; slot < others; slot += 1)
        index.put(slot, slot + 1, [['the runner was running with all of his dogs']])
      index.put(500, 501, [[german]])
      for (const kind of ['match', 'phrase'] as const) {
        assert.deepEqual(slotsOf(index.matching({ kind, text: 'Haus' })), [500])
        assert.deepEqual(slotsOf(index.matching({ kind, text: 'Hund' })), [500])
        assert.equal(index.matching({ kind, text: 'dog' }).count, others)
      }
    }
  })

  it('analyzes the text of a filter once for languages that stem it alike, and remembers few words of queries', () => {
    const index = new WordIndex({ language: 'auto', weights: [1] })
    const texts = [
      'the dog is in the house',
      'der Hund ist nicht in dem Haus',
      'собака не в доме, это так',
      '漢字の本',
    ]
    for (const [slot, text] of texts.entries()) index.put(slot, slot + 1, [[text]])
    const termIn = mock.method(index.analyzer, 'termIn')
    /** Of texts with one word. */
    const analyses = (text: string): number => {
      termIn.mock.resetCalls()
      index.matching({ kind: 'match', text })
      return termIn.mock.callCount()
    }
    assert.deepEqual(slotsOf(index.matching({ kind: 'match', text: '漢字' })), [3])
    assert.deepEqual(['漢', 'собаки', 'houses'].map(analyses), [1, 1, 2])
    index.put(4, 5, [['les maisons de la ville et le chien']])
    assert.deepEqual(['漢', 'собаки', 'houses'].map(analyses), [0, 0, 1])
    const before = index.analyzer.memoryBytes
    for (const round of [1, 2, 3]) {
      const words = Array.from({ length: 700 }, (_, at) => `new${at * round} größe${at * round}`).join(' ')
      index.search(words, 1)
      index.matching({ kind: 'match', text: words })
      assert.ok(index.analyzer.memoryBytes <= before + 8192 * 100)
    }
    assert.ok(index.memoryBytes > index.analyzer.memoryBytes)
  })

  it(`scores given points as a search does, seed ${seed}`, () => {
    const pair = new Pair(seededRandom(seed), [1, 2], 100, 10)
    for (let slot = 0; slot < 500; slot += 1) pair.put(slot)
    for (let slot = 0; slot < 500; slot += 7) pair.remove(slot)
    pair.index.search('w1', 1)
    for (let slot = 0; slot < 500; slot += 5) pair.put(slot)
    const slots = Uint32Array.from({ length: 40 }, () => pair.below(520))
    const query = pair.text(6)
    const expected = [...slots].map((slot) => pair.reference.score(query, slot))
    assert.deepEqual([...pair.index.scores(query, slots)], expected)
    assert.ok(expected.some((score) => score > 0))
  })
})
