import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it, type Mock, mock } from 'node:test'
import { buildingBytes, type GraphSet } from './graph-set.ts'
import { Backpressure } from './link-batches.ts'

const rowBytes = 16
const roomBytes = 1_600

describe('writers that wait for backpressure', () => {
  let nowMs: number
  let clock: Mock<() => number>
  let backpressure: Backpressure
  let answers: boolean[]
  const graphs = {
    isAttached: true,
    isStale: false,
    isStarting: false,
    waitingForGraph: 0,
    unindexed: 0,
    index: { layout: { rowBytes } },
  }
  beforeEach(() => {
    nowMs = 1_000_000
    clock = mock.method(performance, 'now', () => nowMs)
    graphs.waitingForGraph = 101
    graphs.isStarting = false
    backpressure = new Backpressure(graphs as GraphSet, roomBytes)
    answers = []
  })
  afterEach(() => clock.mock.restore())

  function wait(): void {
    void backpressure.wait()!.then((isOpen) => answers.push(isOpen))
  }

  /** Looks for late writers regularly for some time. */
  async function look(ms: number): Promise<void> {
    for (const endMs = nowMs + ms; nowMs < endMs; ) {
      nowMs += 500
      backpressure.refuseLate()
      await Promise.resolve()
    }
  }

  /** Stalls the process. Its timers then run before it hears of the links that were made meanwhile. */
  async function stall(ms: number): Promise<void> {
    nowMs += ms
    backpressure.refuseLate()
    await Promise.resolve()
  }

  it('are refused after 20 s, whether points are linked meanwhile or not', async () => {
    wait()
    await look(20_000)
    assert.deepEqual(answers, [])
    await look(500)
    assert.deepEqual(answers, [false])
  })

  it('are not refused because the process was stalled', async () => {
    await look(2_000)
    wait()
    await look(18_000)
    await stall(60_000)
    assert.deepEqual(answers, [])
    graphs.waitingForGraph = 100
    backpressure.recheck()
    await Promise.resolve()
    assert.deepEqual(answers, [true])
  })

  it('are refused in the end even if the process is stalled again and again', async () => {
    wait()
    for (let time = 0; time < 20; time += 1) await stall(60_000)
    assert.deepEqual(answers, [])
    await stall(60_000)
    assert.deepEqual(answers, [false])
  })

  it('wait no longer because of a stall before they began', async () => {
    await look(500)
    nowMs += 60_000
    wait()
    await stall(100)
    await look(19_500)
    assert.deepEqual(answers, [])
    await look(1_000)
    assert.deepEqual(answers, [false])
  })

  it('do not wait for points that were stored before a graph was rebuilt, but half of the links are for those', () => {
    const stored = 1_000_000
    const extra = roomBytes / rowBytes
    graphs.unindexed = stored
    graphs.waitingForGraph = stored
    backpressure.expectBacklog()
    assert.equal(backpressure.wait(), undefined)
    graphs.waitingForGraph = stored + extra
    assert.equal(backpressure.wait(), undefined)
    graphs.waitingForGraph += 1
    assert.ok(backpressure.wait())
    let inserted = 0
    for (let linked = 0; linked < stored; linked += 1_000) {
      graphs.waitingForGraph -= 1_000
      backpressure.linked(1_000)
      for (; backpressure.isOpen; inserted += 100) graphs.waitingForGraph += 100
    }
    assert.ok(inserted > stored / 2 - 1_000 && inserted < stored / 2 + 1_000, `${inserted} were inserted`)
    assert.ok(graphs.waitingForGraph < stored)
  })

  it('have more backpressure while a graph is being started; those that wait then are refused after 20 s', async () => {
    graphs.isStarting = true
    assert.equal(backpressure.wait(), undefined)
    graphs.waitingForGraph = buildingBytes / rowBytes
    assert.equal(backpressure.wait(), undefined)
    graphs.waitingForGraph += 1
    wait()
    await look(20_000)
    assert.deepEqual(answers, [])
    await look(500)
    assert.deepEqual(answers, [false])
  })
})
