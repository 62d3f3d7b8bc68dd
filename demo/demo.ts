/**
 * `npm run demo`: starts the service, stores some two thousand WordNet glosses with their embeddings if they
 * are not stored yet, asks it a few questions over HTTP and gRPC, and goes on serving. `--once` stops there.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createLogger } from '../src/base/log.ts'
import type { PointToInsert, VectorClient } from '../src/client/client.ts'
import { createGrpcClient } from '../src/client/grpc-client.ts'
import { createHttpClient } from '../src/client/http-client.ts'
import { readConfig } from '../src/config.ts'
import { startService } from '../src/main.ts'

const dimension = 512
const here = import.meta.dirname
const config = readConfig({ DATA_DIR: './data/demo', LOG_LEVEL: 'warn', ...process.env })
const service = await startService(config, { logger: createLogger({ level: config.logLevel, pretty: true }) })
process.once('SIGINT', stop)
process.once('SIGTERM', stop)
await service.ready

const httpUrl = `http://${config.httpHost}:${service.httpAddress!.port}`
const grpcAddress = `${config.grpcHost}:${service.grpcAddress.port}`
const apiKey = config.grpcRootPassword ?? readFileSync(service.apiKeyPath!, 'utf8').trim()
const http = createHttpClient({
  baseUrl: httpUrl,
  ...(config.httpApiKey ? { apiKey: config.httpApiKey } : {}),
})
const grpc = createGrpcClient({ address: grpcAddress, apiKey })

say('\nVicinal is running.')
await storeGlosses()
const questions = linesOf('data/queries.jsonl').map(
  (line) => JSON.parse(line) as { name: string; text: string },
)
for (const [index, question] of questions.slice(0, 6).entries()) {
  if (index % 2 === 0) await ask('HTTP', http, question)
  else await ask('gRPC', grpc, question)
}
explain()
if (process.argv.includes('--once')) await stop()

/** One batch, so that they are all there or none: then a second start knows by looking for any. */
async function storeGlosses(): Promise<void> {
  const bytes = new Int8Array(readFileSync(join(here, 'data/wordnet-glosses.i8')))
  const probe = unit(bytes.subarray(0, dimension))
  const present = await grpc.search({ vector: probe, metric: 'Cosine', limit: 1 })
  if (present.length > 0) {
    say('The glosses are stored already.')
    return
  }
  const points: PointToInsert[] = linesOf('data/wordnet-glosses.jsonl').map((line, row) => ({
    vector: unit(bytes.subarray(row * dimension, (row + 1) * dimension)),
    payload: { contentType: 'Text', content: (JSON.parse(line) as { text: string }).text },
  }))
  const started = performance.now()
  const ids = await grpc.insertBatch(points)
  say(
    `Stored ${ids.length} dictionary glosses with their embeddings, durably, in ${Math.round(performance.now() - started)} ms.`,
  )
}

async function ask(
  transport: string,
  client: VectorClient,
  { name, text }: { name: string; text: string },
): Promise<void> {
  const { vector } = JSON.parse(readFileSync(join(here, `queries/${name}.json`), 'utf8')) as {
    vector: number[]
  }
  const started = performance.now()
  const ids = await client.search({ vector, metric: 'Cosine', limit: 4 })
  const took = (performance.now() - started).toFixed(1)
  say(`\nWhat is nearest to "${shortened(text)}"? (${transport}, ${took} ms)`)
  for (const id of ids) say(`  - ${shortened((await client.get(id)).payload.content)}`)
}

function explain(): void {
  const body = 'demo/queries/beaked-whale.json'
  const keyFile = service.apiKeyPath === undefined ? '' : ` --api-key-file ${service.apiKeyPath}`
  say(`
Try it yourself, in another terminal:

  HTTP, the ids of the nearest glosses, and one of them whole (pages: ${httpUrl}/docs):
    curl -s ${httpUrl}/points/search -H 'content-type: application/json' -d @${body}
    curl -s ${httpUrl}/points/<one of the ids>

  gRPC, with the contents:
    npm run -s vicinal -- query --grpc ${grpcAddress}${keyFile} --vector-file ${body}

  gRPC with grpcurl, if you have it:
    grpcurl -plaintext -H "authorization: $(cat ${service.apiKeyPath ?? 'your-key-file'})" \\
      -d '{"id":{"value":"<one of the ids>"}}' ${grpcAddress} vectordb.VectorDB/GetPoint

Ctrl-C stops the service; the data stay in ${config.dataDir}.
`)
}

async function stop(): Promise<void> {
  await grpc.close()
  await service.close()
}

function unit(row: Int8Array): Float32Array {
  const norm = Math.sqrt(row.reduce((sum, each) => sum + each * each, 0))
  return Float32Array.from(row, (each) => each / norm)
}

function linesOf(name: string): string[] {
  return readFileSync(join(here, name), 'utf8').trim().split('\n')
}

function shortened(text: string): string {
  return text.length > 100 ? `${text.slice(0, 100)}…` : text
}

function say(text: string): void {
  console.log(text)
}
