import { parentPort, workerData } from 'node:worker_threads'
import { DatabaseError, isOpenFailure } from '../../base/errors.ts'
import { IncomingGroups, WriterEnvironment } from './writer-environment.ts'
import type { ChangeMessage, FromWriter, Hindrance, OpenMessage, ToWriter } from './writer-messages.ts'

/** The code of a writer thread: see writer-messages.ts for its messages. */
const port = parentPort!
const environment = open()
if (environment !== undefined) serve(environment)

function open(): WriterEnvironment | undefined {
  try {
    const opened = new WriterEnvironment(workerData, say)
    say({ kind: 'started', journalBytes: opened.journalBytes })
    return opened
  } catch (error) {
    say({ kind: 'refused', hindrance: hindranceOf(error), error })
    return undefined
  }
}

function serve(environment: WriterEnvironment): void {
  const groups = new IncomingGroups(environment, say)
  port.on('message', async (message: ToWriter) => {
    switch (message.kind) {
      case 'open':
        return openCollection(environment, message)
      case 'part':
        return groups.add(message)
      case 'change':
        return change(environment, message)
      case 'shut':
        environment.shut(message.collection)
        return say({ kind: 'shut done', collection: message.collection })
      case 'close':
        await environment.close()
        return port.close()
      case 'release':
        await environment.close()
        return say({ kind: 'released' })
    }
  })
}

function openCollection(environment: WriterEnvironment, message: OpenMessage): void {
  const { collection } = message
  try {
    const { state } = environment.open(message)
    environment.holdReserve()
    say({ kind: 'opened', collection, ...state })
  } catch (error) {
    say({ kind: 'not opened', collection, hindrance: hindranceOf(error), error })
  }
}

function hindranceOf(error: unknown): Hindrance | undefined {
  // environment.ts names the file in an error of its own.
  const cause = error instanceof DatabaseError ? error.cause : error
  if (isOpenFailure(cause)) return 'files exhausted'
  return (cause as NodeJS.ErrnoException | undefined)?.code === 'EROFS' ? 'read-only' : undefined
}

function change(environment: WriterEnvironment, message: ChangeMessage): void {
  try {
    const changed = environment.change(message.change)
    say({ kind: 'changed', ...changed, journalBytes: environment.journalBytes })
  } catch (error) {
    say({ kind: 'not changed', scope: environment.judge(error), error })
  }
  environment.holdReserve()
}

function say(message: FromWriter): void {
  port.postMessage(message)
}
