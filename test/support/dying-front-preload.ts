/** Loaded with `--import` before a program: one of its front threads fails as soon as the file exists. */
import { existsSync } from 'node:fs'
import { workerData } from 'node:worker_threads'

const order = new URL(import.meta.url).searchParams.get('order')!

if ((workerData as { frontDoorbell?: unknown } | null)?.frontDoorbell !== undefined) {
  setInterval(() => {
    if (existsSync(order)) throw new Error('this front was told to fail')
  }, 20)
}
