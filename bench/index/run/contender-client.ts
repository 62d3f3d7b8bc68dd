import { type ChildProcess, fork } from 'node:child_process'
import { mkdirSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { nextMessage } from '../../shared/next-message.ts'
import type { Answer, Answers, Question } from './messages.ts'

/** Starts the process of one contender and sends it requests. */
export class ContenderClient {
  readonly name: string
  readonly #folder: string
  readonly #keepsFiles: boolean
  readonly #process: ChildProcess

  private constructor(name: string, folder: string, keepsFiles: boolean, process: ChildProcess) {
    this.name = name
    this.#folder = folder
    this.#keepsFiles = keepsFiles
    this.#process = process
  }

  /**
   * Starts the process, which loads the library.
   *
   * @param folder where the contender may keep files
   * @param files whether to start with the files of an earlier run, and whether to keep the files of this run
   */
  static async open(
    name: string,
    folder: string,
    files: { readonly fromBefore: boolean; readonly keep: boolean },
  ): Promise<[ContenderClient, Answers['open']]> {
    if (!files.fromBefore) rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder, { recursive: true })
    const child = fork(new URL('./contender-process.ts', import.meta.url), {
      execArgv: ['--expose-gc'],
      serialization: 'advanced',
      env: { ...process.env, UV_THREADPOOL_SIZE: String(availableParallelism()) },
    })
    const client = new ContenderClient(name, folder, files.keep, child)
    return [client, await client.ask({ kind: 'open', name, folder })]
  }

  /** @throws Error that names the contender, if it failed or its process died */
  async ask<Kind extends Question['kind']>(
    question: Question & { readonly kind: Kind },
  ): Promise<Answers[Kind]> {
    const asked = `${this.name}, asked to ${question.kind}`
    const answered = nextMessage<Answer>(this.#process, `${asked}: its process`)
    this.#process.send(question)
    const answer = await answered
    if ('fault' in answer) throw new Error(`${asked}: ${answer.fault}`)
    return answer.answer as Answers[Kind]
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once('exit', resolve))
    await this.ask({ kind: 'close' })
    await ended
    this.#removeFiles()
  }

  /** Kills the process of a contender that failed. */
  kill(): void {
    this.#process.kill('SIGKILL')
    this.#removeFiles()
  }

  #removeFiles(): void {
    if (!this.#keepsFiles) rmSync(this.#folder, { recursive: true, force: true })
  }
}
