import type { ChildProcess } from 'node:child_process'

/**
 * Waits for the next message of a child process.
 *
 * @param who the beginning of the error message
 * @throws Error if the process exits first
 */
export async function nextMessage<Message>(child: ChildProcess, who = 'a process'): Promise<Message> {
  return await new Promise((resolve, reject) => {
    const onExit = (code: number | null, signal: string | null): void =>
      reject(new Error(`${who} exited early (${signal ?? `code ${code}`})`))
    child.once('exit', onExit)
    child.once('message', (message) => {
      child.off('exit', onExit)
      resolve(message as Message)
    })
  })
}
