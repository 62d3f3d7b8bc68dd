import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Server } from '@grpc/grpc-js'
import type { MessageTypeDefinition } from '@grpc/proto-loader'
import { ReflectionService } from '@grpc/reflection'
import { WireReader, wireLength } from './wire.ts'

/** Adds gRPC reflection: callers can read the service's proto file and its imports. */
export function addReflection(server: Server): void {
  const fileDescriptorProtos = [...filesIn(readFileSync(descriptorsPath))]
  // The library only reads the files of a message's definition, so one message is enough.
  const definition = { fileDescriptorProtos } as MessageTypeDefinition<object, object>
  new ReflectionService({ 'vectordb.Point': definition }).addToServer(server)
}

/** A google.protobuf.FileDescriptorSet, generated from proto/. */
const descriptorsPath = fileURLToPath(new URL('./generated/descriptors.binpb', import.meta.url))

function* filesIn(descriptorSet: Buffer): Generator<Buffer> {
  const reader = new WireReader(descriptorSet)
  while (reader.next()) {
    if (reader.is(1, wireLength)) yield reader.view()
    else reader.skip()
  }
}
