import { cpSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLogger } from '../../src/base/log.ts'
import { newId } from '../../src/base/partitions.ts'
import { openDataStore } from '../../src/storage/data-store.ts'

/** The data directory of a service outside any cluster, with one point. */
export class DirectoryWithPoints implements AsyncDisposable {
  readonly id: string = newId()
  readonly #root: string

  private constructor(root: string) {
    this.#root = root
  }

  static async make(): Promise<DirectoryWithPoints> {
    const directory = new DirectoryWithPoints(await mkdtemp(join(tmpdir(), 'vicinal-points-')))
    const logger = createLogger({ level: 'silent', pretty: false })
    const store = await openDataStore({ dataDir: join(directory.#root, 'data'), logger })
    const point = {
      vector: Float32Array.of(1, 2, 3),
      payload: { contentType: 'Text' as const, content: 'before' },
    }
    await store.main.commit({
      changes: [{ kind: 'insert', id: directory.id, sequence: 1, point }],
      slots: [0],
    })
    await store.close()
    return directory
  }

  copy(name: string): string {
    const copy = join(this.#root, name)
    cpSync(join(this.#root, 'data'), copy, { recursive: true })
    return copy
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#root, { recursive: true, force: true })
  }
}
