import type { ChildProcess } from 'node:child_process'

/**
 * The next message of a child process.
 *
 * @param who begins the message of the error
 * @throws Error when the process ends before it
 */
export async function nextMessage<Message>(child: ChildProcess, who = 'a process'): Promise<Message> {
  return await new Promise((resolve, reject) => {
    const onExit = (code: number | null, signal: string | null): void =>
      reject(new Error(`${who} ended early (${signal ?? `code ${code}`})`))
    child.once('exit', onExit)
    child.once('message', (message) => {
      child.off('exit', onExit)
      resolve(message as Message)
    })
  })
}
