import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createLogger } from '../base/log.ts'
import { PartitionSet } from '../base/partitions.ts'
import { PartitionDigest } from '../storage/applied.ts'
import { Audits } from './audits.ts'
import type { NodeDigest } from './log/request-codec.ts'

const position = 7

/** What a node says that has one point of a partition. */
function digestOf(node: string, partition: number, version: number, held = PartitionSet.all()): NodeDigest {
  const digest = new PartitionDigest()
  digest.add(
    Uint8Array.from({ length: 16 }, (_, at) => (at === 0 ? partition : 1)),
    version,
  )
  return { node, position, digest: digest.bytes, held }
}

function auditsOf(nodes: number): { readonly audits: Audits; readonly reasons: string[] } {
  const reasons: string[] = []
  const audits = new Audits({
    node: 'own',
    logger: createLogger({ level: 'silent', pretty: false }),
    othersWith: () => nodes - 1,
    onMinority: (reason) => reasons.push(reason),
  })
  audits.add('docs', digestOf('own', 3, 1))
  return { audits, reasons }
}

describe('a comparison of replicas', () => {
  it('finds nothing between equal ones, in partitions that one of two does not hold, or for another audit', () => {
    const { audits } = auditsOf(3)
    audits.compare('docs', digestOf('own', 3, 1))
    audits.compare('docs', digestOf('a', 3, 1))
    audits.compare('docs', digestOf('b', 3, 2, PartitionSet.of([1, 2])))
    audits.compare('others', digestOf('a', 3, 2))
    audits.compare('docs', { ...digestOf('a', 3, 2), position: 8 })
    assert.equal(audits.mismatches, 0)
  })

  it('of two nodes raises an alarm, and says of neither that it is wrong', () => {
    const { audits, reasons } = auditsOf(2)
    audits.compare('docs', digestOf('a', 3, 2))
    assert.equal(audits.mismatches, 1)
    assert.deepEqual(reasons, [])
  })

  it('says that a node is wrong when most of the others that hold a partition agree against it', () => {
    const { audits, reasons } = auditsOf(5)
    audits.compare('docs', digestOf('a', 3, 2))
    audits.compare('docs', digestOf('b', 3, 2))
    assert.deepEqual(reasons, [], 'two of four are no majority')
    audits.compare('docs', digestOf('c', 3, 2))
    assert.deepEqual(reasons, [
      'this node holds other points than a and b and c in 1 partitions of the collection docs',
    ])
  })

  it('says nothing of the kind when the others do not agree', () => {
    const { audits, reasons } = auditsOf(3)
    audits.compare('docs', digestOf('a', 3, 2))
    audits.compare('docs', digestOf('b', 3, 9))
    assert.equal(audits.mismatches, 2)
    assert.deepEqual(reasons, [])
  })
})
