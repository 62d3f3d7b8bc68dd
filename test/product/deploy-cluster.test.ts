import assert from 'node:assert/strict'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { parse, parseAllDocuments } from 'yaml'
import { settings } from '../../src/settings/table.ts'
import { makeCertificates } from '../support/certificates.ts'
import { type NatsPlace, NatsServers, natsMissing } from '../support/nats-servers.ts'
import { assertEnded, run } from '../support/process.ts'
import { startTestCluster, startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const examples = join(import.meta.dirname, '../../docs/examples')
const files = join(examples, 'cluster')
const read = (name: string): string => readFileSync(join(files, name), 'utf8')
const known = new Set(Object.values(settings).map(({ env }) => env))
const ports = [settings.httpPort.default, settings.grpcPort.default]

interface ComposeService {
  readonly image: string
  readonly hostname?: string
  readonly environment?: Readonly<Record<string, string>>
  readonly volumes: readonly string[]
  readonly ports?: readonly string[]
  readonly build?: { readonly context: string; readonly dockerfile: string }
}

interface Manifest {
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly spec: {
    readonly replicas: number
    readonly serviceName: string
    readonly maxUnavailable: number
    readonly clusterIP?: string
    readonly publishNotReadyAddresses?: boolean
    readonly selector: Readonly<Record<string, unknown>>
    readonly template: { readonly metadata: { readonly labels: object }; readonly spec: PodSpec }
    readonly ports: readonly { readonly port: number; readonly targetPort: string }[]
  }
}

interface PodSpec {
  readonly terminationGracePeriodSeconds: number
  readonly affinity: {
    readonly podAntiAffinity: {
      readonly requiredDuringSchedulingIgnoredDuringExecution: readonly {
        readonly labelSelector: { readonly matchLabels: object }
      }[]
    }
  }
  readonly containers: readonly [Container]
  readonly volumes: readonly {
    readonly name: string
    readonly secret?: object
    readonly configMap?: object
  }[]
}

interface Container {
  readonly image: string
  readonly env: readonly { readonly name: string; readonly value?: string }[]
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
  readonly startupProbe: Probe
  readonly readinessProbe: Probe
  readonly livenessProbe: Probe
}

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string }
}

const manifests = parseAllDocuments(read('kubernetes.yaml')).map((each) => each.toJS() as Manifest)

function manifest(kind: string, name: string): Manifest {
  const found = manifests.find((each) => each.kind === kind && each.metadata.name === name)
  assert.ok(found, `${kind} ${name}`)
  return found
}

function containerOf(name: string): Container {
  return manifest('StatefulSet', name).spec.template.spec.containers[0]
}

function valueIn({ env }: Container, name: string): string {
  return env.find((each) => each.name === name)!.value!
}

/** Earlier versions have lost acknowledged records, and are refused. */
function assertRecent(image: string): void {
  const [major, minor, patch] = image.split(':')[1]!.split('.').map(Number) as [number, number, number]
  assert.ok(major * 1e6 + minor * 1e3 + patch >= 2_012_003, image)
}

describe('the files for deploying a cluster', () => {
  it('name, in Compose, only existing settings and servers', () => {
    const { services, volumes } = parse(read('compose.yaml'), { merge: true }) as {
      readonly services: Readonly<Record<string, ComposeService>>
      readonly volumes: object
    }
    const logs = Object.keys(services).filter((name) => name.startsWith('log-'))
    const nodes = Object.keys(services).filter((name) => name.startsWith('node-'))
    assert.deepEqual([logs.length, nodes.length], [3, 3])
    for (const name of logs) {
      const { image, environment } = services[name]!
      assertRecent(image)
      assert.equal(environment!.NATS_NAME, name)
      assert.deepEqual(
        JSON.parse(environment!.NATS_ROUTES!),
        logs.map((each) => `nats://${each}:6222`),
      )
    }
    for (const name of nodes) {
      const { environment, hostname, ports: published, build } = services[name]!
      assert.deepEqual(
        Object.keys(environment!).filter((each) => !known.has(each)),
        [],
      )
      assert.equal(environment!.CLUSTER_NODE_NAME, name)
      // The address in the status of the cluster.
      assert.equal(hostname, name)
      assert.equal(environment!.CLUSTER_NATS_URL, logs.map((each) => `nats://${each}:4222`).join(','))
      assert.deepEqual(
        published!.map((each) => Number(each.split(':').at(-1))),
        ports,
      )
      assert.ok(existsSync(join(files, build!.context, build!.dockerfile)))
    }
    const mounted = [...logs, ...nodes].map((name) => services[name]!.volumes[0]!.split(':')[0]!)
    assert.deepEqual(mounted.sort(), Object.keys(volumes).sort(), 'each must have its own volume')
    for (const volume of services.prometheus!.volumes)
      assert.ok(existsSync(join(files, volume.split(':')[0]!)))
    const prometheus = parse(read('prometheus.yml')) as {
      readonly scrape_configs: readonly [
        { readonly static_configs: readonly [{ readonly targets: string[] }] },
      ]
    }
    assert.deepEqual(
      prometheus.scrape_configs[0].static_configs[0].targets,
      nodes.map((name) => `${name}:${ports[0]}`),
    )
  })

  it('keep, in Kubernetes, pods on different nodes, and two of three running', () => {
    for (const name of ['vicinal-log', 'vicinal']) {
      const { spec } = manifest('StatefulSet', name)
      const labels = { app: name }
      assert.equal(spec.replicas, 3)
      assert.deepEqual(spec.selector.matchLabels, labels)
      assert.deepEqual(spec.template.metadata.labels, labels)
      const [apart] =
        spec.template.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution
      assert.deepEqual(apart!.labelSelector.matchLabels, labels)
      const budget = manifest('PodDisruptionBudget', name).spec
      assert.deepEqual([budget.maxUnavailable, budget.selector.matchLabels], [1, labels])
      const service = manifest('Service', spec.serviceName).spec
      assert.deepEqual([service.clusterIP, service.selector], ['None', labels])
      const { containers, volumes, terminationGracePeriodSeconds: graceS } = spec.template.spec
      assert.ok(graceS * 1000 > settings.shutdownTimeoutMs.default)
      const named = containers[0].ports.map((each) => each.name)
      assert.deepEqual(
        service.ports.map(({ targetPort }) => targetPort),
        named,
      )
      const there = new Set([...volumes.map((each) => each.name), 'data'])
      for (const mount of containers[0].volumeMounts) assert.ok(there.has(mount.name), mount.name)
    }
    assert.equal(manifest('Service', 'vicinal-log').spec.publishNotReadyAddresses, true)
    assertRecent(containerOf('vicinal-log').image)
  })

  it('name, in Kubernetes, only existing settings and addresses', () => {
    const node = containerOf('vicinal')
    assert.deepEqual(
      node.env.map(({ name }) => name).filter((name) => !known.has(name)),
      [],
    )
    assert.deepEqual(
      node.ports.map(({ containerPort }) => containerPort),
      ports,
    )
    assert.equal(
      node.volumeMounts[0]!.mountPath,
      readFileSync(join(examples, 'Dockerfile'), 'utf8').match(/^VOLUME (.*)$/m)![1],
    )
    const pods = [0, 1, 2].map((index) => `vicinal-log-${index}.vicinal-log`)
    const urls = (scheme: string, port: number): string[] => pods.map((pod) => `${scheme}://${pod}:${port}`)
    const log = containerOf('vicinal-log')
    const [client, route, monitor] = log.ports.map(({ containerPort }) => containerPort) as [
      number,
      number,
      number,
    ]
    assert.equal(valueIn(node, 'CLUSTER_NATS_URL'), urls('tls', client).join())
    assert.equal(monitor, 8222, 'where a node looks for it')
    assert.deepEqual(JSON.parse(valueIn(log, 'NATS_ROUTES')), urls('nats', route))
    const certificates = join(valueIn(node, 'CERTS_DIR'), 'nats')
    assert.ok(
      node.volumeMounts.some(({ mountPath }) => mountPath === certificates),
      certificates,
    )
    for (const port of [client, route, monitor]) {
      for (const file of ['nats-server.conf', 'nats-server-tls.conf'])
        assert.match(read(file), RegExp(`:${port}"`))
    }
    // The comments create all secrets and config maps that the manifests use.
    const text = read('kubernetes.yaml')
    for (const [, name] of text.matchAll(/(?:secretName|secretRef: \{ name|configMap: \{ name): (\S+)/g)) {
      assert.match(text, new RegExp(`^#   kubectl create (?:secret generic|configmap) ${name} `, 'm'))
    }
  })

  it('show and watch only metrics that a cluster node has', async () => {
    await using cluster = await startTestCluster(['a', 'b'])
    const [{ httpUrl }] = cluster.services as [TestService]
    const metrics = await (await fetch(`${httpUrl}/metrics`)).text()
    const dashboard = JSON.parse(read('grafana-dashboard.json')) as {
      readonly panels: readonly { readonly targets: readonly { readonly expr: string }[] }[]
    }
    const rules = parse(read('vicinal-cluster.rules.yml')) as {
      readonly groups: readonly [
        { readonly rules: readonly { readonly alert: string; readonly expr: string }[] },
      ]
    }
    const shown = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))
    const watched = rules.groups[0].rules.map(({ expr }) => expr)
    assert.equal(new Set(rules.groups[0].rules.map(({ alert }) => alert)).size, watched.length)
    const names = (exprs: readonly string[]): string[] => exprs.join(' ').match(/\bvicinal_cluster_\w+/g)!
    for (const name of names([...shown, ...watched])) assert.match(metrics, RegExp(`^${name}[{ ]`, 'm'), name)
    // All cluster metrics of a node are on the dashboard.
    const all = [...metrics.matchAll(/^# TYPE (vicinal_cluster_\w+)/gm)].map(([, name]) => name!)
    const onIt = names(shown)
    for (const name of all)
      assert.ok(
        onIt.some((each) => each.startsWith(name)),
        name,
      )
  })
})

describe('log servers and nodes with these files', { skip: natsMissing() }, () => {
  it('work over mutual TLS and answer their probes', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'vicinal-deployed-'))
    try {
      const { caFile, certFile, keyFile } = makeCertificates(directory)
      const configurationOf = (place: NatsPlace, store: string): string =>
        onLoopback(read('nats-server-tls.conf'), place, store)
          .replaceAll('/etc/nats-tls/ca.crt', caFile)
          .replaceAll('/etc/nats-tls/tls.crt', certFile)
          .replaceAll('/etc/nats-tls/tls.key', keyFile)
      await using servers = await NatsServers.start({ count: 3, configurationOf })
      const certificates = join(directory, 'of-nodes', 'nats')
      mkdirSync(certificates, { recursive: true })
      copyFileSync(caFile, join(certificates, 'ca.crt'))
      copyFileSync(certFile, join(certificates, 'tls.crt'))
      copyFileSync(keyFile, join(certificates, 'tls.key'))
      const tlsUrls = servers.urls.map((url) => url.replace('nats:', 'tls:'))
      const shown = {
        CLUSTER_NATS_URL: [...tlsUrls, ...servers.monitorUrls].join(),
        CERTS_DIR: dirname(certificates),
      }
      const founded = await run(['cluster', 'found'], shown)
      assertEnded(founded, 0)
      assert.match(founded.stdout, /the cluster vicinal is founded: start its nodes$/m)
      const again = await run(['cluster', 'found'], shown)
      assertEnded(again, 0)
      assert.match(again.stdout, /there is a cluster vicinal already$/m)
      await using first = await startTestService({ ...shown, CLUSTER_NODE_NAME: 'a' })
      await using second = await startTestService({ ...shown, CLUSTER_NODE_NAME: 'b' })
      const id = await insert(first)
      await until(async () => (await fetch(`${second.httpUrl}/points/${id}`)).ok)

      for (const url of servers.monitorUrls) {
        assert.equal((await (await fetch(`${url}/varz`)).json()).tls_verify, true)
        // Kubernetes repeats probes, too: a log server is not healthy before all its streams are current.
        const { startupProbe, readinessProbe, livenessProbe } = containerOf('vicinal-log')
        for (const { httpGet } of [startupProbe, readinessProbe, livenessProbe]) {
          await until(async () => (await fetch(url + httpGet.path)).status === 200, httpGet.path)
        }
      }
      const { startupProbe, readinessProbe, livenessProbe } = containerOf('vicinal')
      for (const { httpGet } of [startupProbe, readinessProbe, livenessProbe]) {
        assert.equal((await fetch(first.httpUrl + httpGet.path)).status, 200, httpGet.path)
      }
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  })

  it('find each other and sync every record', async () => {
    const configurationOf = (place: NatsPlace, store: string): string =>
      onLoopback(read('nats-server.conf'), place, store)
    await using servers = await NatsServers.start({ count: 3, configurationOf })
    for (const url of servers.monitorUrls) {
      await until(async () => (await (await fetch(`${url}/routez`)).json()).num_routes > 0)
      const { jetstream } = await (await fetch(`${url}/varz`)).json()
      assert.equal(jetstream.config.sync_always, true)
    }
  })
})

/** The file with the ports and the folder of a test, otherwise unchanged. */
function onLoopback(text: string, { client, monitor, route }: NatsPlace, store: string): string {
  return text
    .replace('"0.0.0.0:4222"', `"127.0.0.1:${client}"`)
    .replace('"0.0.0.0:8222"', `"127.0.0.1:${monitor}"`)
    .replace('"0.0.0.0:6222"', `"127.0.0.1:${route}"`)
    .replace('"/data"', `"${store}"`)
}

async function insert({ httpUrl }: TestService): Promise<string> {
  const answer = await fetch(`${httpUrl}/points`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ vector: [1, 2], payload: { content_type: 'Text', content: 'one' } }),
  })
  assert.equal(answer.status, 201)
  return ((await answer.json()) as { readonly point_id: string }).point_id
}
