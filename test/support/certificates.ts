import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface CertificateFiles {
  readonly caFile: string
  readonly certFile: string
  readonly keyFile: string
}

/** Creates a certificate authority and a certificate for this machine. */
export function makeCertificates(directory: string): CertificateFiles {
  return new TestAuthority(directory).sign('localhost', ',IP:127.0.0.1')
}

/** Makes a directory for CERTS_DIR, below another one; returns its path, and the authority that clients trust. */
export function makeCertsDirectory(directory: string): { readonly certs: string; readonly ca: string } {
  const { caFile, certFile, keyFile } = makeCertificates(directory)
  const certs = join(directory, 'certs')
  mkdirSync(join(certs, 'server'), { recursive: true })
  copyFileSync(keyFile, join(certs, 'server', 'tls.key'))
  copyFileSync(certFile, join(certs, 'server', 'tls.crt'))
  return { certs, ca: readFileSync(caFile, 'utf8') }
}

/** A certificate authority and the certificates that it signed, as files in a directory. */
export class TestAuthority {
  readonly caFile: string
  readonly #directory: string
  readonly #name: string

  /** @param name unique in the directory */
  constructor(directory: string, name = 'ca') {
    this.#directory = directory
    this.#name = name
    this.caFile = join(directory, `${name}.pem`)
    openssl(
      `req -x509 ${newKey} -days 2 -subj /CN=${name} -addext basicConstraints=critical,CA:TRUE -keyout ${this.#key} -out ${this.caFile}`,
    )
  }

  get #key(): string {
    return join(this.#directory, `${this.#name}.key`)
  }

  /** Signs a certificate for a host, valid for both sides of a connection. */
  sign(host: string, others = ''): CertificateFiles {
    const [certFile, keyFile] = ['pem', 'key'].map((end) =>
      join(this.#directory, `${this.#name}-${host}.${end}`),
    ) as [string, string]
    const names = `-addext subjectAltName=DNS:${host}${others} -addext basicConstraints=critical,CA:FALSE`
    openssl(
      `req -x509 ${newKey} -days 2 -subj /CN=${host} ${names} -CA ${this.caFile} -CAkey ${this.#key} -keyout ${keyFile} -out ${certFile}`,
    )
    return { caFile: this.caFile, certFile, keyFile }
  }
}

const newKey = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'

function openssl(command: string): void {
  execFileSync('openssl', command.split(' '), { stdio: 'pipe' })
}
