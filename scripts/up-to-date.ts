import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { open } from 'lmdb'

const root = join(import.meta.dirname, '..')
const cache = join(root, 'node_modules/.cache/built')

/**
 * Calls `build` unless the bytes of all inputs and outputs are those of the last build that succeeded. `npm pack` runs a
 * build and `npm run prepare`, which have steps in common. Builds of several processes run one after the other.
 *
 * @param inputs files and folders, by their paths from the root
 * @param outputs everything that `build` writes, like `inputs`
 */
export function buildIfOutdated(
  name: string,
  inputs: readonly string[],
  outputs: readonly string[],
  build: () => void,
): void {
  const stamp = join(cache, name)
  const outputDigest = (): string => digestOf(outputs, [])
  const isBuilt = (digest: string): boolean =>
    existsSync(stamp) && readFileSync(stamp, 'utf8') === `${digest} ${outputDigest()}`
  if (isBuilt(inputDigest(inputs))) return
  exclusively(() => {
    // Another process may have built while this one waited.
    const digest = inputDigest(inputs)
    if (isBuilt(digest)) return
    rmSync(stamp, { force: true })
    build()
    mkdirSync(dirname(stamp), { recursive: true })
    // With the inputs from before: one that changes during the build may be in the outputs or not.
    writeFileSync(stamp, `${digest} ${outputDigest()}`)
  })
}

/** Calls `work` while no other process builds. The lock is that of LMDB for one writer, which ends with the process. */
export function exclusively(work: () => void): void {
  mkdirSync(cache, { recursive: true })
  const lock = open({ path: join(cache, 'lock.mdb') })
  try {
    lock.transactionSync(work)
  } finally {
    void lock.close()
  }
}

/** Folders named in `inputs` count; those in others hold packages, and what builds write. */
function inputDigest(inputs: readonly string[]): string {
  return digestOf(inputs, ['node_modules', 'generated'])
}

/** Of the names and bytes of all files. What is missing has no bytes. */
function digestOf(paths: readonly string[], ignored: readonly string[]): string {
  const hash = createHash('sha256')
  const add = (path: string): void => {
    if (!existsSync(path)) return
    if (statSync(path).isDirectory()) {
      const names = readdirSync(path).filter((name) => !ignored.includes(name))
      for (const name of names.sort()) add(join(path, name))
    } else {
      const bytes = readFileSync(path)
      hash.update(`${relative(root, path)}\0${bytes.length}\0`).update(bytes)
    }
  }
  for (const path of paths) add(resolve(root, path))
  return hash.digest('hex')
}
