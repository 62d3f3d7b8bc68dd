import { editDistance } from '../base/spelling.ts'
import { settingRows } from '../settings/table.ts'
import { removedSettings } from './removed-settings.ts'

/** A variable that is not a setting, and the setting that was probably meant. */
interface NearSetting {
  readonly variable: string
  readonly setting: string
}

/**
 * Finds variables whose names are so similar to a setting's that the setting was probably meant. The service would
 * ignore them: with `HTTP_APIKEY` it would be open, although its operator believes that it has a key.
 */
export function nearSettings(environment: Readonly<Record<string, string | undefined>>): NearSetting[] {
  return Object.entries(environment).flatMap(([variable, value]) => {
    if (!value || isNotForUs(variable, value)) return []
    const words = wordsOf(variable)
    const [setting] = names
      .filter((_, index) => isNear(words, wordsOfNames[index]!))
      .sort((left, right) => editDistance(variable, left) - editDistance(variable, right))
    return setting === undefined ? [] : [{ variable, setting }]
  })
}

const names: readonly string[] = settingRows.map(([, { env }]) => env)
const wordsOfNames: readonly (readonly string[])[] = names.map(wordsOf)

/** Variables of other programs whose names happen to be similar to a setting's. */
const wellKnown: readonly string[] = [
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'HTTPS_PORT',
  'HTTPS_HOST',
  'VICINAL_API_KEY',
]

/** The value of variables that Kubernetes sets for every service in a namespace. */
const serviceLink = /^(tcp|udp|sctp):\/\//

function isNotForUs(variable: string, value: string): boolean {
  // A setting of an earlier version has its own warning.
  if (names.includes(variable) || variable in removedSettings) return true
  return wellKnown.includes(variable.toUpperCase()) || serviceLink.test(value)
}

function isNear(words: readonly string[], meant: readonly string[]): boolean {
  if (isNearSpelling(words, meant)) return true
  return words[0] === 'VICINAL' && isNearSpelling(words.slice(1), meant)
}

function isNearSpelling(words: readonly string[], meant: readonly string[]): boolean {
  const text = words.join('')
  const meantText = meant.join('')
  const distanceMax = meantText.length < shortLength ? 1 : 2
  // The distance is at least the difference of the lengths: this check saves nearly all of the work.
  const couldBeNear = Math.abs(text.length - meantText.length) <= distanceMax
  if (couldBeNear && editDistance(text, meantText) <= distanceMax) return true
  // `MAX_MEMORY`, `GRPC_PASSWORD`, `HTTP_API_KEY_FILE`. One word of a setting with two words is not enough.
  if (words.length < 2 || meant.length < 3 || words[0] !== meant[0]) return false
  return isWithoutOne(words, meant) || isWithoutOne(meant, words)
}

/** For names with fewer letters, a distance of two also reaches unrelated names. */
const shortLength = 10

function wordsOf(name: string): string[] {
  return name.toUpperCase().split(/[_-]+/)
}

/** Whether `words` are `all` without one of them. */
function isWithoutOne(words: readonly string[], all: readonly string[]): boolean {
  const missing = all.findIndex((word, index) => word !== words[index])
  return (
    all.length === words.length + 1 && all.toSpliced(missing, 1).every((word, index) => word === words[index])
  )
}
