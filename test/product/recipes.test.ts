import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { startTestService } from '../support/service.ts'

const root = join(import.meta.dirname, '../..')

/** test/product/docs.test.ts runs the recipe without an endpoint; then it prints its prompt. */
describe('the recipe for retrieval in TypeScript', () => {
  it('sends the prompt to an OpenAI-compatible endpoint and prints the answer', async () => {
    await using service = await startTestService()
    const asked: { readonly path: string; readonly key: string; readonly body: string }[] = []
    const endpoint = createServer(async (request, response) => {
      const { url, headers } = request
      asked.push({ path: url!, key: headers.authorization!, body: await bodyOf(request) })
      response.setHeader('content-type', 'application/json')
      response.end(
        JSON.stringify({ choices: [{ message: { role: 'assistant', content: 'Dolphins [1].' } }] }),
      )
    })
    endpoint.listen(0, '127.0.0.1')
    await once(endpoint, 'listening')
    try {
      const [, program] = /^```ts\n(.*?)^```$/ms.exec(
        readFileSync(join(root, 'docs/recipes/rag-typescript.md'), 'utf8'),
      )!
      const script = join(service.dataDir, 'rag.mts')
      const client = join(root, 'src/client/http.ts')
      writeFileSync(
        script,
        program!.replace('http://127.0.0.1:3000', service.httpUrl).replace("'vicinal-client'", `'${client}'`),
      )
      const { port } = endpoint.address() as AddressInfo
      const { stdout } = await promisify(execFile)(process.execPath, [script], {
        cwd: root,
        env: {
          ...process.env,
          OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
          OPENAI_API_KEY: 'a-key',
          OPENAI_MODEL: 'a-model',
        },
      })
      assert.equal(stdout, 'Dolphins [1].\n')
    } finally {
      endpoint.closeAllConnections()
      endpoint.close()
    }
    assert.equal(asked.length, 1)
    const [{ path, key, body }] = asked as [(typeof asked)[number]]
    assert.deepEqual([path, key], ['/v1/chat/completions', 'Bearer a-key'])
    const { model, messages } = JSON.parse(body)
    assert.equal(model, 'a-model')
    assert.match(messages[0].content, /^\[1\] \(animal\) dolphin: .*\n\[2\] \(animal\) whale: /m)
  })
})

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}
