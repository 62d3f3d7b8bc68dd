import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createSecureContext, type Server, type TlsOptions } from 'node:tls'
import { versionOfFiles, watchFiles } from '../base/files.ts'
import type { Logger } from '../base/log.ts'

/**
 * The certificate with which both transports speak TLS: PEM files in the folder `server` of CERTS_DIR. They are read again within
 * a second of a change, and new connections use them; files that cannot be used leave those before in force.
 */
export class ServerCertificate {
  readonly #directory: string
  readonly #logger: Logger
  readonly #servers = new Set<Server>()
  /** Ends the watch over the files. */
  readonly close: () => void
  #files: CertificateFiles

  /**
   * Returns undefined if there is none.
   *
   * @throws Error that names CERTS_DIR, the file and what is wrong with it
   */
  static in(certsDir: string | undefined, logger: Logger): ServerCertificate | undefined {
    if (certsDir === undefined) return undefined
    const directory = join(certsDir, 'server')
    return existsSync(directory) ? new ServerCertificate(directory, logger) : undefined
  }

  private constructor(directory: string, logger: Logger) {
    this.#directory = directory
    this.#logger = logger
    const paths = [certificateFile, keyFile, clientsFile].map((name) => join(directory, name))
    const version = versionOfFiles(paths)
    this.#files = readFiles(directory)
    this.close = watchFiles(paths, version, () => this.#renew())
  }

  /**
   * The options of a server with this certificate.
   *
   * @param protocols that clients may speak over it, the one that we prefer first
   */
  optionsFor(protocols: readonly Protocol[]): TlsOptions {
    const asksClients = this.#files.ca !== undefined
    return {
      ...this.#files,
      requestCert: asksClients,
      rejectUnauthorized: asksClients,
      ALPNProtocols: [...protocols],
      handshakeTimeout: handshakeMs,
    }
  }

  /** Gives a server, until it is closed, what the files contain after a change. */
  keepCurrent(server: Server): void {
    this.#servers.add(server)
    server.once('close', () => this.#servers.delete(server))
  }

  #renew(): void {
    const directory = this.#directory
    try {
      const files = readFiles(directory)
      if ((files.ca === undefined) !== (this.#files.ca === undefined)) {
        throw new Error(
          `${clientsFile} in CERTS_DIR was added or removed: that takes effect at the next start`,
        )
      }
      this.#files = files
      for (const server of this.#servers) server.setSecureContext(files)
      this.#logger.info({ directory }, 'the certificate in CERTS_DIR has changed: new connections use it')
    } catch (err) {
      this.#logger.error(
        { err, directory },
        'the certificate in CERTS_DIR cannot be used: the one before stays in force',
      )
    }
  }
}

/** A protocol, as ALPN names it. */
export type Protocol = 'h2' | 'http/1.1'

interface CertificateFiles {
  readonly cert: Buffer
  readonly key: Buffer
  /** The authorities of client certificates, which clients must then present. */
  readonly ca: Buffer | undefined
}

const certificateFile = 'tls.crt'
const keyFile = 'tls.key'
const clientsFile = 'clients.crt'

/** Also the longest time for which a client that never completes its handshake can delay a stop. */
const handshakeMs = 5000

function readFiles(directory: string): CertificateFiles {
  const read = (name: string): Buffer => {
    try {
      return readFileSync(join(directory, name))
    } catch (cause) {
      throw new Error(`${join(directory, name)} (CERTS_DIR) cannot be read: ${(cause as Error).message}`, {
        cause,
      })
    }
  }
  const cert = read(certificateFile)
  const key = read(keyFile)
  const ca = existsSync(join(directory, clientsFile)) ? read(clientsFile) : undefined
  try {
    for (const pem of [cert, ca]) if (pem !== undefined) refuseExpired(new X509Certificate(pem))
    createSecureContext({ cert, key, ca })
  } catch (cause) {
    const names = [certificateFile, keyFile, ...(ca === undefined ? [] : [clientsFile])].join(', ')
    throw new Error(`${names} in ${directory} (CERTS_DIR) cannot be used: ${(cause as Error).message}`, {
      cause,
    })
  }
  return { cert, key, ca }
}

function refuseExpired({ subject, validTo, validToDate }: X509Certificate): void {
  if (validToDate.getTime() > Date.now()) return
  throw new Error(`the certificate of ${subject.replaceAll('\n', ', ')} ended on ${validTo}`)
}
