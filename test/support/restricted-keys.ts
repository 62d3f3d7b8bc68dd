import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hashOfKey } from '../../src/base/api-key.ts'
import { createGrpcClient, createHttpClient, type VectorClient } from '../../src/client/index.ts'
import type { TestService } from './service.ts'

/** The lines of a file of keys; KEY stands for the key, or its hash. */
export const restrictedKeys = {
  read: 'read dashboard KEY',
  write: 'write importer KEY',
  admin: 'admin operator KEY',
  'read one': 'read one-reader KEY {"collections":["docs-1"]}',
  'write some': 'write some-writer KEY {"collections":["docs-*"]}',
  'read filter': 'read a-reader KEY {"filter":{"tenant":"a"}}',
  'write filter': 'write a-writer KEY {"collections":["docs-*"],"filter":{"tenant":"a"}}',
  'other filter': 'write b-writer KEY {"collections":["docs-*"],"filter":{"tenant":"b"}}',
  expired: 'admin expired KEY {"expires_at":"2020-01-01T00:00:00Z"}',
} as const
export type KeyName = keyof typeof restrictedKeys

export function secretOf(name: KeyName): string {
  return `the-key-named-${name.replace(' ', '-')}`
}

/** Writes a file with these keys; returns its path. */
export async function fileOfKeys(directory: string): Promise<string> {
  const path = join(directory, 'keys')
  const lines = Object.entries(restrictedKeys).map(([name, line], index) => {
    const secret = secretOf(name as KeyName)
    return line.replace('KEY', index % 2 === 0 ? secret : `sha256:${hashOfKey(secret)}`)
  })
  await writeFile(`${path}.new`, `${lines.join('\n')}\n`, { mode: 0o600 })
  await rename(`${path}.new`, path)
  return path
}

export const transports = ['grpc', 'http'] as const
export type Transport = (typeof transports)[number]

export function clientOf(service: TestService, transport: Transport, key: string): VectorClient {
  return transport === 'grpc'
    ? createGrpcClient({ address: service.grpcAddress, apiKey: key, retries: 0 })
    : createHttpClient({ baseUrl: service.httpUrl, apiKey: key, retries: 0 })
}
