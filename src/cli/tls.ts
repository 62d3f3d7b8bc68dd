import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { UsageError } from './arguments.ts'

export interface SelfSignedOptions {
  /** Host names and addresses by which clients call the service. */
  readonly name: readonly string[]
  readonly days: number
  readonly force?: boolean
}

/**
 * Writes a key and a certificate that it signed itself where the service looks for them in CERTS_DIR.
 *
 * @throws UsageError for a name that is neither a host nor an address, or if there is a certificate
 */
export function writeSelfSigned(directory: string, { name: names, days, force }: SelfSignedOptions): void {
  const folder = join(directory, 'server')
  const [certificatePath, keyPath] = [join(folder, 'tls.crt'), join(folder, 'tls.key')] as const
  if (!force && (existsSync(certificatePath) || existsSync(keyPath))) {
    throw new UsageError(`${folder} has a certificate or a key already: --force replaces them`)
  }
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const certificate = selfSigned(publicKey, privateKey, { names, days })
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  // A file that is there would keep its mode.
  rmSync(keyPath, { force: true })
  writeFileSync(keyPath, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 })
  writeFileSync(certificatePath, pemOf(certificate))
  console.log(
    [
      `${certificatePath} is valid for ${names.join(', ')} and ${days} days.`,
      `Start the service with CERTS_DIR=${directory}; clients trust it with --ca-file ${certificatePath}.`,
      'Anyone can make such a certificate: use it to try TLS, and one of an authority for others.',
    ].join('\n'),
  )
}

/**
 * An X.509 certificate (RFC 5280) in DER, signed with ECDSA and SHA-256. Node can read certificates but not make them,
 * and what the packages for it bring is as large as all that the service itself brings.
 */
function selfSigned(
  publicKey: KeyObject,
  privateKey: KeyObject,
  { names, days }: { readonly names: readonly string[]; readonly days: number },
): Buffer {
  const now = Date.now()
  // Clocks of clients may be somewhat behind.
  const validity = sequence(time(new Date(now - 3600_000)), time(new Date(now + days * dayMs)))
  const subject = sequence(
    der(0x31, sequence(commonName, der(tags.utf8, Buffer.from(names[0]!.slice(0, commonNameMax))))),
  )
  const isAuthority = sequence(basicConstraints, yes, octets(sequence(yes)))
  const alternatives = sequence(subjectAlternatives, octets(sequence(...names.map(alternative))))
  const body = sequence(
    der(0xa0, integer(Buffer.from([2]))),
    integer(Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    ecdsaWithSha256,
    subject,
    validity,
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(isAuthority, alternatives)),
  )
  const signature = sign('sha256', body, privateKey)
  return sequence(body, ecdsaWithSha256, der(tags.bits, Buffer.concat([Buffer.from([0]), signature])))
}

const dayMs = 86_400_000
const commonNameMax = 64

function alternative(name: string): Buffer {
  if (isIP(name) !== 0) return der(0x87, addressBytes(name))
  if (/^(\*\.)?[a-z\d]([a-z\d.-]{0,250}[a-z\d])?$/i.test(name)) return der(0x82, Buffer.from(name))
  throw new UsageError(`--name ${name.slice(0, 100)}: it must be a host name or an IP address`)
}

/** Four bytes, or sixteen for an address like `fe80::1`. */
function addressBytes(address: string): Buffer {
  if (isIP(address) === 4) return Buffer.from(address.split('.').map(Number))
  // A URL spells an address in groups, also one that ends like an IPv4 address.
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::')
  const groups = (text: string | undefined): string[] => (text ? text.split(':') : [])
  const [before, after] = [groups(head), groups(tail)]
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0')
  return Buffer.from([...before, ...zeros, ...after].map((each) => each.padStart(4, '0')).join(''), 'hex')
}

const tags = { bits: 0x03, utf8: 0x0c } as const

/** A value in DER: its tag, the length of its content in one to three bytes, and the content. */
function der(tag: number, content: Buffer): Buffer {
  const { length } = content
  const lengthBytes =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...lengthBytes]), content])
}

function sequence(...items: readonly Buffer[]): Buffer {
  return der(0x30, Buffer.concat(items))
}

function octets(content: Buffer): Buffer {
  return der(0x04, content)
}

function integer(bytes: Buffer): Buffer {
  return der(0x02, bytes)
}

function time(date: Date): Buffer {
  return der(0x18, Buffer.from(`${date.toISOString().replaceAll(/[-:T]/g, '').slice(0, 14)}Z`))
}

const yes: Buffer = der(0x01, Buffer.from([0xff]))

// Object identifiers: 2.5.4.3, 2.5.29.19, 2.5.29.17 and 1.2.840.10045.4.3.2.
const commonName: Buffer = Buffer.from('0603550403', 'hex')
const basicConstraints: Buffer = Buffer.from('0603551d13', 'hex')
const subjectAlternatives: Buffer = Buffer.from('0603551d11', 'hex')
const ecdsaWithSha256: Buffer = sequence(Buffer.from('06082a8648ce3d040302', 'hex'))

function pemOf(certificate: Buffer): string {
  const lines = certificate.toString('base64').match(/.{1,64}/g)!
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n')
}
