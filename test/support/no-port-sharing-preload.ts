/** Loaded with `--import` before a program: the system refuses to share ports, as those without SO_REUSEPORT do. */
import { type ListenOptions, Server } from 'node:net'

const listen = Server.prototype.listen

Server.prototype.listen = function (this: Server, ...args: Parameters<typeof listen>): Server {
  const [options] = args as unknown as [ListenOptions | undefined]
  if (options?.reusePort !== true) return listen.apply(this, args)
  const error = Object.assign(new Error('listen ENOTSUP: operation not supported'), { code: 'ENOTSUP' })
  process.nextTick(() => this.emit('error', error))
  return this
} as typeof listen
