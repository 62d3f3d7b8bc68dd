import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { DataSet } from '../../shared/data/data-set.ts'
import { nextMessage } from '../../shared/next-message.ts'
import type { IndexAnswer, IndexCommand, IndexSetup } from './index-process.ts'

/** Measures the speed of the index alone: its searchers run on threads of another process, without a server. */
export class IndexRate implements AsyncDisposable {
  readonly #child: ChildProcess

  private constructor(child: ChildProcess) {
    this.#child = child
  }

  /** Builds the index of all rows. */
  static async build(set: DataSet): Promise<IndexRate> {
    const child = fork(join(import.meta.dirname, 'index-process.ts'), { serialization: 'advanced' })
    const { basePath, queryPath, count, queryCount, dimension } = set
    const setup: IndexSetup = { basePath, queryPath, count, queryCount, dimension }
    child.send(setup)
    await nextMessage<'built'>(child)
    return new IndexRate(child)
  }

  /** @returns queries per second, or the nearest rows of every query if `threads` is 0 */
  async ask(command: IndexCommand): Promise<IndexAnswer> {
    this.#child.send(command)
    return await nextMessage<IndexAnswer>(this.#child)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = once(this.#child, 'exit')
    this.#child.disconnect()
    await exited
  }
}
