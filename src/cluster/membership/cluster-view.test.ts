import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ClusterView } from './cluster-view.ts'
import { shareOf, withEntered, withPlaces } from './ownership.ts'
import { ownersIn } from './ring.ts'
import { type Announcement, noTopology, type Topology, toJson } from './topology.ts'

const log = { bounds: () => Promise.reject(new Error('not asked for here')) }

/** A node's view of its cluster, refreshed at chosen times in milliseconds. */
class Seen {
  nowMs = 0
  topology: Topology = noTopology
  readonly view = new ClusterView('a', () => this.nowMs)

  /** @param nodes the nodes that the log servers know of; undefined: the servers do not answer */
  async at(nowMs: number, nodes: readonly string[] | undefined): Promise<void> {
    this.nowMs = nowMs
    await this.view.refresh(log, {
      get: async () => ({ value: toJson(this.topology), revision: 1 }),
      announced: async () => {
        if (nodes === undefined) throw new Error('no log server answers')
        return new Map(nodes.map((node) => [node, toJson(announcementOf(node))]))
      },
    })
  }
}

/** The topology of three nodes where nothing has to move. */
function settledTopology(): Topology {
  const member = (node: string) => ({ zone: '', address: node })
  const entered = ['a', 'b', 'c'].reduce(
    (topology, node) =>
      withEntered(topology, { dimension: null, node, member: member(node), replicas: 1, mayFound: true }),
    noTopology,
  )
  return { ...entered, ownership: { ...entered.ownership, owners: ownersIn(entered.ownership.ring) } }
}

function announcementOf(node: string): Announcement {
  const is = { isReady: true, answers: true, generation: 1, position: 1 }
  return { zone: '', address: node, version: '1', state: 'serving', ...is }
}

describe('the view of a cluster', () => {
  it('does not ask a node that no longer announces itself', async () => {
    const seen = new Seen()
    await seen.at(20_000, ['a', 'b', 'c'])
    await seen.at(21_000, ['a', 'b'])
    assert.ok(seen.view.canBeAsked('b') && !seen.view.canBeAsked('c'))
  })

  it('names a member that is away for a quarter of an hour while others are heard', async () => {
    const minuteMs = 60_000
    const seen = new Seen()
    seen.topology = settledTopology()
    await seen.at(minuteMs, ['a', 'b', 'c'])
    for (let minute = 2; minute <= 17; minute += 1) await seen.at(minute * minuteMs, ['a', 'c'])
    assert.equal(seen.view.longAway, undefined, 'not yet')
    // An outage of the log servers says nothing about nodes.
    await seen.at(18 * minuteMs, undefined)
    for (let minute = 19; minute <= 34; minute += 1) await seen.at(minute * minuteMs, ['a', 'c'])
    assert.equal(seen.view.longAway, undefined, 'not yet after the outage')
    await seen.at(36 * minuteMs, ['a', 'c'])
    assert.equal(seen.view.longAway, 'b')
    const away = { ...seen.topology.members.b!, state: 'away' as const }
    seen.topology = withPlaces({
      ...seen.topology,
      generation: seen.topology.generation + 1,
      members: { ...seen.topology.members, b: away },
    })
    assert.equal(shareOf(seen.topology.ownership, 'b').wanted, 0)
    await seen.at(37 * minuteMs, ['a', 'c'])
    assert.equal(seen.view.longAway, undefined, 'others are copying already')
  })

  it('names a member that went away while it replaced its data, although partitions should move to it', async () => {
    const minuteMs = 60_000
    const seen = new Seen()
    const settled = settledTopology()
    const owners = settled.ownership.owners.map((nodes) => nodes.map((each) => (each === 'b' ? 'a' : each)))
    const refetching = { ...settled.members.b!, state: 'refetching' as const }
    const members = { ...settled.members, b: refetching }
    seen.topology = { ...settled, members, ownership: { ...settled.ownership, owners } }
    await seen.at(minuteMs, ['a', 'b', 'c'])
    for (let minute = 2; minute <= 18; minute += 1) await seen.at(minute * minuteMs, ['a', 'c'])
    assert.equal(seen.view.longAway, 'b')
    // Partitions that move to a node that is there could fill its disk.
    const some = owners.map((nodes) => nodes.map((each) => (each === 'c' ? 'a' : each)))
    seen.topology = { ...seen.topology, generation: 4, ownership: { ...settled.ownership, owners: some } }
    await seen.at(19 * minuteMs, ['a', 'c'])
    assert.equal(seen.view.longAway, undefined)
  })

  it('stays the same while the log servers do not answer, and while they have lost the announcements', async () => {
    const seen = new Seen()
    await seen.at(20_000, ['a', 'b', 'c'])
    await seen.at(21_000, undefined)
    for (const [nowMs, nodes] of [
      [30_000, undefined],
      [31_000, []],
      [32_000, ['c']],
      [33_000, ['a', 'c']],
      [46_000, ['a', 'c']],
    ] as const) {
      await seen.at(nowMs, nodes)
      assert.ok(seen.view.canBeAsked('b'), `at ${nowMs}`)
    }
    // Where more than a question depends on it, `announced` is exactly what the log servers say.
    assert.ok(!seen.view.announced.has('b'))
    await seen.at(48_000, ['a', 'c'])
    assert.ok(!seen.view.canBeAsked('b') && seen.view.canBeAsked('c'))
  })
})
