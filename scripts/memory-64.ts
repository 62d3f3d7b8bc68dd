import { Transform } from 'assemblyscript/transform'
import binaryen from 'binaryen'

/**
 * A transform of the AssemblyScript compiler: compiles for a memory with 64-bit addresses. The compiler can do so, but
 * has no option for it.
 *
 * Exported functions take their addresses as f64, so that JavaScript passes numbers and not BigInts.
 */
export default class Memory64 extends Transform {
  /** Set by the compiler, whose types do not name it. */
  declare readonly program: {
    readonly options: { target: number }
    readonly module: { sizeType: binaryen.Type }
  }

  afterParse(): void {
    this.program.options.target = wasm64
    this.program.module.sizeType = binaryen.i64
  }

  afterCompile(module: binaryen.Module): void {
    widenMemory(module)
    const functions = Array.from({ length: module.getNumExports() }, (_, at) =>
      binaryen.getExportInfo(module.getExportByIndex(at)),
    ).filter(({ kind }) => kind === binaryen.ExternalFunction)
    for (const { name, value } of functions) exportWithNumbers(module, name, value)
  }
}

/** `Target.Wasm64` of the compiler. */
const wasm64 = 2

/** The compiler's name of the memory. */
const memoryName = '0'

function widenMemory(module: binaryen.Module): void {
  const { initial, max, shared } = module.getMemoryInfo(memoryName)
  module.setMemory(initial, max!, null, [], shared, true, memoryName)
  module.addMemoryImport(memoryName, 'env', 'memory', shared)
  module.setFeatures(module.getFeatures() | binaryen.Features.Memory64)
}

function exportWithNumbers(module: binaryen.Module, name: string, inner: string): void {
  const { params, results } = binaryen.getFunctionInfo(module.getFunction(inner))
  const types = binaryen.expandType(params)
  if (!types.includes(binaryen.i64)) return
  const outerTypes = types.map((type) => (type === binaryen.i64 ? binaryen.f64 : type))
  const values = types.map((type, at) =>
    type === binaryen.i64
      ? module.i64.trunc_s_sat.f64(module.local.get(at, binaryen.f64))
      : module.local.get(at, type),
  )
  const outer = `${inner}#numbers`
  module.addFunction(outer, binaryen.createType(outerTypes), results, [], module.call(inner, values, results))
  module.removeExport(name)
  module.addFunctionExport(outer, name)
}
