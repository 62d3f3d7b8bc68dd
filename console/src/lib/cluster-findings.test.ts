import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ClusterStatus, NodeStatus } from '../../../src/base/cluster-status.ts'
import { clusterFindings, lagOf } from './cluster-findings.ts'

function nodeOf(name: string, changes: Partial<NodeStatus> = {}): NodeStatus {
  const partitions = { owned: 256, wanted: 256 }
  const there = { is_alive: true, is_ready: true, position: 100, version: '1.0.0', partitions }
  return { name, zone: `zone-${name}`, address: `host-${name}:50052`, ...there, ...changes }
}

const current = { is_leader: false, is_current: true, is_offline: false }
const servers = [
  { ...current, name: 'n1', is_leader: true },
  { ...current, name: 'n2' },
]

function statusOf(changes: Partial<ClusterStatus> = {}): ClusterStatus {
  return {
    name: 'shop',
    node: 'a',
    is_ready: true,
    is_connected: true,
    position: 100,
    partitions: { replicas: 3, incoming: 0, surplus: 0, unowned: 0, under_replicated: 0 },
    log: { first: 1, last: 100, bytes: 10, bytes_max: 1000, servers },
    gaps: 0,
    digest_mismatches: 0,
    nodes: [nodeOf('a'), nodeOf('b'), nodeOf('c')],
    ...changes,
  }
}

function titlesOf(changes: Partial<ClusterStatus>): readonly string[] {
  return clusterFindings(statusOf(changes)).map(({ level, title }) => `${level}: ${title}`)
}

describe('the findings for a cluster', () => {
  it('are empty while everything is in order', () => {
    assert.deepEqual(clusterFindings(statusOf()), [])
  })

  it('name the nodes that are unreachable or catching up', () => {
    const { position: _, version: __, ...away } = nodeOf('b', { is_alive: false, is_ready: false })
    const nodes = [nodeOf('a'), away, nodeOf('c', { is_ready: false, position: 58 })]
    assert.deepEqual(titlesOf({ nodes }), [
      'warning: Node b is unreachable.',
      'warning: Node c is not ready.',
    ])
    const found = clusterFindings(statusOf({ nodes }))
    assert.equal(found[1]!.advice, 'It is catching up and has 42 log records to apply.')
    assert.deepEqual(titlesOf({ nodes: [nodeOf('a'), away, { ...away, name: 'd' }] }), [
      'warning: Nodes b, d are unreachable.',
    ])
  })

  it('name log servers that do not have the whole log', () => {
    const log = { first: 1, last: 100, bytes: 10, bytes_max: 1000 }
    const behind = { ...current, name: 'n2', is_current: false }
    const away = { ...behind, name: 'n3', is_offline: true }
    assert.deepEqual(titlesOf({ log: { ...log, servers: [servers[0]!, behind, away] } }), [
      'warning: Log server n2 is behind.',
      'warning: Log server n3 is away, or without JetStream.',
    ])
  })

  it('give the reason why a node is not in use', () => {
    const nodes = [nodeOf('a'), nodeOf('b', { is_ready: false, state: 'draining' })]
    assert.deepEqual(titlesOf({ nodes }), ['note: Node b is not in use:'])
  })

  it('put faults first, and report the fault of this node once', () => {
    const nodes = [nodeOf('a', { is_ready: false }), nodeOf('b', { is_ready: false })]
    const fault = 'the log of the cluster was deleted'
    assert.deepEqual(titlesOf({ nodes, fault, is_ready: false, gaps: 1, digest_mismatches: 2 }), [
      'fault: Node a cannot be used: the log of the cluster was deleted.',
      'fault: 2 comparisons with other nodes found different data.',
      'fault: 1 position of the log had no record.',
      'warning: Node b is not ready.',
    ])
  })

  it('report log servers that do not respond', () => {
    const { log: _, ...rest } = statusOf({ nodes: [nodeOf('a')], is_connected: false })
    assert.deepEqual(
      clusterFindings(rest).map(({ title }) => title),
      ['The log servers do not respond.'],
    )
  })

  it('report different versions', () => {
    assert.deepEqual(titlesOf({ nodes: [nodeOf('a', { version: '1.1.0' }), nodeOf('b')] }), [
      'note: Nodes run versions 1.0.0 and 1.1.0.',
    ])
  })

  it('include the lag of a node if both positions are known', () => {
    assert.equal(lagOf(nodeOf('b', { position: 90 }), statusOf()), 10)
    assert.equal(lagOf(nodeOf('b', { position: 105 }), statusOf()), 0)
    const { log: _, ...withoutLog } = statusOf()
    assert.equal(lagOf(nodeOf('b'), withoutLog), undefined)
    const { position: __, ...away } = nodeOf('b')
    assert.equal(lagOf(away, statusOf()), undefined)
  })
})
