import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { fromBinary, toBinary } from '@bufbuild/protobuf'
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt'
import type { Server } from '@grpc/grpc-js'
import type { MessageTypeDefinition } from '@grpc/proto-loader'
import { addLazily } from './lazy-services.ts'

const load = createRequire(import.meta.url)

/**
 * Adds gRPC reflection, with which callers read the service's proto file and its imports. Loads the library on first
 * use.
 */
export function addReflection(server: Server): void {
  const methods = ['v1', 'v1alpha'].map((version) => ({
    path: `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
    requestStream: true,
    responseStream: true,
  }))
  addLazily(server, methods, (registrar) => {
    const { ReflectionService } = load('@grpc/reflection') as typeof import('@grpc/reflection')
    const fileDescriptorProtos = filesIn(readFileSync(descriptorsPath))
    // The library only reads the files of a message's definition, so one message is enough.
    const definition = { fileDescriptorProtos } as MessageTypeDefinition<object, object>
    new ReflectionService({ 'vectordb.Point': definition }).addToServer(registrar)
  })
}

/** A google.protobuf.FileDescriptorSet, generated from proto/. */
const descriptorsPath = fileURLToPath(new URL('./generated/descriptors.binpb', import.meta.url))

function filesIn(descriptorSet: Buffer): Uint8Array[] {
  const { file } = fromBinary(FileDescriptorSetSchema, descriptorSet)
  return file.map((each) => toBinary(FileDescriptorProtoSchema, each))
}
