import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { historyOf } from './disk-history.ts'
import type { Call } from './disk-record.ts'

describe('the history of a disk', () => {
  it('follows a descriptor that another thread gets before the call that closed it has returned', () => {
    const calls: Call[] = [
      {
        name: 'openat',
        args: `AT_FDCWD</>, "${hex('/data/a')}", O_RDWR|O_CREAT`,
        result: 5,
        begin: 0,
        end: 1,
      },
      { name: 'close', args: `5<${hex('/data/a')}>`, result: 0, begin: 2, end: 7 },
      {
        name: 'openat',
        args: `AT_FDCWD</>, "${hex('/data/b')}", O_RDWR|O_CREAT`,
        result: 5,
        begin: 4,
        end: 5,
      },
      { name: 'write', args: `5<${hex('/data/b')}>, "${hex('text')}", 4`, result: 4, begin: 8, end: 9 },
    ]
    const { names } = historyOf({ dataDir: '/data', calls, notes: [], length: 10 })
    const written = names.flatMap((each) => each.names)
    assert.deepEqual(written, [
      { path: '/data/a', file: { changes: [] } },
      {
        path: '/data/b',
        file: {
          changes: [
            { begin: 8, end: 9, durable: Number.POSITIVE_INFINITY, offset: 0, bytes: Buffer.from('text') },
          ],
        },
      },
    ])
  })
})

/** As strace writes strings with `-xx`. */
function hex(text: string): string {
  return Buffer.from(text).toString('hex').replaceAll(/../g, '\\x$&')
}
