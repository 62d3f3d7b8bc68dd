import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ClusterView } from './cluster-view.ts'
import type { Announcement } from './membership.ts'
import { noTopology } from './topology.ts'

const log = { bounds: () => Promise.reject(new Error('not asked for here')) }

/** A node's view of its cluster, refreshed at chosen times in milliseconds. */
class Seen {
  nowMs = 0
  readonly view = new ClusterView('a', () => this.nowMs)

  /** @param nodes the nodes that the log servers know of; undefined: the servers do not answer */
  async at(nowMs: number, nodes: readonly string[] | undefined): Promise<void> {
    this.nowMs = nowMs
    await this.view.refresh(log, {
      topology: async () => noTopology,
      announced: async () => {
        if (nodes === undefined) throw new Error('no log server answers')
        return new Map(nodes.map((node) => [node, announcementOf(node)]))
      },
    })
  }
}

function announcementOf(node: string): Announcement {
  const is = { isReady: true, serves: true, answers: true, generation: 1, position: 1 }
  return { zone: '', address: node, version: '1', state: 'serving', ...is }
}

describe('the view of a cluster', () => {
  it('does not ask a node that no longer announces itself', async () => {
    const seen = new Seen()
    await seen.at(20_000, ['a', 'b', 'c'])
    await seen.at(21_000, ['a', 'b'])
    assert.ok(seen.view.canBeAsked('b') && !seen.view.canBeAsked('c'))
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
