import { availableParallelism, cpus, loadavg, release, totalmem } from 'node:os'

/** The machine of a run, as recorded in its results. */
export interface Machine {
  readonly processor: string
  readonly cores: number
  readonly memoryBytes: number
  readonly system: string
  readonly node: string
  /** The mean load of the last minute before the run. */
  readonly load: number
}

/** Describes this machine, prints it, and warns when it is busy. */
export function describeMachine(): Machine {
  const machine: Machine = {
    processor: cpus()[0]?.model ?? 'unknown processor',
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    system: `${process.platform} ${release()} ${process.arch}`,
    node: process.versions.node,
    load: loadavg()[0] ?? 0,
  }
  console.error(`${machine.processor}, ${machine.cores} cores, ${machine.system}, Node ${machine.node}`)
  if (machine.load > busyLoad) {
    console.error(`The machine is busy (load ${machine.load}): times will be inaccurate.`)
  }
  return machine
}

const busyLoad = 0.5
