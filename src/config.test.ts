import assert from 'node:assert/strict'
import { availableParallelism, hostname } from 'node:os'
import { describe, it } from 'node:test'
import { ConfigError, embeddingEndpoint, readConfig } from './config.ts'
import { defaultText } from './settings/kinds.ts'
import { type SettingName, settings } from './settings/table.ts'

/** What a row of the settings table should do: how it parses valid values, and why it refuses the others. */
interface Expectation {
  readonly default: unknown
  readonly valid: Readonly<Record<string, unknown>>
  readonly invalid: Readonly<Record<string, string>>
}

function numbers(fallback: number | undefined, least: number, most: number): Expectation {
  const limit = `is not a whole number from ${least} to ${most}`
  const refused = [String(least - 1), String(most + 1), '1.5', '1e3', '0x10', ' 7', '-1', 'many', 'NaN']
  return {
    default: fallback,
    valid: { [least]: least, [most]: most },
    invalid: Object.fromEntries(refused.map((text) => [text, limit])),
  }
}

function sizes(fallback: number, least: number, most: number): Expectation {
  const limit = `is not a size from ${least} to ${most} bytes, like 65536, 64K, 512M or 4G`
  const refused = [
    ...(least > 0 ? ['0'] : []),
    '1.5G',
    '1e6',
    '0x10',
    ' 7',
    '-1',
    'G',
    '4 G',
    '4X',
    '4Gi',
    '9999T',
  ]
  const units = { '64K': 65_536, '3m': 3 * mebibyte, '1GB': 1024 * mebibyte, '1GiB': 1024 * mebibyte }
  const inRange = Object.entries(units).filter(([, bytes]) => bytes >= least && bytes <= most)
  return {
    default: fallback,
    valid: { [least]: least, [most]: most, ...Object.fromEntries(inRange) },
    invalid: Object.fromEntries(refused.map((each) => [each, limit])),
  }
}

const text: Pick<Expectation, 'invalid'> = { invalid: { ' ': 'is empty' } }
const key: Omit<Expectation, 'default'> = {
  valid: { 'a-key': 'a-key', '!~': '!~' },
  invalid: Object.fromEntries(
    ['two words', 'schlüssel', 'line\nbreak', '\x7f'].map((each) => [
      each,
      'has characters other than visible ASCII',
    ]),
  ),
}
const isOff: Expectation = {
  default: false,
  valid: { true: true, TRUE: true, 1: true, false: false, False: false, 0: false },
  invalid: { yes: 'is not true or false', 2: 'is not true or false' },
}
const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']
const mebibyte = 1024 * 1024

const endpoint: Expectation = {
  default: undefined,
  valid: Object.fromEntries(
    ['http://127.0.0.1:8080/v1', 'https://api.example.org/v1/', 'http://[::1]:8080'].map((each) => [
      each,
      each,
    ]),
  ),
  invalid: Object.fromEntries(
    [
      '127.0.0.1:8080',
      'ftp://a.example',
      'http://me:key@a.example',
      'http://a.example?k=1',
      'http://a.example#x',
    ].map((each) => [each, 'is not a URL like http://127.0.0.1:8080/v1, without user, query and fragment']),
  ),
}

const origins: Expectation = {
  default: [],
  valid: {
    'https://app.example.org': ['https://app.example.org'],
    'http://localhost:5173, http://[::1]:1': ['http://localhost:5173', 'http://[::1]:1'],
  },
  invalid: Object.fromEntries(
    ['*', 'null', 'app.example.org', 'https://a.example/', 'https://a.example:443', 'file://a', ','].map(
      (each) => [each, 'is not a list of origins like https://app.example.org,http://localhost:5173'],
    ),
  ),
}
const expectations: Readonly<Record<SettingName, Expectation>> = {
  dataDir: { default: './data', valid: { '/var/lib/x': '/var/lib/x' }, ...text },
  dimension: numbers(undefined, 1, 65_535),
  vectorsOnDisk: isOff,
  hnswEf: numbers(128, 1, 1_000_000),
  recallTarget: {
    default: 0.98,
    valid: { 0.5: 0.5, 1: 1, 0.875: 0.875 },
    invalid: { 0.49: 'is not a number from 0.5 to 1', 1.01: 'is not a number from 0.5 to 1' },
  },
  grpcHost: { default: 'localhost', valid: { '0.0.0.0': '0.0.0.0', '::1': '::1' }, ...text },
  grpcPort: numbers(50_051, 0, 65_535),
  grpcRootPassword: { default: undefined, ...key },
  apiKeysFile: { default: undefined, valid: { '/run/keys': '/run/keys' }, ...text },
  httpHost: { default: '127.0.0.1', valid: { '::': '::' }, ...text },
  httpPort: numbers(3000, 0, 65_535),
  disableHttp: isOff,
  httpOpen: isOff,
  httpApiKey: { default: undefined, ...key },
  corsOrigins: origins,
  consoleImageOrigins: origins,
  embeddingsUrl: endpoint,
  embeddingsModel: { default: undefined, valid: { 'all-MiniLM-L6-v2': 'all-MiniLM-L6-v2' }, ...text },
  embeddingsApiKey: { default: undefined, ...key },
  rerankUrl: endpoint,
  rerankModel: { default: undefined, valid: { 'jina-reranker-v2': 'jina-reranker-v2' }, ...text },
  rerankApiKey: { default: undefined, ...key },
  maxLimit: numbers(16_384, 1, 1_000_000),
  maxRequestBytes: sizes(64 * mebibyte, 1024, 1024 * mebibyte),
  maxBufferedBytes: sizes(256 * mebibyte, 1, 64 * 1024 * mebibyte),
  maxMemoryBytes: sizes(0, 0, Number.MAX_SAFE_INTEGER),
  clusterNatsUrl: {
    default: [],
    valid: {
      'nats://a:4222,tls://user:pass@b': ['nats://a:4222', 'tls://user:pass@b'],
      'nats://a,http://a:8222': ['nats://a', 'http://a:8222'],
    },
    invalid: Object.fromEntries(
      ['a:4222', 'ftp://a', 'nats://a,,', 'localhost'].map((each) => [
        each,
        'is not a list of URLs that start with nats:// or tls:// or http:// or https://',
      ]),
    ),
  },
  clusterName: {
    default: 'vicinal',
    valid: { 'Docs_2-a': 'Docs_2-a' },
    invalid: Object.fromEntries(
      ['a.b', 'a b', 'ä', 'x'.repeat(33)].map((each) => [each, 'is not 1 to 32 letters, digits, - or _']),
    ),
  },
  clusterNodeName: { default: hostname(), valid: { 'node-1': 'node-1' }, ...text },
  clusterZone: { default: '', valid: { 'eu-1a': 'eu-1a' }, ...text },
  clusterReplicas: numbers(undefined, 1, 1000),
  clusterLogBytes: {
    default: 8 * 1024 * mebibyte,
    valid: { '256M': 256 * mebibyte, '1T': 1024 ** 4 },
    invalid: {
      '255M': `is not a size from ${256 * mebibyte} to ${Number.MAX_SAFE_INTEGER} bytes, like 65536, 64K, 512M or 4G`,
    },
  },
  shutdownTimeoutMs: numbers(5000, 0, 600_000),
  logLevel: {
    default: 'info',
    valid: Object.fromEntries(levels.map((level) => [level, level])),
    invalid: { loud: `is not one of ${levels.join(', ')}`, INFO: `is not one of ${levels.join(', ')}` },
  },
  threads: numbers(availableParallelism(), 1, 256),
  audit: {
    default: 'off',
    valid: { off: 'off', writes: 'writes', all: 'all' },
    invalid: { reads: 'is not one of off, writes, all' },
  },
  certsDir: { default: undefined, valid: { '/run/certs': '/run/certs' }, ...text },
}

describe('settings', () => {
  it('have flags and variables that follow from their names', () => {
    for (const name of Object.keys(settings) as SettingName[]) {
      const flag = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
      assert.equal(settings[name].flag, flag)
      assert.equal(settings[name].env, flag.replaceAll('-', '_').toUpperCase())
      assert.match(settings[name].doc, /\.$/)
    }
  })

  for (const [name, expected] of Object.entries(expectations) as [SettingName, Expectation][]) {
    const { env, flag, secret } = settings[name]

    it(`${env} has its default, also when set to nothing`, () => {
      assert.deepEqual(readConfig({})[name], expected.default)
      assert.deepEqual(readConfig({ [env]: '' })[name], expected.default)
    })

    it(`${env} accepts valid values, also as a flag`, () => {
      for (const [value, parsed] of Object.entries(expected.valid)) {
        assert.deepEqual(readConfig({ [env]: value })[name], parsed)
        assert.deepEqual(readConfig({}, { [name]: value })[name], parsed)
      }
    })

    it(`${env} refuses other values, with its name, the value and the limit`, () => {
      for (const [value, limit] of Object.entries(expected.invalid)) {
        const shown = secret ? 'the value' : JSON.stringify(value)
        assert.throws(() => readConfig({ [env]: value }), new ConfigError(`${env}: ${shown} ${limit}`))
        assert.throws(
          () => readConfig({}, { [name]: value }),
          new ConfigError(`--${flag}: ${shown} ${limit}`),
        )
      }
    })
  }

  it('are taken from a flag before the environment, which is then not even checked', () => {
    assert.equal(readConfig({ HTTP_PORT: '4000' }, { httpPort: '5000' }).httpPort, 5000)
    assert.equal(readConfig({ HTTP_PORT: 'nonsense' }, { httpPort: '5000' }).httpPort, 5000)
  })

  it('are all named when several are invalid', () => {
    assert.throws(
      () => readConfig({ HTTP_PORT: 'x', HNSW_EF: '0' }, { maxLimit: '0' }),
      ({ message }: Error) => {
        const starts = message.split('\n').map((line) => line.split(':')[0])
        assert.deepEqual(starts, ['HTTP_PORT', 'HNSW_EF', '--max-limit'])
        return true
      },
    )
  })

  it('never show a secret, not even an invalid one', () => {
    assert.throws(
      () => readConfig({ GRPC_ROOT_PASSWORD: 'hunter 2', HTTP_API_KEY: 'hunter 3' }),
      ({ message }: Error) => !message.includes('hunter'),
    )
  })

  it('cannot be changed once they are read', () => {
    const config = readConfig({}) as { httpPort: number }
    assert.throws(() => {
      config.httpPort = 1
    }, TypeError)
  })

  it('of the embedding endpoint only work together', () => {
    const url = 'http://127.0.0.1:8080/v1'
    const endpointOf = (environment: Record<string, string>): unknown =>
      embeddingEndpoint(readConfig(environment))
    assert.equal(endpointOf({}), undefined)
    assert.deepEqual(endpointOf({ EMBEDDINGS_URL: url, EMBEDDINGS_MODEL: 'm' }), {
      url,
      model: 'm',
      apiKey: undefined,
    })
    assert.throws(
      () => endpointOf({ EMBEDDINGS_URL: url }),
      new ConfigError('EMBEDDINGS_MODEL is missing: EMBEDDINGS_URL needs it'),
    )
    assert.throws(
      () => endpointOf({ EMBEDDINGS_API_KEY: 'k' }),
      new ConfigError('EMBEDDINGS_API_KEY is set, but EMBEDDINGS_URL is not: no text can be embedded'),
    )
  })

  it('describe their default in words when the value alone is not clear', () => {
    assert.equal(defaultText(settings.hnswEf), '128')
    assert.equal(defaultText(settings.dimension), 'fixed by the first insert')
  })
})
