import { boolean, hostNames, key, origins, text } from './kinds.ts'
import type { Row } from './row.ts'

export class AccessSettings {
  readonly apiKeysFile: Row<string | undefined> = text('file', {
    default: undefined,
    doc: 'File with further keys for both transports. Each line has a role (`read` or `write`), a name and a key. Other users must not be able to read the file (mode 600 or 640). It is read again within a second of a change. With it, HTTP requires a key, too.',
  })

  readonly grpcRootPasswordNext: Row<string | undefined> = key({
    doc: 'A second key that gRPC callers may present while the first one is being replaced.',
  })

  readonly httpApiKeyNext: Row<string | undefined> = key({
    doc: 'A second key that HTTP accepts while the first one is being replaced. If only this one is set, HTTP requires it like HTTP_API_KEY.',
  })

  readonly disableHttp: Row<boolean> = boolean({
    default: false,
    doc: '`true` opens no HTTP port.',
  })

  readonly allowedHosts: Row<readonly string[]> = hostNames({
    default: [],
    doc: 'Further host names, separated by commas, by which HTTP on loopback may be called while it has no key. All other names except addresses and localhost are refused, so that no web page can reach the service by a name that points here (DNS rebinding).',
  })

  readonly corsOrigins: Row<readonly string[]> = origins({
    default: [],
    doc: 'Origins of web pages, separated by commas, whose scripts may call HTTP from a browser. They can do whatever the service allows: everything, while it has no key.',
  })

  readonly consoleImageOrigins: Row<readonly string[]> = origins({
    default: [],
    doc: 'Origins, separated by commas, from which the console may load images, for points of type Image whose content is an address. Without it, the console shows only images that are in the content itself (data:), and loads nothing from elsewhere. The hosts of these origins learn which images are viewed.',
  })
}
