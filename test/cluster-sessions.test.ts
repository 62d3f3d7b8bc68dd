import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import {
  type ServiceError as GrpcError,
  Metadata,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
} from '@grpc/grpc-js'
import { createGrpcClient, createHttpClient, type ServiceError } from '../src/client/index.ts'
import { apiKey, startTestCluster, startTestService, type TestService } from './support/service.ts'

const body = JSON.stringify({
  vector: [1, 2, 3],
  payload: { content: 'x', content_type: 'Text' },
})

async function insert({
  httpUrl,
}: TestService): Promise<{ readonly id: string; readonly position: string | null }> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${httpUrl}/points`, { method: 'POST', headers, body })
  assert.ok(response.ok, await response.clone().text())
  const { point_id: id } = (await response.json()) as { readonly point_id: string }
  return { id, position: response.headers.get('vicinal-position') }
}

describe('sessions over HTTP', () => {
  it('see at any node what they wrote at another', async () => {
    await using cluster = await startTestCluster(['a', 'b'])
    const [a, b] = cluster.services
    for (let round = 0; round < 20; round += 1) {
      const { id, position } = await insert(a!)
      const read = await fetch(`${b!.httpUrl}/points/${id}`, { headers: { 'vicinal-position': position! } })
      assert.equal(read.status, 200, `${position}: ${await read.clone().text()}`)
      assert.ok(Number(read.headers.get('vicinal-position')) >= Number(position))
    }
    const { id } = await insert(a!)
    const latest = await fetch(`${b!.httpUrl}/points/${id}`, { headers: { 'vicinal-consistency': 'latest' } })
    assert.equal(latest.status, 200)
  })

  it('report malformed headers', async () => {
    await using cluster = await startTestCluster(['a'])
    const url = `${cluster.services[0]!.httpUrl}/collections`
    for (const headers of [{ 'vicinal-position': '-1' }, { 'vicinal-consistency': 'newest' }]) {
      const response = await fetch(url, { headers: headers as Record<string, string> })
      assert.equal(response.status, 400)
      assert.match(await response.text(), /^vicinal-(position is -1|consistency is newest): it is/)
    }
  })

  it('do not exist on a single service', async () => {
    await using service = await startTestService()
    const { position } = await insert(service)
    if (service.config.clusterNatsUrl.length === 0) assert.equal(position, null)
    const headers = { 'vicinal-position': 'nonsense', 'vicinal-consistency': 'nonsense' }
    const response = await fetch(`${service.httpUrl}/collections`, { headers })
    assert.equal(response.status, service.config.clusterNatsUrl.length === 0 ? 200 : 400)
  })
})

describe('the session of a client', () => {
  it('is shared with the clients it creates for other collections', async () => {
    const sentPositions: unknown[] = []
    const server = createServer((request, response) => {
      sentPositions.push(request.headers['vicinal-position'])
      response.writeHead(200, { 'vicinal-position': String(sentPositions.length * 10) }).end('{"count":0}')
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const client = createHttpClient({ baseUrl: `http://127.0.0.1:${port}` })
    await client.count()
    await client.collection('one').count()
    await client.collection('one').collection('two').count()
    await client.count()
    server.closeAllConnections()
    server.close()
    assert.deepEqual(sentPositions, [undefined, '10', '20', '30'])
  })

  it('works the same over gRPC', async () => {
    const sentPositions: unknown[] = []
    const pass = (bytes: Buffer): Buffer => bytes
    const path = '/vectordb.VectorDB/CountPoints'
    const codec = {
      requestSerialize: pass,
      requestDeserialize: pass,
      responseSerialize: pass,
      responseDeserialize: pass,
    }
    const server = new Server()
    server.addService(
      { count: { path, requestStream: false, responseStream: false, ...codec } },
      {
        count({ metadata }: ServerUnaryCall<Buffer, Buffer>, answer: sendUnaryData<Buffer>) {
          sentPositions.push(metadata.get('vicinal-position')[0])
          const trailer = new Metadata()
          trailer.set('vicinal-position', String(sentPositions.length * 10))
          answer(null, Buffer.alloc(0), trailer)
        },
      },
    )
    const listen = promisify(server.bindAsync.bind(server))
    const port = await listen('127.0.0.1:0', ServerCredentials.createInsecure())
    const client = createGrpcClient({ address: `127.0.0.1:${port}`, apiKey })
    await client.count()
    await client.collection('one').count()
    await client.collection('one').collection('two').count()
    await client.count()
    await client.close()
    server.forceShutdown()
    assert.deepEqual(sentPositions, [undefined, '10', '20', '30'])
  })
})

describe('sessions over gRPC', () => {
  it('get the position of a node also when it refuses a call', async () => {
    await using cluster = await startTestCluster(['a'])
    const { position } = await insert(cluster.services[0]!)
    const client = createGrpcClient({ address: cluster.services[0]!.grpcAddress, apiKey })
    await assert.rejects(client.get('00000000-0000-4000-8000-000000000000'), (error) => {
      const { cause, reason } = error as ServiceError
      const [positionNow] = (cause as GrpcError).metadata.get('vicinal-position')
      assert.ok(Number(positionNow) >= Number(position), `${positionNow} after ${position}`)
      return reason === 'not_found'
    })
    await client.close()
  })
})
