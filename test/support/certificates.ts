import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

export interface CertificateFiles {
  readonly caFile: string
  readonly certFile: string
  readonly keyFile: string
}

/** Makes an authority, and a certificate of it for this machine. */
export function makeCertificates(directory: string): CertificateFiles {
  const [caFile, caKey, certFile, keyFile] = ['ca.pem', 'ca.key', 'cert.pem', 'key.pem'].map((name) =>
    join(directory, name),
  ) as [string, string, string, string]
  const openssl = (...words: string[]): void => {
    execFileSync('openssl', words, { stdio: 'pipe' })
  }
  const newKey = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  openssl(...newKey, '-days', '2', '-subj', '/CN=ca', '-keyout', caKey, '-out', caFile)
  const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']
  const signed = ['-CA', caFile, '-CAkey', caKey]
  openssl(...newKey, '-days', '2', ...names, ...signed, '-keyout', keyFile, '-out', certFile)
  return { caFile, certFile, keyFile }
}
