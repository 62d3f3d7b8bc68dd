import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { newFilterId, type SlotBits } from '../index/slot-filter.ts'
import { Doorbell } from './board.ts'
import { KnownFilters } from './executor.ts'
import type { FilterMessage, ToSearchThread } from './messages.ts'

function bits(): SlotBits {
  return { id: newFilterId(), version: 0, words: new Uint32Array(new SharedArrayBuffer(4)) }
}

/** Returns filters that record the messages to threads, and the filters that threads know by them. */
function recordingFilters(): { filters: KnownFilters; messages: FilterMessage[]; known: () => Set<number> } {
  const messages: FilterMessage[] = []
  const known = (): Set<number> => {
    const ids = new Set<number>()
    for (const { kind, filter } of messages) {
      if (kind === 'filter') ids.add(filter)
      else ids.delete(filter)
    }
    return ids
  }
  const filters = new KnownFilters((message: ToSearchThread) => messages.push(message as FilterMessage))
  return { filters, messages, known }
}

describe('the filters that threads know', () => {
  it('are posted once, however many queries use them, and share their memory', () => {
    const { filters, messages } = recordingFilters()
    const [first, second] = [bits(), bits()]
    for (const each of [first, second, first, first]) filters.beforeWork(1, each)
    assert.deepEqual(
      messages.map(({ kind, filter }) => [kind, filter]),
      [
        ['filter', first.id],
        ['filter', second.id],
      ],
    )
    assert.ok(messages[0]!.kind === 'filter' && messages[0]!.words === first.words.buffer)
  })

  it('are the most recently used ones, and all that queries in progress use', () => {
    const { filters, known } = recordingFilters()
    const used = bits()
    filters.beforeWork(1, used)
    const done = Array.from({ length: 100 }, bits)
    for (const each of done) {
      filters.beforeWork(1, each)
      filters.afterWork(each)
    }
    assert.ok(known().has(used.id), 'its query is still in progress')
    assert.deepEqual(
      [...known()].slice(1),
      done.slice(-63).map(({ id }) => id),
    )
    filters.afterWork(used)
    filters.beforeWork(1, bits())
    assert.ok(!known().has(used.id), 'no other is unused for longer')
    filters.beforeWork(1, used)
    assert.ok(known().has(used.id), 'posted again')
  })

  it('are dropped with their index', () => {
    const { filters, known } = recordingFilters()
    const [gone, kept] = [bits(), bits()]
    filters.beforeWork(1, gone)
    filters.beforeWork(2, kept)
    filters.detach(1)
    assert.deepEqual([...known()], [kept.id])
    filters.afterWork(gone)
  })

  it('are posted to a thread that starts later', () => {
    const { filters, messages } = recordingFilters()
    const used = Array.from({ length: 3 }, bits)
    for (const each of used) filters.beforeWork(1, each)
    const late: ToSearchThread[] = []
    filters.postTo({ post: (message) => late.push(message) })
    assert.deepEqual(late, messages)
  })
})

it('calls the listener once for all rings before it listens again', async () => {
  const doorbell = new Doorbell()
  let heard = 0
  const listening = (): Promise<void> =>
    new Promise((resolve) => {
      doorbell.listen(() => {
        heard += 1
        resolve()
      })
    })
  const first = listening()
  for (let time = 0; time < 5; time += 1) doorbell.ring()
  await first
  doorbell.ring()
  assert.equal(heard, 1)
  const second = listening()
  new Doorbell(doorbell.buffer).ring()
  await second
  assert.equal(heard, 2)
})
