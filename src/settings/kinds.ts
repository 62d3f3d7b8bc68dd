/**
 * What the table says about a setting. The functions below make the rows of each kind of value. The names follow from the
 * field: `hnswEf` is the variable HNSW_EF and the flag --hnsw-ef.
 */
export interface Row<Value> {
  readonly default: Value
  /** How help and docs show the default, if its value alone is not clear. */
  readonly defaultText?: string
  /** What a value looks like in help: `<placeholder>`. */
  readonly placeholder: string
  readonly doc: string
  readonly secret?: boolean
  /** @throws Error that says what is allowed */
  readonly parse: (text: string) => Value
}

/** A row with its names. */
export interface Setting<Value> extends Row<Value> {
  readonly env: string
  /** The command-line flag without its dashes; flags win over the environment. */
  readonly flag: string
  /** The title of its group. */
  readonly group: string
}

/** The default of a setting as help and docs print it. */
export function defaultText(row: Pick<Row<unknown>, 'default' | 'defaultText'>): string {
  return row.defaultText ?? (row.default === undefined ? 'none' : String(row.default))
}

/**
 * The kinds of values that settings have. Each function takes the rest of a row, and adds how a text is checked and
 * parsed.
 */

/** What differs between the settings of a kind. A default that is undefined lets the setting be unset. */
interface About<Default> extends Pick<Row<Default>, 'default' | 'defaultText' | 'doc' | 'secret'> {}

/** The same for a setting without a default. */
type AboutUnset = Omit<About<undefined>, 'default'>

export const mebibyte: number = 1024 * 1024

/** Any text that is not blank. */
export function text<Default extends string | undefined>(
  placeholder: string,
  about: About<Default>,
): Row<string | Default> {
  return { ...about, placeholder, parse: nonEmpty }
}

export function integer<Default extends number | undefined>(
  least: number,
  most: number,
  about: About<Default>,
): Row<number | Default> {
  return { ...about, placeholder: 'n', parse: integerIn(least, most) }
}

export function port(about: About<number>): Row<number> {
  return { ...about, placeholder: 'port', parse: integerIn(0, 65_535) }
}

export function milliseconds(least: number, most: number, about: About<number>): Row<number> {
  return { ...about, placeholder: 'ms', parse: integerIn(least, most) }
}

/** A number of bytes, or one with a unit. Every unit is a multiple of 1024, as for Docker and the JVM: `4G`, `4GB` and `4GiB` alike. */
export function bytes(least: number, most: number, about: About<number>): Row<number> {
  return {
    defaultText: sizeText(about.default),
    ...about,
    placeholder: 'size',
    parse(text) {
      const [, digits, unit = ''] = /^(\d+)([kmgt]?)(?:(?<=[kmgt])i?b)?$/i.exec(text) ?? []
      const value = Number(digits) * 1024 ** ' kmgt'.indexOf(unit.toLowerCase() || ' ')
      if (!(value >= least && value <= most)) {
        throw new Error(`is not a size from ${least} to ${most} bytes, like 65536, 64K, 512M or 4G`)
      }
      return value
    },
  }
}

export function share(least: number, most: number, about: About<number>): Row<number> {
  return {
    ...about,
    placeholder: 'share',
    parse(text) {
      const value = Number(text)
      if (text.trim() === '' || !(value >= least && value <= most)) {
        throw new Error(`is not a number from ${least} to ${most}`)
      }
      return value
    },
  }
}

export function boolean(about: About<boolean>): Row<boolean> {
  return {
    ...about,
    placeholder: 'true|false',
    parse(text) {
      const lower = text.toLowerCase()
      if (lower === 'true' || lower === '1') return true
      if (lower === 'false' || lower === '0') return false
      throw new Error('is not true or false')
    },
  }
}

export function oneOf<const Choice extends string | number, Default extends Choice | undefined>(
  choices: readonly Choice[],
  about: About<Default>,
): Row<Choice | Default> {
  return {
    ...about,
    placeholder: choices.join('|'),
    parse(text) {
      const choice = choices.find((each) => String(each) === text)
      if (choice === undefined) throw new Error(`is not one of ${choices.join(', ')}`)
      return choice
    },
  }
}

/** A key travels as a header value: visible ASCII, so that every client can send it. */
export function key(about: AboutUnset): Row<string | undefined> {
  return {
    default: undefined,
    ...about,
    placeholder: 'key',
    secret: true,
    parse(text) {
      if (!/^[\x21-\x7e]+$/.test(text)) throw new Error('has characters other than visible ASCII')
      return text
    },
  }
}

/** A name that becomes part of the names of NATS streams and subjects. */
export function clusterName(about: About<string>): Row<string> {
  return {
    ...about,
    placeholder: 'name',
    parse(text) {
      if (!/^[A-Za-z0-9_-]{1,32}$/.test(text)) throw new Error('is not 1 to 32 letters, digits, - or _')
      return text
    },
  }
}

/**
 * Origins as browsers send them: no path, no default port. There is no wildcard, because an open service has no other
 * protection.
 */
export function origins(about: About<readonly string[]>): Row<readonly string[]> {
  return list(
    'origins',
    'origins like https://app.example.org,http://localhost:5173',
    about,
    (name) => /^https?:/.test(name) && URL.canParse(name) && new URL(name).origin === name,
  )
}

/** @param protocols with their colons */
export function urls(protocols: readonly string[], about: About<readonly string[]>): Row<readonly string[]> {
  return list(
    'urls',
    `URLs that start with ${protocols.join('// or ')}//`,
    about,
    (url) => URL.canParse(url) && protocols.includes(new URL(url).protocol),
  )
}

/** A URL is logged, so it must not have secrets in it. */
export function endpointUrl(about: AboutUnset): Row<string | undefined> {
  return {
    default: undefined,
    ...about,
    placeholder: 'url',
    parse(text) {
      const url = URL.parse(text)
      const isPlain =
        url !== null && url.username === '' && url.password === '' && url.search + url.hash === ''
      if (!isPlain || !['http:', 'https:'].includes(url.protocol)) {
        throw new Error('is not a URL like http://127.0.0.1:8080/v1, without user, query and fragment')
      }
      return text
    },
  }
}

/** A list of texts, separated by commas. */
function list(
  placeholder: string,
  what: string,
  about: About<readonly string[]>,
  isOne: (text: string) => boolean,
): Row<readonly string[]> {
  return {
    ...(about.default.length === 0 && { defaultText: 'none' }),
    ...about,
    placeholder,
    parse(text) {
      const texts = text.split(',').map((each) => each.trim())
      if (!texts.every(isOne)) throw new Error(`is not a list of ${what}`)
      return texts
    },
  }
}

function nonEmpty(text: string): string {
  if (text.trim() === '') throw new Error('is empty')
  return text
}

function integerIn(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (!/^\d+$/.test(text) || value < least || value > most) {
      throw new Error(`is not a whole number from ${least} to ${most}`)
    }
    return value
  }
}

/** In bytes and in the largest unit that leaves a whole number. */
function sizeText(count: number): string {
  let value = count
  let unit = 0
  while (value > 0 && value % 1024 === 0) {
    value /= 1024
    unit += 1
  }
  return unit === 0 ? String(count) : `${count} (${value} ${['', 'KiB', 'MiB', 'GiB', 'TiB'][unit]})`
}
