import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { parse, parseAllDocuments } from 'yaml'
import { settings } from '../../src/settings/table.ts'
import { startTestService } from '../support/service.ts'

const root = join(import.meta.dirname, '../..')
const examples = join(root, 'docs/examples')
const read = (name: string): string => readFileSync(join(examples, name), 'utf8')
const known = new Set(Object.values(settings).map(({ env }) => env))
const ports = [settings.httpPort.default, settings.grpcPort.default]

interface Container {
  readonly ports: { readonly containerPort: number }[]
  readonly volumeMounts: { readonly mountPath: string }[]
  readonly startupProbe: Probe
  readonly readinessProbe: Probe
  readonly livenessProbe: Probe
}

interface Probe {
  readonly httpGet: { readonly path: string }
}

/** The files for deployment agree with the service and with each other. */
describe('the files for deployment', () => {
  it('set only existing settings, and use the ports of the service', () => {
    const dockerfile = read('Dockerfile')
    const set = [...dockerfile.match(/^ENV (.*)$/m)![1]!.matchAll(/(\w+)=/g)].map(([, name]) => name!)
    assert.ok(set.length >= 3)
    assert.deepEqual(
      set.filter((name) => !known.has(name)),
      [],
    )
    assert.deepEqual(
      dockerfile
        .match(/^EXPOSE (.*)$/m)![1]!
        .split(' ')
        .map(Number),
      ports,
    )
    const compose = parse(read('compose.yaml')) as {
      services: {
        vicinal: { environment: object; ports: string[]; volumes: string[]; build: { dockerfile: string } }
      }
    }
    const { environment, ports: published, volumes, build } = compose.services.vicinal
    assert.deepEqual(
      Object.keys(environment).filter((name) => !known.has(name)),
      [],
    )
    assert.deepEqual(
      published.map((each) => Number(each.split(':').at(-1))),
      ports,
    )
    assert.equal(volumes[0]!.split(':')[1], dockerfile.match(/^VOLUME (.*)$/m)![1])
    assert.ok(existsSync(join(root, build.dockerfile)))
  })

  it('copy what the build needs, and only existing files', () => {
    const copied = [...read('Dockerfile').matchAll(/^COPY (?!--)(.*) \S+$/gm)].flatMap(([, names]) =>
      names!.split(' '),
    )
    for (const name of copied) {
      if (!name.endsWith('*')) assert.ok(existsSync(join(root, name)), name)
    }
  })

  it('probe paths that respond, on the ports of the service', async () => {
    const documents = parseAllDocuments(read('kubernetes.yaml')).map(
      (each) => each.toJS() as Record<string, unknown>,
    )
    const set = documents.find(({ kind }) => kind === 'StatefulSet') as {
      spec: { replicas: number; template: { spec: { containers: Container[] } } }
    }
    assert.equal(set.spec.replicas, 1)
    const [container] = set.spec.template.spec.containers
    assert.deepEqual(
      container!.ports.map(({ containerPort }) => containerPort),
      ports,
    )
    assert.equal(container!.volumeMounts[0]!.mountPath, read('Dockerfile').match(/^VOLUME (.*)$/m)![1])
    await using service = await startTestService({ HTTP_API_KEY: 'a-key' })
    for (const { httpGet } of [
      container!.startupProbe,
      container!.readinessProbe,
      container!.livenessProbe,
    ]) {
      assert.equal((await fetch(service.httpUrl + httpGet.path)).status, 200, httpGet.path)
    }
  })

  it('show and watch only metrics that the service has', async () => {
    const dashboard = JSON.parse(read('grafana-dashboard.json')) as {
      panels: { title: string; targets: { expr: string }[] }[]
    }
    await using service = await startTestService()
    await fetch(`${service.httpUrl}/collections/one`, { method: 'PUT' })
    const point = { vector: [1], payload: { content_type: 'Text', content: 'x' } }
    const headers = { 'content-type': 'application/json' }
    await fetch(`${service.httpUrl}/collections/one/points`, {
      method: 'POST',
      headers,
      body: JSON.stringify(point),
    })
    const metrics = await (await fetch(`${service.httpUrl}/metrics`)).text()
    for (const { title, targets } of dashboard.panels) {
      for (const { expr } of targets) {
        const names = expr.match(/\b(?:vicinal|process)_\w+/g)!
        for (const name of names) assert.match(metrics, new RegExp(`^${name}[{ ]`, 'm'), `${title}: ${name}`)
      }
    }
  })
})
