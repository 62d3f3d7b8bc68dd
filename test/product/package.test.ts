import assert from 'node:assert/strict'
import {
  type ChildProcess,
  type ChildProcessByStdio,
  execFileSync,
  spawn,
  spawnSync,
} from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join, posix, relative } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { npmCommand } from '../../scripts/npm-command.ts'
import { buildPackage } from '../support/built-package.ts'
import { freePort } from '../support/free-ports.ts'
import { temporaryDirectory } from '../support/process.ts'
import { until } from '../support/until.ts'

/**
 * The built package as npm installs it: the modules that the client imports, and the command `vicinal` started by an
 * older Node, by npx and by shells, and how it ends.
 */

const root = join(import.meta.dirname, '../..')

/** The path outside of npm scripts, which put the bundled Node first. */
const path = process.env
  .PATH!.split(delimiter)
  .filter((directory) => !directory.includes('node_modules'))
  .join(delimiter)
const olderNode = ((): string | undefined => {
  const program = 'console.log(process.versions.node.split(".")[0], process.execPath)'
  const { status, stdout } = spawnSync('node', ['-e', program], { encoding: 'utf8', env: { PATH: path } })
  const [major, executable] = status === 0 ? stdout.trim().split(' ') : []
  return Number(major) < 24 ? executable : undefined
})()
const withoutOlderNode = olderNode === undefined && 'no Node older than 24 is on the path'
const withoutNpx =
  spawnSync('npx', ['--version'], { env: { ...process.env, PATH: path } }).status !== 0 &&
  'npx is not on the path'

let built: AsyncDisposable & { readonly path: string }
before(async () => {
  built = await buildPackage()
})
after(() => built[Symbol.asyncDispose]())

describe('the client', () => {
  it('imports, for HTTP, no other packages or Node modules, and uses no Node globals', () => {
    const { files, packages } = reach('dist/client/http.js')
    assert.deepEqual([...packages], [])
    for (const file of files) {
      assert.doesNotMatch(
        withoutComments(readFileSync(file, 'utf8')),
        /\b(process|Buffer|require|__\w+name)\b/,
        file,
      )
    }
  })

  it('imports, for gRPC, nothing of the server', () => {
    const { files, packages } = reach('dist/client/grpc-client.js')
    const names = [...packages].map((name) => name.split('/').slice(0, 2).join('/'))
    assert.deepEqual(new Set(names), new Set(['@bufbuild/protobuf', '@grpc/grpc-js']))
    const folders = new Set([...files].map((file) => relative(join(built.path, 'dist'), file).split('/')[0]))
    assert.deepEqual(folders, new Set(['client', 'base', 'messages']))
  })

  for (const [name, file, node] of [
    ['the Node of the installation', 'pink.mts', process.execPath],
    ['an older Node', 'pink.mjs', olderNode],
  ] as const) {
    it(`runs the README's program unchanged on ${name}`, {
      skip: !node && withoutOlderNode,
    }, async () => {
      const readme = readFileSync(join(root, 'README.md'), 'utf8')
      const [, program, output] = /```ts\n(.*?)```\n\n```text\n(.*?)```/s.exec(readme)!
      assert.ok(readme.includes(`\`${file}\``), 'the README names the file')
      await using project = await Project.create()
      const service = await project.serve([project.vicinal, 'serve'])
      // Only the address is changed, because another service may use the README's port.
      const here = program!.replace('localhost:50051', service.grpcAddress)
      assert.notEqual(here, program)
      writeFileSync(join(project.path, file), here)
      const { stdout, stderr } = spawnSync(node!, [file], { cwd: project.path, encoding: 'utf8' })
      assert.deepEqual({ stdout, stderr }, { stdout: output, stderr: '' })
    })
  }
})

describe('the files of the package', () => {
  const packed = (directory: string): readonly string[] => {
    const [command, args] = npmCommand(['pack', '--dry-run', '--json', '--ignore-scripts'])
    const [pack] = JSON.parse(execFileSync(command, args, { cwd: join(root, directory), encoding: 'utf8' }))
    return pack.files.map(({ path }: { path: string }) => path)
  }

  it('contain everything that their pages link to', () => {
    const files = packed('.')
    const pages = files.filter((file) => file.endsWith('.md'))
    assert.ok(['README.md', 'docs/operations.md', 'SECURITY.md'].every((page) => pages.includes(page)))
    const broken = pages.flatMap((page) => {
      const links = readFileSync(join(root, page), 'utf8').matchAll(/\]\((?!https?:|mailto:|#)([^)#\s]+)/g)
      return [...links]
        .map(([, link]) => posix.join(posix.dirname(page), link!).replace(/\/$/, ''))
        .filter((target) => !files.some((file) => file === target || file.startsWith(`${target}/`)))
        .map((target) => `${page}: ${target}`)
    })
    assert.deepEqual(broken, [])
  })

  it('do not include a Node, which would replace that of the npm scripts of an application', () => {
    const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { bin?: Record<string, string>; dev?: boolean }>
    }
    const { dependencies, optionalDependencies } = packages[''] as Record<string, Record<string, string>>
    const withNode = Object.keys(packages).filter((path) => packages[path]!.bin?.node !== undefined)
    assert.ok(withNode.length > 0, 'the checkout has a Node')
    for (const path of withNode) {
      const name = path.replace(/.*node_modules\//, '')
      assert.ok(!(name in { ...dependencies, ...optionalDependencies }), name)
    }
  })
})

describe('vicinal started by an older Node', { skip: withoutOlderNode }, () => {
  it('runs on the Node installed with it, and forwards arguments, output and exit codes', async () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
    await using project = await Project.create()
    assert.deepEqual(project.run('--version'), { status: 0, stdout: `${version}\n`, stderr: '' })
    const { status, stderr } = project.run('serve', '--http-port', 'much')
    assert.equal(status, 2)
    assert.match(stderr, /--http-port: "much"/)
  })

  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    it(`forwards ${signal} to a service, and ends like it`, async () => {
      await using project = await Project.create()
      const service = await project.serve([project.vicinal, 'serve'])
      assert.notEqual(service.pid, service.child.pid)
      service.child.kill(signal)
      assert.deepEqual(await service.ended, [0, null])
      await service.isGone()
    })
  }

  it('ends with the same signal as the service', async () => {
    await using project = await Project.create()
    const service = await project.serve([project.vicinal, 'serve'])
    process.kill(service.pid, 'SIGKILL')
    assert.deepEqual(await service.ended, [null, 'SIGKILL'])
  })

  it('leaves no service behind when it is killed', async () => {
    await using project = await Project.create()
    const service = await project.serve([project.vicinal, 'serve'])
    service.child.kill('SIGKILL')
    await service.isGone()
  })

  it('says which Node it needs, and how to install one, if there is none', async () => {
    await using directory = await temporaryDirectory()
    writeFileSync(join(directory.path, 'package.json'), '{"type":"module"}')
    copyFileSync(join(built.path, 'dist/cli/main.js'), join(directory.path, 'main.js'))
    const { status, stderr } = spawnSync(olderNode!, [join(directory.path, 'main.js'), '--version'], {
      encoding: 'utf8',
      env: { PATH: path },
    })
    assert.equal(status, 1)
    assert.match(
      stderr,
      /^vicinal needs Node 24 or later, and this is \d+\.\d+\.\d+: .* npm install --global vicinal-node\n$/,
    )
  })
})

describe('a service started by npx', { skip: withoutNpx }, () => {
  for (const node of ['the Node of the installation', 'an older Node'] as const) {
    const isOlder = node === 'an older Node'
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      it(`ends when npx ends by ${signal}, on ${node}`, { skip: isOlder && withoutOlderNode }, async () => {
        await using project = await Project.create()
        if (!isOlder) project.linkNode()
        const port = String(await freePort())
        const service = await project.serve(['npx', '--no-install', 'vicinal', 'serve', '--http-port', port])
        service.child.kill(signal)
        await service.isGone()
        // The port and the lock are free.
        const next = await project.serve([project.vicinal, 'serve', '--http-port', port])
        next.child.kill('SIGTERM')
        assert.deepEqual(await next.ended, [0, null])
      })
    }
  }
})

describe('a service in the background', { skip: withoutNpx }, () => {
  for (const [who, shell] of [
    ['a shell', ['sh', '-c']],
    ['a command of npm', ['npx', '--no-install', '-c']],
  ] as const) {
    it(`outlives ${who} that started it`, async () => {
      await using project = await Project.create()
      project.linkNode()
      const service = await project.serve([
        ...shell,
        'PATH=node_modules/.bin:$PATH nohup vicinal serve & wait',
      ])
      const parent = parentOf(service.pid)
      service.child.kill('SIGKILL')
      if (parent !== service.child.pid) process.kill(parent, 'SIGKILL')
      await until(() => parentOf(service.pid) !== parent)
      // Longer than the service needs to notice that its parent has ended.
      await delay(2500)
      assert.equal((await fetch(`${service.url}/health`)).status, 200)
      process.kill(service.pid, 'SIGTERM')
      await service.isGone()
    })
  }
})

interface Reach {
  readonly files: ReadonlySet<string>
  /** The imported packages and Node modules, by import name. */
  readonly packages: ReadonlySet<string>
}

/** All modules that importing this module of the package loads. */
function reach(main: string): Reach {
  const files = new Set([join(built.path, main)])
  const packages = new Set<string>()
  // Iterating over a set includes the elements that are added meanwhile.
  for (const file of files) {
    const code = withoutComments(readFileSync(file, 'utf8'))
    for (const [, name] of code.matchAll(/\b(?:from|import)\s*\(?\s*['"]([^'"]+)['"]/g)) {
      if (name!.startsWith('.')) files.add(join(dirname(file), name!))
      else packages.add(name!)
    }
  }
  return { files, packages }
}

function withoutComments(code: string): string {
  return code.replaceAll(/\/\*.*?\*\/|^\s*\/\/.*$/gms, '')
}

interface StartedService {
  /** The started process; the service may be a distant descendant. */
  readonly child: ChildProcess
  readonly ended: Promise<unknown[]>
  readonly pid: number
  readonly url: string
  readonly grpcAddress: string
  /** Resolves when the service's own process has ended. */
  isGone(): Promise<void>
}

/** A user's project with `vicinal` installed. Disposing it ends the processes that it started. */
class Project implements AsyncDisposable {
  readonly #directory: AsyncDisposable & { readonly path: string }
  readonly #pids: number[] = []
  readonly vicinal: string

  private constructor(directory: AsyncDisposable & { readonly path: string }) {
    this.#directory = directory
    this.vicinal = join(directory.path, 'node_modules/.bin/vicinal')
  }

  static async create(): Promise<Project> {
    const project = new Project(await temporaryDirectory())
    mkdirSync(join(project.path, 'node_modules/.bin'), { recursive: true })
    writeFileSync(join(project.path, 'package.json'), JSON.stringify({ name: 'stranger', private: true }))
    symlinkSync(built.path, join(project.path, 'node_modules/vicinal'))
    symlinkSync('../vicinal/dist/cli/main.js', project.vicinal)
    symlinkSync(join(root, 'clients/typescript'), join(project.path, 'node_modules/vicinal-client'))
    return project
  }

  get path(): string {
    return this.#directory.path
  }

  /** Links the bundled Node like npm does, so that `npx` finds it first. */
  linkNode(): void {
    symlinkSync(process.execPath, join(this.path, 'node_modules/.bin/node'))
  }

  run(...args: readonly string[]): { status: number | null; stdout: string; stderr: string } {
    const { status, stdout, stderr } = spawnSync(this.vicinal, args, {
      encoding: 'utf8',
      env: this.#environment,
    })
    return { status, stdout, stderr }
  }

  /** Resolves when the service that the command starts is ready. */
  async serve([command, ...args]: readonly string[]): Promise<StartedService> {
    const child: ChildProcessByStdio<null, Readable, null> = spawn(command!, args, {
      cwd: this.path,
      env: this.#environment,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    this.#pids.push(child.pid!)
    const ended = once(child, 'exit')
    const lines: { msg: string; url?: string; port?: number }[] = []
    for await (const line of createInterface(child.stdout)) {
      lines.push(JSON.parse(line) as { msg: string })
      if (lines.at(-1)!.msg === 'ready') break
    }
    assert.equal(lines.at(-1)?.msg, 'ready', 'the service has ended')
    child.stdout.resume()
    const lock = join(this.path, 'data/lock.pid')
    const pid = Number(readFileSync(lock, 'utf8'))
    this.#pids.push(pid)
    const url = lines.find(({ msg }) => msg === 'HTTP listens')!.url!
    const grpcAddress = `localhost:${lines.find(({ msg }) => msg === 'gRPC listens')!.port}`
    return { child, ended, pid, url, grpcAddress, isGone: () => until(() => !existsSync(`/proc/${pid}`)) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const pid of this.#pids) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // The process has already ended, as it should.
      }
    }
    await until(() => this.#pids.every((pid) => !existsSync(`/proc/${pid}`)))
    await this.#directory[Symbol.asyncDispose]()
  }

  get #environment(): Record<string, string> {
    return {
      PATH: path,
      HOME: process.env.HOME ?? this.path,
      DATA_DIR: join(this.path, 'data'),
      GRPC_PORT: '0',
      HTTP_PORT: '0',
      // The bundled serving threads answer.
      THREADS: '4',
    }
  }
}

function parentOf(pid: number): number {
  return Number(execFileSync('ps', ['-o', 'ppid=', '-p', String(pid)], { encoding: 'utf8' }))
}
