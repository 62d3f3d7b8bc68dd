/**
 * Loaded by `npm test` into the process of each test file: ends one that does not end by itself. A test that fails can leave a
 * server or a store open, which keeps its process for ever; `--test-timeout` ends tests, not processes.
 */
import { isMainThread } from 'node:worker_threads'

/** The longest files take two minutes on two processors; machines can be far slower, or busy. */
const fileTimeoutMs = 20 * 60_000

/** Set by `node --test` for the processes of its files. */
if (isMainThread && process.env.NODE_TEST_CONTEXT !== undefined) {
  setTimeout(() => {
    const open = process.getActiveResourcesInfo().join(', ')
    console.error(`${process.argv[1]} has not ended in ${fileTimeoutMs / 60_000} minutes; open: ${open}`)
    process.exit(1)
  }, fileTimeoutMs).unref()
}
