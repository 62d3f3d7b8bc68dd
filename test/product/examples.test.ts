import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { globSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { createHttpClient } from '../../src/client/index.ts'
import { settings } from '../../src/settings/table.ts'
import { run, temporaryDirectory } from '../support/process.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** The files of docs/examples that operators install, run unchanged. nginx.conf has a separate test. */

const root = join(import.meta.dirname, '../..')
const examples = join(root, 'docs/examples')
const units = globSync('*.{service,timer}', { cwd: examples })

const withoutSystemd =
  spawnSync('systemd-analyze', ['--version']).status !== 0 && 'systemd-analyze is not installed'

describe('the units for systemd', () => {
  it('are accepted by systemd without a warning', { skip: withoutSystemd }, async () => {
    await using directory = await temporaryDirectory()
    for (const name of units) {
      // The commands that they start are not installed here.
      const unit = readFileSync(join(examples, name), 'utf8').replace(/^ExecStart=\S+/gm, 'ExecStart=/bin/sh')
      writeFileSync(join(directory.path, name), unit)
    }
    const paths = units.map((name) => join(directory.path, name))
    const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', ...paths], {
      encoding: 'utf8',
    })
    // Ignore messages about other units of the machine.
    const ours = `${stdout}${stderr}`.split('\n').filter((line) => line.includes('vicinal'))
    assert.deepEqual({ status, ours }, { status: 0, ours: [] })
  })

  it('restrict the service to what it needs', { skip: withoutSystemd }, () => {
    const unit = join(examples, 'vicinal.service')
    const security = ['security', '--offline=true', '--threshold=20', unit]
    const { status, stderr } = spawnSync('systemd-analyze', security, { encoding: 'utf8' })
    assert.equal(status, 0, stderr)
  })

  it('set only existing settings', () => {
    const known = ['PATH', ...Object.values(settings).map(({ env }) => env)]
    const set = units.flatMap((name) => [
      ...readFileSync(join(examples, name), 'utf8').matchAll(/^Environment=(\w+)=/gm),
    ])
    assert.ok(set.length > 0)
    assert.deepEqual(
      set.map(([, name]) => name!).filter((name) => !known.includes(name)),
      [],
    )
  })
})

describe('vicinal-backup', () => {
  it('keeps the requested number of newest backups, each intact', async () => {
    await using place = await Place.open()
    for (const count of [1, 2, 3, 4]) {
      await place.insert()
      await place.backUp(2)
      assert.equal(place.files.length, Math.min(count, 2))
    }
    const kept: string[] = []
    for (const name of place.files) {
      const { code, stdout } = await run(['snapshot', 'verify', join(place.backups, name)])
      assert.equal(code, 0)
      kept.push(/(\d+) points: every byte/.exec(stdout)![1]!)
    }
    assert.deepEqual(kept.sort(), ['3', '4'])
  })

  it('deletes no other files, except leftovers of killed backups older than a day', async () => {
    await using place = await Place.open()
    await place.insert()
    for (const name of ['notes.txt', 'vicinal.backup.partial-1', 'vicinal.backup.partial-2']) {
      writeFileSync(join(place.backups, name), '')
    }
    const longAgo = Date.now() / 1000 - 3 * 24 * 3600
    utimesSync(join(place.backups, 'vicinal.backup.partial-1'), longAgo, longAgo)
    await place.backUp(1)
    const others = readdirSync(place.backups).filter((name) => !place.files.includes(name))
    assert.deepEqual(others.sort(), ['notes.txt', 'vicinal.backup.partial-2'])
  })

  it('fails, and deletes nothing, when there is no service', async () => {
    await using place = await Place.open()
    await place.insert()
    await place.backUp(2)
    await place.insert()
    await place.backUp(2)
    const before = place.files
    await place.service.service.close()
    await assert.rejects(place.backUp(1), { code: 1, stderr: /no HTTP service answers at/ })
    assert.deepEqual(place.files, before)
  })

  it('sets a damaged backup aside and deletes nothing', async () => {
    await using place = await Place.open()
    await place.insert()
    await place.backUp(1)
    const before = place.files
    await place.insert()
    // The disk corrupts a byte in the middle of the newest file.
    place.damageWhatIsCreated()
    await assert.rejects(place.backUp(1), { code: 1, stderr: /the new backup is damaged/ })
    assert.deepEqual(place.files, before)
    assert.equal(readdirSync(place.backups).filter((name) => name.endsWith('.backup.damaged')).length, 1)
  })

  it('prints its usage when called wrongly', () => {
    for (const args of [[], ['/tmp'], ['/tmp', '0'], ['/tmp', '-1'], ['/tmp', 'many']]) {
      const { status, stderr } = spawnSync(join(examples, 'vicinal-backup'), args, { encoding: 'utf8' })
      assert.equal(status, 2)
      assert.match(stderr, /^usage: vicinal-backup DIRECTORY KEEP/)
    }
  })
})

/** A service, a directory for its backups, and the command `vicinal` on a path. */
class Place implements AsyncDisposable {
  readonly service: TestService
  readonly backups: string
  readonly #directory: AsyncDisposable & { readonly path: string }
  #count = 0

  private constructor(service: TestService, directory: AsyncDisposable & { readonly path: string }) {
    this.service = service
    this.#directory = directory
    this.backups = join(directory.path, 'back ups')
    mkdirSync(this.backups)
    this.#writeCommand('')
  }

  static async open(): Promise<Place> {
    return new Place(await startTestService(), await temporaryDirectory())
  }

  get files(): string[] {
    return globSync('vicinal-*.backup', { cwd: this.backups }).sort()
  }

  async insert(): Promise<void> {
    this.#count += 1
    const content = `point ${this.#count}`
    const client = createHttpClient({ baseUrl: this.service.httpUrl })
    await client.insert({ vector: [this.#count], payload: { contentType: 'Text', content } })
  }

  /** @throws Error with `code` and `stderr` if the exit code is not 0 */
  async backUp(keep: number): Promise<void> {
    const args = [this.backups, String(keep), '--http', this.service.httpUrl]
    const PATH = `${this.#directory.path}${delimiter}${process.env.PATH}`
    await promisify(execFile)(join(examples, 'vicinal-backup'), args, { env: { PATH } })
  }

  damageWhatIsCreated(): void {
    // A fixed byte would equal the random one at its place now and then.
    const flip =
      'const [, file] = process.argv, bytes = fs.readFileSync(file); bytes[50] ^= 1; fs.writeFileSync(file, bytes)'
    this.#writeCommand(`
      test "$1" = backup || exit 0
      newest=$(ls -t "$2"/vicinal-*.backup | head -n 1)
      '${process.execPath}' -e '${flip}' "$newest"
    `)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.service[Symbol.asyncDispose]()
    await this.#directory[Symbol.asyncDispose]()
  }

  #writeCommand(after: string): void {
    const main = join(root, 'src/cli/main.ts')
    const script = `#!/bin/sh\n'${process.execPath}' '${main}' "$@" || exit\n${after}\n`
    writeFileSync(join(this.#directory.path, 'vicinal'), script, { mode: 0o755 })
  }
}
