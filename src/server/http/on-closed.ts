import type { ServerResponse } from 'node:http'

/**
 * Calls `listener` when a response has been sent or its connection has closed: at once if that has happened already,
 * because the event is not repeated. So `on` is enough: for the few listeners of each request, `once` takes a
 * microsecond more.
 */
export function onClosed(response: ServerResponse, listener: () => void): void {
  if (response.closed) listener()
  else response.on('close', listener)
}
