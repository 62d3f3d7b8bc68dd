import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Hello } from './peer-frames.ts'

/**
 * Versions of the link that this program supports. A rolling upgrade requires that two consecutive programs share
 * one.
 */
export const linkVersions = { oldest: 1, newest: 1 } as const

/** The two ends of a stream are incompatible, or the other end is not who it should be. */
export class RefusedPeer extends Error {
  override readonly name = 'RefusedPeer'
}

/** How a node identifies itself. */
export interface OwnName {
  readonly cluster: string
  readonly node: string
  /** Shared by the nodes of a cluster; undefined when certificates alone decide. */
  readonly secret?: string | undefined
}

export function firstHello({ cluster, node }: OwnName): Hello {
  return { kind: 'hello', ...linkVersions, cluster, node, nonce: randomBytes(nonceBytes), proof: noProof }
}

/**
 * Answers the first hello.
 *
 * @throws RefusedPeer
 */
export function secondHello(own: OwnName, first: Hello): Hello {
  checkHello(own, first)
  const second = firstHello(own)
  return { ...second, proof: proofOf('answers', own.secret, first, second) }
}

/**
 * Makes the last message of the asking node.
 *
 * @param node the node that should answer
 * @throws RefusedPeer
 */
export function lastProof(own: OwnName, first: Hello, second: Hello, node: string): Uint8Array {
  checkHello(own, second)
  if (second.node !== node) throw new RefusedPeer(`the node at this address is ${second.node}, not ${node}`)
  checkProof(proofOf('answers', own.secret, first, second), second.proof)
  return proofOf('asks', own.secret, first, second)
}

/** @throws RefusedPeer */
export function checkLastProof(own: OwnName, first: Hello, second: Hello, proof: Uint8Array): void {
  checkProof(proofOf('asks', own.secret, first, second), proof)
}

function checkHello(own: OwnName, { oldest, newest, cluster, nonce }: Hello): void {
  if (oldest > linkVersions.newest || newest < linkVersions.oldest) {
    const known = `${linkVersions.oldest} to ${linkVersions.newest}`
    throw new RefusedPeer(
      `the other node supports versions ${oldest} to ${newest} of the link, this one ${known}`,
    )
  }
  if (cluster !== own.cluster) throw new RefusedPeer('the other node belongs to another cluster')
  if (nonce.length !== nonceBytes)
    throw new RefusedPeer('the other node does not follow the protocol of the link')
}

function checkProof(expected: Uint8Array, given: Uint8Array): void {
  if (expected.length !== given.length || !timingSafeEqual(expected, given)) {
    throw new RefusedPeer('the other node has a different CLUSTER_SECRET')
  }
}

/**
 * Computes a proof of the secret. It covers both nonces, so it is useless in another handshake; and the role of its
 * sender, so it cannot be sent back.
 */
function proofOf(
  who: 'asks' | 'answers',
  secret: string | undefined,
  first: Hello,
  second: Hello,
): Uint8Array {
  if (secret === undefined) return noProof
  const hmac = createHmac('sha256', secret)
  const versions = [first, second].map(({ oldest, newest }) => `${oldest}-${newest}`)
  for (const text of ['vicinal link', who, first.cluster, first.node, second.node, ...versions]) {
    hmac.update(`${Buffer.byteLength(text)}:${text}`)
  }
  return hmac.update(first.nonce).update(second.nonce).digest()
}

const nonceBytes = 32
const noProof = new Uint8Array()
