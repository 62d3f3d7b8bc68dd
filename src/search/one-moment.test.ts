import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ChangeJournal } from '../attributes/change-journal.ts'
import { type Hit, Hits, inOrder } from '../index/hits.ts'
import { isOfOneMoment, TouchedSlots } from './one-moment.ts'

/** A slot with its point, whose vector has one component; a point that left is still in the row. */
interface Slot {
  readonly at: number
  readonly sequence: number
  readonly isLive: boolean
}

type Change = (slots: Slot[]) => void

const limit = 2

/** Requests as the main thread applies them: each change is noted first, and each request is settled. */
const requests: readonly (readonly { readonly noted: readonly number[]; readonly change: Change }[])[] = [
  // A near point moves far away, and another near one comes.
  [
    {
      noted: [0, 2],
      change: (slots) => {
        slots[2] = { at: 9, sequence: 11, isLive: true }
        slots[0] = { ...slots[0]!, isLive: false }
      },
    },
    {
      noted: [3],
      change: (slots) => {
        slots[3] = { at: 2, sequence: 12, isLive: true }
      },
    },
  ],
  [
    {
      noted: [1],
      change: (slots) => {
        slots[1] = { ...slots[1]!, isLive: false }
      },
    },
  ],
  // Another point takes the slot that was left first.
  [
    {
      noted: [0],
      change: (slots) => {
        slots[0] = { at: 8, sequence: 13, isLive: true }
      },
    },
  ],
]

const before: readonly Slot[] = [
  { at: 1, sequence: 1, isLive: true },
  { at: 3, sequence: 2, isLive: true },
  { at: 0, sequence: 0, isLive: false },
  { at: 0, sequence: 0, isLive: false },
  { at: 5, sequence: 3, isLive: true },
]

function nearest(seen: readonly (Slot | undefined)[]): Hit[] {
  return seen
    .flatMap((point, slot) => (point?.isLive ? [{ slot, sequence: point.sequence, distance: point.at }] : []))
    .sort(inOrder)
    .slice(0, limit)
}

/** Runs the steps of the writer and of a search in an order; returns whether the search was answered. */
function run(isSearchStep: readonly boolean[], order: readonly number[]): boolean {
  const journal = new ChangeJournal(16)
  const slots = [...before]
  const moments = [nearest(slots)]
  const writing = requests.flatMap((request) => [
    ...request.flatMap(({ noted, change }) => [
      ...noted.map((slot) => () => journal.add(slot)),
      () => change(slots),
    ]),
    () => {
      moments.push(nearest(slots))
      journal.settle()
    },
  ])
  let touched: TouchedSlots | undefined
  let started = 0
  const seen: Slot[] = []
  let isAnswered = false
  const searching = [
    () => {
      started = moments.length - 1
      touched = new TouchedSlots(journal, journal.settled)
    },
    ...order.map((slot) => () => {
      seen[slot] = slots[slot]!
    }),
    () => {
      const hits = nearest(seen)
      isAnswered = isOfOneMoment(touched!, Hits.of([hits]), 0, {
        query: { vector: new Float32Array(1), metric: 'Manhattan', limit },
        isMeasured: true,
        canMatch: () => true,
        read: (slot) => Float32Array.of(slots[slot]!.at),
      })
      if (!isAnswered) return
      const possible = moments.slice(started).map((each) => JSON.stringify(each))
      assert.ok(
        possible.includes(JSON.stringify(hits)),
        JSON.stringify({ isSearchStep, order, hits, possible }),
      )
    },
  ]
  for (const isSearch of isSearchStep) (isSearch ? searching : writing).shift()!()
  assert.equal(writing.length + searching.length, 0)
  return isAnswered
}

/** Yields all orders of so many steps of one and of the other. */
function* interleavings(search: number, write: number, steps: boolean[] = []): Generator<boolean[], void> {
  if (search === 0 && write === 0) yield steps
  if (search > 0) yield* interleavings(search - 1, write, [...steps, true])
  if (write > 0) yield* interleavings(search, write - 1, [...steps, false])
}

describe('the answer to a search', () => {
  it('is that of one moment in every interleaving with small requests', () => {
    const writes = requests.reduce(
      (sum, request) => sum + 1 + request.reduce((steps, { noted }) => steps + noted.length + 1, 0),
      0,
    )
    let answered = 0
    let count = 0
    for (const order of [
      [0, 1, 2, 3, 4],
      [3, 4, 2, 1, 0],
    ]) {
      for (const steps of interleavings(order.length + 2, writes)) {
        count += 1
        if (run(steps, order)) answered += 1
      }
    }
    assert.ok(answered > 0 && answered < count, `${answered} of ${count}`)
  })
})
