import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/** The version in the package.json of an installed package. */
export function versionOf(name: string): string {
  let folder = dirname(createRequire(import.meta.url).resolve(name))
  while (!existsSync(join(folder, 'package.json')) || !isManifestOf(folder, name)) folder = dirname(folder)
  return (manifest(folder) as { version: string }).version
}

function isManifestOf(folder: string, name: string): boolean {
  return (manifest(folder) as { name?: string }).name === name
}

function manifest(folder: string): unknown {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
}
