import type { WordCounts } from '../../base/point.ts'
import { filterMessage, filterOf } from '../../messages/filters.ts'
import type {
  WordCounts as CountsMessage,
  LegsOfNode,
  LegsWanted,
} from '../../messages/generated/cluster_pb.js'
import { profileOf, queryMessage, queryOf } from '../../messages/points.ts'
import type { Encoded } from '../../messages/reader.ts'
import { bytesOfNumbers, copiesOf, numbersOf } from '../../messages/vectors.ts'
import type { Init } from '../../messages/writer.ts'
import type { NodeLegs } from '../../search/word-search.ts'
import type { LegsAsked } from './node-reads.ts'
import type { AskMessage } from './read-codec.ts'

/** What nodes tell each other for searches by words, as messages of proto/cluster.proto. */

export function countsMessage({ documents, lengths, languages, terms }: WordCounts): Init<CountsMessage> {
  return {
    documents,
    lengths: bytesOfNumbers(lengths),
    languages: bytesOfNumbers(languages),
    termDocuments: bytesOfNumbers(terms.map((term) => term.documents)),
    termOccurrences: bytesOfNumbers(terms.map(({ occurrences }) => occurrences)),
  }
}

export function countsOf(message: Encoded<CountsMessage>): WordCounts {
  const { documents, lengths, languages, termDocuments, termOccurrences } = message.read()
  const occurrences = numbersOf(termOccurrences)
  return {
    documents,
    lengths: [...numbersOf(lengths)],
    languages: [...numbersOf(languages)],
    terms: Array.from(numbersOf(termDocuments), (having, index) => ({
      documents: having,
      occurrences: occurrences[index]!,
    })),
  }
}

export function legsMessage({ query, without, declared }: LegsAsked): AskMessage {
  const { words, keyFilter } = query
  const { balance, weights = [], statistics } = words!
  const { wanted } = statistics!
  return {
    case: 'legs',
    value: {
      search: { ...queryMessage(query), balance },
      keyFilter: keyFilter && filterMessage(keyFilter),
      without,
      declared,
      terms: wanted.map(([term]) => term),
      termWeights: bytesOfNumbers(wanted.map(([, weight]) => weight)),
      pathWeights: bytesOfNumbers(weights),
      counts: countsMessage(statistics!),
    },
  }
}

export function* legsWantedOf(message: Encoded<LegsWanted>, bytes: Buffer): Generator<undefined, LegsAsked> {
  const { search, keyFilter, without, declared, terms, termWeights, pathWeights, counts } = message.read()
  const query = yield* queryOf(search!, copiesOf(bytes))
  const { balance = 0 } = search!.read()
  const [weights, inQuery] = [[...numbersOf(pathWeights)], numbersOf(termWeights)]
  const wanted = terms.map((term, index) => [term, inQuery[index]!] as const)
  const words = {
    text: '',
    balance,
    weights: weights.length === 0 ? undefined : weights,
    statistics: { ...countsOf(counts!), wanted },
  }
  const ofKey = keyFilter && (yield* filterOf(keyFilter))
  return { query: { ...query, words, keyFilter: ofKey }, without, declared }
}

export function legsAnswer({ ids, found, bestWords, nearest, profile }: NodeLegs): Init<LegsOfNode> {
  return {
    ids,
    sequences: bytesOfNumbers(found.map(({ sequence }) => sequence)),
    distances: bytesOfNumbers(found.map(({ distance }) => distance)),
    words: bytesOfNumbers(found.map(({ words }) => words)),
    bestWords,
    nearest,
    profile,
  }
}

export function legsOf(message: Encoded<LegsOfNode>): NodeLegs {
  const { ids, sequences, distances, words, bestWords, nearest, profile } = message.read()
  const [byDistance, byWords] = [numbersOf(distances), numbersOf(words)]
  const found = Array.from(numbersOf(sequences), (sequence, index) => ({
    sequence,
    distance: byDistance[index]!,
    words: byWords[index]!,
  }))
  return { ids: Buffer.from(ids), found, bestWords, nearest, profile: profile && profileOf(profile) }
}
