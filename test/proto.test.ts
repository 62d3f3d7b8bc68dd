import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { temporaryDirectory } from './support/process.ts'

/** Compiles our proto file with the compilers named in docs/api.md, if they are installed. */

const proto = join(import.meta.dirname, '../proto')

const compilers = [
  {
    name: 'protoc',
    command: ['protoc'],
    oldest: [3, 15],
    outputs: ['--cpp_out'],
    files: ['vectordb.pb.cc', 'vectordb.pb.h'],
  },
  {
    name: 'grpcio-tools of Python',
    command: ['python3', '-m', 'grpc_tools.protoc'],
    oldest: [3, 15],
    outputs: ['--python_out', '--grpc_python_out'],
    files: ['vectordb_pb2.py', 'vectordb_pb2_grpc.py'],
  },
] as const

describe('proto/vectordb.proto', () => {
  for (const { name, command, outputs, files } of compilers) {
    it(`compiles with ${name}`, { skip: reasonToSkip(command) }, async (test) => {
      await using directory = await temporaryDirectory()
      const [program, ...before] = command
      const args = [...before, '-I', proto, ...outputs.map((output) => `${output}=${directory.path}`)]
      const { status, stderr } = spawnSync(program, [...args, join(proto, 'vectordb.proto')], {
        encoding: 'utf8',
      })
      // On Debian, the standard types are in a package that protobuf-compiler only recommends.
      const missing = /^google\/protobuf\/empty\.proto: File not found/m.exec(stderr)
      if (missing !== null) return test.skip(`${missing[0]}: libprotobuf-dev is not installed`)
      assert.equal(status, 0, stderr)
      assert.deepEqual(readdirSync(directory.path).sort(), [...files])
    })
  }
})

function reasonToSkip([program, ...args]: readonly string[]): string | false {
  const { status, stdout } = spawnSync(program!, [...args, '--version'], { encoding: 'utf8' })
  // Versions are like 3.21.12, and lack the leading 3 since 22.0.
  const version = status === 0 ? /libprotoc (\d+)\.(\d+)/.exec(stdout) : null
  if (version === null) return 'it is not installed'
  const isOld = version[1] === '3' && Number(version[2]) < 15
  return isOld && `${version[0]} is older than 3.15, which reads optional fields of proto3`
}
