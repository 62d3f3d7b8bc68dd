import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { settings } from '../settings/table.ts'
import { misspeltSettings } from './serve.ts'

const names = Object.values(settings).map(({ env }) => env)

function isMisspelt(variable: string, value = 'x'): boolean {
  return misspeltSettings({ [variable]: value }).length > 0
}

describe('variables that resemble a setting', () => {
  it('are found', () => {
    for (const variable of [
      'HTTP_APIKEY',
      'HTTP_PROT',
      'DATADIR',
      'GRPC_ROOT_PASSWORT',
      'LOGLEVEL',
      'HTTP-HOST',
    ])
      assert.ok(isMisspelt(variable), variable)
  })

  it('are found for every setting: without underscores, in lower case, and with a letter dropped, doubled or swapped', () => {
    const isKnown = (variable: string): boolean => names.includes(variable)
    for (const name of names) {
      const middle = name.length - 2
      const variants = [
        ...(name.includes('_') ? [name.replaceAll('_', '')] : []),
        name.replace(/_|$/, '__'),
        name.toLowerCase(),
        `${name.slice(0, -1)}${name.at(-1)}${name.at(-1)}`,
        name.slice(0, middle) + name.at(-1) + name.at(-2),
        name.slice(0, middle) + name.slice(middle + 1),
      ]
      for (const variant of variants) {
        if (!isKnown(variant)) assert.ok(isMisspelt(variant), `${variant} for ${name}`)
      }
    }
  })

  it('do not include empty variables and settings', () => {
    assert.deepEqual(
      misspeltSettings({ HTTP_APIKEY: '', ...Object.fromEntries(names.map((each) => [each, 'x'])) }),
      [],
    )
  })
})

describe('ordinary variables', () => {
  it('are not taken for misspelt settings', () => {
    const ordinary = `PATH HOME PWD OLDPWD USER LOGNAME SHELL SHLVL TERM COLORTERM LANG LC_ALL TZ TMPDIR TEMP TMP EDITOR
      HOST HOSTNAME PORT URL ADDR DEBUG DISPLAY MAIL HTTP HTTPS HTTP_PROXY HTTPS_PROXY http_proxy https_proxy NO_PROXY
      ALL_PROXY HTTPS_PORT HTTP_PROXY_HOST HTTP_USER_AGENT HTTP_ACCEPT HTTP_COOKIE HTTP_REFERER HTTP_TIMEOUT
      NODE_ENV NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NODE_COMPILE_CACHE UV_THREADPOOL_SIZE NPM_CONFIG_LOGLEVEL
      npm_config_cache npm_lifecycle_event npm_package_name npm_config_loglevel INIT_CWD CI GITHUB_TOKEN
      DATABASE_URL DATABASE_HOST DATA DATA_PATH DATABASE REDIS_URL PGDATA PGHOST PGPORT MYSQL_ROOT_PASSWORD
      MYSQL_DATADIR POSTGRES_PASSWORD API_KEY API_URL API_HOST SECRET_KEY OPENAI_API_KEY LOG_FILE LOG_DIR LOG_PATH
      LOG_LEVEL_ROOT MAX_CONNECTIONS MAX_WORKERS MAX_OLD_SPACE WEB_CONCURRENCY TIMEOUT REQUEST_ID
      GRPC_TRACE GRPC_VERBOSITY GRPC_NODE_TRACE GRPC_NODE_VERBOSITY GRPC_SSL_CIPHER_SUITES GRPC_PROXY grpc_proxy
      GRPC_DEFAULT_SSL_ROOTS_FILE_PATH GRPC_DNS_RESOLVER GRPC_POLL_STRATEGY GRPC_ENABLE_FORK_SUPPORT
      SYSTEMD_EXEC_PID INVOCATION_ID JOURNAL_STREAM NOTIFY_SOCKET WATCHDOG_USEC XDG_DATA_DIRS XDG_DATA_HOME
      XDG_RUNTIME_DIR SSH_AUTH_SOCK SSH_CONNECTION DOCKER_HOST KUBERNETES_SERVICE_HOST KUBERNETES_PORT
      VICINAL_API_KEY VICINAL_SERVICE_HOST VICINAL_SERVICE_PORT VICINAL_VERSION OMP_NUM_THREADS MALLOC_ARENA_MAX`
    const environment = Object.fromEntries(ordinary.split(/\s+/).map((name) => [name, 'x']))
    assert.deepEqual(misspeltSettings(environment), [])
  })

  it('include those that Kubernetes derives from the name of a service', () => {
    assert.equal(isMisspelt('HTTP_PROT', 'tcp://10.0.0.1:3000'), false)
    assert.equal(isMisspelt('HTTP_PROT', '3000'), true)
  })
})
