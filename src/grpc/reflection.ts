import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Server } from '@grpc/grpc-js'
import type { MessageTypeDefinition } from '@grpc/proto-loader'
import { ReflectionService } from '@grpc/reflection'
import { WireReader, wireLength } from './wire.ts'

/** Shows the service's proto file, and what it imports, to callers that ask for it. */
export function addReflection(server: Server): void {
  const fileDescriptorProtos = [...filesIn(readFileSync(descriptorsPath))]
  // The library takes the files from the definition of a message, of which it reads nothing else; any one will do.
  const definition = { fileDescriptorProtos } as MessageTypeDefinition<object, object>
  new ReflectionService({ 'vectordb.Point': definition }).addToServer(server)
}

/** A google.protobuf.FileDescriptorSet, as the compiler makes it of proto/. */
const descriptorsPath = fileURLToPath(new URL('./generated/descriptors.binpb', import.meta.url))

function* filesIn(descriptorSet: Buffer): Generator<Buffer> {
  const reader = new WireReader(descriptorSet)
  while (reader.next()) {
    if (reader.is(1, wireLength)) yield reader.view()
    else reader.skip()
  }
}
