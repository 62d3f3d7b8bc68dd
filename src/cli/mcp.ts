import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  localhostHostValidation,
  localhostOriginValidation,
  type NodeIncomingMessageLike,
  toNodeHandler,
} from '@modelcontextprotocol/node'
import { createMcpHandler } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { withClient } from './clients.ts'
import type { ConnectionOptions } from './connection.ts'
import { createMcpServer, type ToolOptions } from './mcp-tools.ts'
import { stopSignal } from './stop-signal.ts'
import type { Environment } from './usage.ts'

export interface McpOptions extends ConnectionOptions {
  readonly write?: boolean
  /** Port on 127.0.0.1 for Streamable HTTP; if not given, uses standard input and output. */
  readonly port?: number
}

/** Serves the points to language models over the Model Context Protocol, until it is stopped. */
export async function serveMcp(options: McpOptions, environment: Environment): Promise<void> {
  const stop = stopSignal()
  await withClient(options, environment, async (client) => {
    const tools: ToolOptions = { client, write: options.write ?? false }
    if (options.port === undefined) await serveProcess(tools, stop)
    else await serveHttp(tools, options.port, stop)
  })
}

/** Also ends when its input ends: that is how a host stops a server that it has started. */
async function serveProcess(tools: ToolOptions, stop: Promise<unknown>): Promise<void> {
  const handle = serveStdio(() => createMcpServer(tools))
  await Promise.race([stop, once(process.stdin, 'close')])
  await handle.close()
}

/** Serves this machine only. Pages of other origins are refused. */
async function serveHttp(tools: ToolOptions, port: number, stop: Promise<unknown>): Promise<void> {
  const handle = toNodeHandler(createMcpHandler(() => createMcpServer(tools)))
  const isHostAllowed = localhostHostValidation()
  const isOriginAllowed = localhostOriginValidation()
  const server = createServer((request, response) => {
    if (isHostAllowed(request, response) && isOriginAllowed(request, response)) {
      void handle(request as NodeIncomingMessageLike, response)
    }
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  console.error(`MCP at http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  await stop
  server.close()
  server.closeAllConnections()
}
