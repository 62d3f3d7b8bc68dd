import { parentPort, workerData } from 'node:worker_threads'
import { GroupWriter } from './group-writer.ts'
import type { FromWriter, GroupPart, ToWriter } from './writer-messages.ts'

/** The writer thread: see writer-messages.ts for what it hears and says. */
const port = parentPort!
const writer = open()
if (writer !== undefined) serve(writer)

function open(): GroupWriter | undefined {
  try {
    const opened = new GroupWriter(workerData)
    opened.holdReserve()
    say({ kind: 'opened', ...opened.state })
    return opened
  } catch (error) {
    say({ kind: 'refused', error })
    return undefined
  }
}

function serve(writer: GroupWriter): void {
  /** What went wrong with an earlier part of the group that is coming in. */
  let fault: unknown
  const add = (part: GroupPart): void => {
    try {
      if (fault === undefined) writer.add(part)
    } catch (error) {
      fault = error
    }
    if (!part.isLast) return
    finish(writer, fault)
    fault = undefined
  }
  port.on('message', async (message: ToWriter) => {
    if (message.kind === 'part') return add(message)
    await writer.close()
    if (message.kind === 'release') say({ kind: 'released' })
    else port.close()
  })
}

function finish(writer: GroupWriter, fault: unknown): void {
  try {
    if (fault !== undefined) throw fault
    writer.commit()
  } catch (error) {
    writer.abandon()
    say({ kind: 'failed', isDiskFull: writer.isDiskFull(error), error })
    return
  }
  say({ kind: 'committed', ...writer.state })
  writer.holdReserve()
}

function say(message: FromWriter): void {
  port.postMessage(message)
}
