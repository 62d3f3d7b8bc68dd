import { dimensionMax } from '../base/point.ts'
import { pointSize, processBytes } from '../service/point-size.ts'
import { aligned, UsageError } from './arguments.ts'

export interface SizeCommandOptions {
  /** Bytes of memory that there are. */
  readonly memory?: number
  readonly links: number
  readonly contentBytes: number
  readonly searchThreads: number
  readonly maxLimit: number
  readonly json?: boolean
}

/** Prints what points would take, and with which settings they fit into a memory. */
export function showSize(words: readonly string[], options: SizeCommandOptions): void {
  const { points, dimension } = pointsIn(words.join(' '))
  const size = pointSize({ ...options, dimension })
  const total = (bytes: number): number => Math.ceil(points * bytes + processBytes)
  const found = {
    points,
    dimension,
    memory_bytes: total(size.memory),
    memory_bytes_vectors_on_disk: total(size.memoryOfCodes),
    disk_bytes: Math.ceil(points * size.disk),
    disk_bytes_vectors_on_disk: Math.ceil(points * size.diskWithSlots),
  }
  const fit = options.memory === undefined ? undefined : fitOf(found, size, options.memory)
  if (options.json) {
    console.log(
      JSON.stringify({ ...found, ...(fit && { fits: fit.settings ?? null, points_max: fit.pointsMax }) }),
    )
    return
  }
  const rows = [
    ['', 'memory', 'disk'],
    ['vectors in memory', inWords(found.memory_bytes), inWords(found.disk_bytes)],
    [
      'VECTORS_ON_DISK=true',
      inWords(found.memory_bytes_vectors_on_disk),
      inWords(found.disk_bytes_vectors_on_disk),
    ],
  ]
  const shown = `${points.toLocaleString('en')} points of ${dimension} components`
  console.log([shown, '', ...aligned(rows), ...(fit === undefined ? [] : ['', fit.text])].join('\n'))
}

interface Fit {
  readonly settings: string | undefined
  /** How many such points fit with `VECTORS_ON_DISK=true`. */
  readonly pointsMax: number
  readonly text: string
}

function fitOf(
  found: {
    readonly points: number
    readonly memory_bytes: number
    readonly memory_bytes_vectors_on_disk: number
  },
  size: { readonly memory: number; readonly memoryOfCodes: number },
  memory: number,
): Fit {
  // A quarter stays for calls in progress, for the system, and for its cache of files.
  const usable = memory * usableShare
  const most = (bytes: number): number => Math.max(0, Math.floor((usable - processBytes) / bytes))
  const pointsMax = most(size.memoryOfCodes)
  const limit = `MAX_MEMORY_BYTES=${Math.floor(usable / 1024 ** 2)}M`
  const given = inWords(memory)
  if (found.memory_bytes <= usable)
    return { settings: limit, pointsMax, text: `They fit into ${given} with vectors in memory: ${limit}` }
  if (found.memory_bytes_vectors_on_disk <= usable) {
    const settings = `VECTORS_ON_DISK=true ${limit}`
    const text = `They fit into ${given} with vectors on disk: ${settings}\nWith vectors in memory, ${most(size.memory).toLocaleString('en')} fit.`
    return { settings, pointsMax, text }
  }
  const nodes = Math.ceil(found.memory_bytes_vectors_on_disk / usable)
  const text = `They do not fit into ${given}: with VECTORS_ON_DISK=true ${pointsMax.toLocaleString('en')} do. A cluster of ${nodes} nodes holds them once.`
  return { settings: undefined, pointsMax, text }
}

/** The share of a machine's memory that points may take; docs/deploy.md. */
const usableShare = 0.75

/** Reads `10M x 768`, `10Mx768` or `10M 768`. */
function pointsIn(text: string): { readonly points: number; readonly dimension: number } {
  const [, digits, unit, components] =
    /^(\d+(?:\.\d+)?)([kmb]?)\s*(?:x|×|\s)\s*(\d+)$/i.exec(text.trim()) ?? []
  if (digits === undefined)
    throw new UsageError(`"${text}" is not a number of points and of components, like 10M x 768`)
  const factor = { '': 1, k: 1e3, m: 1e6, b: 1e9 }[unit!.toLowerCase()]!
  const points = Math.round(Number(digits) * factor)
  const dimension = Number(components)
  if (points < 1 || points > pointsMax)
    throw new UsageError(`the number of points must be from 1 to ${pointsMax}`)
  if (dimension < 1 || dimension > dimensionMax)
    throw new UsageError(`the number of components must be from 1 to ${dimensionMax}`)
  return { points, dimension }
}

const pointsMax = 1e12

function inWords(bytes: number): string {
  const gibibytes = bytes / 1024 ** 3
  return gibibytes < 1
    ? `${Math.ceil(bytes / 1024 ** 2)} MiB`
    : `${gibibytes.toFixed(gibibytes < 100 ? 1 : 0)} GiB`
}
