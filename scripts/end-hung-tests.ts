/**
 * Ends the process of a test file that does not exit on its own. `npm test` loads this file into each of these
 * processes. A failing test can leave a server or store open, which keeps its process alive forever. `--test-timeout`
 * ends tests, but not processes.
 */
import { isMainThread } from 'node:worker_threads'

/** The longest files take two minutes on two cores. Machines can be far slower, or busy. */
const fileTimeoutMs = 20 * 60_000

/** `node --test` sets NODE_TEST_CONTEXT for the processes of test files. */
if (isMainThread && process.env.NODE_TEST_CONTEXT !== undefined) {
  setTimeout(() => {
    const open = process.getActiveResourcesInfo().join(', ')
    console.error(
      `${process.argv[1]} has not exited after ${fileTimeoutMs / 60_000} minutes; open resources: ${open}`,
    )
    process.exit(1)
  }, fileTimeoutMs).unref()
}
