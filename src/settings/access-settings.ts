import { boolean, hostNames, key, origins, text } from './kinds.ts'
import type { Row } from './row.ts'

export class AccessSettings {
  readonly apiKeysFile: Row<string | undefined> = text('file', {
    default: undefined,
    doc: 'File of further keys for both transports: a line each with a role (`read` or `write`), a name and a key. Others must not be able to read it (mode 600 or 640). Read again within a second of a change. With it, HTTP demands a key too.',
  })

  readonly grpcRootPasswordNext: Row<string | undefined> = key({
    doc: 'A second key that gRPC callers may present, while the first one is being replaced.',
  })

  readonly httpApiKeyNext: Row<string | undefined> = key({
    doc: 'A second key that HTTP takes, while the first one is being replaced. Set alone, it is demanded as HTTP_API_KEY is.',
  })

  readonly disableHttp: Row<boolean> = boolean({
    default: false,
    doc: '`true` opens no HTTP port at all.',
  })

  readonly allowedHosts: Row<readonly string[]> = hostNames({
    default: [],
    doc: 'Further names, with commas between them, by which HTTP on loopback may be called while it has no key. Others than addresses and localhost are refused, so that no web page can reach it by a name that points here (DNS rebinding).',
  })

  readonly corsOrigins: Row<readonly string[]> = origins({
    default: [],
    doc: 'Origins of web pages, with commas between them, whose scripts may call HTTP from a browser. They can do whatever the service allows: everything, while it has no key.',
  })

  readonly consoleImageOrigins: Row<readonly string[]> = origins({
    default: [],
    doc: 'Origins, with commas between them, that the console may load images from, for points of type Image whose content is an address. Without it the console shows only images that are in the content itself (data:) and loads nothing from elsewhere. Those hosts learn which images are looked at.',
  })
}
