/**
 * `npm run demo` starts the service, stores about two thousand WordNet glosses with their embeddings unless they are
 * already stored, runs a few queries over HTTP and gRPC, and keeps serving. With `--once`, it stops after the queries.
 */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join, relative } from 'node:path'
import { stopSignal } from '../src/cli/arguments.ts'
import type { VectorClient } from '../src/client/client.ts'
import { createGrpcClient } from '../src/client/grpc-client.ts'
import { createHttpClient } from '../src/client/http-client.ts'
import { type Config, readConfig } from '../src/config.ts'
import { type Service, startService } from '../src/main.ts'
import { dimension, glosses, type Question, questions, say, shortened, vectorOf } from './glosses.ts'

// A reader that closes the pipe early (`npm run demo | head`) is not a failure.
process.stdout.on('error', () => process.exit())
const stop = stopSignal()
try {
  const config = await configOfDemo()
  const service = await startService(config)
  try {
    // A signal during the tour ends it. Requests in progress then fail, which need not be reported.
    await Promise.race([stop, tour(config, service)])
    if (!process.argv.includes('--once')) say(`\n${await stop}: stopping.`)
  } finally {
    await service.close()
  }
} catch (error) {
  const { message } = error as Error
  const hint = message.includes('in use by process') ? ': is the demo running in another terminal?' : ''
  console.error(`\nThe demo failed: ${message}${hint}`)
  process.exitCode = 1
}
// Connections that clients left open would keep the process alive.
process.exit()

/** The settings of the environment, with defaults for the demo. A port that is in use is replaced by a free one. */
async function configOfDemo(): Promise<Config> {
  const environment = { DATA_DIR: './data/demo', LOG_LEVEL: 'warn', ...process.env }
  const fixed = { dimension: String(dimension), disableHttp: 'false' }
  const { grpcHost, grpcPort, httpHost, httpPort } = readConfig(environment, fixed)
  return readConfig(environment, {
    ...fixed,
    grpcPort: String(await freePort('gRPC', grpcHost, grpcPort)),
    httpPort: String(await freePort('HTTP', httpHost, httpPort)),
  })
}

/** Returns `port` if it is free, otherwise 0, which selects any free port. */
async function freePort(transport: string, host: string, port: number): Promise<number> {
  const probe = createServer()
  const isFree = await new Promise<boolean>((resolve) => {
    probe.once('error', () => resolve(false)).listen(port, host, () => resolve(true))
  })
  await new Promise((resolve) => probe.close(resolve))
  if (isFree) return port
  say(`Port ${port} is in use on this machine, so ${transport} uses another one.`)
  return 0
}

async function tour(config: Config, service: Service): Promise<void> {
  await service.ready
  const httpUrl = `http://${config.httpHost}:${service.httpAddress!.port}`
  const grpcAddress = `${config.grpcHost}:${service.grpcAddress.port}`
  const apiKey = config.grpcRootPassword ?? readFileSync(service.apiKeyPath!, 'utf8').trim()
  const http = createHttpClient({
    baseUrl: httpUrl,
    ...(config.httpApiKey ? { apiKey: config.httpApiKey } : {}),
  })
  const grpc = createGrpcClient({ address: grpcAddress, apiKey })
  say(`
Vicinal is running: HTTP at ${httpUrl}, gRPC at ${grpcAddress}.
The console, in your browser: ${httpUrl}/console

It stores vectors and finds the nearest ones. Here each vector is the embedding of a dictionary gloss: ${dimension}
numbers that a language model made of the text, so that texts of like meaning lie close together.
`)
  await storeGlosses(grpc)
  await grpc.collections.put('default', { words: { paths: { content: 1 } } })
  for (const [index, question] of questions().slice(0, 6).entries()) {
    if (index % 2 === 0) await ask('HTTP', http, question)
    else await ask('gRPC', grpc, question)
  }
  await askWithFilter(http)
  await askWithWords(http)
  const [example] = await grpc.search({ vector: vectorOf('beaked-whale'), metric: 'Cosine', limit: 1 })
  await grpc.close()
  explain({
    httpUrl,
    grpcAddress,
    apiKeyPath: service.apiKeyPath,
    dataDir: config.dataDir,
    example: example!,
  })
}

/** Stores the glosses in one batch: either all are stored or none, so a later start only checks for one. */
async function storeGlosses(client: VectorClient): Promise<void> {
  const present = await client.search({ vector: glosses()[0]!.vector, metric: 'Cosine', limit: 1 })
  if (present.length > 0) {
    say('The glosses are already stored by an earlier run of the demo.')
    return
  }
  const startedMs = performance.now()
  const ids = await client.insertBatch(glosses())
  const tookMs = Math.round(performance.now() - startedMs)
  say(`Stored ${ids.length} glosses with their embeddings in ${tookMs} ms, including the write to disk.`)
}

async function ask(transport: string, client: VectorClient, { name, text }: Question): Promise<void> {
  const ids = await client.search({ vector: vectorOf(name), metric: 'Cosine', limit: 4 })
  say(`\nSearched over ${transport} for the nearest to\n  "${shortened(text)}"`)
  for (const id of ids) say(`    - ${shortened((await client.get(id)).payload.content)}`)
}

/**
 * Searches near a word about food, but only for nouns about animals. A filter never loses results, however rare they
 * are.
 */
async function askWithFilter(client: VectorClient): Promise<void> {
  const filter = { pos: 'noun', topic: 'animal' }
  const matching = await client.count(filter)
  if (matching === 0)
    return say('\nThese glosses were stored by an earlier version, without attributes to filter by.')
  const { hits } = await client.searchHits({
    vector: vectorOf('anadama-bread'),
    metric: 'Cosine',
    limit: 4,
    filter,
    include: { distance: true, payload: true },
  })
  say(`\nNearest to anadama bread among the ${matching} nouns about animals, with ${JSON.stringify(filter)}:`)
  for (const { distance, payload } of hits) {
    say(`    - ${distance!.toFixed(3)}  ${shortened(payload!.content!)}`)
  }
}

/** Searches for a name by its word, and with it by meaning for what no word of the query names. */
async function askWithWords(client: VectorClient): Promise<void> {
  const words = 'Samoyed'
  const { hits } = await client.searchHits({
    vector: vectorOf('dog'),
    metric: 'Cosine',
    words,
    limit: 4,
    include: { scores: true, payload: true },
  })
  say(`\nBest for the word ${words}, and for the meaning of dog, half each:`)
  for (const { score, payload } of hits) say(`    - ${score!.toFixed(3)}  ${shortened(payload!.content!)}`)
}

function explain(running: {
  readonly httpUrl: string
  readonly grpcAddress: string
  readonly apiKeyPath: string | undefined
  readonly dataDir: string
  readonly example: string
}): void {
  const { httpUrl, grpcAddress, apiKeyPath, dataDir, example } = running
  const question = relative('.', join(import.meta.dirname, 'queries/beaked-whale.json'))
  const key = apiKeyPath === undefined ? '$GRPC_ROOT_PASSWORD' : `$(cat ${apiKeyPath})`
  const keyOption = apiKeyPath === undefined ? '' : ` --api-key-file ${apiKeyPath}`
  say(`
Look at the points in the console: ${httpUrl}/console

Or try it yourself, in another terminal, in this directory:

  HTTP: the ids of the nearest glosses, one complete gloss, and the API reference in your browser
    curl -s ${httpUrl}/points/search -H 'content-type: application/json' -d @${question}
    curl -s ${httpUrl}/points/${example}
    ${httpUrl}/docs

  HTTP: the number of glosses per topic
    curl -s ${httpUrl}/points/facets -H 'content-type: application/json' -d '{"paths":["topic"]}'

  gRPC: the same search with the texts, with the command line of Vicinal
    npm run -s vicinal -- query --grpc ${grpcAddress}${keyOption} --vector-file ${question}

  gRPC: one point, with a generic client
    npx buf curl --schema proto --protocol grpc --http2-prior-knowledge -H "authorization: ${key}" \\
      -d '{"id":{"value":"${example}"}}' http://${grpcAddress}/vectordb.VectorDB/GetPoint | head -12

Ctrl-C stops the service. The data stays in ${dataDir}. Delete that directory to start over.
`)
}
