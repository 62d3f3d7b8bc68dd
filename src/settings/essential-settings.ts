import { type LogLevel, logLevels } from '../base/log-levels.ts'
import { bytes, key, oneOf, port, text } from './kinds.ts'
import type { Row } from './row.ts'

export class EssentialSettings {
  readonly dataDir: Row<string> = text('path', {
    default: './data',
    doc: 'Directory of the stored data; created with mode 0700 if it is missing.',
  })

  readonly grpcHost: Row<string> = text('host', {
    default: 'localhost',
    doc: 'Address the gRPC server listens on. 0.0.0.0 listens on all: the transport is plaintext, so put TLS in front.',
  })

  readonly grpcPort: Row<number> = port({
    default: 50051,
    doc: 'gRPC port; 0 takes a free one and logs it.',
  })

  readonly grpcRootPassword: Row<string | undefined> = key({
    defaultText: 'a random key in DATA_DIR/api-key',
    doc: 'API key that gRPC callers present as `authorization` metadata. Prefer the environment: a flag shows in the process list.',
  })

  readonly httpHost: Row<string> = text('host', {
    default: '127.0.0.1',
    doc: 'Address the HTTP server listens on. HTTP has no authentication unless HTTP_API_KEY or API_KEYS_FILE is set.',
  })

  readonly httpPort: Row<number> = port({
    default: 3000,
    doc: 'HTTP port; 0 takes a free one and logs it.',
  })

  readonly httpApiKey: Row<string | undefined> = key({
    defaultText: 'none: HTTP is open',
    doc: 'When set, HTTP requires it as `authorization` on everything but /health, /readyz, / and the docs. Prefer the environment: a flag shows in the process list.',
  })

  readonly maxMemoryBytes: Row<number> = bytes(0, Number.MAX_SAFE_INTEGER, {
    default: 0,
    defaultText: '0 (no limit)',
    doc: 'Memory that points may take: vectors, index, ids, attributes, and 512 KiB for each open named collection. Beyond it, collections that nobody uses are closed; an insert for which that makes too little room is refused. Stored points are always loaded. The process takes some 200 MiB in addition. 0 sets no limit.',
  })

  readonly logLevel: Row<LogLevel> = oneOf(logLevels, {
    default: 'info',
    doc: 'Lowest severity of log lines that are written.',
  })
}
