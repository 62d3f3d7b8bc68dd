import assert from 'node:assert/strict'
import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'

const root = join(import.meta.dirname, '..')
const uuid = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g

/** The demo as `npm run demo` starts it, in a data directory of its own. */
class Demo {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #ended: Promise<readonly unknown[]>
  said = ''

  constructor(dataDir: string) {
    this.#child = spawn(process.execPath, ['demo/demo.ts'], {
      cwd: root,
      env: { ...process.env, DATA_DIR: dataDir, HTTP_PORT: '0', GRPC_PORT: '0', GRPC_ROOT_PASSWORD: '' },
    })
    this.#ended = once(this.#child, 'close')
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream.on('data', (text: Buffer) => {
        this.said += text
      })
  }

  /** Resolves when it has said something that matches, or has ended; then it fails. */
  async until(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.said)
      if (match !== null) return match
      const heard = Promise.race([once(this.#child.stdout, 'data'), this.#ended.then(() => 'ended')])
      if ((await heard) === 'ended') assert.match(this.said, pattern)
    }
  }

  async stop(): Promise<number> {
    this.#child.kill('SIGINT')
    const [code] = await this.#ended
    return code as number
  }
}

describe('the demo', () => {
  let dataDir: string
  let demo: Demo
  before(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'vicinal-demo-'))
    demo = new Demo(dataDir)
  })
  after(async () => {
    await demo.stop()
    await rm(dataDir, { recursive: true })
  })

  it('stores the glosses and searches them, with a filter, too', async () => {
    await demo.until(/Ctrl-C stops the service/)
    assert.match(demo.said, /Stored 2046 glosses/)
    assert.equal(demo.said.match(/^Asked over (HTTP|gRPC) for what is nearest to$/gm)!.length, 6)
    assert.match(demo.said, /^Nearest to anadama bread among the 207 nouns about animals/m)
  })

  for (const [command, shown] of readmeQueries()) {
    it(`answers what the README shows: ${command.replaceAll(/\s+/g, ' ')}`, async () => {
      const [, address] = await demo.until(/gRPC at ([\w.]+:\d+)/)
      const here = command.replace('data/demo/api-key', `${dataDir}/api-key --grpc ${address}`)
      assert.notEqual(here, command)
      const { stdout } = await promisify(execFile)('bash', ['-c', here], { cwd: root })
      assert.equal(stdout.replaceAll(uuid, 'id'), shown.replaceAll(uuid, 'id'))
    })
  }

  it('stops when it is told to, and finds its glosses when it starts again', async () => {
    assert.equal(await demo.stop(), 0)
    assert.match(demo.said, /SIGINT: stopping/)
    demo = new Demo(dataDir)
    await demo.until(/The glosses are stored already/)
  })
})

/** Commands of the README for the demo, and what it shows of their output. */
function readmeQueries(): readonly (readonly [command: string, shown: string])[] {
  const readme = readFileSync(join(root, 'README.md'), 'utf8')
  const [, start] = /^## Quick start\n(.*?)^## /ms.exec(readme)!
  const blocks = [...start!.matchAll(/^```(\w*)\n([\s\S]*?)^```\n/gm)]
  const shown = blocks.flatMap(([, , source], index) => {
    const command = /^npm run -s vicinal -- query [\s\S]*/m.exec(source!)?.[0]
    return command === undefined ? [] : [[command, blocks[index + 1]![2]!] as const]
  })
  assert.ok(shown.length > 0)
  return shown
}
