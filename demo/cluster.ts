/**
 * `npm run demo:cluster` starts three log servers and three nodes on this machine and stores the demo's glosses.
 * Searches continue while a node and a log server are killed. With `--once`, it then stops.
 */

import { findNatsServer } from '../scripts/get-nats.ts'
import type { ClusterStatus } from '../src/base/cluster-status.ts'
import { stopSignal } from '../src/cli/arguments.ts'
import type { VectorClient } from '../src/client/client.ts'
import { createHttpClient, type HttpClient } from '../src/client/http-client.ts'
import { ClusterProcesses, type NodeProcess } from '../test/cluster/cluster-processes.ts'
import { glosses, questions, say, shortened, vectorOf } from './glosses.ts'
import { Searches } from './searches.ts'

process.stdout.on('error', () => process.exit())
const stop = stopSignal()
if (findNatsServer() === undefined) {
  console.error('The demo needs a nats-server, and none was found. `npm run get:nats` installs one.')
  process.exit(1)
}
const starting = ClusterProcesses.start({ logServers: 3, nodes: 3, environment: { LOG_LEVEL: 'warn' } })
say('Starting three log servers and three nodes, each in its own process …')
const cluster = await starting
try {
  await Promise.race([stop, tour(cluster)])
  if (!process.argv.includes('--once')) say(`\n${await stop}: stopping.`)
} catch (error) {
  console.error(`\nThe demo failed: ${(error as Error).message}`)
  process.exitCode = 1
} finally {
  await cluster[Symbol.asyncDispose]()
}
process.exit()

async function tour({ nodes, servers }: ClusterProcesses): Promise<void> {
  const clients = nodes.map(({ url }) => createHttpClient({ baseUrl: url, retries: 0 }))
  const [first, second, third] = clients as [HttpClient, HttpClient, HttpClient]
  for (const node of nodes) await ready(node)
  await showStatus(nodes[0]!)

  const startedMs = performance.now()
  const ids = await first.insertBatch(glosses())
  say(`\nStored ${ids.length} glosses through ${nodes[0]!.name} in ${since(startedMs)}. All nodes have them.`)
  const [question] = questions()
  for (const [index, client] of clients.entries()) {
    await hasPoint(client, ids.at(-1)!)
    const [nearest] = await client.search({ vector: vectorOf(question!.name), metric: 'Cosine', limit: 1 })
    say(`  ${nodes[index]!.name} finds: ${shortened((await client.get(nearest!)).payload.content)}`)
  }

  say(
    '\nNow searches are sent to all nodes without a pause. If a node does not respond, another one is asked.',
  )
  const searches = new Searches(clients)
  await searches.report('everything is running')

  const victim = nodes[1]!
  await victim.kill()
  say(`\nKilled ${victim.name} with kill -9.`)
  await searches.report('one node is down')
  const inserting = performance.now()
  const id = await third.insert({
    vector: vectorOf(question!.name),
    payload: { contentType: 'Text', content: 'stored while a node was down' },
  })
  say(`  An insert through ${nodes[2]!.name} took ${since(inserting)}.`)
  await victim.start()
  const restarted = performance.now()
  await ready(victim)
  await hasPoint(second, id)
  say(`  ${victim.name} is running again. It caught up within ${since(restarted)} of its start.`)

  const leader = (await servers.leaderOf('VDB-test')) ?? 0
  await servers.kill(leader)
  say(`\nKilled log server ${leader}, the leader of the log, with kill -9.`)
  const waiting = performance.now()
  const written = first.insert({
    vector: vectorOf(question!.name),
    payload: { contentType: 'Text', content: 'stored while the log elected another leader' },
  })
  await searches.report('the leader of the log is down')
  await written
  say(`  An insert waited ${since(waiting)} for the next leader and was stored.`)
  await servers.startOne(leader)
  await searches.report('everything is running again')
  const { count, failed } = await searches.stop()
  say(`\n${count} searches in total; ${failed} of them got no answer from any node.`)
  await showStatus(nodes[0]!)
  say('\nThe cluster is still running. Press Ctrl-C to stop it and remove its data.')
}

async function ready(node: NodeProcess): Promise<void> {
  while (!(await node.isReady())) {
    if (!node.isRunning) throw new Error(`${node.name} has exited:\n${node.log}`)
    await pause(100)
  }
}

async function hasPoint(client: VectorClient, id: string): Promise<void> {
  while (
    !(await client.get(id).then(
      () => true,
      () => false,
    ))
  )
    await pause(10)
}

async function showStatus({ url }: NodeProcess): Promise<void> {
  const { log, nodes } = await whenAllAreReady(url)
  say(`\nThe cluster according to GET ${url}/cluster. The log has ${log?.last ?? '?'} records:`)
  for (const { name, is_alive, is_ready, position = '?' } of nodes) {
    say(
      `  ${name}  ${is_alive ? (is_ready ? 'ready' : 'not ready') : 'unreachable'}, has applied ${position}`,
    )
  }
}

/** Waits until all nodes are ready. Nodes exchange their status only once per second. */
async function whenAllAreReady(url: string): Promise<ClusterStatus> {
  for (;;) {
    const status = (await (await fetch(`${url}/cluster`)).json()) as ClusterStatus
    if (status.nodes.filter(({ is_ready }) => is_ready).length === 3) return status
    await pause(200)
  }
}

function since(startedMs: number): string {
  return `${((performance.now() - startedMs) / 1000).toFixed(1)} s`
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
