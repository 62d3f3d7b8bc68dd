import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it, type Mock, mock } from 'node:test'
import { buildingBytes, type GraphSet } from './graph-set.ts'
import { WriterRoom } from './link-batches.ts'

const rowBytes = 16
const roomBytes = 1_600

describe('writers that wait for room', () => {
  let nowMs: number
  let clock: Mock<() => number>
  let room: WriterRoom
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
    room = new WriterRoom(graphs as GraphSet, roomBytes)
    answers = []
  })
  afterEach(() => clock.mock.restore())

  function wait(): void {
    void room.wait()!.then((hasRoom) => answers.push(hasRoom))
  }

  /** Looks for late writers regularly for some time; each look may hear of a link first. */
  async function look(ms: number, isLinking = false): Promise<void> {
    for (const endMs = nowMs + ms; nowMs < endMs; ) {
      nowMs += 500
      if (isLinking) room.linked(0)
      room.refuseLate()
      await Promise.resolve()
    }
  }

  /** Stalls the process. Its timers then run before it hears of the links that were made meanwhile. */
  async function stall(ms: number): Promise<void> {
    nowMs += ms
    room.refuseLate()
    await Promise.resolve()
  }

  it('are refused after 3 s in which no point is linked', async () => {
    wait()
    await look(3_000)
    assert.deepEqual(answers, [])
    await look(500)
    assert.deepEqual(answers, [false])
  })

  it('are refused after 20 s if points are linked all the time', async () => {
    wait()
    await look(20_000, true)
    assert.deepEqual(answers, [])
    await look(500, true)
    assert.deepEqual(answers, [false])
  })

  it('are not refused because the process was stalled', async () => {
    await look(2_000)
    wait()
    await look(1_000, true)
    await stall(60_000)
    assert.deepEqual(answers, [])
    room.linked(0)
    await look(2_500)
    graphs.waitingForGraph = 100
    room.recheck()
    await Promise.resolve()
    assert.deepEqual(answers, [true])
  })

  it('are refused in the end even if the process is stalled again and again', async () => {
    wait()
    for (let time = 0; time < 3; time += 1) await stall(60_000)
    assert.deepEqual(answers, [])
    await stall(60_000)
    assert.deepEqual(answers, [false])
  })

  it('wait no longer because of a stall before they began', async () => {
    await look(500)
    nowMs += 60_000
    wait()
    await stall(100)
    await look(2_500)
    assert.deepEqual(answers, [])
    await look(1_000)
    assert.deepEqual(answers, [false])
  })

  it('do not wait for points that were stored before a graph was rebuilt, but half of the links are for those', () => {
    const stored = 1_000_000
    const extra = roomBytes / rowBytes
    graphs.unindexed = stored
    graphs.waitingForGraph = stored
    room.expectBacklog()
    assert.equal(room.wait(), undefined)
    graphs.waitingForGraph = stored + extra
    assert.equal(room.wait(), undefined)
    graphs.waitingForGraph += 1
    assert.ok(room.wait())
    let inserted = 0
    for (let linked = 0; linked < stored; linked += 1_000) {
      graphs.waitingForGraph -= 1_000
      room.linked(1_000)
      for (; room.hasRoom; inserted += 100) graphs.waitingForGraph += 100
    }
    assert.ok(inserted > stored / 2 - 1_000 && inserted < stored / 2 + 1_000, `${inserted} were inserted`)
    assert.ok(graphs.waitingForGraph < stored)
  })

  it('have more room while a graph is being started; those that wait then are refused after 20 s', async () => {
    graphs.isStarting = true
    assert.equal(room.wait(), undefined)
    graphs.waitingForGraph = buildingBytes / rowBytes
    assert.equal(room.wait(), undefined)
    graphs.waitingForGraph += 1
    wait()
    await look(20_000)
    assert.deepEqual(answers, [])
    await look(500)
    assert.deepEqual(answers, [false])
  })
})
